//! A call under way, as frames: what it reports, and its response last.

use super::{report::Report, session::Registered};
use crate::sync::lock;
use futures_util::Stream;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use zcp_wire::Frame;

pin_project! {
    /// A call under way: what it reports, and its response last. Dropping it stops the work.
    pub(super) struct Running<F> {
        #[pin]
        answer: F,
        state: State,
        registered: Option<Registered>,
        call: StopOnDrop,
    }
}

pub(super) enum State {
    Working,
    Answered(Frame),
    Ended,
}

struct StopOnDrop(Arc<Report>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.about.stop.now();
    }
}

impl<F: Future<Output = Frame>> Running<F> {
    pub(super) fn new(answer: F, report: Arc<Report>, registered: Option<Registered>) -> Self {
        Self { answer, state: State::Working, registered, call: StopOnDrop(report) }
    }
}

impl<F: Future<Output = Frame>> Stream for Running<F> {
    type Item = Frame;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let this = self.project();
        let report = &this.call.0;
        // Once cancelled, its client expects nothing any more.
        if report.about.stop.is_stopped() {
            *this.state = State::Ended;
        }
        if let State::Working = this.state {
            if let Some(frame) = lock(&report.outbox).frames.pop_front() {
                return Poll::Ready(Some(frame));
            }
            match this.answer.poll(context) {
                Poll::Ready(response) if lock(&report.outbox).is_empty() => {
                    *this.state = State::Ended;
                    // Its client may use the id again as soon as it has read the response.
                    drop(this.registered.take());
                    return Poll::Ready(Some(response));
                }
                Poll::Ready(response) => *this.state = State::Answered(response),
                Poll::Pending => {
                    report.waker.register(context.waker());
                    if report.about.stop.is_stopped() {
                        *this.state = State::Ended;
                    }
                }
            }
        }
        // The call may have reported while it was polled.
        let waiting = lock(&report.outbox).next(report.level, this.state);
        if let Some(frame) = waiting {
            return Poll::Ready(Some(frame));
        }
        match std::mem::replace(this.state, State::Ended) {
            State::Answered(response) => {
                // Its client may use the id again as soon as it has read the response.
                drop(this.registered.take());
                Poll::Ready(Some(response))
            }
            State::Ended => Poll::Ready(None),
            State::Working => {
                *this.state = State::Working;
                Poll::Pending
            }
        }
    }
}
