//! Calls that go on without anybody waiting: followed to their end, in both designs.

use super::pagination;
use crate::{
    connection::{Connection, dialect::TaskDesign},
    error::{Error, Late, Result},
    request::round_trip::Options,
    support::{backoff::jittered, deadline::Timeouts, message_limits},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::HashSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use zcp_wire::{
    Method, RpcError,
    mcp::{tasks::TaskStatus, tools::CallToolResult},
};

/// How often a task is looked at if the server does not say, and what it may say.
const INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(60);
/// How long a server may take to give a task up.
const PARTING: Duration = Duration::from_secs(2);

pub(crate) type OnState = Arc<dyn Fn(TaskState) + Send + Sync>;

/// A task as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskState {
    /// How far it is.
    pub status: TaskStatus,
    /// In words.
    #[serde(default, rename = "statusMessage")]
    pub message: Option<String>,
    #[serde(default, skip_serializing, alias = "pollInterval")]
    poll_interval_ms: Option<u64>,
}

impl TaskState {
    fn interval(&self) -> Duration {
        let wished = self.poll_interval_ms.map_or(INTERVAL, Duration::from_millis);
        wished.clamp(SHORTEST, LONGEST)
    }
}

/// A call that goes on at the server. Its id is all that is needed to find it again, with
/// [`Client::task`](crate::Client::task): also from another process.
pub struct Task {
    connection: Arc<Connection>,
    id: String,
    /// The tool that was called, if that is known.
    tool: Option<String>,
    options: Options,
    on_state: Option<OnState>,
}

/// What a server says of a task it has begun.
pub(crate) fn begun(result: &Map<String, Value>) -> Option<String> {
    let is_task = result.get("resultType").and_then(Value::as_str) == Some("task");
    let id = match is_task {
        true => result.get("taskId"),
        // What 2025-11-25 answers.
        false => result.get("task").and_then(|task| task.get("taskId")),
    };
    id.and_then(Value::as_str).filter(|id| id.len() <= message_limits::ID).map(str::to_owned)
}

impl Task {
    pub(crate) fn new(
        connection: Arc<Connection>,
        id: String,
        tool: Option<String>,
        options: Options,
        on_state: Option<OnState>,
    ) -> Self {
        Self { connection, id, tool, options, on_state }
    }

    /// What the server knows it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far it is.
    pub async fn state(&self) -> Result<TaskState> {
        let state = self.ask(Method::GetTask, Map::new()).await?;
        serde_json::from_value(Value::Object(state)).map_err(Error::invalid)
    }

    /// Asks the server to give it up.
    pub async fn cancel(&self) -> Result<()> {
        self.ask(Method::CancelTask, Map::new()).await.map(drop)
    }

    /// Waits for its result. What it asks on the way is answered as for any call.
    pub async fn result(&self) -> Result<CallToolResult> {
        let result = self.follow().await?;
        let result = serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
        if let Some(tool) = &self.tool {
            pagination::check(&self.connection, tool, &result).await?;
        }
        Ok(result)
    }

    /// Waits for its result, and cancels it when nobody waits any more.
    pub(crate) async fn followed(self) -> Result<CallToolResult> {
        let mut followed = Followed(Some(self));
        let result = match &followed.0 {
            Some(task) => task.result().await,
            None => unreachable!("it is there until it is done"),
        };
        // What nobody here can follow is given up; other tasks are over, or out of reach.
        let is_over = !matches!(result, Err(Error::Late(_) | Error::Unable(_) | Error::Invalid(_)));
        if let Some(task) = followed.0.take_if(|_| !is_over) {
            let _ = tokio::time::timeout(PARTING, task.cancel()).await;
        }
        followed.0 = None;
        result
    }

