//! Limits for finished tasks: how many of a caller's are kept, and how many bytes.

use super::{engine::Engine, record::Record};
use crate::{
    clock,
    store::{If, MAX_VALUE, StoreResult},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};

/// The most finished tasks of one caller that can be counted.
const COUNTED: usize = MAX_VALUE / 256;

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
    /// rest is within the limits; this one stays.
    pub(super) async fn keep_few(&self, id: &str, record: &Record, bytes: usize) {
        let (most, most_bytes) = (self.settings.max_finished, self.settings.max_finished_bytes);
        if most == usize::MAX && most_bytes == usize::MAX {
            return;
        }
        if let Err(error) = self.count(id, record, bytes).await {
            tracing::warn!("finished tasks cannot be counted: {error}");
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
            let left = u64::try_from(record.left().as_millis()).unwrap_or(u64::MAX);
            finished.push_back(Finished {
                id: id.to_owned(),
                bytes,
                ends: now.saturating_add(left),
            });
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
                self.forget(&id).await;
            }
            return Ok(());
        }
    }
}
