//! One request, from asking to its answer: questions on the way, progress, patience.

use crate::{
    client::{Client, Shared},
    connect::{Line, Settings},
    error::{Error, Failure, Result, text_of},
    transport::{Fate, Headers, Opening},
};
use ::http::{Extensions, HeaderMap, HeaderValue};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use zcp_wire::{
    Frame, Id, Notification, Peer, Request, Response, RpcError,
    error::{HEADER_MISMATCH, METHOD_NOT_FOUND},
    header,
    json::text,
    mcp::{logging::LogMessage, tools::CallToolResult},
    meta,
    revision::Era,
};

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Progress {
    /// So far.
    pub progress: f64,
    /// Of so much.
    #[serde(default)]
    pub total: Option<f64>,
    /// In words.
    #[serde(default)]
    pub message: Option<String>,
}

pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// A tool to be called.
///
/// ```no_run
/// # async fn example(client: zcp_client::Client) -> Result<(), zcp_client::Error> {
/// let sum: i64 = client.tool("add").arg("a", 1).arg("b", 2).get().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is made by `send` or `get`"]
pub struct Call<'a> {
    client: &'a Client,
    name: String,
    args: Map<String, Value>,
    patience: Patience,
    on_progress: Option<OnProgress>,
}

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Without a sign of life.
    pub(crate) quiet: Duration,
    /// In all.
    pub(crate) whole: Duration,
}

impl<'a> Call<'a> {
    pub(crate) fn new(client: &'a Client, name: String) -> Self {
        let patience = client.settings().patience;
        Self { client, name, args: Map::new(), patience, on_progress: None }
    }

    /// One argument.
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.args.insert(name.into(), value.into());
        self
    }

    /// The members of an object, as arguments.
    pub fn args(mut self, args: Value) -> Self {
        if let Value::Object(args) = args {
            self.args.extend(args);
        }
        self
    }

    /// How long the tool may say nothing; progress begins the time anew.
    pub fn timeout(mut self, quiet: Duration) -> Self {
        self.patience.quiet = quiet;
        self.patience.whole = self.patience.whole.max(quiet);
        self
    }

    /// How long the call may take in all, whatever its progress.
    pub fn ceiling(mut self, whole: Duration) -> Self {
        self.patience.whole = whole;
        self
    }

    /// Hears of this call's progress.
    pub fn on_progress(mut self, hear: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(hear));
        self
    }

    /// Makes the call. A tool that failed is a result too; see [`get`](Self::get).
    pub async fn send(self) -> Result<CallToolResult> {
        let mut params = Map::new();
        params.insert("name".into(), self.name.into());
        params.insert("arguments".into(), self.args.into());
        let wish = Wish { patience: self.patience, on_progress: self.on_progress };
        let result = self.client.shared().request("tools/call", params, &wish).await?;
        serde_json::from_value(Value::Object(result)).map_err(Error::invalid)
    }

    /// Makes the call, and reads its result as a `T`: of the structured content, or of the text.
    pub async fn get<T: DeserializeOwned>(self) -> Result<T> {
        let result = self.send().await?;
        if result.is_error {
            return Err(Error::Tool(Box::new(result)));
        }
        let read = match &result.structured_content {
            Some(value) => T::deserialize(value).or_else(|error| match value {
                // A value that is no object travels as the only member of one.
                Value::Object(members) if members.len() == 1 => {
                    members.get("result").map_or(Err(error), T::deserialize)
                }
                _ => Err(error),
            }),
            None => {
                let words = text_of(&result);
                serde_json::from_str(&words)
                    .or_else(|_| serde_json::from_value(Value::String(words)))
            }
        };
        read.map_err(|error| Error::Invalid(format!("the result is not what was wanted: {error}")))
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a request's maker wants.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) patience: Patience,
    pub(crate) on_progress: Option<OnProgress>,
}

/// Methods that may be asked again when the first answer was lost.
const HARMLESS: &[&str] = &[
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "logging/setLevel",
    "ping",
    "server/discover",
];

