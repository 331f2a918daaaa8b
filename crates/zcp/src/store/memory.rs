//! A store in this process, gone when the process ends.

use crate::sync::lock;
use std::{
    fmt,
    hash::BuildHasher,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use foldhash::fast::RandomState;
use futures_util::{future::BoxFuture, stream::BoxStream};
use tokio::time::Instant;

use super::{
    Bound, Browse, Entry, If, Store, StoreResult, check_entry, check_value, expiring::Expiring,
    memory_log::Log, wakes::Wakes,
};

/// How many locks the keys are spread over.
const SHARDS: usize = 16;

/// How many expired values, and how many expired logs, a write clears away. More than one, so that
/// clearing outruns filling.
const SWEEP: usize = 4;

/// Keeps everything in memory. Expired entries are never seen again, and their memory comes back
/// as other keys are written; there is no task in the background.
pub struct Memory {
    hasher: RandomState,
    shards: Box<[Shard]>,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { hasher: RandomState::default(), shards }
    }

    fn shard(&self, key: &str) -> &Shard {
        let shard = self.hasher.hash_one(key) % (SHARDS as u64);
        &self.shards[shard as usize]
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        Box::pin(async move { Ok(self.shard(key).lock().get(key)) })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            check_value(key, &value)?;
            Ok(self.shard(key).lock().put(key, value, condition, ttl))
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.shard(key).lock().remove(key);
            Ok(())
        })
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            check_entry(log, &value, bound)?;
            let shard = self.shard(log);
            let position = shard.lock().append(log, value, bound, ttl);
            shard.wakes.wake(log);
            Ok(position)
        })
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        Box::pin(async move { self.shard(log).lock().after(log, position) })
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        self.shard(log).wakes.watch(log)
    }
}

impl Browse for Memory {
    fn keys<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        Box::pin(async move {
            let now = Instant::now();
            let all = self.shards.iter().flat_map(|shard| shard.lock().values.keys(now));
            let mut keys: Vec<String> = all.filter(|key| key.starts_with(prefix)).collect();
            keys.sort();
            Ok(keys)
        })
    }
}

/// The keys behind one lock: a std mutex, never held across an await.
#[derive(Default)]
struct Shard {
    held: Mutex<Held>,
    wakes: Wakes,
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

#[derive(Default)]
struct Held {
    values: Expiring<Entry>,
    logs: Expiring<Log>,
    /// The version last given. One counter for all keys, so that a key that was removed and
    /// written again does not pass for the value it was before.
    version: u64,
    /// The highest position of any log that was forgotten. New logs begin after it, so that a
    /// position of a log's earlier life never means something else in its next.
    forgotten: u64,
}

impl Held {
    fn get(&mut self, key: &str) -> Option<Entry> {
        let now = Instant::now();
        self.values.take_expired(key, now);
        self.values.get(key, now).cloned()
    }

    fn put(&mut self, key: &str, value: Bytes, condition: If, ttl: Option<Duration>) -> bool {
        let now = Instant::now();
        self.sweep(now);
        let version = self.values.get(key, now).map(|entry| entry.version);
        let holds = match condition {
            If::Always => true,
            If::Absent => version.is_none(),
            If::Version(wanted) => version == Some(wanted),
        };
        if !holds {
            return false;
        }
        self.version += 1;
        let entry = Entry { value, version: self.version };
        let slot = self.values.renew(key, end(now, ttl), || entry.clone());
        *slot = entry;
        true
    }

    fn remove(&mut self, key: &str) {
        self.values.remove(key);
        let log = self.logs.remove(key);
        self.forget(log);
    }

    fn append(&mut self, log: &str, value: Bytes, bound: Bound, ttl: Option<Duration>) -> u64 {
        let now = Instant::now();
        self.sweep(now);
        self.forget_if_expired(log, now);
        let begin = self.forgotten;
        let held = self.logs.renew(log, end(now, ttl), || Log::after_position(begin));
        held.push(value, bound)
    }

