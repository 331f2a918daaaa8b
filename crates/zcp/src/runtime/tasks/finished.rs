//! Limits for finished tasks: how many of a caller's are kept, and how many bytes, of the caller's
//! and of all that this process wrote.

use super::{Tasks, engine::Engine, record::Record};
use crate::{
    clock,
    store::{If, MAX_VALUE, StoreResult, written::Written},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};

/// The most finished tasks of one caller that can be counted.
const COUNTED: usize = MAX_VALUE / 256;

/// Bytes of the records of all finished tasks that this process wrote, unless one caller may have
/// more: clients can have any number of sessions, and each may count as a caller.
const ALL: usize = 256 * 1024 * 1024;

pub(super) fn written(settings: &Tasks) -> Written {
    Written::new(settings.max_finished_bytes.max(ALL))
}

/// A task that is finished.
#[derive(Debug, Serialize, Deserialize)]
struct Finished {
    id: String,
    bytes: usize,
    /// When its record expires, in milliseconds.
    ends: u64,
}

impl Engine {
    /// Counts a task that is finished. The caller's oldest finished tasks are forgotten until the
    /// rest is within the limits, and large old ones of all callers until they are within the total
    /// of the process; this one stays.
    pub(super) async fn keep_few(&self, id: &str, record: &Record, bytes: usize) {
        let (most, most_bytes) = (self.settings.max_finished, self.settings.max_finished_bytes);
        if most == usize::MAX && most_bytes == usize::MAX {
            return;
        }
        if let Err(error) = self.count(id, record, bytes).await {
            tracing::warn!("finished tasks cannot be counted: {error}");
        }
        for surplus in self.finished.set(id, bytes, ends(record), record.share()) {
            self.forget(&surplus).await;
        }
    }

    async fn count(&self, id: &str, record: &Record, bytes: usize) -> StoreResult<()> {
        let key = format!("finished/{}", record.share());
        let most = self.settings.max_finished.clamp(1, COUNTED);
        loop {
            let held = self.store.get(&key).await?;
            let unchanged = held.as_ref().map_or(If::Absent, |held| If::Version(held.version));
            let finished = held.map(|held| serde_json::from_slice(&held.value));
            let mut finished: VecDeque<Finished> =
                finished.and_then(Result::ok).unwrap_or_default();
            let now = clock::now_ms();
            finished.retain(|one| one.ends > now && one.id != id);
            finished.push_back(Finished { id: id.to_owned(), bytes, ends: ends(record) });
            let mut total: usize = finished.iter().map(|one| one.bytes).sum();
            let mut surplus = vec![];
            while finished.len() > 1
                && (finished.len() > most || total > self.settings.max_finished_bytes)
                && let Some(oldest) = finished.pop_front()
            {
                total -= oldest.bytes;
                surplus.push(oldest.id);
            }
            let latest = finished.iter().map(|one| one.ends).max().unwrap_or(now);
            let ttl = Some(Duration::from_millis(latest.saturating_sub(now).max(1)));
            let text = Bytes::from(serde_json::to_vec(&finished).unwrap_or_default());
            if !self.store.put(&key, text, unchanged, ttl).await? {
                continue;
            }
            for id in surplus {
                self.finished.remove(&id);
                self.forget(&id).await;
            }
            return Ok(());
        }
    }
}

/// When a record expires, in milliseconds.
fn ends(record: &Record) -> u64 {
    let left = u64::try_from(record.left().as_millis()).unwrap_or(u64::MAX);
    clock::now_ms().saturating_add(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_may_have_all_that_the_process_keeps() {
        let later = clock::now_ms() + 60_000;
        let usual = written(&Tasks::default());
        assert!(usual.set("a", ALL / 2, later, "caller").is_empty());
        assert!(usual.set("b", ALL / 2, later, "caller").is_empty());
        assert_eq!(usual.set("c", 1, later, "caller").len(), 1);
        let larger = written(&Tasks::default().max_finished(10, 2 * ALL));
        assert!(larger.set("a", ALL, later, "caller").is_empty());
        assert!(larger.set("b", ALL, later, "caller").is_empty());
    }
}