    async fn follow(&self) -> Result<Map<String, Value>> {
        let begun = Instant::now();
        let design = self.connection.now().dialect.tasks();
        let (mut answered, mut wait) = (HashSet::new(), INTERVAL);
        let mut heard = Instant::now();
        loop {
            if begun.elapsed() > self.options.timeouts.total {
                return Err(self.late());
            }
            let mut seen = match self.ask(Method::GetTask, Map::new()).await {
                // It goes on, whether or not it can be looked at just now; but not for ever.
                Err(Error::Lost(failure))
                    if failure.may_pass() && heard.elapsed() < self.options.timeouts.idle =>
                {
                    tokio::time::sleep(jittered(wait)).await;
                    wait = (wait * 2).min(LONGEST);
                    continue;
                }
                seen => seen?,
            };
            (wait, heard) = (INTERVAL, Instant::now());
            let state = Value::Object(seen.clone());
            let state: TaskState = serde_json::from_value(state).map_err(Error::invalid)?;
            if let Some(hear) = &self.on_state {
                hear(state.clone());
            }
            match state.status {
                TaskStatus::Queued | TaskStatus::Working => (),
                // Its result is waited for where its questions are asked.
                _ if design == TaskDesign::Requested => return self.wait_for_result().await,
                TaskStatus::InputRequired => self.answer(&seen, &mut answered).await?,
                TaskStatus::Completed => {
                    return match seen.remove("result") {
                        Some(Value::Object(result)) => Ok(result),
                        _ => Err(Error::invalid("a task is done without a result")),
                    };
                }
                TaskStatus::Failed => return Err(failed(seen.remove("error"), state.message)),
                TaskStatus::Cancelled => {
                    return Err(Error::Unable("the task was cancelled".into()));
                }
                _ => return Err(Error::invalid("a task has an unknown status")),
            }
            tokio::time::sleep(jittered(state.interval())).await;
        }
    }

    /// Waits for the result of a task of 2025-11-25, which may be quiet for as long as it takes.
    async fn wait_for_result(&self) -> Result<Map<String, Value>> {
        let total = self.options.timeouts.total;
        let options = Options { timeouts: Timeouts { idle: total, total }, ..self.options.clone() };
        self.connection.request(Method::TaskResult, &self.params(Map::new()), &options).await
    }

    fn late(&self) -> Error {
        let about = Some(format!("the task `{}` goes on", self.id));
        Error::Late(Late { after: self.options.timeouts.total, about })
    }

    /// Answers what was not answered before: a server may be slow to see that it was.
    async fn answer(
        &self,
        seen: &Map<String, Value>,
        answered: &mut HashSet<String>,
    ) -> Result<()> {
        let asked = seen.get("inputRequests").and_then(Value::as_object);
        let asked = asked.ok_or_else(|| Error::invalid("it wants input, and not which"))?;
        let new = asked.iter().filter(|(key, _)| !answered.contains(*key));
        let new: Map<String, Value> = new.map(|(key, one)| (key.clone(), one.clone())).collect();
        if new.is_empty() {
            return Ok(());
        }
        if answered.len() + new.len() > message_limits::ASKED_BY_TASK {
            let why = format!("a task asks more than {} questions", message_limits::ASKED_BY_TASK);
            return Err(Error::Invalid(why));
        }
        let answers = self.connection.answers(&new).await?;
        answered.extend(new.into_iter().map(|(key, _)| key));
        let params = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
        self.ask(Method::UpdateTask, params).await.map(drop)
    }

    fn params(&self, mut params: Map<String, Value>) -> Map<String, Value> {
        params.insert("taskId".into(), json!(self.id));
        params
    }

    async fn ask(&self, method: Method, params: Map<String, Value>) -> Result<Map<String, Value>> {
        self.connection.request(method, &self.params(params), &self.options).await
    }
}

fn failed(error: Option<Value>, message: Option<String>) -> Error {
    let error = error.and_then(|error| serde_json::from_value::<RpcError>(error).ok());
    match error {
        Some(error) => Error::Refused(error),
        None => Error::Refused(RpcError::internal(message.unwrap_or("the task failed".into()))),
    }
}

/// A task that is given up with whoever follows it.
struct Followed(Option<Task>);

impl Drop for Followed {
    fn drop(&mut self) {
        let Some(task) = self.0.take() else { return };
        let params = task.params(Map::new());
        task.connection.send_in_background(Method::CancelTask, params, async || Some(()));
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).finish_non_exhaustive()
    }
}
