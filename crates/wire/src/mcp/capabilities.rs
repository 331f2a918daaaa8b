//! Capabilities: what each side can do.

use super::Extra;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a server offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each field is the capability of its name")]
pub struct ServerCapabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ListCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Extra>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub experimental: Extra,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extensions: Extra,
}

/// A capability that needs no words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// A list, and whether its changes are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    /// Changes of the list are told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
    /// Changes of what is listed are told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
}

/// What a client can do: the object it declared, unknown members kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientCapabilities(pub Map<String, Value>);

impl ClientCapabilities {
    /// It can show a form. An `elicitation` without modes means just that.
    pub fn form(&self) -> bool {
        let Some(elicitation) = self.0.get("elicitation") else {
            return false;
        };
        elicitation.get("form").is_some() || elicitation.get("url").is_none()
    }

    /// It can send the user to a page.
    pub fn url(&self) -> bool {
        self.has(&["elicitation", "url"])
    }

    /// It can ask its model.
    pub fn sampling(&self) -> bool {
        self.has(&["sampling"])
    }

    /// Its model can be given tools.
    pub fn sampling_tools(&self) -> bool {
        self.has(&["sampling", "tools"])
    }

    /// It can add what it knows to a question to its model.
    pub fn sampling_context(&self) -> bool {
        self.has(&["sampling", "context"])
    }

    /// It can name the folders it works in.
    pub fn roots(&self) -> bool {
        self.has(&["roots"])
    }

    /// It knows an extension.
    pub fn extension(&self, id: &str) -> bool {
        self.has(&["extensions", id])
    }

    /// Whether there is something at the end of a path of members.
    pub fn has(&self, path: &[&str]) -> bool {
        let mut members = Some(&self.0);
        path.iter().all(|name| match members.and_then(|members| members.get(*name)) {
            Some(value) => {
                members = value.as_object();
                true
            }
            None => false,
        })
    }
}
