//! Calls as those who look on see them.

use serde_json::{Map, Value};
use std::{fmt, time::Duration};

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
