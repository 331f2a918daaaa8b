//! Conversations are told of the tasks that began in them, whichever process runs those.

use super::{Task, engine::Engine, record::Record};
use crate::{
    seal::digest,
    store::{Bound, StoreError},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use std::{sync::Arc, time::Duration};

/// Tasks of one conversation whose news wait for whoever is slow.
const NEWS: Bound = Bound { entries: 256, bytes: 16 * 1024 };
/// For how long they wait.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// Where a conversation's news are.
pub(super) fn log(conversation: &str) -> String {
    format!("told/{}", digest(conversation.as_bytes()))
}

impl Engine {
    /// Tells the conversation that a task began in how it is now.
    pub(super) async fn tell_conversation(&self, id: &str, record: &Record) {
        let Some(log) = &record.told_in else { return };
        let name = Bytes::copy_from_slice(id.as_bytes());
        if let Err(error) = self.store.append(log, name, NEWS, Some(KEPT)).await {
            tracing::warn!("a conversation is not told of its task: {error}");
        }
    }

    /// The tasks that began in a conversation, each whenever it has another status. What happened
    /// before is not told.
    pub(crate) fn told_in(
        self: &Arc<Self>,
        conversation: &str,
    ) -> impl Stream<Item = Task> + Send + use<> {
        let (engine, log) = (self.clone(), log(conversation));
        let grown = self.store.watch(&log);
        let begun = async move {
            let held = engine.store.after(&log, 0).await.unwrap_or_default();
            let at = held.last().map_or(0, |(position, _)| *position);
            let ids = stream::unfold((engine.clone(), grown, log, at), async |mut tail| {
                let (engine, grown, log, at) = &mut tail;
                loop {
                    let held = match engine.store.after(log, *at).await {
                        Err(StoreError::Gone) => engine.store.after(log, 0).await,
                        held => held,
                    };
                    let held = held.unwrap_or_default();
                    if let Some((last, _)) = held.last() {
                        *at = *last;
                        return Some((stream::iter(held), tail));
                    }
                    grown.next().await?;
                }
            });
            ids.flatten().filter_map(move |(_, id)| {
                let engine = engine.clone();
                async move { engine.find(std::str::from_utf8(&id).ok()?).await.ok()? }
            })
        };
        stream::once(begun).flatten()
    }
}
