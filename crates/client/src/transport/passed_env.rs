//! Which environment variables a server in a child process gets.

use std::ffi::{OsStr, OsString};

/// Variables every server gets: what programs need to be found, to speak the user's language and
/// to reach the network. The official SDKs pass a part of these, and nothing else.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    // Windows.
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMFILES",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "PROCESSOR_ARCHITECTURE",
];
/// How the names of others of them begin.
const PASSED_BEGIN: &str = "LC_";

/// What a server gets of the environment of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed {
    all: bool,
    /// Names, or beginnings of names that end with `*`.
    more: Vec<OsString>,
}

impl Passed {
    pub(super) fn pass_all(&mut self) {
        self.all = true;
    }

    pub(super) fn pass(&mut self, name: OsString) {
        self.more.push(name);
    }

    /// The variables that are passed, if not all are.
    pub(super) fn chosen(&self) -> Option<Vec<(OsString, OsString)>> {
        let chosen = |(name, value): &(OsString, OsString)| self.takes(name, value);
        (!self.all).then(|| std::env::vars_os().filter(chosen).collect())
    }

    fn takes(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_named = |wanted: &OsString| match wanted.as_encoded_bytes() {
            [begin @ .., b'*'] => name.as_encoded_bytes().starts_with(begin),
            _ => wanted == name,
        };
        // A value that begins so is a function for old versions of bash: code, not text.
        let is_function = value.as_encoded_bytes().starts_with(b"()");
        let is_usual = name.to_str().is_some_and(|name| {
            name.starts_with(PASSED_BEGIN) || PASSED.contains(&name.to_ascii_uppercase().as_str())
        });
        is_usual && !is_function || self.more.iter().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_passed_only_by_name() {
        let mut passed = Passed::default();
        let takes = |passed: &Passed, name: &str| passed.takes(name.as_ref(), "value".as_ref());
        for usual in ["PATH", "HOME", "LC_ALL", "https_proxy", "NO_PROXY", "SystemRoot"] {
            assert!(takes(&passed, usual), "{usual}");
        }
        for secret in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD"] {
            assert!(!takes(&passed, secret), "{secret}");
        }
        assert!(!passed.takes("SHELL".as_ref(), "() { :; }".as_ref()));
        passed.pass("GITHUB_TOKEN".into());
        passed.pass("AWS_*".into());
        assert!(takes(&passed, "GITHUB_TOKEN") && takes(&passed, "AWS_REGION"));
        assert!(!takes(&passed, "GITHUB_TOKEN_2"));
    }
}
