//! WebSocket: one frame a message, and a dropped connection that can be taken up again.

use super::{
    DRAIN,
    converse::{Conversation, OUTBOX},
    http::Shared,
};
use crate::{
    auth::Principal,
    protocol::mcp::{
        Mcp,
        session::{IDLE, Session},
    },
    store::{StoreError, StoreResult},
};
use ::http::{HeaderValue, StatusCode};
use axum::{
    body::Body,
    extract::{
        Query, Request, State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_util::sync::CancellationToken;
use zcp_wire::header::SESSION_ID;

/// Messages kept for a client that lost its connection.
const KEEP: usize = 1024;
/// How long a conversation waits for its client to come back.
const RETURN: Duration = Duration::from_secs(60);
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
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A conversation that outlives its connection.
struct Kept {
    id: String,
    principal: Principal,
    mcp: Mcp,
    conversation: Conversation,
    /// Where the conversation's messages come out; held by the connection that has it.
    inbox: AsyncMutex<mpsc::Receiver<ByteString>>,
    /// Takes the conversation away from the connection that has it.
    taken: Mutex<CancellationToken>,
    /// The log's position before its first message: messages are counted from there.
    start: OnceLock<u64>,
    /// A message that was taken from the inbox and not noted yet.
    unnoted: Mutex<Option<ByteString>>,
    /// Up to where the client was told what changed.
    told: Mutex<Option<u64>>,
}

impl Kept {
    fn take(&self) -> CancellationToken {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.cancel();
        *taken = CancellationToken::new();
        taken.clone()
    }
}

/// GET: an ordinary connection, one that can be taken up again, or one that is.
pub(crate) async fn upgrade(
    State(http): State<Arc<Shared>>,
    Query(wish): Query<Resume>,
    upgrade: WebSocketUpgrade,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let principal = Principal::of(&parts.extensions);
    let waiting = http.runtime.shelf::<Waiting>();
    let found = wish.session.as_ref().map(|id| waiting.lock().get(id).cloned());
    let kept = match found {
        Some(found) => match found.filter(|kept| kept.principal == principal) {
            Some(kept) => kept,
            None => {
                let why = "no such session: connect without `session` and start over\n";
                return (StatusCode::NOT_FOUND, why).into_response();
            }
        },
        None => Arc::new(begin(&http, principal, parts.extensions)),
    };
    let received = wish.session.is_some().then(|| wish.last_event_id.unwrap_or(0));
    if let Some(received) = received
        && kept.missed(&http, received).await.is_err()
    {
        let why = "too much was missed, or the count is wrong: connect without `session`\n";
        return (StatusCode::GONE, why).into_response();
    }
    let resumable = wish.resume.is_some() || wish.session.is_some();
    let id = HeaderValue::from_str(&kept.id).ok();
    let upgrade = upgrade.max_message_size(http.limits.body).protocols(["mcp"]);
    // The web server starts the task; this makes it one of ours.
    let owned = http.tracker.token();
    let mut response: Response<Body> = upgrade.on_upgrade(async move |socket| {
        let _owned = owned;
        if resumable {
            waiting.lock().insert(kept.id.clone(), kept.clone());
        }
        let taken = kept.take();
        match serve(&http, &kept, socket, &taken, resumable, received).await {
            // Another connection has the conversation now.
            _ if taken.is_cancelled() => (),
            Ended::Lost if resumable => forget_later(&http, kept, taken),
            _ => {
                waiting.lock().remove(&kept.id);
                kept.end(&http).await;
            }
        }
    });
    if let Some(id) = id.filter(|_| resumable) {
        response.headers_mut().insert(&SESSION_ID, id);
    }
    response
}

fn begin(http: &Shared, principal: Principal, extensions: ::http::Extensions) -> Kept {
    let session = Arc::new(Session::default());
    let mcp = Mcp::with(http.runtime.clone(), Some(session), http.closing.child_token());
    let (outbox, inbox) = mpsc::channel(OUTBOX);
    Kept {
        id: crate::token(),
        principal,
        conversation: Conversation::new(mcp.clone(), extensions, outbox),
        mcp,
        inbox: AsyncMutex::new(inbox),
        taken: Mutex::default(),
        start: OnceLock::new(),
        unnoted: Mutex::default(),
        told: Mutex::default(),
    }
}

impl Kept {
    fn log(&self) -> String {
        format!("ws/{}", self.id)
    }

    /// Notes a message before it is sent, so that it is lost with the connection and not with
    /// the conversation.
    async fn note(&self, http: &Shared, text: &ByteString) -> StoreResult<()> {
        let unnoted = || self.unnoted.lock().unwrap_or_else(PoisonError::into_inner);
        *unnoted() = Some(text.clone());
        let note = text.clone().into_bytes();
        let position = http.runtime.store.append(&self.log(), note, KEEP, Some(IDLE)).await?;
        *unnoted() = None;
        self.start.get_or_init(|| position - 1);
        Ok(())
    }

    /// What was said after so many messages.
    async fn missed(&self, http: &Shared, received: u64) -> StoreResult<Vec<(u64, Bytes)>> {
        let Some(start) = self.start.get() else {
            return if received == 0 { Ok(vec![]) } else { Err(StoreError::Gone) };
        };
        let position = received.checked_add(*start).ok_or(StoreError::Gone)?;
        let missed = http.runtime.store.after(&self.log(), position).await?;
        // To a store, position 0 is all it holds.
        match missed.first() {
            Some((first, _)) if *first != position + 1 => Err(StoreError::Gone),
            _ => Ok(missed),
        }
    }

    async fn told_until(&self, http: &Shared) -> Option<u64> {
        let now = http.runtime.changes.position().await;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*told.get_or_insert(now))
    }

    /// Waits until the server is to stop, and what is under way has ended.
    async fn drained(&self, http: &Shared) {
        http.closing.cancelled().await;
        self.conversation.tracker.close();
        let _ = tokio::time::timeout(DRAIN / 2, self.conversation.tracker.wait()).await;
    }

    async fn end(&self, http: &Shared) {
        self.mcp.close();
        self.mcp.cancel_all();
        let _ = http.runtime.store.remove(&self.log()).await;
    }
}

/// Ends a conversation whose client does not come back.
fn forget_later(http: &Arc<Shared>, kept: Arc<Kept>, taken: CancellationToken) {
    let shared = http.clone();
    http.tracker.spawn(async move {
        let gone = tokio::select! {
            () = tokio::time::sleep(RETURN) => true,
            () = shared.closing.cancelled() => true,
            () = taken.cancelled() => false,
        };
        if gone {
            shared.runtime.shelf::<Waiting>().lock().remove(&kept.id);
            kept.end(&shared).await;
        }
    });
}

/// How a connection came to its end.
enum Ended {
    /// By a word of farewell.
    Closed,
    /// Without one.
    Lost,
}

/// Serves a connection until it ends, or another takes its conversation.
async fn serve(
    http: &Shared,
    kept: &Kept,
    socket: WebSocket,
    taken: &CancellationToken,
    resumable: bool,
    received: Option<u64>,
) -> Ended {
    let (mut sink, mut messages) = socket.split();
    let write = async {
        let mut inbox = kept.inbox.lock().await;
        if let Some(received) = received
            && say_again(http, kept, &mut sink, received).await.is_err()
        {
            return Ended::Lost;
        }
        write(http, kept, &mut inbox, &mut sink, resumable).await
    };
    let read = async {
        let mut alive = true;
        loop {
            let message = match tokio::time::timeout(PING, messages.next()).await {
                Err(_) if !alive => return Ended::Lost,
                Err(_) => {
                    alive = false;
                    continue;
                }
                Ok(None | Some(Err(_))) => return Ended::Lost,
                Ok(Some(Ok(message))) => message,
            };
            alive = true;
            match message {
                Message::Text(text) => kept.conversation.receive(Bytes::from(text)).await,
                Message::Binary(bytes) => kept.conversation.receive(bytes).await,
                Message::Close(_) => return Ended::Closed,
                Message::Ping(_) | Message::Pong(_) => (),
            }
        }
    };
    tokio::select! {
        ended = read => ended,
        ended = write => ended,
        () = taken.cancelled() => Ended::Lost,
    }
}

/// Writes what the conversation says and what changes.
async fn write(
    http: &Shared,
    kept: &Kept,
    inbox: &mut mpsc::Receiver<ByteString>,
    sink: &mut SplitSink<WebSocket, Message>,
    resumable: bool,
) -> Ended {
    let mut events = std::pin::pin!(kept.mcp.events_after(kept.told_until(http).await));
    let mut ping = tokio::time::interval(PING / 2);
    let mut drained = std::pin::pin!(kept.drained(http));
    let unnoted = kept.unnoted.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(text) = unnoted
        && (kept.note(http, &text).await.is_err() || sink.send(text_message(&text)).await.is_err())
    {
        return Ended::Lost;
    }
    loop {
        let text = tokio::select! {
            text = inbox.recv() => text,
            event = events.next() => event.map(|(position, frame)| {
                if position.is_some() {
                    *kept.told.lock().unwrap_or_else(PoisonError::into_inner) = position;
                }
                frame.to_text()
            }),
            _ = ping.tick() => {
                if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                    return Ended::Lost;
                }
                continue;
            }
            () = &mut drained => {
                while let Ok(text) = inbox.try_recv() {
                    let _ = sink.send(text_message(&text)).await;
                }
                let _ = sink.close().await;
                return Ended::Closed;
            }
        };
        let Some(text) = text else { return Ended::Closed };
        if resumable && kept.note(http, &text).await.is_err() {
            return Ended::Lost;
        }
        if sink.send(text_message(&text)).await.is_err() {
            return Ended::Lost;
        }
    }
}

/// Sends what the client has not received yet.
async fn say_again(
    http: &Shared,
    kept: &Kept,
    sink: &mut SplitSink<WebSocket, Message>,
    received: u64,
) -> Result<(), axum::Error> {
    let missed = kept.missed(http, received).await.unwrap_or_default();
    for (_, text) in missed {
        if let Ok(text) = ByteString::try_from(text) {
            sink.send(text_message(&text)).await?;
        }
    }
    Ok(())
}

fn text_message(text: &ByteString) -> Message {
    Message::Text((&**text).into())
}
