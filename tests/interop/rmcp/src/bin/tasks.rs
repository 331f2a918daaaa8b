//! The steps with tasks of rmcp, in the design of the extension: `stdio PROGRAM`, or `http URL`.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::stdin,
    process::{self, ExitCode},
    time::Duration,
};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        CancelTaskRequest, ClientCapabilities, ClientConfig, ClientRequest, DetailedTask,
        ElicitRequestParams, ElicitResult, ElicitationAction, GetTaskParams, Implementation,
        InputRequest, ProtocolVersion, ServerResult, TaskPayload, TaskStatus, UpdateTaskParams,
        UpdateTaskRequest,
    },
    service::RunningService,
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};

const STEPS: [&str; 7] = ["connect", "create", "poll", "result", "question", "cancel", "failure"];
/// A server that is its client's child cannot be started again under it.
const AFTER_RESTART: [&str; 2] = ["restart", "kept"];
const STEP: Duration = Duration::from_secs(40);

type Outcome<T = String> = Result<T, Box<dyn Error>>;
type Client = RunningService<RoleClient, ClientConfig>;

macro_rules! ensure {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            return Err(format!($($why)*).into());
        }
    };
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [transport, target] = arguments.as_slice() else {
        eprintln!("usage: tasks stdio|http TARGET");
        return ExitCode::FAILURE;
    };
    let mut follower = Follower::new(transport, target);
    let mut steps = STEPS.to_vec();
    if transport == "http" {
        steps.extend(AFTER_RESTART);
    }
    let mut verdict = ExitCode::SUCCESS;
    for step in steps {
        let (ok, detail) = match timeout(STEP, follower.perform(step)).await {
            Ok(Ok(detail)) => (true, detail),
            Ok(Err(why)) => (false, why.to_string()),
            Err(_) => (false, "timed out, at most 40 s".into()),
        };
        println!("{}", json!({ "step": step, "ok": ok, "detail": detail }));
        if !ok {
            verdict = ExitCode::FAILURE;
        }
        if !ok && step == "connect" {
            break;
        }
    }
    if let Some(mut client) = follower.client {
        timeout(STEP, client.close()).await.ok();
    }
    verdict
}

/// One client and what it has seen, from step to step.
struct Follower {
    transport: String,
    target: String,
    client: Option<Client>,
    first: String,
    /// The first task when it was done.
    done: Option<DetailedTask>,
}

impl Follower {
    fn new(transport: &str, target: &str) -> Self {
        Self {
            transport: transport.into(),
            target: target.into(),
            client: None,
            first: String::new(),
            done: None,
        }
    }

    async fn perform(&mut self, step: &str) -> Outcome {
        match step {
            "connect" => self.connect().await,
            "create" => self.create().await,
            "poll" => self.poll().await,
            "result" => self.result().await,
            "question" => self.question().await,
            "cancel" => self.cancel().await,
            "failure" => self.failure().await,
            "restart" => self.restart().await,
            "kept" => self.kept().await,
            unknown => Err(format!("no step is called `{unknown}`").into()),
        }
    }

    fn client(&self) -> Outcome<&Client> {
        self.client.as_ref().ok_or_else(|| "not connected".into())
    }

