//! What the servers of a store have in hand, for those who operate them.

use crate::{
    protocol::mcp::session::Stored,
    runtime::{
        call::Fault,
        tasks::{Engine, Task, Tasks},
    },
    seal,
    store::{Browse, Store, StoreError, StoreResult},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use zcp_wire::mcp::lifecycle::Implementation;

pub use crate::seal::{OldKeys, Rotated};

/// Entries that are read at once.
const AT_ONCE: usize = 32;

/// A session of the handshake era.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Session {
    /// What it is known by. For callers who are nobody in particular it is all it takes to be them.
    pub id: String,
    /// Whose it is; empty for nobody in particular.
    pub principal: String,
    /// The revision that was agreed on.
    pub revision: String,
    /// What the client says it is.
    pub client: Implementation,
    /// How many resources it subscribed to.
    pub subscriptions: usize,
}

/// Replaces the key that servers of a store seal request states and cursors with. They follow while
/// they run, those that have their keys from the store ([`KeyRing::kept_in`]).
///
/// [`KeyRing::kept_in`]: crate::KeyRing::kept_in
pub async fn rotate_keys(store: &dyn Store, old: OldKeys) -> StoreResult<Rotated> {
    seal::rotate(store, old).await
}

/// Every session a store holds.
pub async fn sessions(store: &dyn Browse) -> StoreResult<Vec<Session>> {
    let read = |key: String| async move {
        let found = store.get(&key).await?.as_ref().and_then(Stored::read);
        let id = key.strip_prefix("session/").unwrap_or_default().to_owned();
        Ok(found.map(|Stored { principal, revision, client, subscriptions }| Session {
            id,
            principal,
            revision,
            client,
            subscriptions,
        }))
    };
    let all = stream::iter(store.keys("session/").await?).map(read).buffered(AT_ONCE);
    all.try_filter_map(|found| std::future::ready(Ok(found))).try_collect().await
}

/// Every task a store holds, oldest first.
pub async fn tasks(store: Arc<dyn Browse>) -> StoreResult<Vec<Task>> {
    let keys = store.keys("task/").await?;
    let engine = &Engine::new(Tasks::default(), store);
    let read = |key: String| async move { engine.find(key.trim_start_matches("task/")).await };
    let all = stream::iter(keys).map(read).buffered(AT_ONCE);
    let mut tasks: Vec<Task> =
        all.try_filter_map(|found| std::future::ready(Ok(found))).try_collect().await?;
    tasks.sort_by_key(|task| task.created);
    Ok(tasks)
}

/// A task, whoever's it is.
pub async fn task(store: Arc<dyn Browse>, id: &str) -> StoreResult<Option<Task>> {
    Engine::new(Tasks::default(), store).find(id).await
}

/// Gives a task up: whichever server runs it stops. None if there is no such task; one that is
/// over stays as it is.
pub async fn cancel_task(store: Arc<dyn Browse>, id: &str) -> StoreResult<Option<Task>> {
    let engine = Engine::new(Tasks::default(), store);
    if engine.find(id).await?.is_none() {
        return Ok(None);
    }
    match engine.give_up(id, "cancelled by an operator").await {
        Ok(_) | Err(Fault::Over(_) | Fault::Unknown(_)) => engine.find(id).await,
        Err(_) => Err(StoreError::Unavailable("the task could not be written".into())),
    }
}
