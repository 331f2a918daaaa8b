//! Work beside the calls of a runtime: it is stopped with its owner, and can be waited for.

use std::future::Future;
use tokio::runtime::Handle;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// Tasks that end when this is dropped, or closed.
pub(super) struct Background {
    stop: DropGuard,
    tracker: TaskTracker,
}

impl Background {
    pub(super) fn new() -> Self {
        Self { stop: CancellationToken::new().drop_guard(), tracker: TaskTracker::new() }
    }

    /// Starts a task.
    pub(super) fn spawn(&self, handle: &Handle, work: impl Future<Output = ()> + Send + 'static) {
        let stopped = self.stop.token().clone().run_until_cancelled_owned(work);
        self.tracker.spawn_on(stopped, handle);
    }

    /// Stops all tasks, and waits until they have ended.
    pub(super) async fn close(&self) {
        self.stop.token().cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
