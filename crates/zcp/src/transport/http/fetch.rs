//! GET: what a session is told beside its calls, and the rest of a call whose stream was lost.

use super::{
    Shared, busy,
    event_stream::{self, Event},
    json_answer, refusal,
    replay::{EventId, Follow, Lost},
    sessions::Live,
    takeover::Elsewhere,
    unread::Unread,
};
use crate::{
    auth::Caller,
    runtime::{metrics::Counted, presence::LEASE},
    sync::holding,
    transport::weight::NoRoom,
};
use ::http::{Extensions, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::{Stream, StreamExt, stream};
use std::{pin::Pin, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The stream of what a session is told beside its calls.
pub(super) const EVENTS: u64 = 0;

/// The answer to GET: a new stream of events, or one that goes on after the last event seen.
pub(super) async fn stream(
    http: &Shared,
    live: Arc<Live>,
    last: Option<&str>,
    extensions: Extensions,
    unread: Unread,
) -> Result<Response, Response> {
    let last = match last {
        None => None,
        Some(text) => Some(EventId::parse(text).ok_or_else(unknown)?),
    };
    let caller = Caller::of(&extensions);
    let allowed = match last {
        Some(id) if id.stream != EVENTS => live.mcp.may_resume(extensions.clone()).await,
        _ => live.mcp.may_listen(extensions.clone()).await,
    };
    allowed.map_err(|error| json_answer::unopened(None, error))?;
    let counted = Counted::new(&http.runtime.metrics.streams);
    let closing = http.closing.clone();
    let events: Pin<Box<dyn Stream<Item = Event> + Send>> = match last {
        Some(id) if id.stream != EVENTS => {
            let rest = Rest::find(http, live, id, extensions, unread).await;
            let rest = rest.map_err(|lost| match lost {
                Lost::Unknown => unknown(),
                Lost::NoRoom => busy(NoRoom::WHY),
            })?;
            Box::pin(rest.ok_or_else(ended)?.events())
        }
        _ => Box::pin(events(http, live, last.map(|id| id.position)).await),
    };
    let events = events.take_until(closing.cancelled_owned()).take_until(caller.expired());
    Ok(event_stream::respond_resumable(holding(events, counted), http.limits.keep_alive))
}

fn unknown() -> Response {
    let why = "what followed `Last-Event-ID` is not held any more: call again if doing it twice is \
        safe, and fetch again what may have changed";
    refusal(StatusCode::BAD_REQUEST, why)
}

/// The answer to a client that has all there is: as one to a client that asks for a stream where
/// there is none. Clients take an empty stream for a lost one, and ask again and again.
fn ended() -> Response {
    let why = "the call has ended, and nothing of it is left to fetch";
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, DELETE"));
    response
}

/// What a call's stream said after an event, and what it goes on to say.
struct Rest {
    /// Where its client is.
    at: EventId,
    follow: Follow,
    /// Where the call is answered, if not here.
    elsewhere: Option<Elsewhere>,
    /// Another connection fetches the rest.
    taken: Option<CancellationToken>,
    /// Whether a client that is cut off before anything is said must know where to go on.
    primes: bool,
}

impl Rest {
    /// The rest goes on for as long as some process answers the call; otherwise it ends with what
    /// is held. None if that is nothing.
    async fn find(
        http: &Shared,
        live: Arc<Live>,
        at: EventId,
        extensions: Extensions,
        unread: Unread,
    ) -> Result<Option<Self>, Lost> {
        let mut follow = live.replay().follow(at, unread).await?;
        // Whoever else was given this stream has lost it now.
        let (taken, primes) = (live.take_over(at.stream), live.mcp.has_polling());
        let elsewhere = match taken.is_none() && !follow.ended {
            true => Elsewhere::find(http, live, &follow, at.stream, extensions),
            false => None,
        };
        if taken.is_none() && elsewhere.is_none() {
            // Read again: it may have ended since it was read.
            follow.finish().await?;
        }
        let is_over = follow.ended && follow.is_empty();
        Ok((!is_over).then_some(Self { at, follow, elsewhere, taken, primes }))
    }

    fn events(mut self) -> impl Stream<Item = Event> + Send {
        let primer = self.primes.then(|| Event::primer(&self.at.to_string()));
        let taken = self.taken.take();
        let rest = stream::unfold(self, async |mut rest| Some((rest.next().await?, rest)));
        stream::iter(primer).chain(rest).take_until(async move {
            match taken {
                Some(taken) => taken.cancelled_owned().await,
                None => std::future::pending().await,
            }
        })
    }

    /// The next event, made here if the process that was to make it has died.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(elsewhere) = self.elsewhere.as_mut().filter(|_| self.follow.is_empty()) {
                // Whoever took the call up may have died, too.
                self.follow.look().await.ok()?;
                if let Some(opened) = self.follow.opened().filter(|_| self.follow.is_empty()) {
                    elsewhere.go_on_if_dead(opened).await;
                }
            }
            // Not for ever: the process may die meanwhile.
            if let Ok(next) = tokio::time::timeout(LEASE, self.follow.next()).await {
                let (id, text) = next?;
                return Some(Event::message(Some(&id.to_string()), &text));
            }
        }
    }
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
) -> impl Stream<Item = Event> + Send + use<> {
    let taken = live.attach(EVENTS);
    let position = match after {
        Some(position) => position,
        None => http.runtime.changes.position().await,
    };
    let id = |position| EventId { stream: EVENTS, position }.to_string();
    let primer = match live.mcp.has_polling() {
        true => Event::primer(&id(position)),
        // Some clients wait for the first byte.
        false => b": open\n\n".to_vec().into(),
    };
    let told = live.mcp.events_after(Some(position)).map(move |(position, frame)| {
        Event::message(position.map(id).as_deref(), &frame.into_text().into_bytes())
    });
    // Whoever listens keeps the session at hand.
    let listening = Listening { live, token: taken.clone() };
    let events = stream::iter([primer]).chain(told).take_until(taken.cancelled_owned());
    holding(events, listening)
}
