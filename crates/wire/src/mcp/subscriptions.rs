//! Subscriptions: what a client wants to hear of.

use serde::{Deserialize, Serialize};

/// Which changes are wanted, and in the acknowledgement, which will be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// The list of tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    /// The list of prompts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
    /// The list of resources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    /// These resources, and what lies below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// These tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

/// Whether a changed resource is the subscribed one or lies below it.
pub fn covers(subscribed: &str, changed: &str) -> bool {
    match changed.strip_prefix(subscribed) {
        Some(rest) => {
            rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '?', '#'])
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_subscription_covers_what_lies_below_and_nothing_beside() {
        assert!(super::covers("test://a", "test://a"));
        assert!(super::covers("test://a", "test://a/b"));
        assert!(!super::covers("test://a", "test://ab"));
        assert!(!super::covers("test://a/b", "test://a"));
    }
}
