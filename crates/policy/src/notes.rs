//! What handlers tell of their calls with [`Ctx::note`](zcp::Ctx::note), for the audit log.

use serde_json::Value;
use std::{fmt, sync::Arc};

/// How the process of a call ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, if it has one.
    pub exit_code: Option<i32>,
    /// It took too long.
    pub is_late: bool,
}

/// The last lines a process wrote to standard error, without secrets, for observers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stderr(pub String);

/// Makes secrets in a value unreadable, before it is written down or shown to observers.
#[derive(Clone)]
pub struct Redact(Arc<dyn Fn(&mut Value) + Send + Sync>);

impl Redact {
    /// Hides secrets with a function.
    pub fn new(hide: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hide))
    }

    pub(crate) fn hide(&self, value: &mut Value) {
        (self.0)(value);
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact").finish_non_exhaustive()
    }
}
