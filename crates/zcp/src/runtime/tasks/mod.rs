//! Calls that go on after they were answered. What a task is, and what can be done with one.

mod args;
mod engine;
mod finished;
mod keeper;
mod record;
mod run;
mod slots;
mod task_news;
mod work;

use super::{call::Fault, output::Output, ready_tool::ReadyTool, tool::Support};
use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use zcp_wire::mcp::{
    InputRequest,
    tasks::{EXTENSION, TaskStatus},
};

pub(crate) use engine::Engine;
pub(super) use engine::call;
pub(crate) use keeper::{keep, look_after};
pub(crate) use record::News;
pub(super) use run::{Wanted, begin, run_or_begin};

/// A record of a task must fit into a value of the store.
const LARGEST_RESULT: usize = 12 * 1024 * 1024;

/// How a server runs tasks.
///
/// ```
/// use std::time::Duration;
/// use zcp::{Server, Tasks};
///
/// let tasks = Tasks::default().max_concurrent(8).ttl(Duration::from_secs(600));
/// # let _ =
/// Server::new("demo").tasks(tasks);
/// ```
#[derive(Debug, Clone)]
pub struct Tasks {
    max_concurrent: usize,
    max_queued: usize,
    ttl: Duration,
    max_ttl: Duration,
    poll_interval: Duration,
    promote_after: Option<Duration>,
    max_per_caller: Option<usize>,
    input_ttl: Duration,
    max_result: usize,
    max_finished: usize,
    max_finished_bytes: usize,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            max_queued: 1000,
            ttl: Duration::from_secs(60 * 60),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            poll_interval: Duration::from_secs(1),
            promote_after: Some(Duration::from_secs(10)),
            max_per_caller: None,
            input_ttl: Duration::from_secs(60 * 60),
            max_result: 4 * 1024 * 1024,
            max_finished: 1000,
            max_finished_bytes: 64 * 1024 * 1024,
        }
    }
}

impl Tasks {
    /// Sets the maximum number of tasks that run concurrently in one process. Default: 64.
    #[must_use]
    pub fn max_concurrent(self, tasks: usize) -> Self {
        Self { max_concurrent: tasks.max(1), ..self }
    }

    /// Sets the maximum number of tasks in one process that wait for their turn or for an answer.
    /// Default: 1000. More are rejected.
    #[must_use]
    pub fn max_queued(self, tasks: usize) -> Self {
        Self { max_queued: tasks, ..self }
    }

    /// Sets how long a task is kept from its beginning, if its client does not say. Default: an
    /// hour. One that still works is kept for longer; one that waits for an answer is not.
    #[must_use]
    pub fn ttl(self, time: Duration) -> Self {
        Self { ttl: time.max(Duration::from_secs(1)), ..self }
    }

    /// Sets the longest TTL that a client may ask for. Default: a day.
    #[must_use]
    pub fn max_ttl(self, time: Duration) -> Self {
        Self { max_ttl: time, ..self }
    }

    /// Sets how long clients are told to wait before they poll again. Default: a second.
    #[must_use]
    pub fn poll_interval(self, pause: Duration) -> Self {
        Self { poll_interval: pause, ..self }
    }

    /// Sets after which time a call goes on as a task, if its client follows tasks the server
    /// makes. Default: 10 seconds.
    #[must_use]
    pub fn promote_after(self, time: Duration) -> Self {
        Self { promote_after: Some(time), ..self }
    }

    /// No call becomes a task just because it is slow.
    #[must_use]
    pub fn never_promote(self) -> Self {
        Self { promote_after: None, ..self }
    }

    /// Sets the maximum number of tasks of one caller in one process, running or waiting. Default:
    /// a quarter of the places, and a quarter of those that run, at least one of each. More are
    /// rejected until one of the caller's tasks is finished.
    ///
    /// A caller is a principal. Without authentication it is a session or a connection, and all
    /// clients that have neither are one caller together.
    #[must_use]
    pub fn max_per_caller(self, tasks: usize) -> Self {
        Self { max_per_caller: Some(tasks.max(1)), ..self }
    }

    /// Sets how long a task waits for an answer to what it asks. Default: an hour. After that its
    /// handler receives an error instead of the answer.
    #[must_use]
    pub fn input_ttl(self, time: Duration) -> Self {
        Self { input_ttl: time, ..self }
    }

    /// Sets the maximum size of a task's result, in bytes of JSON. Default: 4 MiB. A task with a
    /// larger one ends with an error result that says so.
    #[must_use]
    pub fn max_result(self, bytes: usize) -> Self {
        Self { max_result: bytes.min(LARGEST_RESULT), ..self }
    }

