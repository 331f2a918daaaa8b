//! Streamable HTTP: one POST, one message in, a stream of frames out.

use super::{
    Shared, event_stream, refusal, resume,
    resume::{Adopting, Resumable},
    sessions::Live,
    status,
};
use crate::{
    auth::Principal,
    protocol::mcp::{Route, check_version, route},
    transport::{Release, converse},
};
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::sync::Arc;
use zcp_wire::{
    Frame, Frames, Id, Message, Peer, RpcError,
    header::{LAST_EVENT_ID, SESSION_ID},
};

/// The endpoint: POST for messages, GET for what a session is told, DELETE to end one.
pub(super) async fn exchange(State(http): State<Arc<Shared>>, request: Request) -> Response {
    let answered = match *request.method() {
        Method::POST => post(&http, request).await,
        Method::GET => get(&http, &request.into_parts().0).await,
        Method::DELETE => delete(&http, &request.into_parts().0).await,
        _ => {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE");
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
            Err(response)
        }
    };
    answered.unwrap_or_else(|refused| refused)
}

async fn post(http: &Arc<Shared>, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let body = read(body, &http.limits).await?;
    check_types(&parts.headers)?;
    let message =
        Message::parse(body).map_err(|malformed| status::refused(malformed.id, malformed.error))?;
    let id = match &message {
        Message::One(Frame::Request(request)) => Some(request.id.clone()),
        _ => None,
    };
    let route = route(&message, &parts.headers, &http.runtime);
    match route.map_err(|error| status::refused(id.clone(), error))? {
        Route::Stateless => stateless(http, message, parts).await,
        Route::Open => open(http, message, parts).await,
        Route::Session => in_session(http, message, id, parts).await,
    }
}

/// Since 2026-07-28. Closing the connection drops the frames, which stops the call.
async fn stateless(http: &Shared, message: Message, parts: Parts) -> Result<Response, Response> {
    let Message::One(Frame::Request(request)) = message else {
        return Ok(status::accepted());
    };
    let id = request.id.clone();
    let mut frames = http
        .stateless
        .post(request, &parts.headers, parts.extensions)
        .map_err(|error| status::refused(Some(id), error))?;
    let first = match tokio::time::timeout(http.limits.keep_alive, frames.next()).await {
        Ok(None) => return Ok(status::accepted()),
        Ok(Some(Frame::Response(answer))) => return Ok(status::answered(answer)),
        Ok(Some(first)) => Some(first),
        // A quiet call's client is told that it is still there.
        Err(_) => None,
    };
    let events = stream::iter(first).chain(frames).map(|frame| event_stream::event(None, &frame));
    Ok(event_stream::respond(events, http.limits.keep_alive))
}

/// A handshake opens a session, whose name is in the answer's headers.
async fn open(http: &Arc<Shared>, message: Message, parts: Parts) -> Result<Response, Response> {
    let Message::One(frame) = message else {
        return Ok(status::accepted());
    };
    let live = http.sessions.open(&Principal::of(&parts.extensions));
    let Frames::One(Frame::Response(answer)) = live.mcp.send(frame, parts.extensions) else {
        return Ok(status::accepted());
    };
    if let Err(error) = &answer.result {
        return Err(status::refused(answer.id, error.clone()));
    }
    http.sessions.keep(&live).await.map_err(|error| unavailable(&error))?;
    let mut response = status::answered(answer);
    if let Ok(id) = HeaderValue::from_str(&live.id) {
        response.headers_mut().insert(SESSION_ID, id.clone());
        response.headers_mut().insert(http.session_header.clone(), id);
    }
    Ok(response)
}

async fn in_session(
    http: &Arc<Shared>,
    message: Message,
    id: Option<Id>,
    mut parts: Parts,
) -> Result<Response, Response> {
    let live = find(http, id, &parts).await?;
    let release = live.mcp.has_polling().then(Release::default);
    if let Some(release) = &release {
        parts.extensions.insert(release.clone());
    }
    let frames = match message {
        Message::One(frame) => live.mcp.send(frame, parts.extensions),
        Message::Batch(frames) if frames.len() > converse::BATCH => {
            let why = format!("a batch may have {} messages at most", converse::BATCH);
            return Err(refusal(StatusCode::BAD_REQUEST, &why));
        }
        Message::Batch(frames) if live.mcp.has_batches() => {
            let all = converse::run_batch(&live.mcp, frames, &parts.extensions);
            return Ok(batch(http, Adopting::new(live, Frames::stream(all))).await);
        }
        Message::Batch(_) => {
            let why = "this session's revision has no batches: send one message at a time";
            return Err(refusal(StatusCode::BAD_REQUEST, why));
        }
    };
    if let Frames::None = frames {
        return Ok(status::accepted());
    }
    Ok(Resumable::new(live, frames, release).respond(http.limits.keep_alive).await)
}

