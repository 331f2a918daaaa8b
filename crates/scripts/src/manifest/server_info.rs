//! What a project says of itself: `[server]` of `zcp.toml`, or `server.meta.json`.

use serde::Deserialize;
use serde_json::Value;

/// What a project says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerInfo {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    #[serde(alias = "website", alias = "website_url")]
    pub(crate) website_url: Option<String>,
    pub(crate) instructions: Option<String>,
    #[serde(alias = "icon")]
    pub(crate) icons: Vec<Value>,
}

impl ServerInfo {
    /// What this one leaves open is as `other` says.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            title: self.title.or(other.title),
            version: self.version.or(other.version),
            description: self.description.or(other.description),
            website_url: self.website_url.or(other.website_url),
            instructions: self.instructions.or(other.instructions),
            icons: if self.icons.is_empty() { other.icons } else { self.icons },
        }
    }
}
