//! Calls of a WebSocket that can be resumed: each is noted while it is under way, and another server
//! goes on with it when this one dies.

use super::{Kept, moved};
use crate::{
    auth::Caller,
    protocol::mcp::{
        Mcp,
        open_call::{OpenCall, call_name},
    },
    runtime::presence::Needed,
    store::{
        Bound, StoreResult,
        counted_logs::{CountedLogs, Log},
    },
    sync::lock,
    transport::http::{
        Shared,
        takeover::{Made, Opened},
    },
};
use ::http::Extensions;
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{
    future::{BoxFuture, join},
    stream,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use zcp_wire::{Frame, Frames, Id, Request};

/// Names of a conversation's calls, those that were answered among them.
const NAMES: Bound = Bound { entries: 4096, bytes: 512 * 1024 };
/// How often it is looked whether the process of a call has died.
const LOOK: Duration = Duration::from_millis(1500);

/// The calls of one conversation that are under way here.
pub(super) struct Calls {
    mcp: Mcp,
    session: String,
    /// How many messages the conversation said.
    said: Arc<AtomicU64>,
    tracker: TaskTracker,
    // A std mutex: never held across an await.
    open: Mutex<HashMap<Id, Open>>,
}

struct Open {
    call: OpenCall,
    /// Its response is on its way out. The call is closed once that is noted.
    answered: bool,
}

/// Where the names of a conversation's calls are.
pub(super) fn names(session: &str) -> String {
    ["calls/", session].concat()
}

impl Calls {
    pub(super) fn new(http: &Shared, mcp: Mcp, session: &str, said: Arc<AtomicU64>) -> Arc<Self> {
        let (session, tracker) = (session.to_owned(), http.tracker.clone());
        Arc::new(Self { mcp, session, said, tracker, open: Mutex::default() })
    }

    /// The frames of a call that is noted for as long as they come.
    pub(super) fn keep(
        self: &Arc<Self>,
        request: &Request,
        extensions: &Extensions,
        frames: Frames,
    ) -> Frames {
        // Without a handshake nobody can take the conversation up elsewhere.
        if !self.mcp.is_open() {
            return frames;
        }
        let needed = Arc::new(self.mcp.runtime().presence().need());
        let made = Made { request: request.clone(), caller: Caller::of(extensions) };
        let call = UnderWay {
            calls: self.clone(),
            id: request.id.clone(),
            opening: Some(Box::pin(self.clone().open(needed.clone(), made))),
            cancelled: Box::pin(cancelled(self.mcp.clone(), request.id.clone())),
            frames,
            answered: false,
            _needed: needed,
        };
        let frames = stream::unfold(call, async |mut call| Some((call.next().await?, call)));
        Frames::stream(frames)
    }

    /// Notes that this process answers a call. Without a store there is nobody to tell, and the call
    /// goes on.
    async fn open(self: Arc<Self>, needed: Arc<Needed>, made: Made) {
        let Ok(name) = needed.name().await else { return };
        let (runtime, id) = (self.mcp.runtime(), made.request.id.clone());
        let opened = Opened { name: name.to_string(), made };
        let said = self.said.load(Ordering::Relaxed);
        let note = Bytes::from(format!("{said} {}", opened.to_text()));
        let (logs, log) = (runtime.shelf::<CountedLogs>(), names(&self.session));
        let (kept, name) = (runtime.settings.session_ttl, Bytes::from(call_name(&id)));
        let owner = self.mcp.share();
        let log = Log { name: &log, bound: NAMES, kept, owner: &owner };
        let named = logs.append(&*runtime.store, log, name);
        if let (Ok(_), Ok(Some(call))) = join(named, self.mcp.open_call(&id, note)).await {
            lock(&self.open).insert(id, Open { call, answered: false });
        }
    }

    /// Goes on with a call of a dead process: what is said of it may end it.
    fn take(&self, id: Id, call: OpenCall) {
        lock(&self.open).insert(id, Open { call, answered: true });
    }

    /// A message was noted, and a call is closed if that was its response.
    pub(super) fn noted(&self, text: &ByteString) {
        if let Some(call) = self.answered_by(text) {
            call.close_soon(&self.tracker);
        }
    }

    /// The call that a message answers, if it is one.
    pub(super) fn answered_by(&self, text: &ByteString) -> Option<OpenCall> {
        if !lock(&self.open).values().any(|open| open.answered) {
            return None;
        }
        let id = response_to(text)?;
        lock(&self.open).remove(&id).map(|open| open.call)
    }

    /// The conversation is over, and nobody goes on with its calls.
    pub(super) fn close_all(&self) {
        let all: Vec<Open> = lock(&self.open).drain().map(|(_, open)| open).collect();
        all.into_iter().for_each(|open| open.call.close_soon(&self.tracker));
    }
}

/// Waits until another process is told to cancel a call: that of the conversation's new connection.
async fn cancelled(mcp: Mcp, id: Id) {
    mcp.closing().cancelled().await;
    mcp.cancelled_elsewhere(id).await;
}

/// A call that is noted while it is under way.
struct UnderWay {
    calls: Arc<Calls>,
    id: Id,
    /// Until it is noted. Meanwhile it goes on.
    opening: Option<BoxFuture<'static, ()>>,
    cancelled: BoxFuture<'static, ()>,
    frames: Frames,
    answered: bool,
    /// Others count on this process.
    _needed: Arc<Needed>,
}

impl UnderWay {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = tokio::select! {
                biased;
                () = opened(&mut self.opening) => continue,
                () = &mut self.cancelled => None,
                frame = self.frames.next() => frame,
            };
            match &frame {
                Some(Frame::Response(_)) => self.answer().await,
                None => self.end().await,
                _ => (),
            }
            return frame;
        }
    }

    /// It is to be closed when its response is noted.
    async fn answer(&mut self) {
        opened_by(&mut self.opening).await;
        self.answered = true;
        if let Some(open) = lock(&self.calls.open).get_mut(&self.id) {
            open.answered = true;
        }
    }

    /// It has ended. Without a response it was cancelled, or this process goes and another one is
    /// to go on with it.
    async fn end(&mut self) {
        opened_by(&mut self.opening).await;
        if self.answered || self.calls.mcp.closing().is_cancelled() {
            return;
        }
        let open = lock(&self.calls.open).remove(&self.id);
        if let Some(open) = open {
            open.call.close().await;
        }
    }
}

