//! The one seam of the system: a frame goes in, frames come out.

use crate::{Frame, Response};
use futures_core::Stream;
use http::Extensions;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Anything a frame can be sent to: a server in this process, a child process, a URL.
pub trait Peer: Send + Sync + 'static {
    /// A request yields its progress, logs and questions, and its response last; dropping the
    /// stream cancels it. A notification or a response yields nothing.
    ///
    /// Not async: what a frame does to the conversation is done before this returns, so frames
    /// take effect in the order they arrive however their answers interleave.
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames;

    /// Frames that answer no request: what changed, and who is told.
    fn events(&self) -> Frames;
}

/// Nothing, one frame, or a stream of them. The first two cost no allocation.
pub enum Frames {
    /// The end.
    None,
    /// Just this.
    One(Frame),
    /// As they come.
    Stream(Pin<Box<dyn Stream<Item = Frame> + Send>>),
}

impl Frames {
    /// The next frame; none at the end.
    pub async fn next(&mut self) -> Option<Frame> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The next frame if it is there already. Nobody is woken for one that comes later: whoever
    /// wants it polls again.
    pub fn at_once(&mut self) -> Poll<Option<Frame>> {
        Pin::new(self).poll_next(&mut Context::from_waker(Waker::noop()))
    }

    /// The response, when everything before it has been passed over.
    pub async fn response(mut self) -> Option<Response> {
        loop {
            if let Frame::Response(response) = self.next().await? {
                return Some(response);
            }
        }
    }

    /// Boxes a stream.
    pub fn stream(frames: impl Stream<Item = Frame> + Send + 'static) -> Self {
        Self::Stream(Box::pin(frames))
    }
}

impl Stream for Frames {
    type Item = Frame;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        match &mut *self {
            Self::Stream(frames) => frames.as_mut().poll_next(context),
            Self::None => Poll::Ready(None),
            Self::One(_) => match std::mem::replace(&mut *self, Self::None) {
                Self::One(frame) => Poll::Ready(Some(frame)),
                _ => Poll::Ready(None),
            },
        }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::One(frame) => f.debug_tuple("One").field(frame).finish(),
            Self::Stream(_) => f.write_str("Stream(..)"),
        }
    }
}
