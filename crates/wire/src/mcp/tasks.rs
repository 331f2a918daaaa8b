//! Tasks: calls that go on after they were answered, in the shape of the extension.

use super::{Extra, Listed};
use crate::RpcError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What both sides declare who know tasks since 2026-07-28.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Which task a message of 2025-11-25 is about, in its `_meta`.
pub const RELATED: &str = "io.modelcontextprotocol/related-task";

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It has not begun. MCP has no word for it: there it is working.
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

    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A task, with what its status has to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// What it is known by.
    pub task_id: String,
    /// How far it is.
    pub status: TaskStatus,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it began, as ISO 8601.
    pub created_at: String,
    /// When it changed last, as ISO 8601.
    pub last_updated_at: String,
    /// Milliseconds from its beginning that it is kept; `null` is for ever.
    pub ttl_ms: Option<u64>,
    /// Milliseconds a client should wait before it looks again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// What it asks and has no answer to.
    #[serde(skip_serializing_if = "Extra::is_empty")]
    pub input_requests: Extra,
    /// What it came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it came to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl Task {
    /// As 2025-11-25 shows it: a tool's failure is the task's, and what it came to is asked for.
    pub fn older(self) -> OlderTask {
        let is_error = |result: &Value| result.get("isError").is_some_and(|is| is == true);
        OlderTask {
            status: match self.result.as_ref().is_some_and(is_error) {
                true => TaskStatus::Failed,
                false => self.status,
            },
            task_id: self.task_id,
            status_message: self.status_message,
            created_at: self.created_at,
            last_updated_at: self.last_updated_at,
            ttl: self.ttl_ms,
            poll_interval: self.poll_interval_ms,
        }
    }
}

/// A task as 2025-11-25 shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each field is the one of `Task` of its name")]
pub struct OlderTask {
    pub task_id: String,
    pub status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    pub created_at: String,
    pub last_updated_at: String,
    pub ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<u64>,
}

impl Listed for OlderTask {
    const MEMBER: &'static str = "tasks";
}
