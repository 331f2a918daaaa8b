//! Sandbox rules: what a script may not do.

use serde::{Deserialize, Deserializer};
use std::path::{Component, Path, PathBuf};

/// What a script may not do. Everything may that is not forbidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// Outside of the project and what programs need, only these are read.
    pub(crate) read: Option<Vec<PathBuf>>,
    /// Outside of a folder of its own, only these are written.
    pub(crate) write: Option<Vec<PathBuf>>,
    pub(crate) network: bool,
    /// Whether Unix sockets may be opened while files are restricted. Off by default: a service behind
    /// a socket could open files for the script that the sandbox denies.
    pub(crate) unix_sockets: bool,
    /// To processes that are not its own.
    pub(crate) signals: bool,
}

impl Sandbox {
    /// Nothing is forbidden.
    pub(crate) const OPEN: Self =
        Self { read: None, write: None, network: true, unix_sockets: false, signals: true };
    /// Everything is.
    pub(crate) const CLOSED: Self = Self {
        read: Some(vec![]),
        write: Some(vec![]),
        network: false,
        unix_sockets: false,
        signals: false,
    };

    /// Whether Unix sockets can be opened.
    pub(crate) fn allows_unix_sockets(&self) -> bool {
        let has_files = self.read.is_none() && self.write.is_none();
        self.network && (self.unix_sockets || has_files)
    }

    /// What both this and another allow.
    pub(super) fn within(self, other: &Self) -> Self {
        let unix_sockets = self.allows_unix_sockets() && other.allows_unix_sockets();
        Self {
            read: both(self.read, other.read.as_ref()),
            write: both(self.write, other.write.as_ref()),
            network: self.network && other.network,
            unix_sockets,
            signals: self.signals && other.signals,
        }
    }

    /// One more rule, in words.
    pub(crate) fn forbid(&mut self, words: &str) -> Result<(), String> {
        let (rule, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let paths = || rest.split_whitespace().map(PathBuf::from);
        match (rule, rest) {
            ("read-only", "") => drop(self.write.get_or_insert_default()),
            ("no-network", "") => self.network = false,
            ("no-signals", "") => self.signals = false,
            ("unix-sockets", "") => self.unix_sockets = true,
            ("read", _) => self.read.get_or_insert_default().extend(paths()),
            ("write", _) => self.write.get_or_insert_default().extend(paths()),
            _ => {
                let known =
                    "read-only, no-network, no-signals, unix-sockets, read PATHS, write PATHS";
                return Err(format!("a sandbox knows {known}, and nothing said is all of it"));
            }
        }
        Ok(())
    }
}

impl<'a> Deserialize<'a> for Sandbox {
    fn deserialize<D: Deserializer<'a>>(sandbox: D) -> Result<Self, D::Error> {
        /// As it is written in a file.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            All(bool),
            Rules {
                read: Option<Vec<PathBuf>>,
                write: Option<Vec<PathBuf>>,
                network: Option<bool>,
                #[serde(rename = "unixSockets", alias = "unix_sockets", alias = "unix-sockets")]
                unix_sockets: Option<bool>,
                signals: Option<bool>,
            },
        }
        Ok(match Said::deserialize(sandbox)? {
            Said::All(true) => Self::CLOSED,
            Said::All(false) => Self::OPEN,
            Said::Rules { read, write, network, unix_sockets, signals } => Self {
                read,
                write,
                network: network.unwrap_or(true),
                unix_sockets: unix_sockets.unwrap_or(false),
                signals: signals.unwrap_or(true),
            },
        })
    }
}

/// Paths that are in both lists, or below one of the other; without a list, all are. Paths that go
/// up are in none but their own.
fn both(own: Option<Vec<PathBuf>>, other: Option<&Vec<PathBuf>>) -> Option<Vec<PathBuf>> {
    let (Some(own), Some(other)) = (&own, other) else { return own.or_else(|| other.cloned()) };
    let below = |path: &PathBuf, all: &[PathBuf]| all.iter().any(|above| is_below(path, above));
    let mut all: Vec<PathBuf> = own.iter().filter(|path| below(path, other)).cloned().collect();
    let more = other.iter().filter(|path| below(path, own) && !own.contains(path));
    all.extend(more.cloned());
    Some(all)
}

fn is_below(path: &Path, above: &Path) -> bool {
    let goes_up = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    let plain = |path: &Path| -> PathBuf {
        path.components().filter(|part| *part != Component::CurDir).collect()
    };
    let is_plain = path.is_absolute() == above.is_absolute() && !goes_up(path) && !goes_up(above);
    path == above || (is_plain && plain(path).starts_with(plain(above)))
}