    async fn connect(&mut self) -> Outcome {
        let capabilities =
            ClientCapabilities::builder().enable_elicitation().enable_tasks().build();
        let config = ClientConfig::new(capabilities, Implementation::new("tasks", "1"));
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: None,
        };
        let client = if self.transport == "http" {
            let transport = StreamableHttpClientTransport::from_uri(self.target.as_str());
            config.serve_with_lifecycle(transport, lifecycle).await?
        } else {
            let mut command = Command::new(&self.target);
            command.arg("--stdio");
            config.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
        };
        let client = self.client.insert(client);
        let peer = client.peer_info().ok_or("the server has not been introduced")?;
        let name = peer.server_info.as_ref().map(|info| info.name.clone());
        ensure!(name.as_deref() == Some("zcp-everything"), "server calls itself {name:?}");
        let revision = peer.protocol_version.clone();
        ensure!(revision == ProtocolVersion::V_2026_07_28, "negotiated {revision}");
        ensure!(
            peer.capabilities.supports_tasks(),
            "tasks are not offered: {:?}",
            peer.capabilities.extensions
        );
        Ok(format!("protocol revision {revision}"))
    }

    async fn create(&mut self) -> Outcome {
        self.first = self.begin("slow_compute", json!({ "seconds": 2, "label": "first" })).await?;
        Ok(self.first.clone())
    }

    async fn poll(&mut self) -> Outcome {
        let (seen, task) = self.follow(&self.first).await?;
        ensure!(seen.len() > 1 && task.status() == TaskStatus::Completed, "seen: {seen:?}");
        self.done = Some(task);
        Ok(format!("{seen:?}"))
    }

    async fn result(&mut self) -> Outcome {
        let done = self.done.as_ref().ok_or("it was not seen done")?;
        let said = success(done)?;
        ensure!(said == "first: computed for 2 seconds", "{said}");
        let again = self.look(&self.first).await?;
        ensure!(again == *done, "a second look shows {again:?}, not {done:?}");
        Ok(said)
    }

    async fn question(&mut self) -> Outcome {
        let id = self.begin("confirm_delete", json!({ "filename": "a.txt" })).await?;
        let (seen, asking) = self.follow(&id).await?;
        let TaskPayload::InputRequired { input_requests } = &asking.payload else {
            return Err(format!("it did not ask; seen: {seen:?}").into());
        };
        let asked: Vec<_> = input_requests.iter().collect();
        let [(key, InputRequest::Elicitation(request))] = asked.as_slice() else {
            return Err(format!("it asks {asked:?}").into());
        };
        let ElicitRequestParams::FormElicitationParams { message, .. } = &request.params else {
            return Err(format!("not a form: {:?}", request.params).into());
        };
        ensure!(message == "Delete a.txt?", "it asks {message}");
        let answer =
            ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "confirm": true }));
        let answers = BTreeMap::from([((*key).clone(), serde_json::to_value(answer)?)]);
        let update = UpdateTaskRequest::new(UpdateTaskParams::new(&id, answers));
        self.acknowledged(ClientRequest::UpdateTaskRequest(update)).await?;
        let (seen, task) = self.follow(&id).await?;
        ensure!(task.status() == TaskStatus::Completed, "after the answer: {seen:?}");
        let said = success(&task)?;
        ensure!(said == "a.txt deleted", "{said}");
        Ok(format!("{message} {said}"))
    }

    async fn cancel(&mut self) -> Outcome {
        let label = format!("tasks-rmcp-{}-{:?}", process::id(), std::time::SystemTime::now());
        let arguments = json!({ "seconds": 600, "label": label });
        let id = self.begin("slow_compute", arguments).await?;
        let cancel = CancelTaskRequest::new(CancelTaskParams::new(&id));
        self.acknowledged(ClientRequest::CancelTaskRequest(cancel.clone())).await?;
        let (seen, task) = self.follow(&id).await?;
        ensure!(task.status() == TaskStatus::Cancelled, "seen: {seen:?}");
        self.wait_until_stopped(&label).await?;
        self.acknowledged(ClientRequest::CancelTaskRequest(cancel)).await?;
        ensure!(self.look(&id).await? == task, "a second cancel changes it");
        Ok("a second time it is acknowledged too".into())
    }

    async fn wait_until_stopped(&self, label: &String) -> Outcome<()> {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let params = CallToolRequestParams::new("test_cancelled_labels");
            let labels = text(&self.client()?.call_tool(params).await?);
            if serde_json::from_str::<Vec<String>>(&labels)?.contains(label) {
                return Ok(());
            }
            ensure!(Instant::now() < end, "it was not stopped: cancelled labels are {labels}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn failure(&mut self) -> Outcome {
        let id = self.begin("failing_job", json!({})).await?;
        let (seen, task) = self.follow(&id).await?;
        ensure!(task.status() == TaskStatus::Completed, "seen: {seen:?}");
        let result = result(&task)?;
        ensure!(result.is_error == Some(true), "passed as a success: {result:?}");
        let said = text(&result);
        ensure!(said == "the job failed, as it always does", "{said}");
        Ok(said)
    }

    async fn restart(&mut self) -> Outcome {
        let arguments = json!({ "seconds": 3, "label": "again" });
        let id = self.begin("slow_compute", arguments).await?;
        ensure!(self.look(&id).await?.status() == TaskStatus::Working, "it was done too early");
        println!("{}", json!({ "restart": true }));
        let answer = spawn_blocking(|| stdin().lines().next()).await?.transpose()?;
        ensure!(answer.as_deref() == Some("restarted"), "the server was not restarted: {answer:?}");
        let (seen, task) = self.follow(&id).await?;
        ensure!(seen.len() > 1 && task.status() == TaskStatus::Completed, "seen: {seen:?}");
        let said = success(&task)?;
        ensure!(said == "again: computed for 3 seconds", "{said}");
        Ok(format!("{said}, after {} looks", seen.len()))
    }

    async fn kept(&mut self) -> Outcome {
        let before = self.done.as_ref().ok_or("it was not seen done")?;
        let after = self.look(&self.first).await?;
        ensure!(after == *before, "it was {before:?}, and is {after:?}");
        success(&after)
    }

    /// A new task, which must be at work.
    async fn begin(&self, tool: &'static str, arguments: Value) -> Outcome<String> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        // `call_tool` of rmcp takes a task for an error: it is for those who follow none.
        match self.client()?.call_tool_once(params).await? {
            CallToolResponse::Task(begun) => {
                let task = begun.task;
                ensure!(task.status == TaskStatus::Working, "it begins as {task:?}");
                Ok(task.task_id)
            }
            other => Err(format!("it is no task: {other:?}").into()),
        }
    }

    /// Sends what is answered by an acknowledgement.
    ///
    /// `update_task` and `cancel_task` of rmcp 3.8.0 refuse one that has a `_meta`: of the results
    /// it could be, they try that of a tool call first, which needs no more than a `_meta`.
    async fn acknowledged(&self, request: ClientRequest) -> Outcome<()> {
        match self.client()?.send_request(request).await? {
            ServerResult::TaskAckResult(_) => Ok(()),
            ServerResult::CallToolResult(CallToolResult {
                content,
                structured_content: None,
                is_error: None,
                ..
            }) if content.is_empty() => Ok(()),
            other => Err(format!("not an acknowledgement: {other:?}").into()),
        }
    }

    async fn look(&self, id: &str) -> Outcome<DetailedTask> {
        let task = self.client()?.get_task(GetTaskParams::new(id)).await?.task;
        ensure!(task.task.task_id == id, "asked for {id}, told of {task:?}");
        Ok(task)
    }

    /// Every status until the task no longer works, and the task as it is then.
    async fn follow(&self, id: &str) -> Outcome<(Vec<TaskStatus>, DetailedTask)> {
        let mut seen = Vec::new();
        loop {
            let task = self.look(id).await?;
            seen.push(task.status());
            if task.status() != TaskStatus::Working {
                return Ok((seen, task));
            }
            sleep(Duration::from_millis(task.task.poll_interval_ms.unwrap_or(500))).await;
        }
    }
}

/// What a task came to.
fn result(task: &DetailedTask) -> Outcome<CallToolResult> {
    let TaskPayload::Completed { result } = &task.payload else {
        return Err(format!("it has no result: {task:?}").into());
    };
    Ok(serde_json::from_value(Value::Object(result.clone()))?)
}

/// The text of a task that went well.
fn success(task: &DetailedTask) -> Outcome {
    let result = result(task)?;
    ensure!(result.is_error != Some(true), "it failed: {result:?}");
    Ok(text(&result))
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
