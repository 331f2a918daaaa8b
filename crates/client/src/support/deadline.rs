//! Times in which nobody waits for the server, because the server waits for the user.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Whether the user is being waited for, and when that was last over.
#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<Paused>);

#[derive(Debug, Default)]
struct Paused {
    count: usize,
    last: Option<Instant>,
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, Paused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self) {
        self.lock().count += 1;
    }

    pub(crate) fn end(&self) {
        let mut paused = self.lock();
        paused.count -= 1;
        paused.last = Some(Instant::now());
    }

    /// Until when a server may be quiet, if that is longer than it would be without the user.
    pub(crate) fn extended(&self, quiet: Duration) -> Option<Instant> {
        let paused = self.lock();
        let now = Instant::now();
        let since = if paused.count > 0 { now } else { paused.last? };
        since.checked_add(quiet).filter(|until| *until > now)
    }
}
