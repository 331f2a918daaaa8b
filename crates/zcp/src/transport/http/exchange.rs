//! Streamable HTTP: one POST, one message in, a stream of frames out.

use super::{
    Shared,
    body::{self, Body},
    busy, event_stream, fetch,
    idle::Watch,
    json_answer, refusal,
    resume::{Adopting, Resumable},
    sessions::Live,
    takeover::Made,
    unread::{Unread, weigh},
};
use crate::{
    auth::{Caller, PeerAddress, Principal, network},
    protocol::mcp::{Route, check_session_version, route, shared},
    runtime::ctx::Release,
    sync::holding,
    transport::{
        converse,
        weight::{NoRoom, Scale, UNDER_WAY, Weight, in_memory},
    },
};
use ::http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header,
    request::Parts,
};
use axum::{extract::State, response::Response};
use futures_util::{StreamExt, stream};
use std::{mem::take, sync::Arc, task::Poll};
use zcp_wire::{
    Frame, Frames, Id, Malformed, Message, Peer, RpcError,
    header::{LAST_EVENT_ID, Repeated, SESSION_ID, only},
    params::Params,
};

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
    request: Request<impl Body>,
    watch: Option<&Watch>,
) -> Response {
    let sender = Sender { watch, peer: peer(watch, request.extensions()) };
    let answered = match *request.method() {
        Method::POST => post(http, request, sender).await,
        Method::GET => get(http, &mut request.into_parts().0, sender).await,
        Method::DELETE => delete(http, &mut request.into_parts().0, sender).await,
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

/// Where a request comes from.
#[derive(Clone, Copy)]
struct Sender<'a> {
    watch: Option<&'a Watch>,
    peer: Option<PeerAddress>,
}

impl Sender<'_> {
    /// What a call carries: what it brought, and where it comes from.
    fn carry(self, extensions: &mut Extensions) -> Arc<Extensions> {
        let extensions = take(extensions);
        match self.watch {
            Some(watch) => watch.carry(extensions),
            None => shared(extensions),
        }
    }

    /// The same, for what is no call.
    fn mark(self, extensions: &mut Extensions) -> Extensions {
        if let Some(peer) = self.peer {
            extensions.insert(peer);
        }
        take(extensions)
    }
}

async fn post(
    http: &Arc<Shared>,
    request: Request<impl Body>,
    sender: Sender<'_>,
) -> Result<Response, Response> {
    let (mut parts, body) = request.into_parts();
    let peer = sender.peer;
    let mut scale = Scale::new(&http.runtime, peer, None);
    let body = body::read(body, &http.limits, sender.watch, &mut scale).await?;
    body::check_types(&parts.headers)?;
    let refused = |malformed: Malformed| json_answer::refused(malformed.id, malformed.error);
    let text = Message::text(body).map_err(refused)?;
    let mut params = Params::default();
    let message = Message::read(&text, &mut params).map_err(refused)?;
    let bytes = in_memory(&text).map_err(|error| json_answer::refused(id_of(&message), error))?;
    scale.grow(bytes).map_err(|NoRoom| busy(NoRoom::WHY))?;
    scale.weight().into_iter().for_each(|weight| weight.give_to(&mut parts.extensions));
    let route = route(&message, &params, &parts.headers, &http.runtime);
    let (response, in_session) = match route
        .map_err(|error| json_answer::refused(id_of(&message), error))?
    {
        Route::Stateless => (stateless(http, &message, &params, &mut parts, sender).await?, false),
        Route::Open => return open(http, message, &mut parts, sender).await,
        Route::Session => (in_session(http, &message, &params, &mut parts, sender).await?, true),
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
    sender: Sender<'_>,
) -> Result<Response, Response> {
    let Message::One(Frame::Request(request)) = message else {
        return Ok(json_answer::accepted());
    };
    let caller = Caller::of(&parts.extensions);
    let mut frames = http
        .stateless
        .post(request, params, &parts.headers, sender.carry(&mut parts.extensions))
        .map_err(|error| json_answer::refused(Some(request.id.clone()), error))?;
    // Most calls are answered at once, and need no timer.
    let first = match frames.at_once() {
        Poll::Ready(first) => Ok(first),
        Poll::Pending => tokio::time::timeout(http.limits.keep_alive, frames.next()).await,
    };
    let first = match first {
        Ok(None) => return Ok(json_answer::accepted()),
        Ok(Some(Frame::Response(answer))) => return Ok(json_answer::answered(answer)),
        Ok(Some(first)) => Some(first),
        // A quiet call's client is told that it is still there.
        Err(_) => None,
    };
    let frames = stream::iter(first).chain(frames).take_until(caller.expired());
    Ok(event_stream::respond_once(frames, unread(http, sender.peer), http.limits.keep_alive))
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
    sender: Sender<'_>,
) -> Result<Response, Response> {
    let Message::One(frame) = message else {
        return Ok(json_answer::accepted());
    };
    let live = http.sessions.open(Caller::of(&parts.extensions));
    let mut answered = live.mcp.send(frame, sender.mark(&mut parts.extensions));
    let Some(Frame::Response(answer)) = answered.next().await else {
        return Ok(json_answer::accepted());
    };
    if let Err(error) = &answer.result {
        return Err(json_answer::unopened(answer.id, error.clone()));
    }
    let from = sender.peer.map(|peer| network(peer.0.ip()));
    let kept = http.sessions.keep(&live, from).await.map_err(|error| unavailable(&error))?;
    if !kept {
        return Err(busy("all sessions are in use: try again later"));
    }
    let mut response = json_answer::answered(answer);
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
    sender: Sender<'_>,
) -> Result<Response, Response> {
    let live = find(http, id_of(message), parts).await?;
    let release = live.mcp.has_polling().then(Release::default);
    let caller = Caller::of(&parts.extensions);
    let mut frames = match message {
        Message::One(Frame::Request(request)) => {
            live.mcp.call(request, params, sender.carry(&mut parts.extensions), release.clone())
        }
        Message::One(frame) => live.mcp.send(frame.clone(), sender.mark(&mut parts.extensions)),
        Message::Batch(batched) => {
            let refused =
                |malformed: Malformed| json_answer::refused(malformed.id, malformed.error);
            let frames = live.mcp.batch(batched).map_err(refused)?;
            let bytes = frames.len() * UNDER_WAY;
            let room = Weight::of(bytes, &http.runtime, sender.peer, None);
            let room = room.map_err(|NoRoom| busy(NoRoom::WHY))?;
            let all = converse::run_batch(
                &live.mcp,
                frames,
                &sender.mark(&mut parts.extensions),
                &live.batched,
            );
            let all = holding(all, room);
            let all = Adopting::new(http, live, Frames::stream(all));
            return Ok(batch(http, all, caller, sender.peer).await);
        }
    };
    // Most calls are answered at once: there is nothing a client could lose.
    let first = match frames.at_once() {
        Poll::Ready(None) => return Ok(json_answer::accepted()),
        Poll::Ready(Some(Frame::Response(answer))) => {
            return Ok(json_answer::answered_in_session(answer));
        }
        Poll::Ready(Some(first)) => Some(first),
        Poll::Pending => None,
    };
    let made = match message {
        Message::One(Frame::Request(request)) => Some(Made { request: request.clone(), caller }),
        _ => None,
    };
    let rest = Resumable::new(http, live, made, first, frames, release);
    let answered = rest.respond(unread(http, sender.peer), http.limits.keep_alive);
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
        true => json_answer::accepted(),
        false => json_answer::json(StatusCode::OK, converse::batch_text(&responses)),
    }
}

