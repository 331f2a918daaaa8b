//! Those who wait for logs to grow.

use crate::sync::lock;
use foldhash::fast::RandomState;
use futures_util::stream::{self, BoxStream};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};
use tokio::sync::watch;

// A std mutex: never held across an await.
type Waiting = Mutex<HashMap<String, Watched, RandomState>>;

/// Who waits for which log.
#[derive(Default)]
pub(super) struct Wakes(Arc<Waiting>);

/// A log somebody waits for. It need not exist yet, and may come and go meanwhile.
struct Watched {
    grew: watch::Sender<()>,
    watchers: usize,
}

impl Wakes {
    pub(super) fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        let watcher = Watcher::new(&self.0, log);
        Box::pin(stream::unfold(watcher, |mut watcher| async move {
            watcher.grew.changed().await.ok()?;
            Some(((), watcher))
        }))
    }

    /// A log grew.
    pub(super) fn wake(&self, log: &str) {
        if let Some(watched) = lock(&self.0).get(log) {
            watched.grew.send_replace(());
        }
    }

    /// Any log may have grown.
    pub(super) fn wake_all(&self) {
        for watched in lock(&self.0).values() {
            watched.grew.send_replace(());
        }
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// One who waits. The last to leave takes the [`Watched`] along.
struct Watcher {
    log: String,
    grew: watch::Receiver<()>,
    // Weak: a store that is gone ends the stream.
    waiting: Weak<Waiting>,
}

impl Watcher {
    fn new(waiting: &Arc<Waiting>, log: &str) -> Self {
        let mut all = lock(waiting);
        let watched = all
            .entry(log.to_owned())
            .or_insert_with(|| Watched { grew: watch::Sender::new(()), watchers: 0 });
        watched.watchers += 1;
        let grew = watched.grew.subscribe();
        Self { log: log.to_owned(), grew, waiting: Arc::downgrade(waiting) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(waiting) = self.waiting.upgrade() else {
            return;
        };
        let mut all = lock(&waiting);
        let Some(watched) = all.get_mut(&self.log) else {
            return;
        };
        watched.watchers -= 1;
        if watched.watchers == 0 {
            all.remove(&self.log);
        }
    }
}
