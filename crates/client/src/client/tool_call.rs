//! One request, from asking to its answer: questions on the way, progress, patience.

use crate::{
    client::task::{self, OnState, Task, TaskState},
    client::{Client, Shared},
    connection::connect::Line,
    error::{Error, Failure, Late, Result, text_of},
    request::cache::Whom,
    request::round_trip::{Exchange, OnProgress, Patience, Progress, Wish},
    support::limits,
    transport::{Fate, Headers},
};
use ::http::{Extensions, HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc, time::Duration};
use zcp_wire::{
    RpcError,
    error::{HEADER_MISMATCH, METHOD_NOT_FOUND},
    header,
    mcp::tools::CallToolResult,
    revision::Era,
};

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
    on_state: Option<OnState>,
    as_task: bool,
}

/// What a call came to.
#[derive(Debug)]
pub enum Started {
    /// It is done.
    Done(CallToolResult),
    /// It goes on.
    Task(Task),
}

impl<'a> Call<'a> {
    pub(crate) fn new(client: &'a Client, name: String) -> Self {
        let patience = client.settings().patience;
        let args = Map::new();
        Self { client, name, args, patience, on_progress: None, on_state: None, as_task: false }
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

    /// Makes the call as a task, if the tool and the server can. Servers of 2026-07-28 decide that
    /// themselves.
    pub fn as_task(mut self) -> Self {
        self.as_task = true;
        self
    }

    /// Hears what becomes of the call if it goes on as a task.
    pub fn on_state(mut self, hear: impl Fn(TaskState) + Send + Sync + 'static) -> Self {
        self.on_state = Some(Arc::new(hear));
        self
    }

    /// Makes the call. A tool that failed is a result too; see [`get`](Self::get). A task is
    /// followed to its end, and cancelled when nobody waits for it any more.
    pub async fn send(self) -> Result<CallToolResult> {
        match self.start().await? {
            Started::Done(result) => Ok(result),
            Started::Task(task) => task.followed().await,
        }
    }

    /// Makes the call. If it goes on as a task, that is for the caller to follow; it goes on
    /// though nobody does.
    pub async fn start(self) -> Result<Started> {
        let shared = self.client.shared();
        let mut params = Map::new();
        params.insert("name".into(), self.name.as_str().into());
        params.insert("arguments".into(), self.args.into());
        if shared.wants_task(&self.name, self.as_task) {
            params.insert("task".into(), json!({}));
        }
        let wish = Wish { patience: self.patience, on_progress: self.on_progress };
        let result = shared.request("tools/call", params, &wish).await?;
        if let Some(begun) = task::begun(&result).filter(|_| shared.settings.tasks) {
            let task = Task::new(shared.clone(), begun, Some(self.name), wish, self.on_state);
            return Ok(Started::Task(task));
        }
        let result = serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
        shared.check(&self.name, &result).await?;
        Ok(Started::Done(result))
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

/// Methods that may be asked again when the first answer was lost.
const HARMLESS: &[&str] = &[
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "ping",
    "server/discover",
    "tasks/get",
    "tasks/list",
    "tasks/result",
];

impl Shared {
    /// Makes a request, and once more where that is safe and the first could not be answered.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Map<String, Value>,
        wish: &Wish,
    ) -> Result<Map<String, Value>> {
        let whole = wish.patience.whole;
        let asking = self.ask(method, params, wish);
        let answered = tokio::time::timeout(whole, asking).await;
        answered.unwrap_or_else(|_| Err(Error::Late(Late { after: whole, about: None })))
    }

    async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: Map<String, Value>,
        wish: &Wish,
    ) -> Result<Map<String, Value>> {
        let whom = Whom { client: self.number, principal: self.endpoint.principal() };
        let wanted = match self.settings.cache.look(method, &params, whom) {
            Ok(result) => return Ok(result),
            Err(wanted) => wanted,
        };
        let mut line = self.line().await?;
        let mut again = true;
        loop {
            let fate = Fate::default();
            let error = match self.rounds(&line, method, params.clone(), wish, &fate).await {
                Ok((result, round)) => {
                    if let Some(wanted) = wanted
                        && round == 0
                    {
                        self.settings.cache.keep(wanted, &result);
                    }
                    return Ok(result);
                }
                Err(error) => error,
            };
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
    /// questions. Says how often that was.
    async fn rounds(
        &self,
        line: &Line,
        method: &str,
        mut params: Map<String, Value>,
        wish: &Wish,
        fate: &Fate,
    ) -> Result<(Map<String, Value>, usize)> {
        for round in 0..self.settings.rounds {
            let headers = self.headers(line, method, &params);
            let outgoing = Outgoing { method, params: params.clone(), headers, wish, fate };
            let result = self.once(line, outgoing).await?;
            let kind = result.get("resultType").map(|kind| kind.as_str().unwrap_or_default());
            match kind {
                None | Some("complete") => return Ok((result, round)),
                // Only a call can go on as a task.
                Some("task") if self.settings.tasks && method == "tools/call" => {
                    return Ok((result, round));
                }
                Some("input_required") if line.server.revision.era() == Era::Stateless => (),
                Some(other) => {
                    let why = format!("`{other}` is no kind of result");
                    return Err(Error::Invalid(why).told_by(fate));
                }
            }
            let asked = result.get("inputRequests").and_then(Value::as_object);
            let state = result.get("requestState").filter(|state| state.is_string());
            if asked.is_none_or(Map::is_empty) && state.is_none() {
                let why = Error::invalid("it wants input, and does not say which");
                return Err(why.told_by(fate));
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
        let why = format!("it asks more than {} times", self.settings.rounds);
        Err(Error::Invalid(why).told_by(fate))
    }

    /// Answers everything that is asked, or nothing.
    pub(crate) async fn answers(&self, asked: &Map<String, Value>) -> Result<Map<String, Value>> {
        if asked.len() > limits::ASKED_AT_ONCE || asked.keys().any(|key| key.len() > limits::ID) {
            let why = format!("it asks more than {} questions at once", limits::ASKED_AT_ONCE);
            return Err(Error::Invalid(why));
        }
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
            "tasks/get" | "tasks/update" | "tasks/cancel" => params.get("taskId"),
            _ => None,
        };
        let Some(name) = named.and_then(Value::as_str) else { return headers };
        show(header::NAME.as_str(), name);
        let known = if method == "tools/call" { self.settings.tools.get(name) } else { None };
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
