//! Who is told of calls: the audit logs, and whoever observes them.

use crate::policy::Log;
use serde_json::{Map, Value};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::broadcast;

/// Calls that are held for observers who do not keep up.
const OBSERVED: usize = 256;

/// Who is told of calls.
#[derive(Debug)]
pub(crate) struct Observers {
    /// The audit logs.
    pub(crate) log: Log,
    calls: broadcast::Sender<Arc<Observed>>,
}

impl Default for Observers {
    fn default() -> Self {
        Self { log: Log::default(), calls: broadcast::Sender::new(OBSERVED) }
    }
}

impl Observers {
    /// Every call from now on, as it ends.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<Observed>> {
        self.calls.subscribe()
    }

    /// Whether anybody observes calls.
    pub(crate) fn are_there(&self) -> bool {
        self.calls.receiver_count() > 0
    }

    pub(crate) fn tell(&self, call: Observed) {
        let _ = self.calls.send(Arc::new(call));
    }
}

/// A call that has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Observed {
    /// Which tool.
    pub tool: String,
    /// What it was given, with what is there when nothing is given.
    pub arguments: Map<String, Value>,
    /// What its client calls itself; empty if it does not say.
    pub client: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What came of it, as the result of `tools/call`: `content`, `structuredContent`, `isError`.
    pub result: Value,
    /// How long it took.
    pub elapsed: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All went well.
    Ok,
    /// The script, or what it gave, was not as it should be.
    Failed,
    /// The policy did not allow it; nothing was run.
    Denied,
    /// The arguments were wrong; nothing was run.
    Invalid,
    /// It took too long.
    Timeout,
    /// Nobody waited for it any longer.
    Cancelled,
    /// It waits for answers, and is made again with them.
    Paused,
}

impl Outcome {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Paused => "paused",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
