//! Calls of tools.

use super::{
    pagination,
    task::{self, OnState, Task, TaskState},
};
use crate::{
    connection::{
        Connection,
        dialect::{Recovery, TaskDesign},
        resend::within,
    },
    error::{Error, Result, text_of},
    request::{
        handlers::OnProgress,
        round_trip::{Options, Progress},
    },
    support::deadline::Timeouts,
    transport::Fate,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc, time::Duration};
use zcp_wire::{Method, mcp::tools::CallToolResult};

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
    connection: &'a Arc<Connection>,
    name: String,
    args: Map<String, Value>,
    timeouts: Timeouts,
    on_progress: Option<OnProgress>,
    on_state: Option<OnState>,
    as_task: bool,
}

/// What a call came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Started {
    /// It is done.
    Done(CallToolResult),
    /// It goes on.
    Task(Task),
}

impl<'a> Call<'a> {
    pub(super) fn new(connection: &'a Arc<Connection>, name: String) -> Self {
        Self {
            connection,
            name,
            args: Map::new(),
            timeouts: connection.settings.timeouts,
            on_progress: None,
            on_state: None,
            as_task: false,
        }
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
        self.timeouts.idle = quiet;
        self.timeouts.total = self.timeouts.total.max(quiet);
        self
    }

    /// How long the call may take in all, whatever its progress.
    pub fn ceiling(mut self, whole: Duration) -> Self {
        self.timeouts.total = whole;
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
        let connection = self.connection;
        let mut params = Map::new();
        params.insert("name".into(), self.name.as_str().into());
        params.insert("arguments".into(), self.args.into());
        if wants_task(connection, &self.name, self.as_task) {
            params.insert("task".into(), json!({}));
        }
        let options = Options { timeouts: self.timeouts, on_progress: self.on_progress };
        let result = send(connection, &params, &options).await?;
        if let Some(begun) = task::begun(&result).filter(|_| connection.settings.tasks) {
            let tool = Some(self.name);
            let task = Task::new(connection.clone(), begun, tool, options, self.on_state);
            return Ok(Started::Task(task));
        }
        let result = serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
        pagination::check(connection, &self.name, &result).await?;
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

/// Sends a call. When the server says that its headers do not match its arguments, what is known
/// of the tool is out of date: the tools are listed again, and the call is sent once more.
pub(super) async fn send(
    connection: &Arc<Connection>,
    params: &Map<String, Value>,
    options: &Options,
) -> Result<Map<String, Value>> {
    let sending = async {
        let error = match connection.request(Method::CallTool, params, options).await {
            Err(error) => error,
            answered => return answered,
        };
        let recovery = connection.now().dialect.recovery(&error, &Fate::default());
        if recovery != Some(Recovery::ListTools) {
            return Err(error);
        }
        pagination::learn_tools(connection).await?;
        connection.request(Method::CallTool, params, options).await
    };
    within(options.timeouts.total, sending).await
}

/// Whether a call is to be made as a task, where the client is the one who decides that.
fn wants_task(connection: &Connection, tool: &str, wished: bool) -> bool {
    let link = connection.now();
    let offered = link.server.capabilities.tasks.as_ref().is_some_and(|tasks| {
        tasks.get("requests").is_some_and(|all| all["tools"]["call"].is_object())
    });
    let settings = &connection.settings;
    if !offered || !settings.tasks || link.dialect.tasks() != TaskDesign::Requested {
        return false;
    }
    match settings.tools.get(tool).and_then(|known| known.task_support.clone()).as_deref() {
        Some("required") => true,
        Some("optional") => wished,
        _ => false,
    }
}
