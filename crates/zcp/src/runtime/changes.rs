//! What changed, and who wants to know.

use crate::store::{Bound, Store, StoreError};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const LOG: &str = "changes";
/// Whoever is further behind than this is told that anything may have changed.
const KEEP: usize = 1024;

/// Something a client may want to fetch again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or templates.
    Resources,
    /// One resource.
    Updated(String),
    /// The page an elicitation sent the user to is done.
    Visited(String),
    /// Possibly everything: the log no longer says.
    Anything,
}

/// The log of changes, shared by all who use the same store.
#[derive(Clone)]
pub(crate) struct Changes {
    store: Arc<dyn Store>,
    /// The last position that is known, so that the log is not read to learn where it ends.
    known: Arc<AtomicU64>,
}

impl Changes {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Arc::default() }
    }

    /// Tells everybody who listens, in this process or another.
    pub(crate) async fn announce(&self, change: &Change) -> Result<(), StoreError> {
        let entry =
            serde_json::to_vec(change).map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let position =
            self.store.append(LOG, Bytes::from(entry), Bound::entries(KEEP), None).await?;
        self.known.fetch_max(position, Ordering::Relaxed);
        Ok(())
    }

    /// Where the log ends now.
    pub(crate) async fn position(&self) -> u64 {
        let known = self.known.load(Ordering::Relaxed);
        let (known, held) = match self.store.after(LOG, known).await {
            // Another process told of more than the log holds, or the store was emptied.
            Err(StoreError::Gone) => (0, self.store.after(LOG, 0).await.unwrap_or_default()),
            held => (known, held.unwrap_or_default()),
        };
        let position = held.last().map_or(known, |(position, _)| *position);
        self.known.store(position, Ordering::Relaxed);
        position
    }

    /// Changes after a position, each with its own, as they come.
    pub(crate) fn after(&self, position: u64) -> impl Stream<Item = (u64, Change)> + Send + use<> {
        let tail = Tail {
            store: self.store.clone(),
            grown: self.store.watch(LOG),
            position,
            read: VecDeque::new(),
        };
        stream::unfold(tail, |mut tail| async move { Some((tail.next().await?, tail)) })
    }
}

struct Tail {
    store: Arc<dyn Store>,
    grown: stream::BoxStream<'static, ()>,
    position: u64,
    read: VecDeque<(u64, Change)>,
}

impl Tail {
    async fn next(&mut self) -> Option<(u64, Change)> {
        loop {
            if let Some((position, change)) = self.read.pop_front() {
                self.position = position;
                return Some((position, change));
            }
            match self.store.after(LOG, self.position).await {
                Ok(entries) if entries.is_empty() => self.grown.next().await?,
                // To a store, position 0 is all it holds; what it held before may be gone.
                Ok(entries) if self.position == 0 && entries.len() >= KEEP => {
                    let (position, _) = entries[entries.len() - 1];
                    self.read.push_back((position, Change::Anything));
                }
                Ok(entries) => self.read.extend(entries.into_iter().map(|(position, entry)| {
                    // A newer process may know changes that this one does not.
                    (position, serde_json::from_slice(&entry).unwrap_or(Change::Anything))
                })),
                Err(StoreError::Gone) => {
                    let held = self.store.after(LOG, 0).await.unwrap_or_default();
                    self.position = held.last().map_or(self.position, |(position, _)| *position);
                    return Some((self.position, Change::Anything));
                }
                // The store will be back, or the wire will give up first.
                Err(_) => self.grown.next().await?,
            }
        }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes(..)")
    }
}
