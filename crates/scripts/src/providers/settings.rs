//! What a project says of the providers that go elsewhere, and what whoever serves it adds.

use super::reach::Hosts;
use crate::{compat::mcp_bash, host::Host, manifest, project::Project};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// How long anything may take at most.
const LONGEST: Duration = Duration::from_secs(60);
const MIB: u64 = 1024 * 1024;

/// `[providers]` of a project.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Providers {
    https: Said,
    git: Said,
}

/// What is said of one of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Said {
    /// Only `git` wants to be enabled.
    enabled: Option<bool>,
    allow: Vec<String>,
    #[serde(alias = "allow-all", alias = "allowAll")]
    allow_all: bool,
    deny: Vec<String>,
    #[serde(deserialize_with = "manifest::time")]
    timeout: Option<Duration>,
    #[serde(deserialize_with = "manifest::size")]
    limit: Option<u64>,
    headers: BTreeMap<String, Header>,
    #[serde(alias = "user-agent", alias = "userAgent")]
    user_agent: Option<String>,
    ca: Option<PathBuf>,
}

/// A header for every host of the list, or headers for one of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Header {
    Value(String),
    Of(BTreeMap<String, String>),
}

/// How a provider goes elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) is_enabled: bool,
    pub(crate) hosts: Hosts,
    pub(crate) time: Duration,
    pub(crate) limit: u64,
    headers: BTreeMap<String, Header>,
    pub(crate) user_agent: String,
    /// Certificates that are trusted.
    pub(crate) ca: Option<PathBuf>,
}

impl Settings {
    /// How `https` goes.
    pub(crate) fn https(project: &Project, host: &Host) -> Self {
        let bytes = mcp_bash::number(host, "MCPBASH_HTTPS_MAX_BYTES");
        Self::of(&project.providers.https, "HTTPS", project, host).bounded(
            Duration::from_secs(15),
            bytes,
            10 * MIB,
            20 * MIB,
        )
    }

    /// How `git` goes.
    pub(crate) fn git(project: &Project, host: &Host) -> Self {
        let said = &project.providers.git;
        let bytes =
            mcp_bash::number(host, "MCPBASH_GIT_MAX_KB").map(|kilo| kilo.saturating_mul(1024));
        let mut settings = Self::of(said, "GIT", project, host).bounded(
            Duration::from_secs(30),
            bytes,
            50 * MIB,
            1024 * MIB,
        );
        settings.is_enabled = said.enabled.unwrap_or_default()
            || mcp_bash::is_true(host, "MCPBASH_ENABLE_GIT_PROVIDER");
        settings
    }

    /// What is said, with what the server's environment adds.
    fn of(said: &Said, name: &str, project: &Project, host: &Host) -> Self {
        let variable = |rest: &str| format!("MCPBASH_{name}_{rest}");
        let with = |own: &[String], rest: &str| {
            let more = host.env(&variable(rest)).unwrap_or_default();
            let more = more.split([' ', ',']).filter(|entry| !entry.is_empty()).map(str::to_owned);
            own.iter().cloned().chain(more).collect::<Vec<_>>()
        };
        let ca = host.env("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
        let agent = host.env(&variable("USER_AGENT")).filter(|agent| !agent.is_empty());
        let agent = agent.map(str::to_owned).or_else(|| said.user_agent.clone());
        Self {
            is_enabled: said.enabled.unwrap_or(true),
            hosts: Hosts {
                allow: with(&said.allow, "ALLOW_HOSTS"),
                deny: with(&said.deny, "DENY_HOSTS"),
                all: said.allow_all || mcp_bash::is_true(host, &variable("ALLOW_ALL")),
            },
            time: mcp_bash::seconds(host, &variable("TIMEOUT"))
                .or(said.timeout)
                .unwrap_or_default(),
            limit: said.limit.unwrap_or_default(),
            headers: said.headers.clone(),
            user_agent: agent
                .unwrap_or_else(|| concat!("zcp/", env!("CARGO_PKG_VERSION")).to_owned()),
            ca: said.ca.as_ref().map(|path| project.root.join(path)).or(ca),
        }
    }

    /// Nothing said is the usual, and too much is the most.
    fn bounded(mut self, usual: Duration, bytes: Option<u64>, limit: u64, most: u64) -> Self {
        self.time = if self.time.is_zero() { usual } else { self.time.min(LONGEST) };
        self.limit =
            bytes.or(Some(self.limit)).filter(|limit| *limit > 0).unwrap_or(limit).min(most);
        self
    }

    /// The headers a host is given. Those for every host are for hosts that are named.
    pub(crate) fn headers<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        is_listed: bool,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.headers.iter().flat_map(move |(name, header)| {
            let all: Vec<(&str, &str)> = match header {
                Header::Value(value) if is_listed => vec![(name, value)],
                Header::Of(headers) if super::reach::matches(name, host, port) => {
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
                }
                _ => vec![],
            };
            all
        })
    }
}
