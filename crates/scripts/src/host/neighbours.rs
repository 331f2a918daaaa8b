//! Folders that one process serves beside each other: where their sandboxes may write, and where not.

use super::reserved::Reserved;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};
use zcp::wire::sync::lock;

/// What all folders know of each other. Each has one entry, by its folder of temporary files, for as
/// long as it is there.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    folders: Mutex<BTreeMap<PathBuf, Known>>,
    /// What the process keeps for itself, such as its store.
    private: Mutex<BTreeSet<PathBuf>>,
}

/// What is known of one folder.
#[derive(Debug, Default)]
struct Known {
    /// What its scripts in a sandbox may write.
    writable: BTreeSet<PathBuf>,
    /// What no script in a sandbox may write.
    reserved: Option<Arc<Reserved>>,
}

impl Neighbours {
    // A std mutex: never held across an await.
    fn all(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Known>> {
        lock(&self.folders)
    }

    /// Notes what no script in a sandbox may write or read.
    pub(crate) fn note_private(&self, path: PathBuf) {
        lock(&self.private).insert(path);
    }

    /// All that is noted so.
    pub(super) fn private(&self) -> Vec<PathBuf> {
        let private = lock(&self.private);
        private.iter().cloned().collect()
    }

    /// Notes what sandboxes of a folder may write.
    pub(super) fn note_writable(&self, folder: &Path, paths: impl Iterator<Item = PathBuf>) {
        self.all().entry(folder.to_path_buf()).or_default().writable.extend(paths);
    }

    /// Notes what is reserved for a folder.
    pub(super) fn note_reserved(&self, folder: &Path, reserved: Arc<Reserved>) {
        self.all().entry(folder.to_path_buf()).or_default().reserved = Some(reserved);
    }

    /// What sandboxes of any folder may write.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        let all = self.all();
        let paths: BTreeSet<&PathBuf> = all.values().flat_map(|known| &known.writable).collect();
        paths.into_iter().cloned().collect()
    }

    /// What is reserved for a folder, and for all others.
    pub(super) fn reserved(&self, folder: &Path) -> (Option<Arc<Reserved>>, Vec<Arc<Reserved>>) {
        let all = self.all();
        let own = all.get(folder).and_then(|known| known.reserved.clone());
        let others = all.iter().filter(|(path, _)| *path != folder);
        (own, others.filter_map(|(_, known)| known.reserved.clone()).collect())
    }

    /// A folder is not served any more.
    pub(super) fn forget(&self, folder: &Path) {
        self.all().remove(folder);
    }
}