impl Shared {
    /// Makes a request, and once more where that is safe and the first could not be answered.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        wish: &Wish,
    ) -> Result<Map<String, Value>> {
        let mut line = self.line().await?;
        let mut again = true;
        loop {
            let fate = Fate::default();
            let done = self.rounds(&line, method, params.clone(), wish, &fate).await;
            let Err(error) = done else { return done };
            let stateless = line.server.revision.era() == Era::Stateless;
            match &error {
                // The server knows the session no more, and has not looked at the request.
                _ if !stateless && fate.get().and_then(Failure::status) == Some(404) => {
                    line.lose();
                }
                Error::Lost(Failure::Gone(_)) => {
                    line.lose();
                    again &= HARMLESS.contains(&method);
                }
                Error::Refused(RpcError { code: HEADER_MISMATCH, .. })
                    if again && stateless && method == "tools/call" =>
                {
                    // What is known of the tool's headers is out of date.
                    Box::pin(self.tools_anew()).await?;
                }
                _ => again = false,
            }
            if !std::mem::take(&mut again) {
                return Err(error);
            }
            line = self.line().await?;
        }
    }

    /// Makes a request, and makes it again with answers for as long as it is answered with
    /// questions.
    async fn rounds(
        &self,
        line: &Line,
        method: &str,
        mut params: Map<String, Value>,
        wish: &Wish,
        fate: &Fate,
    ) -> Result<Map<String, Value>> {
        for round in 0..self.settings.rounds {
            let headers = self.headers(line, method, &params);
            let outgoing = Outgoing { method, params: params.clone(), headers, wish, fate };
            let result = self.once(line, outgoing).await?;
            let kind = result.get("resultType").map(|kind| kind.as_str().unwrap_or_default());
            match kind {
                None | Some("complete") => return Ok(result),
                Some("input_required") if line.server.revision.era() == Era::Stateless => (),
                Some(other) => {
                    return Err(Error::Invalid(format!("`{other}` is no kind of result")));
                }
            }
            let asked = result.get("inputRequests").and_then(Value::as_object);
            let state = result.get("requestState").filter(|state| state.is_string());
            if asked.is_none_or(Map::is_empty) && state.is_none() {
                return Err(Error::invalid("it wants input, and does not say which"));
            }
            // Answers are for one round; the server carries older ones in its state.
            params.remove("inputResponses");
            params.remove("requestState");
            match asked {
                Some(asked) if !asked.is_empty() => {
                    let answers = self.answers(asked).await?;
                    params.insert("inputResponses".into(), Value::Object(answers));
                }
                _ => tokio::time::sleep(pace(round)).await,
            }
            if let Some(state) = state {
                params.insert("requestState".into(), state.clone());
            }
        }
        Err(Error::Invalid(format!("it asks more than {} times", self.settings.rounds)))
    }

    /// Answers everything that is asked, or nothing.
    async fn answers(&self, asked: &Map<String, Value>) -> Result<Map<String, Value>> {
        let mut answers = Map::new();
        for (key, question) in asked {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let empty = json!({});
            let params = question.get("params").unwrap_or(&empty);
            let answer = self.settings.answers.answer(method, params).await;
            answers.insert(key.clone(), answer.map_err(|error| unanswered(method, &error))?);
        }
        Ok(answers)
    }

    async fn once(&self, line: &Line, outgoing: Outgoing<'_>) -> Result<Map<String, Value>> {
        let mut params = outgoing.params;
        let id = self.settings.ids.next();
        self.settings.say_about(&mut params, line.server.revision.era(), &id);
        let exchange = Exchange {
            settings: &self.settings,
            peer: &*line.peer,
            era: line.server.revision.era(),
            wish: outgoing.wish,
            fate: outgoing.fate,
        };
        let mut extensions = Extensions::new();
        extensions.insert(Headers(outgoing.headers));
        exchange.ask(id, outgoing.method, params, extensions).await
    }

    /// What a request shows to ways that have headers.
    pub(crate) fn headers(
        &self,
        line: &Line,
        method: &str,
        params: &Map<String, Value>,
    ) -> HeaderMap {
        let mut headers = line.server.headers();
        if line.server.revision.era() == Era::Handshake {
            return headers;
        }
        let mut show = |name: &str, value: &str| {
            let name = ::http::HeaderName::try_from(name);
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&header::encode(value))) {
                headers.insert(name, value);
            }
        };
        show(header::METHOD.as_str(), method);
        let named = match method {
            "tools/call" | "prompts/get" => params.get("name"),
            "resources/read" => params.get("uri"),
            _ => None,
        };
        let Some(name) = named.and_then(Value::as_str) else { return headers };
        show(header::NAME.as_str(), name);
        let known = if method == "tools/call" { self.tools.get(name) } else { None };
        let args = params.get("arguments").unwrap_or(&Value::Null);
        for mirrored in known.iter().flat_map(|known| &known.mirrored) {
            if let Some(text) = mirrored.text(args)
                && let Ok(value) = HeaderValue::from_str(&text)
                && let Ok(name) = ::http::HeaderName::try_from(format!(
                    "{}{}",
                    header::PARAM_PREFIX,
                    mirrored.header
                ))
            {
                headers.insert(name, value);
            }
        }
        headers
    }
}

/// How long to wait before a round that nobody was asked for.
fn pace(round: usize) -> Duration {
    Duration::from_millis(100 << round.min(5))
}

fn unanswered(method: &str, error: &RpcError) -> Error {
    match error.code {
        METHOD_NOT_FOUND => {
            Error::Unable(format!("the server asks for `{method}`, which nobody here answers"))
        }
        _ => Error::Unable(format!("the server's `{method}` was not answered: {}", error.message)),
    }
}

