//! Why a gateway could not be built, or a lock file not be used.

use std::{fmt, path::PathBuf};

/// What a result comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a gateway could not be built, or a lock file not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// What is wrong with mounts: every mistake that was found.
    Mounts(Vec<Mistake>),
    /// A lock file that cannot be read or written.
    LockFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
}

/// What is wrong with one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The mount's name.
    pub mount: String,
    /// What is wrong with it.
    pub why: String,
}

impl Mistake {
    pub(crate) fn new(mount: &str, why: impl Into<String>) -> Self {
        Self { mount: mount.to_owned(), why: why.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mount `{}`: {}", self.mount, self.why)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounts(mistakes) => {
                let all: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("\n"))
            }
            Self::LockFile { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
