//! A response that is a stream of events.

use super::status::with_type;
use ::http::{HeaderValue, StatusCode, header};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use std::{convert::Infallible, time::Duration};
use zcp_wire::{Frame, sse};

/// A frame as an event.
pub(super) fn event(id: Option<&str>, frame: &Frame) -> Vec<u8> {
    message(id, frame.to_text().as_bytes())
}

/// A text as an event.
pub(super) fn message(id: Option<&str>, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    sse::write(&mut out, Some("message"), id, text);
    out
}

/// Events as a response that says it is still there when it has been quiet for a while.
pub(super) fn respond(
    events: impl Stream<Item = Vec<u8>> + Send + 'static,
    keep_alive: Duration,
) -> Response {
    let events = Box::pin(events);
    let alive = stream::unfold(events, move |mut events| async move {
        let next = match tokio::time::timeout(keep_alive, events.next()).await {
            Ok(event) => event?,
            Err(_) => sse::KEEP_ALIVE.to_vec(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(next)), events))
    });
    let mut response = with_type(StatusCode::OK, "text/event-stream", Body::from_stream(alive));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