struct Outgoing<'a> {
    method: &'a str,
    params: Map<String, Value>,
    headers: HeaderMap,
    wish: &'a Wish,
    fate: &'a Fate,
}

/// The ids of one client's requests; none comes twice.
#[derive(Debug, Default)]
pub(crate) struct Ids(AtomicI64);

impl Ids {
    pub(crate) fn next(&self) -> Id {
        Id::number(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Settings {
    /// What a request says about itself in its `_meta`. Its progress is reported under its id.
    pub(crate) fn say_about(&self, params: &mut Map<String, Value>, era: Era, id: &Id) {
        let about = params.entry("_meta").or_insert_with(|| json!({}));
        let Some(about) = about.as_object_mut() else { return };
        about.insert("progressToken".into(), json!(id));
        if era == Era::Handshake {
            return;
        }
        let revision = self.stateless.as_str();
        about.insert(meta::PROTOCOL_VERSION.into(), revision.into());
        about.insert(meta::CLIENT_CAPABILITIES.into(), json!(self.capabilities()));
        if self.say_info {
            about.insert(meta::CLIENT_INFO.into(), json!(self.info));
        }
        if let Some(level) = self.level {
            about.insert(meta::LOG_LEVEL.into(), json!(level));
        }
    }
}

/// One request and its one answer.
pub(crate) struct Exchange<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) peer: &'a dyn Peer,
    pub(crate) era: Era,
    pub(crate) wish: &'a Wish,
    pub(crate) fate: &'a Fate,
}

impl Exchange<'_> {
    /// Asks, and waits for the answer. Giving up cancels the request.
    pub(crate) async fn ask(
        &self,
        id: Id,
        method: &str,
        params: Map<String, Value>,
        mut extensions: Extensions,
    ) -> Result<Map<String, Value>> {
        extensions.insert(self.fate.clone());
        let request = Request {
            id: id.clone(),
            method: method.to_owned().into(),
            params: Some(text(&params)),
        };
        let mut frames = self.peer.send(Frame::Request(request), extensions);
        let Patience { quiet, whole } = self.wish.patience;
        let last = Instant::now() + whole;
        let mut late = Instant::now() + quiet;
        loop {
            let frame = timeout_at(late.min(last), frames.next()).await;
            let frame = frame.map_err(|_| Error::Late(if late < last { quiet } else { whole }))?;
            match frame {
                Some(Frame::Response(response)) if response.id.as_ref() == Some(&id) => {
                    let result = response.result.map_err(Error::Refused)?;
                    return serde_json::from_str(&result).map_err(Error::invalid);
                }
                Some(Frame::Response(_)) => (),
                Some(Frame::Notification(said)) => {
                    if self.hear(&said) {
                        late = Instant::now() + quiet;
                    }
                }
                Some(Frame::Request(question)) => {
                    // In the stateless era questions are results, and never answered like this.
                    if self.era == Era::Handshake {
                        reply(self.settings, self.peer, question).await;
                        late = Instant::now() + quiet;
                    }
                }
                None => {
                    let unknown = || Failure::Gone("the server did not answer".into());
                    return Err(Error::Lost(self.fate.get().cloned().unwrap_or_else(unknown)));
                }
            }
        }
    }

    /// Takes what is said on the way; true for a sign of progress.
    fn hear(&self, said: &Notification) -> bool {
        let params = said.params.as_deref().unwrap_or("{}");
        match &*said.method {
            "notifications/progress" => {
                let Ok(progress) = serde_json::from_str::<Progress>(params) else { return false };
                if let Some(hear) =
                    self.wish.on_progress.as_ref().or(self.settings.on_progress.as_ref())
                {
                    hear(progress);
                }
                true
            }
            "notifications/message" => {
                if let (Some(hear), Ok(message)) =
                    (&self.settings.on_log, serde_json::from_str::<LogMessage>(params))
                {
                    hear(message);
                }
                false
            }
            _ => false,
        }
    }
}

/// Answers a question of the handshake era.
pub(crate) async fn reply(settings: &Settings, peer: &dyn Peer, question: Request) {
    let params = question.params.as_deref().map_or(Ok(json!({})), serde_json::from_str);
    let result = match params {
        Ok(params) => settings.answers.answer(&question.method, &params).await,
        Err(error) => Err(RpcError::invalid_params(error)),
    };
    let result = result.map(|answer| text(&answer).into());
    let response = Frame::Response(Response { id: Some(question.id), result });
    let mut sent = peer.send(response, Extensions::new());
    while sent.next().await.is_some() {}
}

/// What opens a conversation.
pub(crate) fn opening(headers: HeaderMap) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Opening);
    extensions.insert(Headers(headers));
    extensions
}