    /// Sets how many finished tasks of one caller are kept, and how many bytes their records have
    /// together. Default: 1000, and 64 MiB. The oldest are forgotten first, and the newest is
    /// always kept. Each counts 4 KiB more than its record, for its last notifications. With
    /// `usize::MAX` for both, nothing is counted.
    ///
    /// The records that one process writes for all callers have 256 MiB together, or `bytes` if that
    /// is more: beyond it large old ones are forgotten first.
    #[must_use]
    pub fn max_finished(self, tasks: usize, bytes: usize) -> Self {
        Self { max_finished: tasks, max_finished_bytes: bytes, ..self }
    }
}

/// What a caller thinks of tasks.
#[derive(Debug, Clone, Default)]
pub(crate) enum Wish {
    /// It would have to ask for one, and did not.
    #[default]
    Unasked,
    /// It asks for one.
    Asked(Box<Asked>),
    /// It takes one wherever the server makes one.
    Welcome,
    /// It would have to say that it can follow one, and did not.
    Unable,
}

/// A call that is to be a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// How long it is to be kept from its beginning.
    pub ttl: Option<Duration>,
    /// What its progress is reported under: JSON text.
    pub progress: Option<ByteString>,
    /// The conversation it is listed in, if its caller is nobody in particular.
    pub conversation: Option<Arc<str>>,
}

/// What is done with tasks. Each knows its own caller's only.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the parameter of its name")]
#[non_exhaustive]
pub enum TaskOp {
    /// How one is.
    Get { id: String },
    /// Answers to what one asks, by the questions' keys.
    Answer { id: String, answers: Map<String, Value> },
    /// Gives one up. What is over stays so, which is a fault unless done quietly.
    Cancel { id: String, quietly: bool },
    /// Goes on with one whose process died, as its caller. Layers decide again whether its tool may
    /// be called; no client asks for this.
    Resume { id: String, tool: String },
    /// A page of the caller's tasks, or of its conversation's, after a position.
    List { conversation: Option<Arc<str>>, after: u64 },
}

impl TaskOp {
    /// The task it is about; the tool for a task that goes on.
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::Resume { tool, .. } => Some(tool),
            Self::Get { id } | Self::Answer { id, .. } | Self::Cancel { id, .. } => Some(id),
            Self::List { .. } => None,
        }
    }
}

/// A task as it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Task {
    /// What it is known by: nobody can guess it.
    pub id: String,
    /// The tool that was called.
    pub tool: String,
    /// By whom: empty for nobody in particular.
    pub owner: String,
    /// How far it is.
    pub status: TaskStatus,
    /// In words.
    pub message: Option<String>,
    /// When it began.
    pub created: SystemTime,
    /// When it changed last.
    pub updated: SystemTime,
    /// How long it is kept from its beginning.
    pub ttl: Duration,
    /// How long its client should wait before it looks again.
    pub poll: Duration,
    /// What it asks and has no answer to.
    pub asked: Vec<(String, InputRequest)>,
    /// What it came to.
    pub end: Option<End>,
    /// What its progress is reported under: JSON text.
    pub(crate) progress: Option<String>,
}

/// What a task came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// What its tool gave, good or bad.
    Tool(Output),
    /// Why it gave nothing.
    Fault(Fault),
}

/// How a call of a tool goes.
pub(super) enum Way {
    /// Its caller waits.
    Wait,
    /// Its caller waits, but not for long.
    WaitAWhile,
    /// It is a task.
    Task(Box<Asked>),
    /// Not at all.
    Refused(Fault),
}

/// Decides how a call goes: what the tool supports, and what the caller thinks of it.
pub(super) fn way(tool: &ReadyTool, wish: &Wish) -> Way {
    let name = &tool.info.name;
    match (tool.support, wish) {
        (Support::Required | Support::Optional, Wish::Asked(asked)) => Way::Task(asked.clone()),
        (Support::Required | Support::Optional, Wish::Welcome) => Way::Task(Box::default()),
        (Support::Required, Wish::Unable) => {
            Way::Refused(Fault::MissingCapability(needs_extension()))
        }
        (Support::Required, Wish::Unasked) => {
            Way::Refused(Fault::NotOffered(format!("tool `{name}` can only be run as a task")))
        }
        (Support::Forbidden, Wish::Asked(_)) => {
            Way::Refused(Fault::NotOffered(format!("tool `{name}` cannot be run as a task")))
        }
        (Support::Forbidden, Wish::Welcome) => Way::WaitAWhile,
        _ => Way::Wait,
    }
}

/// What a client must say that follows tasks the server makes.
pub(crate) fn needs_extension() -> Value {
    json!({ "extensions": { EXTENSION: {} } })
}
