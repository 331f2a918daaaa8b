//! The work of a handler, contained: a panic or too long a time is an error of its call alone.

use super::{
    error::{CallError, Result},
    failure::took_too_long,
};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

pin_project! {
    /// A handler's work. By hand: an async block would hold the result several times, and every
    /// call would move it.
    pub(super) struct Contained<F> {
        #[pin]
        work: F,
        limit: Option<Duration>,
        // Made when the work first waits: most never does.
        timer: Option<Pin<Box<Sleep>>>,
    }
}

/// Contains work, which may take so long.
pub(super) fn contain<F>(work: F, limit: Option<Duration>) -> Contained<F> {
    Contained { work, limit, timer: None }
}

impl<T, F: Future<Output = Result<T>>> Future for Contained<F> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = self.project();
        match catch_unwind(AssertUnwindSafe(|| this.work.poll(context))) {
            Ok(Poll::Pending) => (),
            Ok(ready) => return ready,
            Err(_) => return Poll::Ready(Err(panicked())),
        }
        let Some(limit) = *this.limit else { return Poll::Pending };
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer.as_mut().poll(context).map(|()| Err(took_too_long(limit)))
    }
}

/// Runs what comes before and after a handler's own work, whose panics are its own, too.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

/// What a panic says may hold secrets; it is on stderr for whoever runs the server.
fn panicked() -> CallError {
    CallError::new("the handler failed unexpectedly")
}
