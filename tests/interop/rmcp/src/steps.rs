//! What the client is asked to do, and what must come of it.

use std::{collections::HashSet, error::Error, fs, path::PathBuf, process, time::Duration};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResult, GetPromptRequestParams, LoggingLevel,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, RequestMetaObject,
        ServerNotification, SubscriptionFilter,
    },
    service::RunningService,
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, sleep, timeout},
};

use crate::handler::{Handler, MODEL_SAYS, ROOT, USER_NAME};

pub const STEPS: [&str; 18] = [
    "connect",
    "list_pages",
    "progress",
    "structured",
    "invalid_output",
    "invalid_arguments",
    "cancel",
    "stays_cancelled",
    "sampling",
    "elicitation",
    "roots",
    "resources",
    "resource_updated",
    "prompts",
    "completion",
    "logging",
    "list_changed",
    "close",
];

const TOOLS: [&str; 13] = [
    "test_simple_text",
    "test_tool_with_progress",
    "test_tool_with_logging",
    "test_structured_output",
    "test_invalid_output",
    "slow_compute",
    "test_cancelled_labels",
    "test_sampling",
    "test_elicitation",
    "test_list_roots",
    "test_runs",
    "test_trigger_resource_update",
    "test_trigger_tool_change",
];
/// How long a cancelled call is looked after.
const STAYS: Duration = Duration::from_secs(10);
const WATCHED: &str = "test://watched-resource";
const NOT_FOUND: i32 = -32602;

type Outcome<T = String> = Result<T, Box<dyn Error>>;

macro_rules! ensure {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            return Err(format!($($why)*).into());
        }
    };
}

/// One connection, from `connect` to `close`.
pub struct Session {
    transport: String,
    target: String,
    /// Where the server's exit status will be.
    status: PathBuf,
    client: Option<RunningService<RoleClient, Handler>>,
    handler: Option<Handler>,
    progress: UnboundedReceiver<(f64, Option<f64>)>,
    logs: UnboundedReceiver<Value>,
}

impl Session {
    pub fn new(transport: &str, target: &str) -> Self {
        let (heard, progress) = unbounded_channel();
        let (logged, logs) = unbounded_channel();
        Self {
            transport: transport.into(),
            target: target.into(),
            status: std::env::temp_dir().join(format!("interop-{}.status", process::id())),
            client: None,
            handler: Some(Handler {
                progress: heard,
                logs: logged,
            }),
            progress,
            logs,
        }
    }

    pub async fn perform(&mut self, step: &str) -> Outcome {
        match step {
            "connect" => self.connect().await,
            "list_pages" => self.list_pages().await,
            "progress" => self.progress().await,
            "structured" => self.structured().await,
            "invalid_output" => self.invalid_output().await,
            "invalid_arguments" => self.invalid_arguments().await,
            "cancel" => self.cancel().await,
            "stays_cancelled" => self.stays_cancelled().await,
            "sampling" => {
                self.expect("test_sampling", json!({ "prompt": "hi" }), MODEL_SAYS)
                    .await
            }
            "elicitation" => {
                self.expect("test_elicitation", json!({ "message": "who?" }), USER_NAME)
                    .await
            }
            "roots" => self.expect("test_list_roots", json!({}), ROOT).await,
            "resources" => self.resources().await,
            "resource_updated" => self.resource_updated().await,
            "prompts" => self.prompts().await,
            "completion" => self.completion().await,
            "logging" => self.logging().await,
            "list_changed" => self.list_changed().await,
            "close" => self.close().await,
            unknown => Err(format!("no step is called `{unknown}`").into()),
        }
    }

    fn client(&self) -> Outcome<&RunningService<RoleClient, Handler>> {
        self.client.as_ref().ok_or_else(|| "not connected".into())
    }

    async fn call(&self, name: &'static str, arguments: Value) -> Outcome<CallToolResult> {
        Ok(self.client()?.call_tool(request(name, arguments)).await?)
    }

    async fn expect(&self, name: &'static str, arguments: Value, words: &str) -> Outcome {
        let said = text(&self.call(name, arguments).await?);
        ensure!(said.contains(words), "{said}");
        Ok(String::new())
    }