/// Waits until a call was noted; for ever if it was before.
async fn opened(opening: &mut Option<BoxFuture<'static, ()>>) {
    match opening {
        Some(_) => opened_by(opening).await,
        None => std::future::pending().await,
    }
}

async fn opened_by(opening: &mut Option<BoxFuture<'static, ()>>) {
    if let Some(noted) = opening {
        noted.await;
    }
    *opening = None;
}

/// Which request a message answers.
fn response_to(text: &ByteString) -> Option<Id> {
    match Frame::parse(text) {
        Ok(Frame::Response(response)) => response.id,
        _ => None,
    }
}

/// Goes on with the calls of a conversation that was taken over, one by one as their processes die.
pub(super) fn take_up(http: &Arc<Shared>, kept: &Arc<Kept>, extensions: &Extensions) {
    let (shared, weak, closing) = (http.clone(), Arc::downgrade(kept), kept.mcp.closing());
    let (log, extensions) = (names(&kept.id), extensions.clone());
    http.tracker.spawn(closing.run_until_cancelled_owned(async move {
        let mut left = loop {
            match shared.runtime.store.after(&log, 0).await {
                Ok(names) => break names.into_iter().map(|(_, name)| name).collect(),
                Err(_) => sleep(LOOK).await,
            }
        };
        while !BTreeSet::is_empty(&left) {
            let Some(kept) = weak.upgrade() else { return };
            let mut rest = BTreeSet::new();
            for name in left {
                if goes_on(&shared, &kept, &name, &extensions).await {
                    rest.insert(name);
                }
            }
            left = rest;
            drop(kept);
            sleep(LOOK).await;
        }
    }));
}

/// Makes a call again whose process is dead. Whether another process still answers it, as far as is
/// known.
async fn goes_on(http: &Shared, kept: &Kept, name: &Bytes, extensions: &Extensions) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    let Some(call) = kept.mcp.call_named(name) else { return false };
    let note = match call.note().await {
        Ok(Some(note)) => note,
        Ok(None) => return false,
        Err(_) => return true,
    };
    let Some((said, opened)) = read(&note) else { return false };
    let (id, presence) = (opened.made.request.id.clone(), http.runtime.presence());
    if presence.is_own(&opened.name) {
        return false;
    }
    // The process of a cancelled call still has to see that it is: its mark stays as long as it lives.
    if !opened.is_left(call.key(), &http.runtime).await {
        return true;
    }
    let again = match was_answered(http, kept, said, &id).await {
        Ok(true) => Ok(None),
        Ok(false) => opened.again(&kept.mcp, extensions).await,
        Err(error) => Err(error),
    };
    match again {
        Ok(Some((made, frames))) => {
            kept.calls.take(id, call);
            let mut extensions = extensions.clone();
            extensions.insert(made.caller);
            kept.conversation.go_on(&made.request, frames, &extensions);
        }
        Ok(None) => call.close().await,
        Err(error) => {
            tracing::warn!("a call waits to be taken over: {error}");
            return true;
        }
    }
    false
}

/// What is noted of a call: how many messages were said before it, and the call.
fn read(note: &Bytes) -> Option<(u64, Opened)> {
    let (said, opened) = std::str::from_utf8(note).ok()?.split_once(' ')?;
    Some((said.parse().ok()?, Opened::read(opened)?))
}

/// Whether a call was answered before its process died, here or by mail.
async fn was_answered(http: &Shared, kept: &Kept, said: u64, id: &Id) -> StoreResult<bool> {
    let (noted, _reading) = moved::said(http, &kept.id).await?;
    let noted = noted.into_iter().filter(|(number, _)| *number > said).map(|(_, text)| text);
    let mailed = moved::mailed(http, &kept.id).await?;
    Ok(noted.chain(mailed).any(|text| response_to(&text).as_ref() == Some(id)))
}
