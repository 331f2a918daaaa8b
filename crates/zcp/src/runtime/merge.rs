//! The catalogs of a server as one, for as long as they change.

use super::{
    call::ListKind,
    catalog::{Catalog, Provider},
    changes::{Change, Changes},
};
use futures_util::{Stream, StreamExt};
use http::Extensions;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// The own catalog and those of the providers as one, followed for as long as the guard lives.
pub(super) fn watch_catalogs(
    own: Catalog,
    providers: &[Box<dyn Provider>],
    changes: Changes,
    state: Arc<Extensions>,
) -> (watch::Receiver<Arc<Catalog>>, Option<DropGuard>) {
    let open = providers.iter().map(|provider| provider.catalog()).collect();
    let mut merging = Merging { own, open, gone: vec![] };
    let (sender, receiver) = watch::channel(merging.merged());
    if merging.open.is_empty() {
        return (receiver, None);
    }
    let stop = CancellationToken::new();
    let guard = stop.clone().drop_guard();
    let updated = futures_util::stream::select_all(providers.iter().map(|one| one.updated()));
    let tracker = TaskTracker::new();
    tracker.spawn(stop.clone().run_until_cancelled_owned(announce(updated, changes.clone())));
    tracker.spawn(stop.run_until_cancelled_owned(async move {
        while merging.changed().await {
            let (before, after) = (sender.borrow().clone(), merging.merged());
            for mistake in after.mistakes(&state) {
                tracing::error!("left out, or will fail: {mistake}");
            }
            sender.send_replace(after.clone());
            for change in differences(&before, &after) {
                if let Err(error) = changes.announce(&change).await {
                    tracing::error!("a change could not be announced: {error}");
                }
            }
        }
    }));
    (receiver, Some(guard))
}

/// Tells of resources that changed.
async fn announce(mut updated: impl Stream<Item = String> + Unpin, changes: Changes) {
    while let Some(uri) = updated.next().await {
        if let Err(error) = changes.announce(&Change::Updated(uri)).await {
            tracing::error!("a change could not be announced: {error}");
        }
    }
}

/// The catalogs that make up the whole.
struct Merging {
    own: Catalog,
    open: Vec<watch::Receiver<Arc<Catalog>>>,
    /// Providers that are gone leave their last catalogs behind.
    gone: Vec<watch::Receiver<Arc<Catalog>>>,
}

impl Merging {
    fn merged(&mut self) -> Arc<Catalog> {
        let mut all = self.own.clone();
        let providers = self.gone.iter_mut().chain(&mut self.open);
        providers.for_each(|provider| all.merge(&provider.borrow_and_update()));
        Arc::new(all)
    }

    /// Waits for a change; false when there can be none any more.
    async fn changed(&mut self) -> bool {
        while !self.open.is_empty() {
            let changed = self.open.iter_mut().map(|provider| Box::pin(provider.changed()));
            let (result, index, _) = futures_util::future::select_all(changed).await;
            if result.is_ok() {
                return true;
            }
            self.gone.push(self.open.remove(index));
        }
        false
    }
}

fn differences(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let differ = |kind| before.digest(kind) != after.digest(kind);
    let mut changes = vec![];
    if differ(ListKind::Tools) {
        changes.push(Change::Tools);
    }
    if differ(ListKind::Prompts) {
        changes.push(Change::Prompts);
    }
    // Skills are found among the resources; there is no word for their list of its own.
    let resources = [ListKind::Resources, ListKind::Templates, ListKind::Skills];
    if resources.into_iter().any(differ) {
        changes.push(Change::Resources);
    }
    changes
}
