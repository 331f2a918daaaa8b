//! What holds for a script that says nothing of its own limits.

use std::time::Duration;

/// How long a script may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a script may take, however much progress it makes.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How many bytes of its output are shown.
pub(crate) const OUTPUT: u64 = 256 * 1024;
/// How many processes a run may have.
pub(crate) const PROCESSES: usize = 256;

/// How many bytes a file may have that a script in a sandbox writes.
pub(crate) const FILE_SIZE: u64 = 1024 * 1024 * 1024;

/// Defaults that depend on what a script is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) timeout: Duration,
    /// The maximum with progress. Without one it is [`MAX_TIMEOUT`], or the timeout if that is longer.
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) progress_extends_timeout: bool,
    /// How many bytes of its output are shown.
    pub(crate) output: u64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { timeout: TIMEOUT, max_timeout: None, progress_extends_timeout: true, output: OUTPUT }
    }
}
