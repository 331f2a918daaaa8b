//! Looks at a folder again whenever something in it changes.

use super::{Snapshot, look};
use crate::{host::Host, project::file_watch::FileWatch};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use tokio_util::task::TaskTracker;

/// Looks again whenever something changes, and tells what it sees and which resources changed. `own`
/// are files the server itself writes. `tasks` has what is under way.
pub(crate) async fn follow(
    tasks: TaskTracker,
    mut watch: FileWatch,
    root: PathBuf,
    host: Arc<Host>,
    own: Vec<PathBuf>,
    mut seen: impl FnMut(Snapshot, Vec<String>),
) {
    watch.ignore(own);
    let mut before = BTreeMap::new();
    loop {
        let changed = watch.next().await;
        let (root, host) = (root.clone(), host.clone());
        let looked = tasks.spawn_blocking(move || look(&root, &host)).await;
        let snapshot = match looked {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::error!("the folder could not be looked at: {error}");
                continue;
            }
        };
        watch.ignore(snapshot.project.policy.own_files());
        // A file that is gone was a resource, too.
        let of = |path| snapshot.files.get(path).or_else(|| before.get(path));
        let updated = changed.iter().filter_map(of).flatten().cloned().collect();
        before = snapshot.files.clone();
        seen(snapshot, updated);
    }
}
