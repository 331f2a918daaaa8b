//! The logs that are written for conversations, counted: what this process keeps in them for all
//! sessions together is limited in bytes.

use super::{
    Bound, Store, StoreResult,
    written::{Added, Written},
};
use crate::clock;
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all logs that this process wrote. Beyond it whoever has most loses the largest of their
/// oldest logs.
const ALL: usize = 256 * 1024 * 1024;
/// What an entry counts for beside its text.
const ENTRY: usize = 64;
/// Logs that are read at a time: a whole one may be in memory while it is.
const READING: usize = 4;

/// The logs that this process wrote for conversations. Protocols and transports append to no log but
/// by this.
pub(crate) struct CountedLogs {
    written: Written,
    reading: Arc<Semaphore>,
}

/// A log of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub(crate) name: &'a str,
    pub(crate) bound: Bound,
    /// How long it is kept after its last entry.
    pub(crate) kept: Duration,
    /// Whose share it counts for.
    pub(crate) owner: &'a str,
}

impl Default for CountedLogs {
    fn default() -> Self {
        Self { written: Written::new(ALL), reading: Arc::new(Semaphore::new(READING)) }
    }
}

impl CountedLogs {
    /// Appends to a log and counts it for its owner. Removes the logs that must go for it.
    pub(crate) async fn append(
        &self,
        store: &dyn Store,
        log: Log<'_>,
        entry: Bytes,
    ) -> StoreResult<u64> {
        let Log { name, bound, kept, owner } = log;
        let bytes = entry.len() + ENTRY;
        let position = store.append(name, entry, bound, Some(kept)).await?;
        let most = bound.bytes.saturating_add(bound.entries.saturating_mul(ENTRY));
        let added = Added { bytes, most, ends: clock::in_ms(kept), owner };
        for log in self.written.add(name, added) {
            if let Err(error) = store.remove(&log).await {
                tracing::warn!("a log of a conversation stays until it expires: {error}");
            }
        }
        Ok(position)
    }

    /// Removes a log.
    pub(crate) async fn remove(&self, store: &dyn Store, log: &str) -> StoreResult<()> {
        self.written.remove(log);
        store.remove(log).await
    }

    /// Waits until a whole log may be read, which is until this is dropped.
    pub(crate) async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        self.reading.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn few_logs_are_read_at_a_time() {
        let logs = CountedLogs::default();
        let mut reading = vec![];
        for _ in 0..READING {
            reading.push(logs.reading().now_or_never().flatten().expect("there is room"));
        }
        assert!(logs.reading().now_or_never().is_none());
        reading.pop();
        assert!(logs.reading().now_or_never().is_some());
    }
}
