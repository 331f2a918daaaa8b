//! Watches the files of a folder.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use zcp::wire::sync::lock;

/// Changes come in flocks: an editor writes, renames and touches.
const SETTLED: Duration = Duration::from_millis(50);
/// A flock does not last longer than this.
const LONGEST: Duration = Duration::from_millis(500);
/// How often it is looked where nobody tells of changes.
const POLL: Duration = Duration::from_secs(2);

/// The changes of a folder.
#[derive(Debug)]
pub(crate) struct FileWatch {
    _watcher: Option<RecommendedWatcher>,
    changed: mpsc::Receiver<Vec<PathBuf>>,
    /// Files the server itself writes.
    own: Arc<Mutex<Vec<PathBuf>>>,
    keep: mpsc::Sender<Vec<PathBuf>>,
}

impl FileWatch {
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
                let ours = lock(&ours);
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
    pub(crate) async fn next(&mut self) -> BTreeSet<PathBuf> {
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

    /// Files the server itself writes from now on.
    pub(crate) fn ignore(&self, files: Vec<PathBuf>) {
        *lock(&self.own) = files;
    }
}
