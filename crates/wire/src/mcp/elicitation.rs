//! Elicitation: asking the user.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A question to the user: a form to fill, or a page to visit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Elicit {
    /// Form unless it says page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What the user is told.
    pub message: String,
    /// Flat JSON Schema of the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    /// The page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What the page's completion is announced by: 2025-11-25 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

/// How the user is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// By a form the client shows.
    Form,
    /// By a page the user visits.
    Url,
}

/// What the user did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ElicitResult {
    /// Agreed, refused, or neither.
    pub action: Action,
    /// The filled form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// What the user did with the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Answered it.
    Accept,
    /// Refused it.
    Decline,
    /// Closed it.
    Cancel,
}
