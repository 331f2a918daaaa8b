//! Streams a client can lose and find again.

use super::{
    Shared, event_stream, refusal,
    replay::{EventId, Opened},
    sessions::{Live, append, end},
    status,
    takeover::Elsewhere,
};
use crate::{
    auth::Caller,
    runtime::{ctx::Release, metrics::Counted, presence::LEASE},
    store::StoreResult,
};
use ::http::{Extensions, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::{Stream, StreamExt, stream};
use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp_wire::{Frame, Frames, Request, sse};

/// The stream of what a session is told beside its calls.
pub(super) const EVENTS: u64 = 0;

/// A call's frames on their way to a connection. When the connection goes, the call stays.
pub(super) struct Adopting {
    live: Arc<Live>,
    tracker: TaskTracker,
    stream: u64,
    /// A frame that was taken and is neither sent nor noted yet.
    held: Option<Frame>,
    frames: Option<Frames>,
    /// The log names this process as the one that answers, and has no end of the stream yet.
    is_open: bool,
}

impl Adopting {
    pub(super) fn new(http: &Shared, live: Arc<Live>, frames: Frames) -> Self {
        let (stream, tracker) = (live.new_stream(), http.tracker.clone());
        Self { live, tracker, stream, held: None, frames: Some(frames), is_open: false }
    }

    /// A call that goes on without a connection, on a stream that is there already.
    pub(super) async fn go_on(
        live: Arc<Live>,
        tracker: TaskTracker,
        stream: u64,
        made: Made,
        frames: Frames,
    ) {
        // Before the log names this process: a stream it does not have has ended.
        live.attach(stream);
        let frames = Some(frames);
        let mut call = Self { live, tracker, stream, held: None, frames, is_open: false };
        call.open(Some(made)).await;
        call.let_go();
    }

    pub(super) async fn next(&mut self) -> Option<Frame> {
        let frame = self.frames.as_mut()?.next().await;
        if frame.is_none() {
            // A call that ends without a response was cancelled. The log says so before the client
            // sees the end of the stream: many come back for the rest at once.
            self.note_end().await;
            self.end();
        }
        self.held.clone_from(&frame);
        frame
    }

    /// Notes that nothing follows, even if the connection goes away meanwhile.
    async fn note_end(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let (replay, stream) = (self.live.replay(), self.stream);
        let noted = self.tracker.spawn(async move { end(&replay, stream).await });
        let _ = tokio::time::timeout(LEASE, noted).await;
    }

    /// Notes a frame before it is sent; gives the event id it is sent with.
    async fn note(&mut self, frame: &Frame) -> Option<EventId> {
        let replay = self.live.replay();
        let noted = replay.append(self.stream, frame).await;
        self.held = None;
        if !matches!(frame, Frame::Response(_)) {
            return noted.ok();
        }
        self.is_open = false;
        if noted.is_err() {
            // Without its response in the log, another process could take the call for unanswered.
            let (stream, frame) = (self.stream, frame.clone());
            self.tracker.spawn(async move { append(&replay, stream, &frame).await });
        }
        noted.ok()
    }

    /// Notes that this process answers a request, for as long as it does. Without a store there is
    /// nobody to tell, and the call goes on.
    async fn open(&mut self, made: Option<Made>) {
        let Some(Made { request, caller }) = made else { return };
        let needed = self.live.mcp.runtime().presence().need();
        let cancelled = self.live.mcp.cancelled_elsewhere(request.id.clone());
        if let Ok(name) = needed.name().await {
            self.is_open = true;
            let opened = Opened { name: name.to_string(), caller, request };
            let _ = self.live.replay().open(self.stream, &opened).await;
        }
        // Only now: the connection may have gone meanwhile, and the call must not go with it.
        self.frames = self.frames.take().map(|frames| {
            let held = frames.inspect(move |_| {
                let _ = &needed;
            });
            Frames::stream(held.take_until(cancelled))
        });
    }

    /// There is nothing to go on with.
    fn end(&mut self) {
        (self.held, self.frames) = (None, None);
        self.live.detach(self.stream);
    }

    /// Goes on without the connection.
    fn let_go(&mut self) {
        if let Some(frames) = self.frames.take() {
            self.live.adopt(self.stream, self.held.take(), frames, &self.tracker);
        }
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A request, and who made it.
pub(super) struct Made {
    pub(super) request: Request,
    pub(super) caller: Caller,
}

/// A call whose rest can be fetched on another connection.
pub(super) struct Resumable {
    call: Adopting,
    made: Option<Made>,
    release: Option<Release>,
    /// The client fetches the rest elsewhere.
    taken: CancellationToken,
}

impl Resumable {
    /// A call under way, with the frame that was taken from it already.
    pub(super) fn new(
        http: &Shared,
        live: Arc<Live>,
        made: Option<Made>,
        first: Option<Frame>,
        frames: Frames,
        release: Option<Release>,
    ) -> Self {
        let mut call = Adopting::new(http, live, frames);
        call.held = first;
        let taken = call.live.attach(call.stream);
        Self { call, made, release, taken }
    }

    /// Only a response: JSON. Anything before it, or a long wait: a stream of events.
    pub(super) async fn respond(mut self, keep_alive: Duration) -> Response {
        let first = match self.call.held.clone() {
            Some(first) => Ok(Next::Frame(first)),
            None => tokio::time::timeout(keep_alive, self.next()).await,
        };
        let first = match first {
            Ok(Next::Frame(Frame::Response(answer))) => {
                self.call.end();
                return status::answered_in_session(answer);
            }
            Ok(Next::End) => return status::accepted(),
            Ok(other) => Some(other),
            Err(_) => None,
        };
        let made = self.made.take();
        let caller = made.as_ref().map(|made| made.caller.clone()).unwrap_or_default();
        self.call.open(made).await;
        let primed = match self.release.is_some() {
            true => self.call.live.replay().prime(self.call.stream).await.ok(),
            false => None,
        };
        let primer = primed.map(|id| event_stream::message(Some(&id.to_string()), b""));
        let expired = caller.expired();
        let rest = stream::unfold((self, first), async |(mut call, first)| {
            let next = match first {
                Some(first) => first,
                None => call.next().await,
            };
            Some((call.event(next).await?, (call, None)))
        });
        event_stream::respond(stream::iter(primer).chain(rest).take_until(expired), keep_alive)
    }

    async fn event(&mut self, next: Next) -> Option<Vec<u8>> {
        match next {
            Next::Frame(frame) => {
                let id = self.call.note(&frame).await;
                Some(event_stream::event(id.map(|id| id.to_string()).as_deref(), &frame))
            }
            Next::Release(retry) => {
                self.call.let_go();
                let mut wait = vec![];
                sse::write_retry(&mut wait, retry);
                wait.push(b'\n');
                Some(wait)
            }
            Next::End => None,
        }
    }

    async fn next(&mut self) -> Next {
        let released = async {
            match &self.release {
                Some(release) => poll_fn(|context| release.poll(context)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            frame = self.call.next() => frame.map_or(Next::End, Next::Frame),
            retry = released => Next::Release(retry),
            () = self.taken.cancelled() => Next::End,
        }
    }
}

enum Next {
    Frame(Frame),
    Release(Duration),
    End,
}

/// The answer to GET: a new stream of events, or one that goes on after the last event seen.
pub(super) async fn stream(
    http: &Shared,
    live: Arc<Live>,
    last: Option<&str>,
    extensions: Extensions,
) -> Result<Response, Response> {
    let unknown = || {
        let why = "`Last-Event-ID` is not held here any more: fetch again what may have changed";
        refusal(StatusCode::BAD_REQUEST, why)
    };
    let last = match last {
        None => None,
        Some(text) => Some(EventId::parse(text).ok_or_else(unknown)?),
    };
    let caller = Caller::of(&extensions);
    let allowed = match last {
        Some(id) if id.stream != EVENTS => live.mcp.may_resume(extensions.clone()).await,
        _ => live.mcp.may_listen(extensions.clone()).await,
    };
    allowed.map_err(|error| status::unopened(None, error))?;
    let counted = Counted::new(&http.runtime.metrics.streams);
    let closing = http.closing.clone();
    let events: Pin<Box<dyn Stream<Item = Vec<u8>> + Send>> = match last {
        Some(id) if id.stream != EVENTS => {
            let rest = rest_of_call(http, live, id, extensions).await.map_err(|_| unknown())?;
            Box::pin(rest.ok_or_else(ended)?)
        }
        _ => Box::pin(events(http, live, last.map(|id| id.position)).await),
    };
    let events = events.take_until(closing.cancelled_owned()).take_until(caller.expired());
    let events = events.inspect(move |_| {
        let _ = &counted;
    });
    Ok(event_stream::respond(events, http.limits.keep_alive))
}

/// The answer to a client that has all there is: as one to a client that asks for a stream where
/// there is none. Clients take an empty stream for a lost one, and ask again and again.
fn ended() -> Response {
    let why = "the call has ended, and nothing of it is left to fetch";
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, DELETE"));
    response
}

/// What a call's stream said after an event. It goes on for as long as some process answers the
/// call; otherwise it ends with what is held. None if that is nothing.
async fn rest_of_call(
    http: &Shared,
    live: Arc<Live>,
    id: EventId,
    extensions: Extensions,
) -> StoreResult<Option<impl Stream<Item = Vec<u8>> + Send + use<>>> {
    let mut follow = live.replay().follow(id).await?;
    // Whoever else was given this stream has lost it now.
    let (taken, primes) = (live.take_over(id.stream), live.mcp.has_polling());
    let elsewhere = match taken.is_none() && !follow.ended {
        true => Elsewhere::find(http, live, id.stream, extensions).await?,
        false => None,
    };
    if taken.is_none() && elsewhere.is_none() {
        // Read again: it may have ended since it was read.
        follow.finish().await?;
    }
    if follow.ended && follow.is_empty() {
        return Ok(None);
    }
    // Whoever is cut off before anything is said must know where to go on.
    let primer = primes.then(|| event_stream::message(Some(&id.to_string()), b""));
    let texts = stream::unfold((follow, elsewhere), async |(mut follow, mut elsewhere)| {
        let (id, text) = loop {
            if let Some(elsewhere) = elsewhere.as_mut().filter(|_| follow.is_empty()) {
                elsewhere.go_on_if_dead().await;
            }
            if let Ok(next) = tokio::time::timeout(LEASE, follow.next()).await {
                break next?;
            }
        };
        let event = event_stream::message(Some(&id.to_string()), &text);
        Some((event, (follow, elsewhere)))
    });
    Ok(Some(stream::iter(primer).chain(texts).take_until(async move {
        match taken {
            Some(taken) => taken.cancelled_owned().await,
            None => std::future::pending().await,
        }
    })))
}

/// A connection that has a session's stream of events, until this is dropped.
struct Listening {
    live: Arc<Live>,
    token: CancellationToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Another connection has it if this one was cut off.
        if !self.token.is_cancelled() {
            self.live.detach(EVENTS);
        }
    }
}

/// What changes, from now on or after a position.
async fn events(
    http: &Shared,
    live: Arc<Live>,
    after: Option<u64>,
) -> impl Stream<Item = Vec<u8>> + Send + use<> {
    let taken = live.attach(EVENTS);
    let position = match after {
        Some(position) => position,
        None => http.runtime.changes.position().await,
    };
    let id = |position| EventId { stream: EVENTS, position }.to_string();
    let primer = match live.mcp.has_polling() {
        true => event_stream::message(Some(&id(position)), b""),
        // Some clients wait for the first byte.
        false => b": open\n\n".to_vec(),
    };
    let told = live.mcp.events_after(Some(position));
    let told =
        told.map(move |(position, frame)| event_stream::event(position.map(id).as_deref(), &frame));
    // Whoever listens keeps the session at hand.
    let listening = Listening { live, token: taken.clone() };
    stream::iter([primer]).chain(told).take_until(taken.cancelled_owned()).inspect(move |_| {
        let _ = &listening;
    })
}
