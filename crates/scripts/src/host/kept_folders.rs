//! Folders that are kept for a moment, so that reading again does not fetch again.

use crate::call_files::CallFolder;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::OnceCell;
use zcp::wire::sync::lock;

/// How long, and how many, folders are kept.
const KEPT_FOR: Duration = Duration::from_secs(60);
const KEPT: usize = 8;

/// Repositories that were fetched a moment ago.
#[derive(Debug, Default)]
pub(crate) struct KeptFolders(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    repository: String,
    reference: String,
    at: Instant,
    folder: Arc<OnceCell<CallFolder>>,
}

impl KeptFolders {
    /// The folder of a repository at a reference. It may be empty: whoever comes first fetches it
    /// for all.
    pub(crate) fn folder(&self, repository: &str, reference: &str) -> Arc<OnceCell<CallFolder>> {
        let mut all = lock(&self.0);
        all.retain(|kept| kept.at.elapsed() < KEPT_FOR);
        let same = |kept: &&Kept| kept.repository == repository && kept.reference == reference;
        if let Some(kept) = all.iter().find(same) {
            return kept.folder.clone();
        }
        if all.len() >= KEPT {
            all.pop_front();
        }
        let folder = Arc::new(OnceCell::new());
        all.push_back(Kept {
            repository: repository.to_owned(),
            reference: reference.to_owned(),
            at: Instant::now(),
            folder: folder.clone(),
        });
        folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_repositories_are_kept() {
        let kept = KeptFolders::default();
        let folder = |number: usize| kept.folder(&number.to_string(), "HEAD");
        let first = folder(0);
        assert!(Arc::ptr_eq(&first, &folder(0)));
        for number in 1..=KEPT {
            folder(number);
        }
        assert_eq!(kept.0.lock().unwrap().len(), KEPT);
        assert!(!Arc::ptr_eq(&first, &folder(0)));
    }
}
