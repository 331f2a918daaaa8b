//! Calls in a session whose stream a client can lose and find again.

use super::{
    Shared,
    event_stream::{self, Event},
    json_answer,
    replay::EventId,
    sessions::{Live, append, end},
    takeover::{Made, Opened},
    unread::Unread,
};
use crate::{
    protocol::mcp::open_call::OpenCall,
    runtime::{ctx::Release, presence::LEASE},
    sync::holding,
};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::{future::poll_fn, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp_wire::{Frame, Frames, sse};

/// A call's frames on their way to a connection. When the connection goes, the call stays.
pub(super) struct Adopting {
    live: Arc<Live>,
    tracker: TaskTracker,
    stream: u64,
    /// A frame that was taken and is neither sent nor known to be noted yet.
    held: Option<Frame>,
    /// The position of the frame that was noted last.
    noted: u64,
    frames: Option<Frames>,
    /// There while the log names this process as the one that answers, and has no end of the stream.
    open: Option<OpenCall>,
}

impl Adopting {
    pub(super) fn new(http: &Shared, live: Arc<Live>, frames: Frames) -> Self {
        let (stream, tracker) = (live.new_stream(), http.tracker.clone());
        Self { live, tracker, stream, held: None, noted: 0, frames: Some(frames), open: None }
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
        let mut call = Self { live, tracker, stream, held: None, noted: 0, frames, open: None };
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
        let Some(open) = self.open.take() else { return };
        let (replay, stream, tracker) = (self.live.replay(), self.stream, self.tracker.clone());
        let noted = self.tracker.spawn(async move {
            end(&replay, stream).await;
            open.close_soon(&tracker);
        });
        let _ = tokio::time::timeout(LEASE, noted).await;
    }

    /// Notes a frame before it is sent; gives the event id it is sent with.
    async fn note(&mut self, frame: &Frame) -> Option<EventId> {
        let replay = self.live.replay();
        // The connection may go meanwhile: then nobody knows here whether the frame was noted.
        let noted = replay.append(self.stream, frame).await;
        self.held = None;
        self.noted = noted.as_ref().map_or(self.noted, |id| id.position);
        if !matches!(frame, Frame::Response(_)) {
            return noted.ok();
        }
        // Without its response in the log, another process could take the call for unanswered.
        let (stream, missing) = (self.stream, noted.is_err().then(|| frame.clone()));
        let open = self.open.take();
        if open.is_some() || missing.is_some() {
            self.tracker.spawn(async move {
                if let Some(frame) = missing {
                    append(&replay, stream, &frame).await;
                }
                if let Some(open) = open {
                    open.close().await;
                }
            });
        }
        noted.ok()
    }

    /// Notes that this process answers a request, for as long as it does. Without a store there is
    /// nobody to tell, and the call goes on.
    async fn open(&mut self, made: Option<Made>) {
        let Some(Made { request, caller }) = made else { return };
        let needed = self.live.mcp.runtime().presence().need();
        let cancelled = self.live.mcp.cancelled_elsewhere(request.id.clone());
        if let Ok(name) = needed.name().await
            && let Ok(Some(open)) = self.live.mcp.open_call(&request.id, Bytes::new()).await
        {
            self.open = Some(open);
            let opened = Opened { name: name.to_string(), made: Made { request, caller } };
            let _ = self.live.replay().open(self.stream, &opened).await;
        }
        // Only now: the connection may have gone meanwhile, and the call must not go with it.
        self.frames = self
            .frames
            .take()
            .map(|frames| Frames::stream(holding(frames, needed).take_until(cancelled)));
    }

    /// There is nothing to go on with.
    fn end(&mut self) {
        (self.held, self.frames) = (None, None);
        self.live.detach(self.stream);
    }

    /// Goes on without the connection.
    fn let_go(&mut self) {
        if let Some(frames) = self.frames.take() {
            let held = self.held.take().map(|frame| (frame, self.noted));
            self.live.adopt(self.stream, held, frames, self.open.take(), &self.tracker);
        }
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        self.let_go();
    }
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
    pub(super) async fn respond(mut self, unread: Unread, keep_alive: Duration) -> Response {
        let first = match self.call.held.clone() {
            Some(first) => Ok(Next::Frame(first)),
            None => tokio::time::timeout(keep_alive, self.next()).await,
        };
        let first = match first {
            Ok(Next::Frame(Frame::Response(answer))) => {
                self.call.end();
                return json_answer::answered_in_session(answer);
            }
            Ok(Next::End) => return json_answer::accepted(),
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
        let primer = primed.map(|id| Event::primer(&id.to_string()));
        let expired = caller.expired();
        let rest = stream::unfold((self, first, unread), async |(mut call, first, unread)| {
            let next = match first {
                Some(first) => first,
                None => call.next().await,
            };
            Some((call.event(next, &unread).await?, (call, None, unread)))
        });
        let events = stream::iter(primer).chain(rest).take_until(expired);
        event_stream::respond_resumable(events, keep_alive)
    }

    /// What comes next, as an event. Without room for it the stream ends: the client can fetch it
    /// later.
    async fn event(&mut self, next: Next, unread: &Unread) -> Option<Event> {
        match next {
            Next::Frame(frame) => {
                let id = self.call.note(&frame).await;
                Event::frame(id.map(|id| id.to_string()).as_deref(), &frame, unread).ok()
            }
            Next::Release(retry) => {
                self.call.let_go();
                let mut wait = vec![];
                sse::write_retry(&mut wait, retry);
                wait.push(b'\n');
                Some(wait.into())
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
