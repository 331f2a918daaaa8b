//! How many tasks run at once, and how many wait for that, or for an answer.

use super::Tasks;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one process.
pub(super) struct Slots {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
}

/// A task's place.
pub(super) enum Slot {
    Now(OwnedSemaphorePermit),
    Later(Turn),
}

/// One task that waits.
pub(super) struct Turn(Arc<AtomicUsize>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slots {
    pub(super) fn new(settings: &Tasks) -> Self {
        let free = settings.at_once.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(free)),
            waiting: Arc::default(),
            most_waiting: settings.waiting,
        }
    }

    /// A place for a task that is to run at once.
    pub(super) fn now(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// A place now or later, if not too many wait.
    pub(super) fn take(&self) -> Option<Slot> {
        if let Some(permit) = self.now() {
            return Some(Slot::Now(permit));
        }
        let few = self.waiting.load(Ordering::Relaxed) < self.most_waiting;
        few.then(|| Slot::Later(self.wait()))
    }

    /// A place for a task that was accepted, however many wait.
    pub(super) fn accepted(&self) -> Slot {
        self.now().map_or_else(|| Slot::Later(self.wait()), Slot::Now)
    }

    /// Counts one that waits.
    pub(super) fn wait(&self) -> Turn {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Turn(self.waiting.clone())
    }

    /// Waits for a place.
    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        match self.free.clone().acquire_owned().await {
            Ok(permit) => permit,
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }
}
