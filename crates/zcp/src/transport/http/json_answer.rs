//! Answers that are one JSON message, and the HTTP status each has.

use ::http::{HeaderValue, StatusCode, header};
use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use bytestring::ByteString;
use hyper::body::{Frame as BodyFrame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use zcp_wire::{Frame, Id, Response as Answer, RpcError, status};

/// A request that was refused before anything ran.
pub(super) fn refused(id: Option<Id>, error: RpcError) -> Response {
    self::error(status::of_refusal(error.code), id, error)
}

/// A handshake that was refused, by what was said or by a layer.
pub(super) fn unopened(id: Option<Id>, error: RpcError) -> Response {
    with_status(status::of_handshake(error.code), Answer { id, result: Err(error) })
}

/// A request whose session is not there.
pub(super) fn no_session(id: Option<Id>) -> Response {
    let error = RpcError::invalid_request("no such session: start over with `initialize`");
    self::error(status::NO_SESSION, id, error)
}

/// The answer of a call in a session.
pub(super) fn answered_in_session(answer: Answer) -> Response {
    with_status(status::IN_SESSION, answer)
}

/// The answer of a call.
pub(super) fn answered(answer: Answer) -> Response {
    let status = match &answer.result {
        Ok(_) => StatusCode::OK,
        Err(error) => status::of_error(error.code),
    };
    with_status(status, answer)
}

fn with_status(status: StatusCode, answer: Answer) -> Response {
    if let Some(parts) = answer.in_parts(LONG) {
        return with_type(status, JSON, Body::new(Parts(parts.into_iter())));
    }
    let data = answer.result.as_ref().err().and_then(|error| error.data.as_ref());
    let wait = data.and_then(|data| data.get("retryAfterSeconds")?.as_u64());
    let scope = data.filter(|_| status == StatusCode::FORBIDDEN).and_then(|data| data.get("scope"));
    let challenge = scope.and_then(|scope| insufficient(scope.as_str()?));
    let mut response = json(status, Frame::Response(answer).into_text());
    if let Some(wait) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    if let Some(challenge) = challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Tells a client which scope to ask its authorization server for. None for a scope that is none by
/// RFC 6749: it could say something else in a header.
fn insufficient(scope: &str) -> Option<HeaderValue> {
    let is_scope = |byte: u8| matches!(byte, 0x20 | 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if !scope.bytes().all(is_scope) {
        return None;
    }
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
    HeaderValue::from_str(&challenge).ok()
}

/// Bytes of a result from which on it is not copied into its frame.
const LONG: usize = 4 * 1024;
const JSON: &str = "application/json";

/// A body that is there as a whole, in parts.
struct Parts(std::vec::IntoIter<Bytes>);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|part| Ok(BodyFrame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_slice().iter().map(|part| part.len() as u64).sum())
    }
}

pub(super) fn error(status: StatusCode, id: Option<Id>, error: RpcError) -> Response {
    json(status, Frame::Response(Answer { id, result: Err(error) }).into_text())
}

pub(super) fn json(status: StatusCode, text: ByteString) -> Response {
    with_type(status, JSON, Body::from(text.into_bytes()))
}

pub(super) fn with_type(status: StatusCode, mime: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