    fn after(&mut self, log: &str, position: u64) -> StoreResult<Vec<(u64, Bytes)>> {
        let now = Instant::now();
        self.forget_if_expired(log, now);
        self.logs.get(log, now).map_or(Ok(Vec::new()), |log| log.after(position))
    }

    fn sweep(&mut self, now: Instant) {
        for _ in 0..SWEEP {
            self.values.pop_expired(now);
            let log = self.logs.pop_expired(now);
            self.forget(log);
        }
    }

    fn forget_if_expired(&mut self, log: &str, now: Instant) {
        let log = self.logs.take_expired(log, now);
        self.forget(log);
    }

    fn forget(&mut self, log: Option<Log>) {
        self.forgotten = self.forgotten.max(log.map_or(0, |log| log.last));
    }
}

// An end too far away to be counted is none.
fn end(now: Instant, ttl: Option<Duration>) -> Option<Instant> {
    now.checked_add(ttl?)
}

#[cfg(test)]
mod tests {
    use super::super::StoreError;
    use std::slice;

    use futures_util::{FutureExt, StreamExt};
    use tokio::time::advance;

    use super::*;

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn is_empty(store: &Memory) -> bool {
        store.shards.iter().all(|shard| {
            let held = shard.lock();
            held.values.is_empty() && held.logs.is_empty() && shard.wakes.is_empty()
        })
    }

    #[tokio::test]
    async fn a_write_happens_only_if_its_condition_holds() {
        let store = Memory::new();
        assert!(!store.put("a", bytes("0"), If::Version(1), None).await.unwrap());
        assert!(store.put("a", bytes("1"), If::Absent, None).await.unwrap());
        assert!(!store.put("a", bytes("2"), If::Absent, None).await.unwrap());
        let read = store.get("a").await.unwrap().unwrap();
        assert!(store.put("a", bytes("3"), If::Version(read.version), None).await.unwrap());
        assert!(!store.put("a", bytes("4"), If::Version(read.version), None).await.unwrap());
        assert_eq!(store.get("a").await.unwrap().unwrap().value, bytes("3"));
    }

