//! Tasks beside the one that serves: stopped and waited for when it ends.

use std::future::Future;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// The owner of tasks. They are stopped when it ends or is dropped.
pub(crate) struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl Background {
    pub(crate) fn new() -> Self {
        let stop = CancellationToken::new();
        Self { tasks: TaskTracker::new(), _stop_when_dropped: stop.clone().drop_guard(), stop }
    }

    /// Runs a task until it is over or all are stopped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }

    /// Stops all tasks, and waits until they have ended.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
