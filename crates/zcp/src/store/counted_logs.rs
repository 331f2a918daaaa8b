//! The logs that are written for conversations, counted: what this process keeps in them for all
//! sessions together is limited in bytes.

use super::{Bound, Store, StoreResult, written::Written};
use crate::clock;
use bytes::Bytes;
use std::time::Duration;

/// Bytes of all logs that this process wrote. Beyond it the largest of the oldest logs is removed.
const ALL: usize = 256 * 1024 * 1024;
/// What an entry counts for beside its text.
const ENTRY: usize = 64;

/// The logs that this process wrote for conversations. Protocols and transports append to no log but
/// by this.
pub(crate) struct CountedLogs(Written);

impl Default for CountedLogs {
    fn default() -> Self {
        Self(Written::new(ALL))
    }
}

impl CountedLogs {
    /// Appends to a log, which expires after `kept`, and counts it. Removes the logs that must go for
    /// it.
    pub(crate) async fn append(
        &self,
        store: &dyn Store,
        log: &str,
        entry: Bytes,
        bound: Bound,
        kept: Duration,
    ) -> StoreResult<u64> {
        let bytes = entry.len() + ENTRY;
        let position = store.append(log, entry, bound, Some(kept)).await?;
        let most = bound.bytes.saturating_add(bound.entries.saturating_mul(ENTRY));
        for log in self.0.add(log, bytes, most, clock::in_ms(kept)) {
            if let Err(error) = store.remove(&log).await {
                tracing::warn!("a log of a conversation stays until it expires: {error}");
            }
        }
        Ok(position)
    }

    /// Removes a log.
    pub(crate) async fn remove(&self, store: &dyn Store, log: &str) -> StoreResult<()> {
        self.0.remove(log);
        store.remove(log).await
    }
}
