//! Who is told of calls: the audit log, observers, and the log of the program.

use crate::{audit_queue::Log, observed::Observed};
use std::sync::Arc;
use tokio::sync::broadcast;

/// Calls that are held for observers who do not keep up.
const OBSERVED: usize = 256;

/// Who is told of the calls before a guard.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) log: Log,
    pub(crate) calls: broadcast::Sender<Arc<Observed>>,
}

impl Default for Told {
    fn default() -> Self {
        Self { log: Log::default(), calls: broadcast::Sender::new(OBSERVED) }
    }
}

impl Told {
    pub(crate) fn is_observed(&self) -> bool {
        self.calls.receiver_count() > 0
    }
}

/// The target of log lines about calls.
pub(crate) const CALLS: &str = "zcp::calls";

/// Whether anybody reads log lines about calls.
pub(crate) fn is_logged() -> bool {
    tracing::enabled!(target: CALLS, tracing::Level::INFO)
}
