//! How many bytes this process keeps for streams and sockets that may be resumed, of all sessions
//! together.

use crate::store::Store;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of all logs that this process wrote. Beyond it the log that was written longest ago goes.
const ALL: usize = 256 * 1024 * 1024;

/// What each log counts for at least, however little is in it: its name is held here, too.
const LEAST: usize = 512;
/// Of so many that were written longest ago, the largest goes.
const OLDEST: usize = 64;

/// The logs that this process wrote.
pub(crate) struct Held {
    max: usize,
    // A std mutex: never held across an await.
    logs: Mutex<Logs>,
}

impl Default for Held {
    fn default() -> Self {
        Self { max: ALL, logs: Mutex::default() }
    }
}

#[derive(Default)]
struct Logs {
    /// Bytes of each, and when it was written last.
    by_name: HashMap<Arc<str>, (usize, u64), foldhash::fast::RandomState>,
    /// Every write since, oldest first; only the last of a log counts.
    order: VecDeque<(Arc<str>, u64)>,
    writes: u64,
    total: usize,
}

impl Held {
    /// Notes bytes that were added to a log, which holds `most` at most; gives the logs that must
    /// go for them.
    fn add(&self, log: &str, bytes: usize, most: usize) -> Vec<Arc<str>> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.writes += 1;
        let write = logs.writes;
        let known = logs.by_name.get_key_value(log);
        let (name, before) =
            known.map_or_else(|| (log.into(), 0), |(name, it)| (name.clone(), it.0));
        let now = (before.max(LEAST) + bytes).min(most.max(LEAST));
        logs.total += now - before;
        logs.by_name.insert(name.clone(), (now, write));
        logs.order.push_back((name, write));
        let mut gone = vec![];
        while logs.total > self.max
            && let Some(name) = logs.first_to_go(write)
        {
            logs.remove(&name);
            gone.push(name);
        }
        if logs.order.len() > 2 * logs.by_name.len() + 64 {
            let Logs { by_name, order, .. } = &mut *logs;
            order.retain(|(name, at)| by_name.get(name).is_some_and(|(_, last)| last == at));
        }
        gone
    }

    /// Notes bytes that were added to a log, and removes the logs that must go for them.
    pub(crate) async fn note(&self, store: &dyn Store, log: &str, bytes: usize, most: usize) {
        for log in self.add(log, bytes, most) {
            if let Err(error) = store.remove(&log).await {
                tracing::warn!("a log of streams stays until it expires: {error}");
            }
        }
    }

    /// A log was removed.
    pub(crate) fn remove(&self, log: &str) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).remove(log);
    }
}

impl Logs {
    /// The largest of those that were written longest ago: whoever wrote most loses most.
    fn first_to_go(&mut self, newest: u64) -> Option<Arc<str>> {
        let last = |logs: &Self, name: &Arc<str>| logs.by_name.get(name).copied();
        while let Some((name, at)) = self.order.front()
            && last(self, name).is_none_or(|(_, last)| last != *at)
        {
            self.order.pop_front();
        }
        let known = self.order.iter().filter_map(|(name, at)| Some((name, at, last(self, name)?)));
        let written = known.filter(|(_, at, (_, last))| **at == *last && *last != newest);
        let oldest = written.take(OLDEST).max_by_key(|(_, _, (bytes, _))| *bytes);
        oldest.map(|(name, ..)| name.clone())
    }

    fn remove(&mut self, log: &str) {
        if let Some((bytes, _)) = self.by_name.remove(log) {
            self.total -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_old_log_goes_first() {
        let held = Held { max: 10_000, logs: Mutex::default() };
        let add = |log, bytes| held.add(log, bytes, 5000);
        assert!(add("small", 10).is_empty());
        assert!(add("a", 4000).is_empty());
        assert!(add("a", 4000).is_empty(), "it holds 5000 at most");
        assert!(add("b", 3500).is_empty());
        assert_eq!(add("c", 3000), [Arc::<str>::from("a")]);
        for one in ["small", "b", "c"] {
            held.remove(one);
        }
        assert!(add("d", 5000).is_empty());
        for _ in 0..1000 {
            add("d", 1);
        }
        assert!(held.logs.lock().unwrap().order.len() < 100);
    }
}