    async fn connect(&mut self) -> Outcome {
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: None,
        };
        let client = self.open(lifecycle).await?;
        let peer = client
            .peer_info()
            .ok_or("the server has not been introduced")?;
        let name = peer.server_info.as_ref().map(|info| info.name.clone());
        ensure!(
            name.as_deref() == Some("zcp-everything"),
            "server calls itself {name:?}"
        );
        let revision = peer.protocol_version.clone();
        ensure!(
            revision == ProtocolVersion::V_2026_07_28,
            "negotiated {revision}, both sides know 2026-07-28"
        );
        Ok(format!("protocol revision {revision}"))
    }

    async fn open(
        &mut self,
        lifecycle: ClientLifecycleMode,
    ) -> Outcome<&RunningService<RoleClient, Handler>> {
        let handler = self.handler.take().ok_or("connected before")?;
        let client = if self.transport == "http" {
            let transport = StreamableHttpClientTransport::from_uri(self.target.as_str());
            handler.serve_with_lifecycle(transport, lifecycle).await?
        } else {
            handler
                .serve_with_lifecycle(self.server()?, lifecycle)
                .await?
        };
        Ok(self.client.insert(client))
    }

    /// The server as a child process, started so that the way it ended can be read afterwards.
    fn server(&self) -> Outcome<TokioChildProcess> {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../witness"));
        command
            .arg(&self.status)
            .arg(&self.target)
            .args(["--stdio", "--page-size", "15"]);
        Ok(TokioChildProcess::new(command)?)
    }

    async fn list_pages(&mut self) -> Outcome {
        let client = self.client()?;
        let (mut names, mut pages, mut cursor) = (Vec::new(), 0, None);
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = client.list_tools(Some(params)).await?;
            names.extend(page.tools.into_iter().map(|tool| tool.name.to_string()));
            pages += 1;
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        ensure!(pages >= 3, "{pages} pages for {} tools", names.len());
        let distinct: HashSet<&str> = names.iter().map(String::as_str).collect();
        ensure!(
            distinct.len() == names.len(),
            "{} names are listed twice",
            names.len() - distinct.len()
        );
        let missing: Vec<&str> = TOOLS
            .into_iter()
            .filter(|name| !distinct.contains(name))
            .collect();
        ensure!(missing.is_empty(), "not listed: {missing:?}");
        Ok(format!("{} tools on {pages} pages", names.len()))
    }

    async fn progress(&mut self) -> Outcome {
        while self.progress.try_recv().is_ok() {}
        let result = self.call("test_tool_with_progress", json!({})).await?;
        ensure!(result.is_error != Some(true), "{}", text(&result));
        let mut seen = Vec::new();
        while let Ok(Some(report)) = timeout(Duration::from_millis(500), self.progress.recv()).await
        {
            seen.push(report);
        }
        let due = [
            (0.0, Some(100.0)),
            (50.0, Some(100.0)),
            (100.0, Some(100.0)),
        ];
        ensure!(seen == due, "progress was {seen:?}");
        Ok("0, 50, 100 of 100".into())
    }

    async fn structured(&mut self) -> Outcome {
        let forecast = json!({ "city": "Oslo", "temperature": 21.5, "conditions": "clear" });
        let result = self
            .call("test_structured_output", json!({ "city": "Oslo" }))
            .await?;
        let structured = &result.structured_content;
        ensure!(
            structured.as_ref() == Some(&forecast),
            "structuredContent is {structured:?}"
        );
        let said = text(&result);
        ensure!(
            serde_json::from_str::<Value>(&said)? == forecast,
            "text is {said}"
        );
        Ok(String::new())
    }

    async fn invalid_output(&mut self) -> Outcome {
        match self.call("test_invalid_output", json!({})).await {
            Err(error) => {
                let why = error.to_string();
                ensure!(
                    why.contains("schema"),
                    "an error that does not mention the schema: {why}"
                );
                Ok(format!("raised: {why}"))
            }
            Ok(result) => {
                ensure!(
                    result.is_error == Some(true),
                    "passed as a success: {result:?}"
                );
                Ok(format!("isError: {}", text(&result)))
            }
        }
    }

    async fn invalid_arguments(&mut self) -> Outcome {
        match self.call("test_structured_output", json!({})).await {
            Err(error) => {
                let why = error.to_string();
                ensure!(
                    why.contains("city"),
                    "an error that does not name `city`: {why}"
                );
                Ok(format!("raised: {why}"))
            }
            Ok(result) => {
                ensure!(
                    result.is_error == Some(true),
                    "passed as a success: {result:?}"
                );
                let said = text(&result);
                ensure!(
                    said.contains("city"),
                    "a text that does not name `city`: {said}"
                );
                Ok(format!("isError: {said}"))
            }
        }
    }

    /// Cancels a call after its first progress notification; gives its label.
    async fn begin_and_cancel(&mut self) -> Outcome {
        while self.progress.try_recv().is_ok() {}
        let label = format!(
            "interop-rmcp-{}-{:?}",
            process::id(),
            std::time::SystemTime::now()
        );
        let client = self.client.as_ref().ok_or("not connected")?;
        let arguments = json!({ "seconds": 30, "label": label });
        // rmcp cancels a call whose future is dropped, which the losing branch is.
        tokio::select! {
            _ = self.progress.recv() => Ok(label),
            result = client.call_tool(request("slow_compute", arguments)) => {
                Err(format!("ended without progress: {result:?}").into())
            }
        }
    }

    async fn cancel(&mut self) -> Outcome {
        let label = self.begin_and_cancel().await?;
        let answer = timeout(
            Duration::from_secs(2),
            self.call("test_simple_text", json!({})),
        );
        let answer = answer
            .await
            .map_err(|_| "no answer within 2 s of the cancel")??;
        ensure!(!text(&answer).is_empty(), "no text after the cancel");
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let labels = text(&self.call("test_cancelled_labels", json!({})).await?);
            if serde_json::from_str::<Vec<String>>(&labels)?.contains(&label) {
                return Ok(String::new());
            }
            ensure!(
                Instant::now() < end,
                "the server was never told: cancelled labels are {labels}"
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// With each kind of connection: only a session's streams are resumed.
    async fn stays_cancelled(&mut self) -> Outcome {
        let mut handshaking = Self::new(&self.transport, &self.target);
        handshaking.status.set_extension("handshaking");
        handshaking.open(ClientLifecycleMode::Initialize).await?;
        tokio::try_join!(
            self.cancelled_once("2026-07-28"),
            handshaking.cancelled_once("2025-11-25")
        )?;
        handshaking.close().await?;
        Ok("also in a session of 2025-11-25".into())
    }

    /// The tool stops within a second of the cancel, and is not started again while the connection
    /// is open.
    async fn cancelled_once(&mut self, revision: &str) -> Outcome<()> {
        let label = self.begin_and_cancel().await?;
        let cancelled = Instant::now();
        let mut runs = self.runs_of(&label).await?;
        while runs["running"] != 0 && cancelled.elapsed() < Duration::from_secs(1) {
            sleep(Duration::from_millis(50)).await;
            runs = self.runs_of(&label).await?;
        }
        while runs == json!({ "started": 1, "running": 0 }) && cancelled.elapsed() < STAYS {
            sleep(Duration::from_millis(500)).await;
            runs = self.runs_of(&label).await?;
        }
        let after = cancelled.elapsed().as_secs_f32();
        ensure!(
            runs == json!({ "started": 1, "running": 0 }),
            "{runs} {after:.1} s after the call was cancelled in {revision}"
        );
        Ok(())
    }

    async fn runs_of(&self, label: &str) -> Outcome<Value> {
        let said = text(&self.call("test_runs", json!({ "label": label })).await?);
        Ok(serde_json::from_str(&said)?)
    }

    async fn resources(&mut self) -> Outcome {
        let client = self.client()?;
        let listed = client.list_all_resources().await?;
        let uris: Vec<&str> = listed
            .iter()
            .map(|resource| resource.uri.as_str())
            .collect();
        for due in ["test://static-text", "test://static-binary"] {
            ensure!(uris.contains(&due), "listed: {uris:?}");
        }
        let fixed = self.read("test://static-text").await?;
        ensure!(
            fixed["text"].as_str().is_some_and(|text| !text.is_empty()),
            "{fixed}"
        );
        let binary = self.read("test://static-binary").await?;
        ensure!(
            binary["blob"].as_str().is_some_and(|blob| !blob.is_empty()),
            "{binary}"
        );
        let listed = client.list_all_resource_templates().await?;
        let templates: Vec<&str> = listed
            .iter()
            .map(|template| template.uri_template.as_str())
            .collect();
        ensure!(
            templates.contains(&"test://template/{id}/data"),
            "listed: {templates:?}"
        );
        let filled = self.read("test://template/123/data").await?;
        let data: Value = serde_json::from_str(filled["text"].as_str().unwrap_or_default())?;
        ensure!(data["id"] == "123", "{data}");
        match client
            .read_resource(ReadResourceRequestParams::new("test://nope"))
            .await
        {
            Err(ServiceError::McpError(error)) => {
                ensure!(
                    error.code.0 == NOT_FOUND,
                    "reading test://nope gave {error:?}"
                );
                Ok(format!("a missing resource is error {}", error.code.0))
            }
            other => Err(format!("reading test://nope gave {other:?}").into()),
        }
    }

    /// The one content of a resource.
    async fn read(&self, uri: &str) -> Outcome<Value> {
        let result = self
            .client()?
            .read_resource(ReadResourceRequestParams::new(uri))
            .await?;
        let [content] = result.contents.as_slice() else {
            return Err(format!("{uri} has {} contents", result.contents.len()).into());
        };
        Ok(serde_json::to_value(content)?)
    }

    async fn resource_updated(&mut self) -> Outcome {
        let filter = SubscriptionFilter::builder()
            .resource_subscription(WATCHED)
            .build();
        let mut subscription = self.client()?.listen(filter.clone()).await?;
        ensure!(
            *subscription.acknowledged() == filter,
            "the server honours only {:?}",
            subscription.acknowledged()
        );
        self.call("test_trigger_resource_update", json!({})).await?;
        match subscription.next().await? {
            Some(ServerNotification::ResourceUpdatedNotification(update)) => {
                ensure!(
                    update.params.uri == WATCHED,
                    "an update of {}",
                    update.params.uri
                );
            }
            other => return Err(format!("not an update: {other:?}").into()),
        }
        subscription.cancel().await?;
        Ok(String::new())
    }

    async fn prompts(&mut self) -> Outcome {
        let client = self.client()?;
        let listed = client.list_all_prompts().await?;
        let names: Vec<&str> = listed.iter().map(|prompt| prompt.name.as_str()).collect();
        ensure!(
            names.contains(&"test_prompt_with_arguments"),
            "listed: {names:?}"
        );
        let arguments = object(json!({ "arg1": "hello", "arg2": "world" }));
        let params =
            GetPromptRequestParams::new("test_prompt_with_arguments").with_arguments(arguments);
        let prompt = client.get_prompt(params).await?;
        let said: Vec<&str> = prompt
            .messages
            .iter()
            .filter_map(|message| message.content.as_text())
            .map(|text| text.text.as_str())
            .collect();
        ensure!(
            said == ["Prompt with arguments: arg1='hello', arg2='world'"],
            "{said:?}"
        );
        Ok(String::new())
    }

    async fn completion(&mut self) -> Outcome {
        let values = self
            .client()?
            .complete_prompt_simple("test_prompt_with_arguments", "arg1", "par")
            .await?;
        ensure!(values.iter().any(|value| value == "paris"), "{values:?}");
        Ok(format!("{values:?}"))
    }

    async fn logging(&mut self) -> Outcome {
        while self.logs.try_recv().is_ok() {}
        let mut meta = RequestMetaObject::new();
        meta.set_log_level(LoggingLevel::Debug);
        let mut params = request("test_tool_with_logging", json!({}));
        params.meta = Some(meta);
        self.client()?.call_tool(params).await?;
        let mut logs = Vec::new();
        while let Ok(Some(log)) = timeout(Duration::from_millis(500), self.logs.recv()).await {
            logs.push(log);
        }
        ensure!(logs.len() >= 3, "{} log messages: {logs:?}", logs.len());
        ensure!(
            logs[0].to_string().contains("Tool execution started"),
            "the first is {}",
            logs[0]
        );
        Ok(format!("{} messages", logs.len()))
    }

    async fn list_changed(&mut self) -> Outcome {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let mut subscription = self.client()?.listen(filter.clone()).await?;
        ensure!(
            *subscription.acknowledged() == filter,
            "the server honours only {:?}",
            subscription.acknowledged()
        );
        self.call("test_trigger_tool_change", json!({})).await?;
        let notification = subscription.next().await?;
        ensure!(
            matches!(
                notification,
                Some(ServerNotification::ToolListChangedNotification(_))
            ),
            "not a change of tools: {notification:?}"
        );
        subscription.cancel().await?;
        Ok(String::new())
    }

    async fn close(&mut self) -> Outcome {
        let before = self.call("test_simple_text", json!({})).await?;
        ensure!(!text(&before).is_empty(), "no text before the close");
        self.client.as_mut().ok_or("not connected")?.close().await?;
        let after = self.call("test_simple_text", json!({})).await;
        ensure!(after.is_err(), "a call after the close was answered");
        if self.transport != "stdio" {
            return Ok(String::new());
        }
        let status = fs::read_to_string(&self.status).unwrap_or_else(|_| "killed".into());
        fs::remove_file(&self.status).ok();
        ensure!(status.trim() == "0", "the server's exit status: {status}");
        Ok("the server exited by itself".into())
    }
}

fn request(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(object(arguments))
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn text(result: &CallToolResult) -> String {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| block.as_text())
        .map(|text| text.text.as_str())
        .collect();
    texts.join("\n")
}
