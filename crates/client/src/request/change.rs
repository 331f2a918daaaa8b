//! What a server's notification says has changed.

use crate::{support::message_limits, transport::GAP};
use serde::Deserialize;
use zcp_wire::{
    Method, Notification,
    mcp::subscriptions::{Filter, covers},
};

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// A resource.
    Resource(String),
    /// The status of a task, by its id.
    Task(String),
    /// Anything may have: for a while nobody listened.
    All,
}

impl Change {
    /// The change a notification reports, if it reports one.
    pub(crate) fn of(said: &Notification) -> Option<Self> {
        #[derive(Deserialize)]
        struct Updated {
            uri: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Task {
            task_id: String,
        }
        Some(match said.method.known() {
            None if said.method == GAP => Self::All,
            Some(Method::ToolsChanged) => Self::Tools,
            Some(Method::PromptsChanged) => Self::Prompts,
            Some(Method::ResourcesChanged) => Self::Resources,
            Some(Method::TaskStatus | Method::TaskChanged) => {
                let task: Task = serde_json::from_str(said.params.as_deref()?).ok()?;
                (task.task_id.len() <= message_limits::ID).then_some(Self::Task(task.task_id))?
            }
            Some(Method::ResourceUpdated) => {
                let updated: Updated = serde_json::from_str(said.params.as_deref()?).ok()?;
                // Nobody subscribes to one that is longer.
                (updated.uri.len() <= message_limits::URI).then_some(Self::Resource(updated.uri))?
            }
            _ => return None,
        })
    }

    pub(crate) fn is_wanted(&self, filter: &Filter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed,
            Self::Prompts => filter.prompts_list_changed,
            Self::Resources => filter.resources_list_changed,
            Self::Resource(changed) => {
                filter.resource_subscriptions.iter().any(|wanted| covers(wanted, changed))
            }
            Self::Task(changed) => filter.task_ids.contains(changed),
            Self::All => true,
        }
    }
}
