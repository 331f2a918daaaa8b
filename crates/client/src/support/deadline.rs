//! How long a request may take, and pauses in which the time does not count.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::Instant;
use zcp_wire::sync::lock;

/// More than anybody waits.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// Without progress.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) total: Duration,
}

/// The instant after that time. A time that is too long for the clock gives one nobody sees.
pub(crate) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// Times in which the server waits for the user, and its idle timeout stands still.
#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<Paused>);

#[derive(Debug, Default)]
struct Paused {
    /// How many wait for the user now.
    count: usize,
    /// When the last wait ended.
    last: Option<Instant>,
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, Paused> {
        lock(&self.0)
    }

    /// Begins a pause that ends when the result is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.begin();
        Held(self)
    }

    pub(crate) fn begin(&self) {
        self.lock().count += 1;
    }

    pub(crate) fn end(&self) {
        let mut paused = self.lock();
        paused.count -= 1;
        paused.last = Some(Instant::now());
    }

    /// The deadline of a server that is idle now, if a pause moves it into the future.
    pub(crate) fn extended(&self, idle: Duration) -> Option<Instant> {
        let paused = self.lock();
        let now = Instant::now();
        let since = if paused.count > 0 { now } else { paused.last? };
        since.checked_add(idle).filter(|until| *until > now)
    }
}

/// A pause, which ends when this is dropped.
#[must_use = "the pause ends when this is dropped"]
pub(crate) struct Held<'a>(&'a Pause);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
