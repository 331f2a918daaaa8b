//! `[providers]`: what `zcp.toml` says of providers that go elsewhere.

use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// `[providers]` of a project.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Providers {
    pub(crate) https: Provider,
    pub(crate) git: Provider,
}

/// What is said of one of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Provider {
    /// Only `git` wants to be enabled.
    pub(crate) enabled: Option<bool>,
    pub(crate) allow: Vec<String>,
    #[serde(alias = "allow-all", alias = "allowAll")]
    pub(crate) allow_all: bool,
    pub(crate) deny: Vec<String>,
    #[serde(deserialize_with = "super::time")]
    pub(crate) timeout: Option<Duration>,
    #[serde(deserialize_with = "super::size")]
    pub(crate) limit: Option<u64>,
    pub(crate) headers: BTreeMap<String, Header>,
    #[serde(alias = "user-agent", alias = "userAgent")]
    pub(crate) user_agent: Option<String>,
    pub(crate) ca: Option<PathBuf>,
}

impl Provider {
    /// What its headers say, to whichever host.
    pub(crate) fn header_values(&self) -> impl Iterator<Item = &String> {
        self.headers.values().flat_map(|header| match header {
            Header::Value(value) => vec![value],
            Header::Of(headers) => headers.values().collect(),
        })
    }
}

/// A header for every host of the list, or headers for one of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Header {
    Value(String),
    Of(BTreeMap<String, String>),
}
