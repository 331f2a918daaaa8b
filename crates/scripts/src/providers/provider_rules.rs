//! What a project says of the providers that go elsewhere, and what whoever serves it adds.

use super::reach::Hosts;
use crate::{
    compat::mcp_bash::provider_settings::{self, AddedSettings},
    host::Environment,
    manifest::provider_config::{Header, Provider},
    project::Project,
};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// How long anything may take at most.
const LONGEST: Duration = Duration::from_secs(60);
const MIB: u64 = 1024 * 1024;

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
    pub(crate) fn https(project: &Project, environment: &Environment) -> Self {
        let added = provider_settings::https(environment);
        Self::of(&project.providers.https, &added, project, environment).bounded(
            Duration::from_secs(15),
            added.limit,
            10 * MIB,
            20 * MIB,
        )
    }

    /// How `git` goes.
    pub(crate) fn git(project: &Project, environment: &Environment) -> Self {
        let (said, added) = (&project.providers.git, provider_settings::git(environment));
        let mut settings = Self::of(said, &added, project, environment).bounded(
            Duration::from_secs(30),
            added.limit,
            50 * MIB,
            1024 * MIB,
        );
        settings.is_enabled = said.enabled.unwrap_or_default() || added.is_enabled;
        settings
    }

    /// What is said, with what the server's environment adds.
    fn of(
        said: &Provider,
        added: &AddedSettings,
        project: &Project,
        environment: &Environment,
    ) -> Self {
        let both = |own: &[String], added: &[String]| [own, added].concat();
        let ca = environment.get("SSL_CERT_FILE").filter(|path| !path.is_empty());
        let agent = added.user_agent.clone().or_else(|| said.user_agent.clone());
        Self {
            is_enabled: said.enabled.unwrap_or(true),
            hosts: Hosts {
                allow: both(&said.allow, &added.allow),
                deny: both(&said.deny, &added.deny),
                all: said.allow_all || added.allow_all,
            },
            time: added.timeout.or(said.timeout).unwrap_or_default(),
            limit: said.limit.unwrap_or_default(),
            headers: said.headers.clone(),
            user_agent: agent
                .unwrap_or_else(|| concat!("zcp/", env!("CARGO_PKG_VERSION")).to_owned()),
            ca: said
                .ca
                .as_ref()
                .map(|path| project.root.join(path))
                .or_else(|| ca.map(PathBuf::from)),
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
