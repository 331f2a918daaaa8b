//! WebSocket: one frame a message, and a dropped connection that can be taken up again.

mod arriving;
mod connection;
mod handshake;
mod moved;

use super::{Shared, held::Held, idle::Occupied};
use crate::{
    auth::{Caller, Principal},
    protocol::mcp::{Mcp, session::Session, shared},
    store::{Bound, StoreError, StoreResult},
    transport::{
        DRAIN,
        converse::Conversation,
        outbox::{Inbox, outbox},
    },
};
use ::http::{Extensions, HeaderValue};
use axum::{
    BoxError,
    extract::{Query, Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::SinkExt;
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use zcp_wire::header::SESSION_ID;

use arriving::Socket;
use connection::{Connection, Ended, serve};
use handshake::Handshake;

/// Messages kept for a client that lost its connection.
const KEEP: Bound = Bound::entries(1024);
/// How long a conversation waits for its client to come back.
const RETURN: Duration = Duration::from_secs(60);
/// How often a used conversation's time in the store is renewed.
const RENEW: Duration = Duration::from_secs(60 * 60);
/// How often a quiet connection is asked whether it is still there.
const PING: Duration = Duration::from_secs(20);

/// How a client comes back: by the session's name, and the number of messages it has received.
#[derive(Debug, Deserialize)]
pub(crate) struct Resume {
    /// Whether the client wants to be able to come back.
    resume: Option<String>,
    session: Option<String>,
    last_event_id: Option<u64>,
}

/// The conversations that can be taken up again.
#[derive(Default)]
struct Waiting {
    by_id: Mutex<HashMap<String, Arc<Kept>>>,
    /// Held while a conversation is brought here from another process, so that two connections
    /// that ask for it at once get the same one.
    moving: [AsyncMutex<()>; 32],
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Arc<Kept>> {
        self.lock().get(id).cloned()
    }

    /// The lock for a conversation that is brought here.
    fn moving(&self, id: &str) -> &AsyncMutex<()> {
        let sum = id.bytes().fold(0, |sum, byte| (sum + usize::from(byte)) % self.moving.len());
        &self.moving[sum]
    }

    /// Makes a conversation one that can be taken up again, here or in another process.
    fn keep(&self, http: &Arc<Shared>, kept: &Arc<Kept>) {
        self.lock().insert(kept.id.clone(), kept.clone());
        moved::look_out(http, kept);
    }

    /// Gives a conversation to another connection, unless it has ended or moved meanwhile.
    fn take(&self, kept: &Arc<Kept>) -> Option<CancellationToken> {
        let all = self.lock();
        all.get(&kept.id).filter(|held| Arc::ptr_eq(held, kept)).map(|held| held.take())
    }

    /// Forgets a conversation, and no other of its name.
    fn remove(&self, kept: &Arc<Kept>) {
        let mut all = self.lock();
        if all.get(&kept.id).is_some_and(|held| Arc::ptr_eq(held, kept)) {
            all.remove(&kept.id);
        }
    }

    /// Forgets a conversation whose connection is gone. False when another has taken it.
    fn give_up(&self, kept: &Arc<Kept>, taken: &CancellationToken) -> bool {
        let mut all = self.lock();
        let gone = !taken.is_cancelled();
        if gone && all.get(&kept.id).is_some_and(|held| Arc::ptr_eq(held, kept)) {
            all.remove(&kept.id);
        }
        gone
    }
}

/// A conversation that outlives its connection.
struct Kept {
    id: String,
    /// Whether its client may come back to it.
    resumable: bool,
    principal: Principal,
    mcp: Mcp,
    conversation: Conversation,
    /// Where the conversation's messages come out; held by the connection that has it.
    inbox: AsyncMutex<Inbox>,
    /// Takes the conversation away from the connection that has it.
    taken: Mutex<CancellationToken>,
    session: Arc<Session>,
    /// Whether another process could go on with it.
    is_saved: AtomicBool,
    /// When it was last made to be kept for longer.
    renewed: Mutex<Option<Instant>>,
    /// How many messages were said.
    said: AtomicU64,
    /// Who has it, among the processes that had it.
    owner: String,
    /// A message that was taken from the inbox and not noted yet.
    unnoted: Mutex<Option<ByteString>>,
}

/// How a conversation begins.
enum Begins {
    /// For one connection.
    Once,
    /// For as many as its client needs.
    Resumable,
    /// With a session that began in another process.
    Elsewhere(Session),
}

/// GET: an ordinary connection, one that can be taken up again, or one that is.
pub(crate) async fn upgrade(
    State(http): State<Arc<Shared>>,
    Query(wish): Query<Resume>,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let handshake = match Handshake::of(&mut parts) {
        Ok(handshake) => handshake,
        Err(refusal) => return refusal.into_response(),
    };
    let principal = Principal::of(&parts.extensions);
    let occupied = parts.extensions.remove::<Occupied>();
    let extensions = shared(parts.extensions);
    let received = wish.session.is_some().then(|| wish.last_event_id.unwrap_or(0));
    let kept = match &wish.session {
        Some(id) => {
            let received = received.unwrap_or(0);
            let claim = moved::Claim { id, principal, extensions: &extensions, received };
            match moved::find(&http, &claim).await {
                Ok(kept) => kept,
                Err(refusal) => return refusal,
            }
        }
        None => {
            let begins = wish.resume.as_ref().map_or(Begins::Once, |_| Begins::Resumable);
            let begun = Kept::new(&http, crate::token(), begins, principal);
            begun.conversation.tell_changes().await;
            Arc::new(begun)
        }
    };
    let id = HeaderValue::from_str(&kept.id).ok().filter(|_| kept.resumable);
    let mut response = handshake.response();
    let shared = http.clone();
    http.tracker.spawn(async move {
        let Ok(stream) = handshake.upgraded.await else { return };
        let socket = arriving::socket(&shared, stream, &extensions).await;
        converse(&shared, kept, socket, extensions, received, occupied).await;
    });
    if let Some(id) = id {
        response.headers_mut().insert(&SESSION_ID, id);
    }
    response
}

/// Serves a connection, and does what its end means for its conversation.
async fn converse(
    http: &Arc<Shared>,
    kept: Arc<Kept>,
    socket: Socket,
    extensions: Arc<Extensions>,
    received: Option<u64>,
    occupied: Option<Occupied>,
) {
    let waiting = http.runtime.shelf::<Waiting>();
    if kept.resumable && received.is_none() {
        waiting.keep(http, &kept);
    }
    let taken = if kept.resumable { waiting.take(&kept) } else { Some(kept.take()) };
    let Some(taken) = taken else { return };
    let connection = Connection { extensions, taken: taken.clone(), received };
    match serve(http, &kept, socket, &connection).await {
        // Another connection has the conversation now.
        _ if taken.is_cancelled() => (),
        Ended::Lost if kept.resumable => forget_later(http, kept, taken, occupied),
        Ended::Stopped => kept.stop(),
        _ if waiting.give_up(&kept, &taken) => kept.end(http).await,
        _ => (),
    }
}

impl Kept {
    fn new(http: &Shared, id: String, begins: Begins, principal: Principal) -> Self {
        let (resumable, is_saved) =
            (!matches!(begins, Begins::Once), matches!(begins, Begins::Elsewhere(_)));
        let session = Arc::new(match begins {
            Begins::Once => Session::default(),
            Begins::Resumable => Session::new(
                id.as_str().into(),
                crate::token()[..12].into(),
                Caller::new(principal.clone()),
            ),
            Begins::Elsewhere(session) => session,
        });
        let closing = http.closing.child_token();
        let mcp = Mcp::with(http.runtime.clone(), Some(session.clone()), closing);
        let (outbox, inbox) = outbox();
        Self {
            id,
            resumable,
            session,
            is_saved: AtomicBool::new(is_saved),
            renewed: Mutex::default(),
            said: AtomicU64::new(0),
            owner: crate::token(),
            principal,
            conversation: Conversation::new(mcp.clone(), outbox),
            mcp,
            inbox: AsyncMutex::new(inbox),
            taken: Mutex::default(),
            unnoted: Mutex::default(),
        }
    }

    /// Takes the conversation away from whoever has it.
    fn take(&self) -> CancellationToken {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.cancel();
        *taken = CancellationToken::new();
        taken.clone()
    }

    fn log(&self) -> String {
        format!("ws/{}", self.id)
    }

    /// Notes a message before it is sent, so that it is lost with the connection and not with
    /// the conversation.
    async fn note(&self, http: &Shared, text: &ByteString) -> StoreResult<()> {
        let unnoted = || self.unnoted.lock().unwrap_or_else(PoisonError::into_inner);
        *unnoted() = Some(text.clone());
        if !self.is_saved.load(Ordering::Relaxed) && self.session.handshake().is_some() {
            self.session.save(&http.runtime).await?;
            self.is_saved.store(true, Ordering::Relaxed);
        }
        self.renew(http).await?;
        let number = self.said.load(Ordering::Relaxed) + 1;
        let note = Bytes::from(format!("{number} {text}"));
        let kept = Some(http.runtime.settings.session_ttl);
        let (store, log) = (&http.runtime.store, self.log());
        let bytes = note.len();
        match store.append(&log, note, KEEP, kept).await {
            // Its number alone: whoever misses the message cannot go on from before it.
            Err(StoreError::TooLarge { .. }) => {
                store.append(&log, Bytes::from(format!("{number} ")), KEEP, kept).await?;
            }
            noted => drop(noted?),
        }
        http.hold(&log, bytes, KEEP.bytes).await;
        self.said.store(number, Ordering::Relaxed);
        *unnoted() = None;
        Ok(())
    }

    /// Keeps the session of a conversation that is used.
    async fn renew(&self, http: &Shared) -> StoreResult<()> {
        let often = RENEW.min(http.runtime.settings.session_ttl / 4);
        let last = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_saved.load(Ordering::Relaxed) || last.is_some_and(|at| at.elapsed() < often) {
            return Ok(());
        }
        if let Some(entry) = Session::find(&http.runtime, &self.id).await? {
            self.session.renew(&http.runtime, &entry).await?;
        }
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    /// What was said after so many messages.
    async fn missed(&self, http: &Shared, received: u64) -> StoreResult<Vec<ByteString>> {
        let said = moved::said(http, &self.id).await?;
        let last = self.said.load(Ordering::Relaxed);
        let missed = said.into_iter().filter(|(number, _)| *number > received);
        let missed: Vec<_> = missed.filter(|(_, text)| !text.is_empty()).collect();
        // All that is missing must be there: counted from the last, back to the first.
        match missed.len() as u64 == last.checked_sub(received).ok_or(StoreError::Gone)? {
            true => Ok(missed.into_iter().map(|(_, text)| text).collect()),
            false => Err(StoreError::Gone),
        }
    }

    /// Waits until the server is to stop, and what is under way has ended.
    async fn drained(&self, http: &Shared) {
        http.closing.cancelled().await;
        self.conversation.tracker.close();
        let _ = tokio::time::timeout(DRAIN / 2, self.conversation.tracker.wait()).await;
    }

    /// Ends it here; it may be taken up on another server.
    fn stop(&self) {
        self.mcp.close();
        self.mcp.cancel_all();
    }

    /// Ends it for good.
    async fn end(&self, http: &Shared) {
        self.stop();
        if !self.resumable || moved::is_elsewhere(http, self).await {
            return;
        }
        for log in [self.log(), moved::mail(&self.id)] {
            http.runtime.shelf::<Held>().remove(&log);
            let _ = http.runtime.store.remove(&log).await;
        }
        let _ = Session::remove(&http.runtime, &self.id).await;
    }
}

/// Ends a conversation whose client does not come back. Until then its calls go on, so it counts as a
/// connection.
fn forget_later(
    http: &Arc<Shared>,
    kept: Arc<Kept>,
    taken: CancellationToken,
    occupied: Option<Occupied>,
) {
    let shared = http.clone();
    http.tracker.spawn(async move {
        let _occupied = occupied;
        tokio::select! {
            () = tokio::time::sleep(RETURN) => {
                if shared.runtime.shelf::<Waiting>().give_up(&kept, &taken) {
                    kept.end(&shared).await;
                }
            }
            () = shared.closing.cancelled() => kept.stop(),
            () = taken.cancelled() => (),
        }
    });
}

impl Kept {
    /// Sends what waits.
    async fn say(&self, http: &Shared, socket: &mut Socket, inbox: &Inbox) -> Result<(), BoxError> {
        let mut said = false;
        while let Some(text) = inbox.pop() {
            if self.resumable {
                self.note(http, &text).await?;
            }
            socket.feed(text_message(&text)).await?;
            said = true;
        }
        if said {
            socket.flush().await?;
        }
        Ok(())
    }

    /// Sends what the client has not received yet, and what was about to be said.
    async fn say_again(
        &self,
        http: &Shared,
        socket: &mut Socket,
        received: Option<u64>,
    ) -> Result<(), BoxError> {
        if let Some(received) = received {
            for text in self.missed(http, received).await.unwrap_or_default() {
                socket.send(text_message(&text)).await?;
            }
        }
        let unnoted = self.unnoted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(text) = unnoted {
            self.note(http, &text).await?;
            socket.send(text_message(&text)).await?;
        }
        Ok(())
    }
}

fn text_message(text: &ByteString) -> Message {
    Message::Text((&**text).into())
}
