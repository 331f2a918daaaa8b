//! Answers that are one JSON message, and the HTTP status each has.

use ::http::{HeaderValue, StatusCode, header};
use axum::{body::Body, response::Response};
use bytestring::ByteString;
use zcp_wire::{
    Frame, Id, Response as Answer, RpcError,
    error::{
        HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION,
    },
};

/// A request that was refused before anything ran.
pub(super) fn refused(id: Option<Id>, error: RpcError) -> Response {
    let status = match error.code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    self::error(status, id, error)
}

/// The answer of a call.
pub(super) fn answered(answer: Answer) -> Response {
    let status = match &answer.result {
        Ok(_) => StatusCode::OK,
        Err(error) => match error.code {
            HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_PROTOCOL_VERSION => {
                StatusCode::BAD_REQUEST
            }
            403 => StatusCode::FORBIDDEN,
            429 => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::OK,
        },
    };
    json(status, Frame::Response(answer).to_text())
}

pub(super) fn error(status: StatusCode, id: Option<Id>, error: RpcError) -> Response {
    json(status, Frame::Response(Answer { id, result: Err(error) }).to_text())
}

pub(super) fn json(status: StatusCode, text: ByteString) -> Response {
    with_type(status, "application/json", Body::from(text.into_bytes()))
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
