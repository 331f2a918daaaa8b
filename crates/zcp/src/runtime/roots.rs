//! What clients say of their roots: that they have changed.

use super::Runtime;
use crate::{
    seal::digest,
    store::{
        Bound, Store, StoreResult,
        counted_logs::{CountedLogs, Log},
    },
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use std::{fmt, sync::Arc, time::Duration};

/// Only that there was a change is kept.
const LAST: Bound = Bound { entries: 1, bytes: 64 };

/// How long. Whoever waits for a change is told at once, and by another process within a moment.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// Where it is kept that the roots of a conversation have changed.
pub(crate) fn log(conversation: &str) -> String {
    format!("roots/{}", digest(conversation.as_bytes()))
}

impl Runtime {
    /// Tells handlers, of this process or another, that the roots of a conversation have changed.
    pub(crate) async fn roots_changed(&self, conversation: &str, owner: &str) -> StoreResult<()> {
        let (name, logs) = (log(conversation), self.shelf::<CountedLogs>());
        let log = Log { name: &name, bound: LAST, kept: KEPT, owner };
        logs.append(&*self.store, log, Bytes::from_static(b"!")).await.map(drop)
    }
}

/// Changes of a client's roots, from [`Ctx::root_changes`](crate::Ctx::root_changes).
#[must_use = "nothing happens until a change is waited for"]
pub struct RootChanges(Option<Followed>);

struct Followed {
    store: Arc<dyn Store>,
    grown: BoxStream<'static, ()>,
    log: String,
    position: u64,
}

impl RootChanges {
    pub(super) async fn of(store: Arc<dyn Store>, conversation: Option<&str>) -> Self {
        let Some(log) = conversation.map(log) else { return Self(None) };
        // Watched before it is read, so that nothing falls between.
        let grown = store.watch(&log);
        let held = store.after(&log, 0).await.unwrap_or_default();
        let position = held.last().map_or(0, |(position, _)| *position);
        Self(Some(Followed { store, grown, log, position }))
    }

    /// Waits until the client says that its roots have changed. Changes since the last one that was
    /// waited for count as one. A client that never says so is waited for until the call ends.
    pub async fn changed(&mut self) {
        let Some(followed) = &mut self.0 else { return std::future::pending().await };
        loop {
            // Of all that was dropped only the last is held, and is enough to know.
            let held = followed.store.after(&followed.log, 0).await.unwrap_or_default();
            if let Some((position, _)) = held.last()
                && *position != followed.position
            {
                followed.position = *position;
                return;
            }
            if followed.grown.next().await.is_none() {
                std::future::pending().await
            }
        }
    }
}

impl fmt::Debug for RootChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootChanges(..)")
    }
}
