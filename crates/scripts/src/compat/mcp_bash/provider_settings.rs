//! What variables say of providers, and what a provider written for mcp-bash is told.

use super::{PROJECT_ROOT, is_remote_token, is_true, json_tool, number, seconds};
use crate::host::{Environment, Host};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a provider sees of the server's environment beside what every script does: how it gets
/// elsewhere, and whom it trusts there.
const SEEN: [&str; 12] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "MCPBASH_HOME",
    "MCPBASH_ENABLE_GIT_PROVIDER",
];
const SEEN_BEGIN: [&str; 3] = ["MCP_", "MCPBASH_GIT_", "MCPBASH_HTTPS_"];

/// What variables add to the settings of a provider.
#[derive(Debug)]
pub(crate) struct AddedSettings {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) allow_all: bool,
    pub(crate) timeout: Option<Duration>,
    /// In bytes.
    pub(crate) limit: Option<u64>,
    pub(crate) user_agent: Option<String>,
    pub(crate) is_enabled: bool,
}

/// What variables say of `https`.
pub(crate) fn https(environment: &Environment) -> AddedSettings {
    let limit = number(environment, "MCPBASH_HTTPS_MAX_BYTES");
    AddedSettings { limit, ..added("HTTPS", environment) }
}

/// What variables say of `git`.
pub(crate) fn git(environment: &Environment) -> AddedSettings {
    let limit = number(environment, "MCPBASH_GIT_MAX_KB");
    AddedSettings {
        limit: limit.map(|kilobytes| kilobytes.saturating_mul(1024)),
        is_enabled: is_true(environment, "MCPBASH_ENABLE_GIT_PROVIDER"),
        ..added("GIT", environment)
    }
}

fn added(name: &str, environment: &Environment) -> AddedSettings {
    let variable = |rest: &str| format!("MCPBASH_{name}_{rest}");
    let list = |rest: &str| {
        let all = environment.get(&variable(rest)).unwrap_or_default();
        all.split([' ', ',']).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    };
    let agent = environment.get(&variable("USER_AGENT")).filter(|agent| !agent.is_empty());
    AddedSettings {
        allow: list("ALLOW_HOSTS"),
        deny: list("DENY_HOSTS"),
        allow_all: is_true(environment, &variable("ALLOW_ALL")),
        timeout: seconds(environment, &variable("TIMEOUT")),
        limit: None,
        user_agent: agent.map(str::to_owned),
        is_enabled: false,
    }
}

/// The largest content that is read, if a variable says so.
pub(crate) fn largest(environment: &Environment) -> Option<u64> {
    number(environment, "MCPBASH_MAX_RESOURCE_BYTES")
}

/// The folders files are read from, if a variable says so.
pub(crate) fn roots(environment: &Environment) -> Option<&str> {
    environment.get(ROOTS).filter(|roots| !roots.is_empty())
}

/// The variable of the folders files are read from.
pub(crate) const ROOTS: &str = "MCP_RESOURCES_ROOTS";

/// Folders of a project that its providers are told of.
#[derive(Debug)]
pub(crate) struct ProviderFolders<'a> {
    pub(crate) root: &'a Path,
    pub(crate) providers: PathBuf,
    pub(crate) resources: PathBuf,
    pub(crate) prompts: PathBuf,
    /// The folders files are read from.
    pub(crate) roots: Vec<PathBuf>,
}

/// The variables of a project's own provider.
pub(crate) fn variables(folders: &ProviderFolders<'_>, host: &Host) -> Vec<(OsString, OsString)> {
    let environment = &host.environment;
    let seen = |name: &str| is_seen(name, environment);
    let own = environment.variables().iter().filter(|(name, _)| seen(name) && *name != "PATH");
    let mut env: Vec<(OsString, OsString)> =
        own.map(|(name, value)| (name.into(), value.into())).collect();
    for (name, folder) in [
        (PROJECT_ROOT, folders.root),
        ("MCPBASH_PROVIDERS_DIR", &folders.providers),
        ("MCPBASH_RESOURCES_DIR", &folders.resources),
        ("MCPBASH_PROMPTS_DIR", &folders.prompts),
    ] {
        env.push((name.into(), folder.into()));
    }
    env.extend(json_tool(environment).map(|(name, value)| (name.into(), value)));
    // Where the framework is: what it offers to scripts is here.
    if environment.get("MCPBASH_HOME").is_none() {
        let home = host.sdk().parent().map(Path::to_path_buf).unwrap_or_default();
        env.push(("MCPBASH_HOME".into(), home.into()));
    }
    let roots = folders.roots.iter().map(|root| root.to_string_lossy().into_owned());
    env.push((ROOTS.into(), roots.collect::<Vec<_>>().join(":").into()));
    env
}

/// Whether a provider sees a variable of the server's.
fn is_seen(name: &str, environment: &Environment) -> bool {
    if is_remote_token(name) {
        return false;
    }
    let is_usual = SEEN.iter().any(|own| own.eq_ignore_ascii_case(name))
        || SEEN_BEGIN.iter().any(|begin| name.starts_with(begin));
    let allowed = environment.get("MCPBASH_PROVIDER_ENV_ALLOWLIST").unwrap_or_default();
    is_usual
        || match environment.get("MCPBASH_PROVIDER_ENV_MODE").unwrap_or_default() {
            "allowlist" => allowed.split([' ', ',']).any(|own| own == name),
            "inherit" => is_true(environment, "MCPBASH_PROVIDER_ENV_INHERIT_ALLOW"),
            _ => false,
        }
}
