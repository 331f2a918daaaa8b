//! How many bytes this process keeps for streams and sockets that may be resumed, of all sessions
//! together.

use crate::{
    clock,
    store::{Store, written::Written},
};
use std::time::Duration;

/// Bytes of all logs that this process wrote. Beyond it the largest of the oldest logs is removed.
const ALL: usize = 256 * 1024 * 1024;

/// The logs that this process wrote.
pub(crate) struct Held(Written);

impl Default for Held {
    fn default() -> Self {
        Self(Written::new(ALL))
    }
}

impl Held {
    /// Notes bytes that were added to a log, which holds `most` at most and expires after `kept`.
    /// Removes the logs that must go for them.
    pub(crate) async fn note(
        &self,
        store: &dyn Store,
        log: &str,
        bytes: usize,
        most: usize,
        kept: Duration,
    ) {
        for log in self.0.add(log, bytes, most, clock::in_ms(kept)) {
            if let Err(error) = store.remove(&log).await {
                tracing::warn!("a log of streams stays until it expires: {error}");
            }
        }
    }

    /// A log was removed.
    pub(crate) fn remove(&self, log: &str) {
        self.0.remove(log);
    }
}
