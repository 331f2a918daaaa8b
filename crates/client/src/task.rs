//! Calls that go on without anybody waiting: followed to their end, in both designs.

use crate::{
    client::{Client, Shared},
    error::{Error, Late, Result},
    exchange::Wish,
    listen::jittered,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::HashSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use zcp_wire::{RpcError, mcp::tools::CallToolResult, revision::Era};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// How often a task is looked at if the server does not say, and what it may say.
const INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) type OnState = Arc<dyn Fn(TaskState) + Send + Sync>;

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It has not begun.
    Queued,
    /// It goes on.
    Working,
    /// It waits for an answer.
    InputRequired,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
    /// It was given up.
    Cancelled,
}

impl TaskStatus {
    /// Nothing more comes.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
/// [`Client::task`]: also from another process.
pub struct Task {
    shared: Arc<Shared>,
    id: String,
    /// The tool that was called, if that is known.
    tool: Option<String>,
    wish: Wish,
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
    id.and_then(Value::as_str).map(str::to_owned)
}

impl Client {
    /// A task that was begun before, by its id.
    pub fn task(&self, id: impl Into<String>) -> Task {
        Task::new(self.shared().clone(), id.into(), None, self.settings().wish(), None)
    }
}

impl Shared {
    /// Whether a call is to be made as a task: servers of 2025-11-25 want to be asked.
    pub(crate) fn wants_task(&self, tool: &str, wished: bool) -> bool {
        let line = self.now();
        let offered = line.server.capabilities.tasks.as_ref().is_some_and(|tasks| {
            tasks.get("requests").is_some_and(|all| all["tools"]["call"].is_object())
        });
        if !offered || !self.settings.tasks || line.server.revision.era() == Era::Stateless {
            return false;
        }
        match self.tools.get(tool).and_then(|known| known.task_support.clone()).as_deref() {
            Some("required") => true,
            Some("optional") => wished,
            _ => false,
        }
    }
}

impl Task {
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: String,
        tool: Option<String>,
        wish: Wish,
        on_state: Option<OnState>,
    ) -> Self {
        Self { shared, id, tool, wish, on_state }
    }

    /// What the server knows it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far it is.
    pub async fn state(&self) -> Result<TaskState> {
        let state = self.ask("tasks/get", Map::new()).await?;
        serde_json::from_value(Value::Object(state)).map_err(Error::invalid)
    }

    /// Asks the server to give it up.
    pub async fn cancel(&self) -> Result<()> {
        self.ask("tasks/cancel", Map::new()).await.map(drop)
    }

    /// Waits for its result. What it asks on the way is answered as for any call.
    pub async fn result(&self) -> Result<CallToolResult> {
        let result = self.follow().await?;
        let result = serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
        if let Some(tool) = &self.tool {
            self.shared.tools.check(tool, &result)?;
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
        // A task that took too long is given up; others are over, or out of reach.
        if !matches!(result, Err(Error::Late(_))) {
            followed.0 = None;
        }
        result
    }

    async fn follow(&self) -> Result<Map<String, Value>> {
        let begun = Instant::now();
        let is_new = self.shared.now().server.revision.era() == Era::Stateless;
        let mut answered = HashSet::new();
        loop {
            let mut seen = self.ask("tasks/get", Map::new()).await?;
            let state = Value::Object(seen.clone());
            let state: TaskState = serde_json::from_value(state).map_err(Error::invalid)?;
            if let Some(hear) = &self.on_state {
                hear(state.clone());
            }
            match state.status {
                TaskStatus::Queued | TaskStatus::Working => (),
                // Its result is waited for where its questions are asked.
                _ if !is_new => return self.ask("tasks/result", Map::new()).await,
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
            }
            let whole = self.wish.patience.whole;
            if begun.elapsed() > whole {
                let about = format!("the task `{}` goes on", self.id);
                return Err(Error::Late(Late { after: whole, about: Some(about) }));
            }
            tokio::time::sleep(jittered(state.interval())).await;
        }
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
        let answers = self.shared.answers(&new).await?;
        answered.extend(new.into_iter().map(|(key, _)| key));
        let params = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
        self.ask("tasks/update", params).await.map(drop)
    }

    async fn ask(
        &self,
        method: &str,
        mut params: Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        params.insert("taskId".into(), json!(self.id));
        self.shared.request(method, params, &self.wish).await
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
        let line = task.shared.now();
        line.opened.end.spawn(|stop| async move {
            let _ = stop.run_until_cancelled(task.cancel()).await;
        });
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).finish_non_exhaustive()
    }
}
