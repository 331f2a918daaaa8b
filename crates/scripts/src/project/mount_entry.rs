//! `[mounts]`: other servers that stand beside a project's own scripts.

use crate::manifest::words;
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};

/// Another server beside the folder's own scripts, as `zcp.toml` says it: one of a folder, a
/// command and a URL.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Mount {
    /// Another folder of scripts.
    pub folder: Option<PathBuf>,
    /// A program that speaks on its standard input and output, and its words.
    #[serde(deserialize_with = "words")]
    pub command: Option<Vec<String>>,
    /// Environment variables that are set for it.
    pub env: BTreeMap<String, String>,
    /// Environment variables of this process that it gets beside the usual ones: names, or
    /// beginnings of names followed by `*`.
    pub pass_env: Vec<String>,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
    /// Where a server is reached over HTTP.
    pub url: Option<String>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, String>,
    /// What the names of its tools and prompts begin with: its own name and `_` unless said.
    pub prefix: Option<String>,
    /// Which of its tools are offered, by patterns such as `get_*` and `!get_all`.
    pub tools: Vec<String>,
    /// Which of its prompts.
    pub prompts: Vec<String>,
    /// Which of its resources, by their URIs.
    pub resources: Vec<String>,
    /// Only what is in the lock file is offered, also the first time.
    pub locked: bool,
    /// Kinds that are offered whatever the lock file says of them: `resources`, say.
    pub unlocked: Vec<String>,
}

impl Mount {
    /// Whether a name could be one of its tools'. `mount` is its own name.
    pub(crate) fn names(&self, mount: &str, tool: &str) -> bool {
        match &self.prefix {
            Some(prefix) => tool.starts_with(prefix),
            None => tool.strip_prefix(mount).is_some_and(|rest| rest.starts_with('_')),
        }
    }
}
