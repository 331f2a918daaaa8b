//! A call that has ended, as observers are told of it.

use serde_json::{Map, Value, json};
use std::{fmt, time::Duration};
use zcp::{Output, Result};

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
    /// The last lines its process wrote to standard error, if it has one, also if all went well.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All went well.
    Ok,
    /// The tool failed, or what it gave was not as it should be.
    Failed,
    /// The policy did not allow it, or a limit was reached; nothing was run.
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

/// What came of a call, as its client is told.
pub(crate) fn result(done: &Result<Output>) -> Value {
    let failed;
    let output = match done {
        Ok(output) => output,
        Err(error) => {
            failed = Output::failed(error.to_string());
            &failed
        }
    };
    let mut result = json!({ "content": output.content, "isError": output.is_error });
    if let Some(structured) = &output.structured {
        result["structuredContent"] = structured.clone();
    }
    if !output.meta.is_empty() {
        result["_meta"] = Value::Object(output.meta.clone());
    }
    result
}