/// What a session is told beside its calls, or the rest of a call whose stream broke.
async fn get(
    http: &Arc<Shared>,
    parts: &mut Parts,
    sender: Sender<'_>,
) -> Result<Response, Response> {
    if !body::accepts(&parts.headers, "text/event-stream") {
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, "accept `text/event-stream`"));
    }
    if let Ok(None) = session_id(http, parts) {
        let why =
            "GET streams need a session: send `Mcp-Session-Id`, or use `subscriptions/listen`";
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, why);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Err(response);
    }
    let live = find_named(http, parts).await?;
    let unread = unread(http, sender.peer);
    let extensions = sender.mark(&mut parts.extensions);
    let last = header(&parts.headers, &LAST_EVENT_ID);
    fetch::stream(http, live, last, extensions, unread).await
}

async fn delete(
    http: &Arc<Shared>,
    parts: &mut Parts,
    sender: Sender<'_>,
) -> Result<Response, Response> {
    if let Ok(None) = session_id(http, parts) {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "there is no session to end");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Err(response);
    }
    let live = find_named(http, parts).await?;
    let allowed = live.mcp.may_close(sender.mark(&mut parts.extensions)).await;
    allowed.map_err(|error| json_answer::unopened(None, error))?;
    http.sessions.close(&live).await.map_err(|error| unavailable(&error))?;
    let mut response = json_answer::accepted();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// The session a GET or DELETE names, if it is there and belongs to the caller.
async fn find_named(http: &Arc<Shared>, parts: &Parts) -> Result<Arc<Live>, Response> {
    check_session_version(&parts.headers).map_err(|error| json_answer::refused(None, error))?;
    find(http, None, parts).await
}

/// The session a request names, if it is there and belongs to the caller.
async fn find(http: &Arc<Shared>, id: Option<Id>, parts: &Parts) -> Result<Arc<Live>, Response> {
    let session = match session_id(http, parts) {
        Ok(Some(session)) => session,
        Ok(None) => {
            let why = "`Mcp-Session-Id` is missing: send `initialize` first, or name a revision \
                in `_meta`";
            return Err(json_answer::refused(id, RpcError::invalid_request(why)));
        }
        Err(Repeated) => {
            let why = "there is more than one `Mcp-Session-Id` header";
            return Err(json_answer::refused(id, RpcError::invalid_request(why)));
        }
    };
    let principal = Principal::of(&parts.extensions);
    let found = http.sessions.find(session, &principal).await;
    found.map_err(|error| unavailable(&error))?.ok_or_else(|| json_answer::no_session(id))
}

/// The session a request names, on a server that has any: in the standard header, or in the one
/// that the server was given.
fn session_id<'a>(http: &Shared, parts: &'a Parts) -> Result<Option<&'a str>, Repeated> {
    if !http.runtime.settings.handshake {
        return Ok(None);
    }
    let mut named = only(&parts.headers, &SESSION_ID)?;
    if http.session_header != SESSION_ID {
        let own = only(&parts.headers, &http.session_header)?;
        if named.is_some() && own.is_some() {
            return Err(Repeated);
        }
        named = named.or(own);
    }
    Ok(named.and_then(|id| id.to_str().ok()))
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The peer's address: from the connection, or as a layer or the router left it.
pub(super) fn peer(watch: Option<&Watch>, extensions: &Extensions) -> Option<PeerAddress> {
    watch.and_then(Watch::peer).or_else(|| extensions.get().copied())
}

/// Why is for those who operate the server: it may name a file, or an address.
fn unavailable(error: &crate::store::StoreError) -> Response {
    error.log("a request is refused");
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the store is unavailable: try again later")
}