    #[tokio::test]
    async fn a_version_does_not_come_back_after_a_removal() {
        let store = Memory::new();
        store.put("a", bytes("1"), If::Always, None).await.unwrap();
        let read = store.get("a").await.unwrap().unwrap();
        store.remove("a").await.unwrap();
        store.put("a", bytes("2"), If::Always, None).await.unwrap();
        assert!(!store.put("a", bytes("3"), If::Version(read.version), None).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_value_is_absent() {
        let store = Memory::new();
        store.put("a", bytes("1"), If::Always, SECOND).await.unwrap();
        advance(Duration::from_millis(999)).await;
        assert!(store.get("a").await.unwrap().is_some());
        advance(Duration::from_millis(1)).await;
        assert!(store.put("a", bytes("2"), If::Absent, SECOND).await.unwrap());
        advance(Duration::from_secs(1)).await;
        assert_eq!(store.get("a").await.unwrap(), None);
        assert!(is_empty(&store));
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_write_replaces_the_end() {
        let store = Memory::new();
        store.put("a", bytes("1"), If::Always, SECOND).await.unwrap();
        store.put("a", bytes("2"), If::Always, None).await.unwrap();
        store.put("b", bytes("3"), If::Always, Some(Duration::MAX)).await.unwrap();
        advance(Duration::from_secs(60)).await;
        assert!(store.get("a").await.unwrap().is_some());
        assert!(store.get("b").await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn expired_entries_give_their_memory_back_as_others_are_written() {
        let store = Memory::new();
        for i in 0..1000 {
            store.put(&format!("value {i}"), bytes("x"), If::Always, SECOND).await.unwrap();
            store.append(&format!("log {i}"), bytes("x"), Bound::entries(1), SECOND).await.unwrap();
        }
        advance(Duration::from_secs(1)).await;
        for i in 0..1000 {
            let key = format!("other {i}");
            store.put(&key, bytes("x"), If::Always, None).await.unwrap();
            store.remove(&key).await.unwrap();
        }
        assert!(is_empty(&store));
    }

    #[tokio::test]
    async fn removing_a_key_forgets_its_value_and_its_log() {
        let store = Memory::new();
        store.put("a", bytes("1"), If::Always, SECOND).await.unwrap();
        store.append("a", bytes("1"), Bound::entries(1), SECOND).await.unwrap();
        store.remove("a").await.unwrap();
        store.remove("a").await.unwrap();
        assert!(is_empty(&store));
    }

    #[tokio::test]
    async fn a_log_gives_what_came_after_a_position() {
        let store = Memory::new();
        assert_eq!(store.after("log", 7).await, Ok(vec![]));
        for (position, text) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            assert_eq!(
                store.append("log", bytes(text), Bound::entries(2), None).await,
                Ok(position)
            );
        }
        let held = vec![(3, bytes("c")), (4, bytes("d"))];
        assert_eq!(store.after("log", 0).await, Ok(held.clone()));
        assert_eq!(store.after("log", 1).await, Err(StoreError::Gone));
        assert_eq!(store.after("log", 2).await, Ok(held.clone()));
        assert_eq!(store.after("log", 3).await, Ok(slice::from_ref(&held[1]).to_vec()));
        assert_eq!(store.after("log", 4).await, Ok(vec![]));
        assert_eq!(store.after("log", 5).await, Err(StoreError::Gone));
        assert_eq!(store.after("log", u64::MAX).await, Err(StoreError::Gone));
    }

    #[tokio::test(start_paused = true)]
    async fn positions_go_on_growing_when_a_log_expired() {
        let store = Memory::new();
        store.append("log", bytes("a"), Bound::entries(9), SECOND).await.unwrap();
        advance(Duration::from_millis(500)).await;
        store.append("log", bytes("b"), Bound::entries(9), SECOND).await.unwrap();
        advance(Duration::from_millis(500)).await;
        assert_eq!(store.after("log", 0).await.unwrap().len(), 2);
        advance(Duration::from_millis(500)).await;
        assert_eq!(store.after("log", 0).await, Ok(vec![]));
        assert!(is_empty(&store));
        assert_eq!(store.append("log", bytes("c"), Bound::entries(9), None).await, Ok(3));
        assert_eq!(store.after("log", 1).await, Err(StoreError::Gone));
        assert_eq!(store.after("log", 2).await, Ok(vec![(3, bytes("c"))]));
    }

    #[tokio::test]
    async fn a_watcher_wakes_once_for_several_appends() {
        let store = Memory::new();
        let mut grew = store.watch("log");
        assert_eq!(grew.next().now_or_never(), None);
        store.append("other", bytes("a"), Bound::entries(9), None).await.unwrap();
        assert_eq!(grew.next().now_or_never(), None);
        store.append("log", bytes("a"), Bound::entries(9), None).await.unwrap();
        store.append("log", bytes("b"), Bound::entries(9), None).await.unwrap();
        assert_eq!(grew.next().await, Some(()));
        assert_eq!(grew.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn a_watcher_leaves_nothing_behind() {
        let store = Memory::new();
        let (mut one, two) = (store.watch("log"), store.watch("log"));
        assert_eq!(one.next().now_or_never(), None);
        drop(two);
        store.append("log", bytes("a"), Bound::entries(9), None).await.unwrap();
        assert_eq!(one.next().await, Some(()));
        drop(one);
        store.remove("log").await.unwrap();
        assert!(is_empty(&store));
    }

    #[tokio::test]
    async fn a_watcher_ends_with_its_store() {
        let store = Memory::new();
        let mut grew = store.watch("log");
        drop(store);
        assert_eq!(grew.next().await, None);
    }
}
