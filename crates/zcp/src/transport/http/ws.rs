//! WebSocket: one frame a message, and a dropped connection that can be taken up again.

mod arriving;
mod connection;
mod moved;
mod open_calls;
mod resumable;
mod upgrade;

use super::{Shared, idle::Occupied};
use crate::{auth::Principal, protocol::mcp::shared, sync::lock};
use ::http::{Extensions, HeaderValue};
use axum::{
    extract::{Query, Request, State},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;
use zcp_wire::header::SESSION_ID;

use arriving::Socket;
use connection::{Connection, Ended, serve};
use moved::Claim;
use resumable::{Begins, Kept};
use upgrade::Handshake;

/// How long a conversation waits for its client to come back.
const RETURN: Duration = Duration::from_secs(60);

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
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        lock(&self.by_id)
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
    let occupied = parts.extensions.remove::<Occupied>();
    let extensions = shared(parts.extensions);
    let kept = match wish.conversation(&http, &extensions).await {
        Ok(kept) => kept,
        Err(refusal) => return refusal,
    };
    let mut response = handshake.response();
    if let Some(id) = HeaderValue::from_str(&kept.id).ok().filter(|_| kept.resumable) {
        response.headers_mut().insert(&SESSION_ID, id);
    }
    let (shared, received) = (http.clone(), wish.received());
    http.tracker.spawn(async move {
        let Ok(stream) = handshake.upgraded.await else { return };
        let socket = arriving::socket(&shared, stream, &extensions).await;
        converse(&shared, kept, socket, extensions, received, occupied).await;
    });
    response
}

impl Resume {
    /// How many messages the client has received, if it comes back.
    fn received(&self) -> Option<u64> {
        self.session.as_ref().map(|_| self.last_event_id.unwrap_or(0))
    }

    /// The conversation that a client comes back to, or a new one.
    async fn conversation(
        &self,
        http: &Arc<Shared>,
        extensions: &Extensions,
    ) -> Result<Arc<Kept>, Response> {
        let principal = Principal::of(extensions);
        if let Some(id) = &self.session {
            let received = self.received().unwrap_or(0);
            return moved::find(http, &Claim { id, principal, extensions, received }).await;
        }
        let begins = if self.resume.is_some() { Begins::Resumable } else { Begins::Once };
        let begun = Kept::new(http, crate::token(), begins, principal);
        begun.conversation.tell_changes().await;
        Ok(Arc::new(begun))
    }
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
    let ended = match serve(http, &kept, socket, &connection).await {
        Ended::Refused(socket) => {
            arriving::linger(*socket).await;
            Ended::Lost
        }
        ended => ended,
    };
    match ended {
        // Another connection has the conversation now.
        _ if taken.is_cancelled() => (),
        Ended::Lost if kept.resumable => forget_later(http, kept, taken, occupied),
        Ended::Stopped => kept.stop(),
        _ if waiting.give_up(&kept, &taken) => kept.end(http).await,
        _ => (),
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
            never = kept.note_while_away(&shared) => match never {},
        }
    });
}

#[cfg(test)]
mod echo;
