//! A response that is a stream of events.

use super::{json_answer::with_type, unread::Unread};
use crate::transport::weight::NoRoom;
use ::http::{HeaderValue, StatusCode, header};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use smallvec::{SmallVec, smallvec};
use std::{convert::Infallible, future::ready, time::Duration};
use zcp_wire::{Frame, Response as Answer, RpcError, sse};

/// Bytes of a text from which on it is not copied into its event.
const LONG: usize = 4 * 1024;

/// An event on its way to a client. A long text is a part of its own.
pub(super) struct Event(SmallVec<[Bytes; 1]>);

impl Event {
    /// A text as an event.
    pub(super) fn message(id: Option<&str>, text: &Bytes) -> Self {
        let short = text.len() < LONG;
        let mut out = Vec::with_capacity(64 + if short { text.len() } else { 0 });
        if short {
            sse::write(&mut out, Some("message"), id, text);
            return out.into();
        }
        sse::write(&mut out, Some("message"), id, b"");
        out.truncate(out.len() - END.len());
        Self(smallvec![out.into(), text.clone(), Bytes::from_static(END)])
    }

    /// An event without a text, which says where to go on.
    pub(super) fn primer(id: &str) -> Self {
        Self::message(Some(id), &Bytes::new())
    }

    /// A frame as an event, if there is room for it until it is read.
    pub(super) fn frame(id: Option<&str>, frame: &Frame, unread: &Unread) -> Result<Self, NoRoom> {
        let text = unread.hold(frame.to_text().into_bytes())?;
        Ok(Self::message(id, &text))
    }
}

/// What is after the text of an event.
const END: &[u8] = b"\n\n";
/// The wish to wait for a second before a stream is resumed, as a line of an event.
const RETRY: &[u8] = b"retry: 1000\n";

impl From<Vec<u8>> for Event {
    fn from(text: Vec<u8>) -> Self {
        Self(smallvec![text.into()])
    }
}

/// Frames as a response that cannot be resumed. Where there is no room for an answer an error takes
/// its place; without room for anything else the stream ends.
pub(super) fn respond_once(
    frames: impl Stream<Item = Frame> + Send + 'static,
    unread: Unread,
    keep_alive: Duration,
) -> Response {
    let events = frames.scan(unread, |unread, frame| {
        let event = match (Event::frame(None, &frame, unread), frame) {
            (Err(NoRoom), Frame::Response(answer)) => {
                let result = Err(RpcError::internal(NoRoom::WHY));
                let refused = Frame::Response(Answer { id: answer.id, result });
                Event::frame(None, &refused, unread).ok()
            }
            (event, _) => event.ok(),
        };
        ready(event)
    });
    respond(events, keep_alive)
}

/// Events as a response that can be resumed: the first of them says how long to wait before that.
pub(super) fn respond_resumable(
    events: impl Stream<Item = Event> + Send + 'static,
    keep_alive: Duration,
) -> Response {
    let events = events.enumerate().map(|(number, Event(mut parts))| {
        if number == 0 {
            parts.insert(0, Bytes::from_static(RETRY));
        }
        Event(parts)
    });
    respond(events, keep_alive)
}

/// Events as a response that says it is still there when it has been quiet for a while.
pub(super) fn respond(
    events: impl Stream<Item = Event> + Send + 'static,
    keep_alive: Duration,
) -> Response {
    let events = Box::pin(events);
    let alive = stream::unfold(events, move |mut events| async move {
        let next = match tokio::time::timeout(keep_alive, events.next()).await {
            Ok(event) => event?,
            Err(_) => Event(smallvec![Bytes::from_static(sse::KEEP_ALIVE)]),
        };
        Some((next, events))
    });
    let parts = alive.flat_map(|event| stream::iter(event.0).map(Ok::<_, Infallible>));
    let mut response = with_type(StatusCode::OK, "text/event-stream", Body::from_stream(parts));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_sent_as_it_is_held() {
        for length in [0, LONG - 1, LONG, LONG + 1] {
            let text = Bytes::from(vec![b'x'; length]);
            let Event(parts) = Event::message(Some("3_17"), &text);
            let mut written = vec![];
            sse::write(&mut written, Some("message"), Some("3_17"), &text);
            assert_eq!(parts.concat(), written);
            let is_held = parts.iter().any(|part| part.as_ptr() == text.as_ptr());
            assert_eq!(is_held, length >= LONG, "{length}");
        }
    }
}
