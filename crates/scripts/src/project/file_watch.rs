//! Looks at a folder again when something in it changes.

use crate::{
    host::Host,
    offers::{Snapshot, look},
};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
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
    /// Files the server itself writes.
    own: Arc<Mutex<Vec<PathBuf>>>,
    keep: mpsc::Sender<Vec<PathBuf>>,
}

impl Watching {
    /// Of a project's own folder, and of others that may be anywhere.
    pub(crate) fn new(root: &Path, others: impl Iterator<Item = PathBuf>) -> Self {
        let (sender, changed) = mpsc::channel(1024);
        let tell = sender.clone();
        let own: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
        let ours = own.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if let Ok(event) = event
                && !matches!(event.kind, EventKind::Access(_))
            {
                let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
                let is_own = |path: &PathBuf| ours.contains(path);
                // When it is full, enough is known already.
                if event.paths.is_empty() || !event.paths.iter().all(is_own) {
                    let _ = tell.try_send(event.paths);
                }
            }
        });
        let watcher = watcher.and_then(|mut watcher| {
            watcher.watch(root, RecursiveMode::Recursive)?;
            for other in others.filter(|other| !other.starts_with(root) && other.is_dir()) {
                watcher.watch(&other, RecursiveMode::Recursive)?;
            }
            Ok(watcher)
        });
        let watcher = watcher
            .map_err(|error| {
                tracing::warn!("{} is looked at now and then: {error}", root.display())
            })
            .ok();
        Self { _watcher: watcher, changed, own, keep: sender }
    }

    /// Waits for a change and for the flock to pass: the files it concerns. What the server itself
    /// writes is no change.
    async fn next(&mut self) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        if self._watcher.is_none() {
            sleep(POLL).await;
            return all;
        }
        all.extend(self.changed.recv().await.into_iter().flatten());
        let flock = async {
            while let Ok(Some(more)) = timeout(SETTLED, self.changed.recv()).await {
                all.extend(more);
            }
        };
        let _ = timeout(LONGEST, flock).await;
        let _ = &self.keep;
        all
    }

    fn writes(&self, files: Vec<PathBuf>) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// Looks again whenever something changes, and tells what it sees and which resources changed.
    pub(crate) async fn follow(
        mut self,
        root: PathBuf,
        host: Arc<Host>,
        own: Vec<PathBuf>,
        mut seen: impl FnMut(Snapshot, Vec<String>),
    ) {
        self.writes(own);
        let mut before = std::collections::BTreeMap::new();
        loop {
            let changed = self.next().await;
            let (root, host) = (root.clone(), host.clone());
            let looked = tokio::task::spawn_blocking(move || look(&root, &host)).await;
            let snapshot = match looked {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    tracing::error!("the folder could not be looked at: {error}");
                    continue;
                }
            };
            self.writes(snapshot.project.policy.own_files());
            // A file that is gone was a resource, too.
            let of = |path| snapshot.files.get(path).or_else(|| before.get(path));
            let updated = changed.iter().filter_map(of).flatten().cloned().collect();
            before = snapshot.files.clone();
            seen(snapshot, updated);
        }
    }
}
