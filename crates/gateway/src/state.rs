//! The state of a mount, as operators see it.

use std::{fmt, time::SystemTime};

/// The state of a mount.
///
/// ```text
/// idle ─▶ starting ─▶ ready ─▶ stopped
///            │  ▲       │
///            ▼  │       │
///          degraded ◀───┘
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No server uses the gateway yet. What the lock file holds is known.
    Idle,
    /// The connection is being opened.
    Starting,
    /// Connected, and what it offers is in the catalog.
    Ready,
    /// Not reachable. What the catalog has of it stays listed, and a call waits for it.
    Degraded {
        /// Why it is not reachable.
        why: String,
        /// When it is tried again.
        retry_at: SystemTime,
    },
    /// The gateway was closed.
    Stopped,
}

impl State {
    /// Whether the mount was tried: it is ready, degraded or stopped.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Idle | Self::Starting)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Starting => f.write_str("starting"),
            Self::Ready => f.write_str("ready"),
            Self::Degraded { why, .. } => write!(f, "degraded: {why}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
