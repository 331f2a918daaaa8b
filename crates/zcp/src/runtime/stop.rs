//! How a call's work is stopped, and how it lets its client go.

use futures_util::task::AtomicWaker;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Stops a call's work. The token is made when someone asks for it: most calls end before.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    token: OnceLock<CancellationToken>,
}

impl Stop {
    /// Stops the work, now and whoever asks later.
    pub(crate) fn now(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.token.get().into_iter().for_each(CancellationToken::cancel);
    }

    /// Whether the work was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// A token that is cancelled when the work is stopped.
    pub(crate) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        if self.is_stopped() {
            token.cancel();
        }
        token
    }
}

/// A call's wish to let its client go, heard by a wire whose clients can come back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Release(Arc<Parting>);

#[derive(Debug, Default)]
struct Parting {
    retry: OnceLock<Duration>,
    waker: AtomicWaker,
}

impl Release {
    /// Lets the client go; it comes back after `retry`.
    pub(super) fn now(&self, retry: Duration) {
        let _ = self.0.retry.set(retry);
        self.0.waker.wake();
    }

    /// Waits for the wish.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Duration> {
        self.0.waker.register(context.waker());
        self.0.retry.get().map_or(Poll::Pending, |retry| Poll::Ready(*retry))
    }
}
