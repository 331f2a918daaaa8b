//! The server's environment, and the part of it that scripts see.

use crate::{
    manifest::{Manifest, size_of},
    redact,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The variable that says how many bytes of an output are shown.
pub(crate) const SHOWN_OUTPUT: &str = "ZCP_MAX_SHOWN_OUTPUT";
/// Variables every script sees.
const SEEN: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TERM",
    "SYSTEMROOT",
    "PATHEXT",
    "COMSPEC",
];
/// Variables that name certificates of a network: every script sees them.
const CERTIFICATES: [&str; 11] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "UV_NATIVE_TLS",
];
/// Variables that name proxies: every script sees them, in capitals and in small letters.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
/// How variables of the server itself begin, which are seen by their names alone.
const OWN: [&str; 2] = ["ZCP_", "MCPBASH_"];

/// The server's environment variables, and the programs it found by them.
#[derive(Debug)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// Which of them the project sets itself.
    set_by_project: BTreeSet<String>,
    path: OsString,
    pub(crate) jq: PathBuf,
    /// The `zcp` command: it sets limits and sandboxes, and stands in for jq.
    pub(crate) command: Option<PathBuf>,
    warned_of_root: OnceLock<()>,
}

impl Environment {
    /// The environment of this process, as far as it is text. What a client was to fill in, and did
    /// not because its user said nothing, is not set.
    pub(crate) fn of_process() -> BTreeMap<String, String> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let is_filled =
            |value: &str| !(value.starts_with("${user_config.") && value.ends_with('}'));
        std::env::vars_os().filter_map(text).filter(|(_, value)| is_filled(value)).collect()
    }

    /// `set` are variables of the project, which win over `variables`. `bin` is the folder of
    /// programs for machines that lack them.
    pub(super) fn new(
        command: Option<&Path>,
        mut variables: BTreeMap<String, String>,
        set: BTreeMap<String, String>,
        bin: &Path,
    ) -> io::Result<Self> {
        let set_by_project = set.keys().cloned().collect();
        variables.extend(set);
        let own = variables.get("PATH").cloned().unwrap_or_default();
        let jq = match (which::which_in("jq", Some(&own), ".").ok(), command) {
            (Some(found), _) => found,
            (None, Some(_)) => bin.join("jq"),
            (None, None) => PathBuf::from("jq"),
        };
        // What the machine has comes first.
        let paths = std::env::split_paths(&own).chain([bin.to_path_buf()]);
        let path = std::env::join_paths(paths).map_err(io::Error::other)?;
        let command = command.map(Path::to_path_buf);
        Ok(Self { variables, set_by_project, path, jq, command, warned_of_root: OnceLock::new() })
    }

    /// Where programs are looked for.
    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }

    /// One variable of the server.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// How many bytes of an output are shown where nothing else is said, if the server says that.
    pub(crate) fn shown_output(&self) -> Option<u64> {
        size_of(self.get(SHOWN_OUTPUT)?).ok().filter(|most| *most > 0)
    }

    /// All variables of the server.
    pub(crate) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Whether the project itself sets a variable, for its tools.
    pub(crate) fn is_set_by_project(&self, name: &str) -> bool {
        self.set_by_project.contains(name)
    }

    /// A variable of the server that a failed script speaks of and does not see.
    pub(crate) fn unseen(&self, complaints: &str, said: &Manifest) -> Option<&str> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = complaints.split(|c| !is_of_name(c));
        let is_seen = |name: &str| {
            is_seen(name) || is_allowed(name, &said.env_allow) || said.env.contains_key(name)
        };
        // A name without `_` may be any word.
        words.filter(|word| word.contains('_')).find_map(|word| {
            let (name, _) = self.variables.get_key_value(word)?;
            (!is_seen(name) && !is_own(name)).then_some(name.as_str())
        })
    }

    /// Passwords in the addresses of proxies, which scripts may use and not show.
    pub(crate) fn proxy_secrets(&self) -> Vec<String> {
        let addresses = self.variables.iter().filter(|(name, _)| is_proxy(name));
        let credentials = addresses.filter_map(|(_, address)| {
            let (before, _) = address.rsplit_once('@')?;
            Some(before.split_once("://").map_or(before, |(_, rest)| rest))
        });
        let both = credentials.filter_map(|both| Some([both, both.split_once(':')?.1]));
        both.flatten().flat_map(redact::forms).collect()
    }

    /// Logs once that a sandbox protects less from what runs as root.
    pub(crate) fn warn_of_root(&self) {
        if rustix::process::geteuid().is_root() {
            self.warned_of_root.get_or_init(|| {
                tracing::warn!(
                    "this server runs as root: scripts in a sandbox have no capabilities, and \
                     still own root's files; run it as another user"
                );
            });
        }
    }

    /// The variables every script sees, and those this one is allowed to.
    pub(super) fn for_script(&self, allowed: &[String], sdk: PathBuf) -> Vec<(OsString, OsString)> {
        let own = self.variables.iter().filter(|(name, _)| *name != "PATH");
        let own = own.filter(|(name, _)| is_seen(name) || is_allowed(name, allowed));
        let mut env: Vec<(OsString, OsString)> =
            own.map(|(name, value)| (name.into(), value.into())).collect();
        env.push(("PATH".into(), self.path.clone()));
        env.push(("ZCP_JQ".into(), self.jq.clone().into()));
        for name in ["PYTHONPATH", "RUBYLIB", "NODE_PATH"] {
            let own = self.get(name).unwrap_or_default();
            let all = std::iter::once(sdk.clone()).chain(std::env::split_paths(own));
            if let Ok(all) = std::env::join_paths(all.filter(|path| !path.as_os_str().is_empty())) {
                env.push((name.into(), all));
            }
        }
        env.push(("ZCP_SDK".into(), sdk.into()));
        // Otherwise the SDK's folder would fill with what Python compiles.
        env.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        env
    }
}

/// Whether every script sees a variable.
fn is_seen(name: &str) -> bool {
    SEEN.contains(&name) || name.starts_with("LC_") || is_of_network(name)
}

/// Whether a variable says how to get into the network.
pub(crate) fn is_of_network(name: &str) -> bool {
    CERTIFICATES.contains(&name) || is_proxy(name)
}

fn is_proxy(name: &str) -> bool {
    PROXIES.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
}

fn is_own(name: &str) -> bool {
    OWN.iter().any(|own| name.starts_with(own))
}

/// Whether a script is allowed to see a variable: by its name, or by a pattern such as `AWS_*`.
fn is_allowed(name: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|one| match one.strip_suffix('*') {
        Some("") => false,
        Some(beginning) => name.starts_with(beginning) && !is_own(name),
        None => one == name,
    })
}