/// 2025-03-26: all responses in one array, or a stream when there is more to say.
async fn batch(http: &Shared, mut all: Adopting) -> Response {
    let mut responses = vec![];
    while let Some(frame) = all.next().await {
        if !matches!(frame, Frame::Response(_)) {
            let rest = stream::unfold(all, async |mut all| Some((all.next().await?, all)));
            let said = stream::iter(responses).chain(stream::iter([frame])).chain(rest);
            let events = said.map(|frame| event_stream::event(None, &frame));
            return event_stream::respond(events, http.limits.keep_alive);
        }
        responses.push(frame);
    }
    match responses.is_empty() {
        true => status::accepted(),
        false => status::json(StatusCode::OK, converse::batch_text(&responses)),
    }
}

/// What a session is told beside its calls, or the rest of a call whose stream broke.
async fn get(http: &Arc<Shared>, parts: &Parts) -> Result<Response, Response> {
    if !accepts(&parts.headers, "text/event-stream") {
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, "accept `text/event-stream`"));
    }
    if session_id(http, parts).is_none() {
        let why =
            "GET streams need a session: send `Mcp-Session-Id`, or use `subscriptions/listen`";
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, why);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Err(response);
    }
    let live = find(http, None, parts).await?;
    let last = header(&parts.headers, LAST_EVENT_ID);
    resume::stream(http, live, last).await
}

async fn delete(http: &Arc<Shared>, parts: &Parts) -> Result<Response, Response> {
    if session_id(http, parts).is_none() {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "there is no session to end");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Err(response);
    }
    let live = find(http, None, parts).await?;
    http.sessions.close(&live).await.map_err(|error| unavailable(&error))?;
    let mut response = status::accepted();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// The session a request names, if it is there and belongs to the caller.
async fn find(http: &Arc<Shared>, id: Option<Id>, parts: &Parts) -> Result<Arc<Live>, Response> {
    if let Err(error) = check_version(&parts.headers) {
        return Err(status::refused(id, error));
    }
    let Some(session) = session_id(http, parts) else {
        let why =
            "`Mcp-Session-Id` is missing: send `initialize` first, or name a revision in `_meta`";
        return Err(status::refused(id, RpcError::invalid_request(why)));
    };
    let principal = Principal::of(&parts.extensions);
    let found = http.sessions.find(session, &principal).await;
    found.map_err(|error| unavailable(&error))?.ok_or_else(|| {
        let error = RpcError::invalid_request("no such session: start over with `initialize`");
        status::error(StatusCode::NOT_FOUND, id, error)
    })
}

/// The session a request names, on a server that has any.
fn session_id<'a>(http: &Shared, parts: &'a Parts) -> Option<&'a str> {
    if !http.runtime.settings.handshake {
        return None;
    }
    header(&parts.headers, SESSION_ID)
        .or_else(|| parts.headers.get(&http.session_header)?.to_str().ok())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn unavailable(error: &crate::store::StoreError) -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
}

fn check_types(headers: &HeaderMap) -> Result<(), Response> {
    let kind = header(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let why = "the body must be `Content-Type: application/json`";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let why = "send `Accept: application/json, text/event-stream`";
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, why));
    }
    Ok(())
}

/// Whether the client takes a type; one that does not say takes all.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut accept = headers.get_all(header::ACCEPT).iter().peekable();
    if accept.peek().is_none() {
        return true;
    }
    let family = wanted.split('/').next().unwrap_or_default();
    accept.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        range == wanted || range == "*/*" || range.strip_suffix("/*") == Some(family)
    })
}

/// The whole body, if it is neither too large nor too slow.
pub(super) async fn read(body: Body, limits: &super::Limits) -> Result<Bytes, Response> {
    let collected = Limited::new(body, limits.body).collect();
    match tokio::time::timeout(limits.read, collected).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let why = format!("a body may have {} bytes at most", limits.body);
            Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why))
        }
        Ok(Err(_)) => Err(refusal(StatusCode::BAD_REQUEST, "the body ended too early")),
        Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")),
    }
}
