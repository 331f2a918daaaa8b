//! A request's body: what type it has, and all its bytes within the limits.

use super::{Limits, busy, idle::Watch, refusal};
use crate::transport::weight::{NoRoom, Scale};
use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::{BoxError, body::HttpBody, response::Response};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::{
    future::{Future, poll_fn},
    mem::take,
    pin::pin,
    task::Poll,
};

/// A request's body, from a router or from the connection itself.
pub(super) trait Body: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send {}

impl<B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send> Body for B {}

/// Checks what the body is, and what the client takes as an answer.
pub(super) fn check_types(headers: &HeaderMap) -> Result<(), Response> {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if !essence(kind).eq_ignore_ascii_case(b"application/json") {
        let why = "the body must be `Content-Type: application/json`";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    // What nearly every client sends.
    if headers
        .get(header::ACCEPT)
        .is_some_and(|value| value == "application/json, text/event-stream")
    {
        return Ok(());
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let why = "send `Accept: application/json, text/event-stream`";
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, why));
    }
    Ok(())
}

/// A media type without its parameters.
fn essence(range: &[u8]) -> &[u8] {
    range.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether the client takes a type; one that does not say takes all.
pub(super) fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let family = wanted.split('/').next().unwrap_or_default().as_bytes();
    let fits = |range: &[u8]| {
        let range = essence(range);
        let whole = |range: &[u8]| range.eq_ignore_ascii_case(family) || range == b"*";
        range.eq_ignore_ascii_case(wanted.as_bytes())
            || range.strip_suffix(b"/*").is_some_and(whole)
    };
    let mut said = false;
    for value in headers.get_all(header::ACCEPT) {
        said = true;
        if value.as_bytes().split(|byte| *byte == b',').any(fits) {
            return true;
        }
    }
    !said
}

/// The whole body, if it is neither too large nor too slow. Without a watch, by a timer of its own.
pub(super) async fn read(
    body: impl Body,
    limits: &Limits,
    watch: Option<&Watch>,
    scale: &mut Scale<'_>,
) -> Result<Bytes, Response> {
    let collected = collect(Limited::new(body, limits.body), scale);
    let collected = match watch {
        None => tokio::time::timeout(limits.read, collected).await.ok(),
        Some(watch) => {
            let mut collected = pin!(collected);
            watch.awaits_body(true);
            let in_time = poll_fn(|context| match collected.as_mut().poll(context) {
                Poll::Pending if watch.is_late() => Poll::Ready(None),
                polled => polled.map(Some),
            });
            let collected = in_time.await;
            watch.awaits_body(false);
            collected
        }
    };
    match collected {
        Some(Ok(body)) => Ok(body),
        Some(Err(error)) if error.downcast_ref::<NoRoom>().is_some() => Err(busy(NoRoom::WHY)),
        Some(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let why = format!("a body may have {} bytes at most", limits.body);
            Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why))
        }
        Some(Err(_)) => Err(refusal(StatusCode::BAD_REQUEST, "the body ended too early")),
        None => Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")),
    }
}

/// A body of one chunk is not copied.
async fn collect(body: Limited<impl Body>, scale: &mut Scale<'_>) -> Result<Bytes, BoxError> {
    let mut body = pin!(body);
    let expected = body.size_hint().lower() as usize;
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        scale.grow(first.len() + all.len() + chunk.len())?;
        if first.is_empty() && all.is_empty() {
            first = chunk;
            continue;
        }
        if all.is_empty() {
            all.reserve(expected.max(first.len() + chunk.len()));
            all.extend_from_slice(&take(&mut first));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
