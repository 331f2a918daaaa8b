//! Looks at a folder again when something in it changes.

use crate::{
    catalog::{Snapshot, look},
    host::Host,
};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Changes come in flocks: an editor writes, renames and touches.
const SETTLED: Duration = Duration::from_millis(50);
/// A flock does not last longer than this.
const LONGEST: Duration = Duration::from_millis(500);
/// How often it is looked where nobody tells of changes.
const POLL: Duration = Duration::from_secs(2);

/// Follows the changes of a folder.
#[derive(Debug)]
pub(crate) struct Watching {
    _watcher: Option<RecommendedWatcher>,
    changed: mpsc::Receiver<Vec<PathBuf>>,
    keep: mpsc::Sender<Vec<PathBuf>>,
}

impl Watching {
    pub(crate) fn new(root: &Path) -> Self {
        let (sender, changed) = mpsc::channel(1024);
        let tell = sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if let Ok(event) = event
                && !matches!(event.kind, EventKind::Access(_))
            {
                // When it is full, enough is known already.
                let _ = tell.try_send(event.paths);
            }
        });
        let watcher = watcher.and_then(|mut watcher| {
            watcher.watch(root, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        let watcher = watcher
            .map_err(|error| {
                tracing::warn!("{} is looked at now and then: {error}", root.display())
            })
            .ok();
        Self { _watcher: watcher, changed, keep: sender }
    }

    /// Waits for a change and for the flock to pass: the files it concerns. What the server itself
    /// writes is no change.
    async fn next(&mut self, own: &[PathBuf]) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        if self._watcher.is_none() {
            sleep(POLL).await;
            return all;
        }
        let is_own =
            |paths: &[PathBuf]| !paths.is_empty() && paths.iter().all(|path| own.contains(path));
        while let Some(paths) = self.changed.recv().await {
            if !is_own(&paths) {
                all.extend(paths);
                break;
            }
        }
        let flock = async {
            while let Ok(Some(more)) = timeout(SETTLED, self.changed.recv()).await {
                all.extend(more);
            }
        };
        let _ = timeout(LONGEST, flock).await;
        let _ = &self.keep;
        all
    }

    /// Looks again whenever something changes, and tells what it sees and which resources changed.
    pub(crate) async fn follow(
        mut self,
        root: PathBuf,
        host: Arc<Host>,
        mut own: Vec<PathBuf>,
        mut seen: impl FnMut(Snapshot, Vec<String>),
    ) {
        let mut files = std::collections::BTreeMap::new();
        loop {
            let changed = self.next(&own).await;
            let (root, host) = (root.clone(), host.clone());
            let looked = tokio::task::spawn_blocking(move || look(&root, &host)).await;
            let Ok(snapshot) = looked else { continue };
            own = snapshot.project.policy.own_files();
            files.extend(snapshot.files.clone());
            let updated =
                changed.iter().filter_map(|path| files.get(path)).flatten().cloned().collect();
            seen(snapshot, updated);
        }
    }
}
