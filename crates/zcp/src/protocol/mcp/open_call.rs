//! Calls of a session that another process can go on with, and which of them were cancelled.
//!
//! A call under way has a key in the store for as long as it is open. Whoever is told to cancel it
//! marks that key before the notification is answered, so that nobody goes on with it later. Ids
//! without a key are of calls that were answered, or are about to be opened: they are remembered for
//! a moment.

use super::{Mcp, session::Session};
use crate::{
    runtime::Runtime,
    seal::digest,
    store::{
        Bound, If, Store, StoreResult,
        counted_logs::{CountedLogs, Log},
    },
};
use bytes::Bytes;
use futures_util::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;
use zcp_wire::{Frames, Id};

/// The mark of a cancelled call.
const MARK: Bound = Bound { entries: 1, bytes: 16 };
/// Ids of one session that were cancelled before they had a key.
const EARLY: Bound = Bound { entries: 256, bytes: 16 * 1024 };
/// How long a request may take from its arrival to its key.
const EARLY_KEPT: Duration = Duration::from_secs(60);

/// A call under way that another process can go on with if this one dies.
pub(crate) struct OpenCall {
    runtime: Runtime,
    key: String,
}

impl OpenCall {
    /// The call has ended, which its stream's log says already.
    pub(crate) async fn close(self) {
        let logs = self.runtime.shelf::<CountedLogs>();
        if let Err(error) = logs.remove(&*self.runtime.store, &self.key).await {
            tracing::warn!("the key of an ended call stays until it expires: {error}");
        }
    }

    /// What the store names it by.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// What was noted of it when it was opened; none if it was closed meanwhile.
    pub(crate) async fn note(&self) -> StoreResult<Option<Bytes>> {
        Ok(self.runtime.store.get(&self.key).await?.map(|entry| entry.value))
    }

    /// The same, while nobody waits.
    pub(crate) fn close_soon(self, tracker: &TaskTracker) {
        tracker.spawn(self.close());
    }
}

impl Session {
    /// Opens a call; none if it was cancelled meanwhile.
    async fn open_call(
        &self,
        id: &Id,
        note: Bytes,
        runtime: &Runtime,
    ) -> StoreResult<Option<OpenCall>> {
        let (Some(key), Some(early)) = (self.open_key(id), self.log("cancels")) else {
            return Ok(None);
        };
        let (store, kept) = (&runtime.store, runtime.settings.session_ttl);
        store.put(&key, note, If::Always, Some(kept)).await?;
        let call = OpenCall { runtime: runtime.clone(), key };
        // Only now: whoever cancels it from here on finds its key.
        if self.is_stopped(id) || holds(&**store, &early, id).await? {
            self.stop(id);
            call.close().await;
            return Ok(None);
        }
        Ok(Some(call))
    }

    /// Stops a request, here or in whichever process runs it, now or later.
    pub(super) fn cancel(&self, id: &Id, runtime: &Runtime) -> Frames {
        let is_here = self.stop(id);
        let (Some(key), Some(early)) = (self.open_key(id), self.log("cancels")) else {
            return Frames::None;
        };
        let (runtime, entry) = (runtime.clone(), id.as_json().to_owned().into());
        let owner = self.share();
        super::forward::silently(async move {
            let (store, logs) = (&*runtime.store, runtime.shelf::<CountedLogs>());
            if !is_here {
                let log = Log { name: &early, bound: EARLY, kept: EARLY_KEPT, owner: &owner };
                logs.append(store, log, entry).await?;
            }
            if store.get(&key).await?.is_some() {
                let kept = runtime.settings.session_ttl;
                let log = Log { name: &key, bound: MARK, kept, owner: &owner };
                logs.append(store, log, Bytes::from_static(b"!")).await?;
            }
            Ok(())
        })
    }

    /// Whether a call that was opened is cancelled.
    async fn was_cancelled(&self, id: &Id, store: &dyn Store) -> StoreResult<bool> {
        match self.open_key(id) {
            Some(key) => Ok(!store.after(&key, 0).await?.is_empty()),
            None => Ok(false),
        }
    }

    fn open_key(&self, id: &Id) -> Option<String> {
        self.key_of(&call_name(id))
    }

    fn key_of(&self, call: &str) -> Option<String> {
        self.id().map(|session| format!("open/{session}/{call}"))
    }
}

/// What the key of a call is named by: as long for a long id as for a short one.
pub(crate) fn call_name(id: &Id) -> String {
    digest(id.as_json().as_bytes())
}

impl Mcp {
    /// Opens a call that another process can go on with, with what that needs to know; none if it
    /// was cancelled meanwhile.
    pub(crate) async fn open_call(&self, id: &Id, note: Bytes) -> StoreResult<Option<OpenCall>> {
        match &self.session {
            Some(session) => session.open_call(id, note, &self.runtime).await,
            None => Ok(None),
        }
    }

    /// The call of an id that another process opened.
    pub(crate) fn opened_call(&self, id: &Id) -> Option<OpenCall> {
        self.call_named(&call_name(id))
    }

    /// The same by its [name](call_name).
    pub(crate) fn call_named(&self, name: &str) -> Option<OpenCall> {
        let key = self.session.as_ref()?.key_of(name)?;
        Some(OpenCall { runtime: self.runtime.clone(), key })
    }

    /// Waits until an open call is cancelled, in whichever process.
    pub(crate) fn cancelled_elsewhere(&self, id: Id) -> impl Future<Output = ()> + Send + use<> {
        let (session, store) = (self.session.clone(), self.runtime.store.clone());
        async move { until_cancelled(session, &id, &store).await }
    }

    /// Whether an open call was cancelled, in whichever process.
    pub(crate) async fn was_cancelled(&self, id: &Id) -> StoreResult<bool> {
        match &self.session {
            Some(session) => session.was_cancelled(id, &*self.runtime.store).await,
            None => Ok(false),
        }
    }
}

async fn until_cancelled(session: Option<Arc<Session>>, id: &Id, store: &Arc<dyn Store>) {
    let Some((session, key)) =
        session.and_then(|session| Some((session.clone(), session.open_key(id)?)))
    else {
        return std::future::pending().await;
    };
    let mut grown = store.watch(&key);
    // A store that is away is read when it is back: whoever cancels writes to it.
    while !matches!(session.was_cancelled(id, &**store).await, Ok(true)) {
        if grown.next().await.is_none() {
            return std::future::pending().await;
        }
    }
}

/// Whether a log of ids has one.
pub(super) async fn holds(store: &dyn Store, log: &str, id: &Id) -> StoreResult<bool> {
    let held = store.after(log, 0).await?;
    Ok(held.iter().any(|(_, entry)| entry == id.as_json().as_bytes()))
}
