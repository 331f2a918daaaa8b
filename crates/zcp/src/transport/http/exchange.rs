//! Streamable HTTP: one POST, one message in, a stream of frames out.

use super::{
    Limits, Shared, event_stream, fetch,
    idle::Watch,
    refusal,
    resume::{Adopting, Made, Resumable},
    sessions::Live,
    status,
    unread::{Unread, weigh},
};
use crate::{
    auth::{Caller, PeerAddress, Principal, network},
    protocol::mcp::{Route, check_version, route, shared},
    runtime::ctx::Release,
    sync::holding,
    transport::{
        converse,
        weight::{NoRoom, Scale, UNDER_WAY, Weight, check_values},
    },
};
use ::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header, request::Parts,
};
use axum::{BoxError, body::HttpBody, extract::State, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::{
    future::{Future, poll_fn},
    mem::take,
    pin::pin,
    sync::Arc,
    task::Poll,
};
use zcp_wire::{
    Frame, Frames, Id, Malformed, Message, Peer, RpcError,
    header::{LAST_EVENT_ID, SESSION_ID},
    params::Params,
};

/// A request's body, from a router or from the connection itself.
pub(super) trait Body: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send {}

impl<B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send> Body for B {}

/// The endpoint, as a route.
pub(super) async fn route_to(
    State(http): State<Arc<Shared>>,
    request: axum::extract::Request,
) -> Response {
    exchange(&http, request, None).await
}

/// The endpoint: POST for messages, GET for what a session is told, DELETE to end one.
pub(super) async fn exchange(
    http: &Arc<Shared>,
    mut request: Request<impl Body>,
    watch: Option<&Watch>,
) -> Response {
    if let Some(peer) = watch.and_then(Watch::peer)
        && http.runtime.looks_at_callers()
    {
        request.extensions_mut().insert(PeerAddress(peer));
    }
    let answered = match *request.method() {
        Method::POST => post(http, request, watch).await,
        Method::GET => get(http, &mut request.into_parts().0, watch).await,
        Method::DELETE => delete(http, &mut request.into_parts().0).await,
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

async fn post(
    http: &Arc<Shared>,
    request: Request<impl Body>,
    watch: Option<&Watch>,
) -> Result<Response, Response> {
    let (mut parts, body) = request.into_parts();
    let peer = peer(watch, &parts);
    let (body, weight) = {
        let mut scale = Scale::new(&http.runtime, peer, None);
        let body = read(body, &http.limits, watch, &mut scale).await?;
        (body, scale.weight())
    };
    weight.into_iter().for_each(|weight| weight.give_to(&mut parts.extensions));
    check_types(&parts.headers)?;
    let refused = |malformed: Malformed| status::refused(malformed.id, malformed.error);
    let text = Message::text(body).map_err(refused)?;
    let mut params = Params::default();
    let message = Message::read(&text, &mut params).map_err(refused)?;
    if let Message::One(Frame::Request(request)) = &message {
        let id = || Some(request.id.clone());
        check_values(request).map_err(|error| status::refused(id(), error))?;
    }
    // Tasks and subscriptions count for the network their caller comes from.
    let counts = || params.may_begin_task() || params.uri.is_some();
    if let Some(peer) = watch.and_then(Watch::peer)
        && (matches!(message, Message::Batch(_)) || counts())
    {
        parts.extensions.insert(PeerAddress(peer));
    }
    let route = route(&message, &params, &parts.headers, &http.runtime);
    let (response, in_session) = match route
        .map_err(|error| status::refused(id_of(&message), error))?
    {
        Route::Stateless => (stateless(http, &message, &params, &mut parts, peer).await?, false),
        Route::Open => return open(http, message, &mut parts, peer).await,
        Route::Session => (in_session(http, &message, &params, &mut parts, peer).await?, true),
    };
    Ok(weigh(response, &http.runtime, peer, in_session.then(|| id_of(&message))))
}

fn id_of(message: &Message) -> Option<Id> {
    match message {
        Message::One(Frame::Request(request)) => Some(request.id.clone()),
        _ => None,
    }
}

/// Since 2026-07-28. Closing the connection drops the frames, which stops the call.
async fn stateless(
    http: &Shared,
    message: &Message,
    params: &Params<'_>,
    parts: &mut Parts,
    peer: Option<PeerAddress>,
) -> Result<Response, Response> {
    let Message::One(Frame::Request(request)) = message else {
        return Ok(status::accepted());
    };
    let caller = Caller::of(&parts.extensions);
    let mut frames = http
        .stateless
        .post(request, params, &parts.headers, take(&mut parts.extensions))
        .map_err(|error| status::refused(Some(request.id.clone()), error))?;
    // Most calls are answered at once, and need no timer.
    let first = match frames.at_once() {
        Poll::Ready(first) => Ok(first),
        Poll::Pending => tokio::time::timeout(http.limits.keep_alive, frames.next()).await,
    };
    let first = match first {
        Ok(None) => return Ok(status::accepted()),
        Ok(Some(Frame::Response(answer))) => return Ok(status::answered(answer)),
        Ok(Some(first)) => Some(first),
        // A quiet call's client is told that it is still there.
        Err(_) => None,
    };
    let frames = stream::iter(first).chain(frames).take_until(caller.expired());
    Ok(event_stream::respond_once(frames, unread(http, peer), http.limits.keep_alive))
}

/// The room for what a stream of events says.
fn unread(http: &Shared, peer: Option<PeerAddress>) -> Unread {
    Unread { runtime: http.runtime.clone(), peer }
}

/// A handshake opens a session, whose name is in the answer's headers.
async fn open(
    http: &Arc<Shared>,
    message: Message,
    parts: &mut Parts,
    peer: Option<PeerAddress>,
) -> Result<Response, Response> {
    let Message::One(frame) = message else {
        return Ok(status::accepted());
    };
    let peer = peer.map(|peer| network(peer.0.ip()));
    let live = http.sessions.open(Caller::of(&parts.extensions));
    let mut answered = live.mcp.send(frame, take(&mut parts.extensions));
    let Some(Frame::Response(answer)) = answered.next().await else {
        return Ok(status::accepted());
    };
    if let Err(error) = &answer.result {
        return Err(status::unopened(answer.id, error.clone()));
    }
    let kept = http.sessions.keep(&live, peer).await.map_err(|error| unavailable(&error))?;
    if !kept {
        return Err(busy("all sessions are in use: try again later"));
    }
    let mut response = status::answered(answer);
    if let Ok(id) = HeaderValue::from_str(&live.id) {
        response.headers_mut().insert(&SESSION_ID, id.clone());
        response.headers_mut().insert(http.session_header.clone(), id);
    }
    Ok(response)
}

async fn in_session(
    http: &Arc<Shared>,
    message: &Message,
    params: &Params<'_>,
    parts: &mut Parts,
    peer: Option<PeerAddress>,
) -> Result<Response, Response> {
    let live = find(http, id_of(message), parts).await?;
    let release = live.mcp.has_polling().then(Release::default);
    let caller = Caller::of(&parts.extensions);
    let mut frames = match message {
        Message::One(Frame::Request(request)) => {
            live.mcp.call(request, params, shared(take(&mut parts.extensions)), release.clone())
        }
        Message::One(frame) => live.mcp.send(frame.clone(), take(&mut parts.extensions)),
        Message::Batch(batched) if live.mcp.has_batches() => {
            let refused = |malformed: Malformed| status::refused(malformed.id, malformed.error);
            let frames = batched.frames(converse::BATCH).map_err(refused)?;
            let bytes = frames.len() * UNDER_WAY;
            let room = Weight::of(bytes, &http.runtime, peer, None);
            let room = room.map_err(|NoRoom| busy(NoRoom::WHY))?;
            let all = converse::run_batch(&live.mcp, frames, &parts.extensions, &live.batched);
            let all = holding(all, room);
            let all = Adopting::new(http, live, Frames::stream(all));
            return Ok(batch(http, all, caller, peer).await);
        }
        Message::Batch(_) => {
            let why = "this session's revision has no batches: send one message at a time";
            return Err(refusal(StatusCode::BAD_REQUEST, why));
        }
    };
    // Most calls are answered at once: there is nothing a client could lose.
    let first = match frames.at_once() {
        Poll::Ready(None) => return Ok(status::accepted()),
        Poll::Ready(Some(Frame::Response(answer))) => {
            return Ok(status::answered_in_session(answer));
        }
        Poll::Ready(Some(first)) => Some(first),
        Poll::Pending => None,
    };
    let made = match message {
        Message::One(Frame::Request(request)) => Some(Made { request: request.clone(), caller }),
        _ => None,
    };
    let rest = Resumable::new(http, live, made, first, frames, release);
    let answered = rest.respond(unread(http, peer), http.limits.keep_alive);
    // In a box of its own: every connection has room for what answers its requests.
    Ok(Box::pin(answered).await)
}

/// 2025-03-26: all responses in one array, or a stream when there is more to say.
async fn batch(
    http: &Shared,
    mut all: Adopting,
    caller: Caller,
    peer: Option<PeerAddress>,
) -> Response {
    let (mut responses, room) = (vec![], unread(http, peer));
    // Answers count while they wait for the others.
    let (mut held, mut small) = (vec![], 0);
    while let Some(mut frame) = all.next().await {
        if !matches!(frame, Frame::Response(_)) {
            let rest = stream::unfold(all, async |mut all| Some((all.next().await?, all)));
            let said = stream::iter(responses).chain(stream::iter([frame])).chain(rest);
            let said = said.take_until(caller.expired());
            return event_stream::respond_once(said, unread(http, peer), http.limits.keep_alive);
        }
        small += converse::size(&frame);
        match room.weigh(small) {
            Ok(None) => (),
            Ok(Some(weight)) => {
                held.push(weight);
                small = 0;
            }
            Err(NoRoom) => frame = converse::without_room(frame),
        }
        responses.push(frame);
    }
    match responses.is_empty() {
        true => status::accepted(),
        false => status::json(StatusCode::OK, converse::batch_text(&responses)),
    }
}

/// What a session is told beside its calls, or the rest of a call whose stream broke.
async fn get(
    http: &Arc<Shared>,
    parts: &mut Parts,
    watch: Option<&Watch>,
) -> Result<Response, Response> {
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
    let live = find_named(http, parts).await?;
    let unread = unread(http, peer(watch, parts));
    let extensions = take(&mut parts.extensions);
    let last = header(&parts.headers, &LAST_EVENT_ID);
    fetch::stream(http, live, last, extensions, unread).await
}

async fn delete(http: &Arc<Shared>, parts: &mut Parts) -> Result<Response, Response> {
    if session_id(http, parts).is_none() {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "there is no session to end");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Err(response);
    }
    let live = find_named(http, parts).await?;
    let allowed = live.mcp.may_close(take(&mut parts.extensions)).await;
    allowed.map_err(|error| status::unopened(None, error))?;
    http.sessions.close(&live).await.map_err(|error| unavailable(&error))?;
    let mut response = status::accepted();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// The session a GET or DELETE names, if it is there and belongs to the caller.
async fn find_named(http: &Arc<Shared>, parts: &Parts) -> Result<Arc<Live>, Response> {
    check_version(&parts.headers).map_err(|error| status::refused(None, error))?;
    find(http, None, parts).await
}

/// The session a request names, if it is there and belongs to the caller.
async fn find(http: &Arc<Shared>, id: Option<Id>, parts: &Parts) -> Result<Arc<Live>, Response> {
    let Some(session) = session_id(http, parts) else {
        let why =
            "`Mcp-Session-Id` is missing: send `initialize` first, or name a revision in `_meta`";
        return Err(status::refused(id, RpcError::invalid_request(why)));
    };
    if session_headers(http, parts).nth(1).is_some() {
        let why = "there is more than one `Mcp-Session-Id` header";
        return Err(status::refused(id, RpcError::invalid_request(why)));
    }
    let principal = Principal::of(&parts.extensions);
    let found = http.sessions.find(session, &principal).await;
    found.map_err(|error| unavailable(&error))?.ok_or_else(|| status::no_session(id))
}

/// The session a request names, on a server that has any.
fn session_id<'a>(http: &Shared, parts: &'a Parts) -> Option<&'a str> {
    if !http.runtime.settings.handshake {
        return None;
    }
    session_headers(http, parts).next()?.to_str().ok()
}

/// Every value that names a session, those of the server's own header last.
fn session_headers<'a>(
    http: &Shared,
    parts: &'a Parts,
) -> impl Iterator<Item = &'a HeaderValue> + use<'a> {
    let own = Some(&http.session_header).filter(|own| **own != SESSION_ID);
    let own = own.map(|own| parts.headers.get_all(own).iter());
    parts.headers.get_all(&SESSION_ID).iter().chain(own.into_iter().flatten())
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The peer's address: from the connection, or as a layer or the router left it.
pub(super) fn peer(watch: Option<&Watch>, parts: &Parts) -> Option<PeerAddress> {
    let carried = || parts.extensions.get::<PeerAddress>().copied();
    watch.and_then(Watch::peer).map(PeerAddress).or_else(carried)
}

/// There is no room now.
pub(super) fn busy(why: &str) -> Response {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Why is for those who operate the server: it may name a file, or an address.
fn unavailable(error: &crate::store::StoreError) -> Response {
    tracing::warn!("{error}");
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the store is unavailable: try again later")
}

fn check_types(headers: &HeaderMap) -> Result<(), Response> {
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
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
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
