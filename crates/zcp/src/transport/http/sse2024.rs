//! HTTP+SSE of 2024-11-05: everything the server says on one GET stream, messages by POST.

use super::{
    Shared, body, busy,
    event_stream::{self, Event},
    json_answer, refusal,
    unread::Unread,
};
use crate::{
    auth::{Caller, PeerAddress, Principal},
    protocol::mcp::{Mcp, session::Session, shared},
    sync::{holding, lock},
    transport::{DRAIN, converse::Conversation, outbox::counted_outbox, weight::Scale},
};
use ::http::StatusCode;
use axum::{
    extract::{OriginalUri, Query, Request, State},
    response::Response,
};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use zcp_wire::sse;

/// The conversations whose GET stream is open, by the name in their message address.
#[derive(Default)]
pub(super) struct Open {
    by_id: Mutex<HashMap<String, Arc<Opened>>>,
}

struct Opened {
    conversation: Conversation,
    principal: Principal,
}

impl Open {
    fn find(&self, id: &str) -> Option<Arc<Opened>> {
        lock(&self.by_id).get(id).cloned()
    }
}

/// Forgets a conversation when its stream goes.
struct Closing {
    http: Arc<Shared>,
    id: String,
    _gone: DropGuard,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let open = self.http.runtime.shelf::<Open>();
        lock(&open.by_id).remove(&self.id);
    }
}

/// GET: the stream, which first says where messages go.
pub(super) async fn open(
    State(http): State<Arc<Shared>>,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    // Where these routes were mounted.
    let base = uri.path().strip_suffix("/sse").unwrap_or_default();
    let id = crate::token();
    let principal = Principal::of(&parts.extensions);
    let expired = Caller::of(&parts.extensions).expired();
    let mcp = Mcp::with(
        http.runtime.clone(),
        Some(Arc::new(Session::default())),
        http.closing.child_token(),
    );
    let (outbox, inbox) = counted_outbox(&http.runtime, false);
    let conversation = Conversation::new(mcp, outbox);
    conversation.tell_changes().await;
    let opened = Opened { conversation, principal };
    let table = http.runtime.shelf::<Open>();
    lock(&table.by_id).insert(id.clone(), Arc::new(opened));

    let peer = parts.extensions.get::<PeerAddress>().copied();
    let unread = Unread { runtime: http.runtime.clone(), peer };
    let mut first = vec![];
    let address = format!("{base}/messages?session={id}");
    sse::write(&mut first, Some("endpoint"), None, address.as_bytes());
    let gone = CancellationToken::new();
    http.tracker.spawn(gone.clone().run_until_cancelled_owned(drain(http.clone(), id.clone())));
    let closing = Closing { http: http.clone(), id, _gone: gone.drop_guard() };
    let said = stream::unfold((inbox, unread), |(inbox, unread)| async move {
        let text = unread.hold(inbox.next().await?.into_bytes()).ok()?;
        Some((Event::message(None, &text), (inbox, unread)))
    });
    let said = holding(said.take_until(expired), closing);
    event_stream::respond(stream::iter([Event::from(first)]).chain(said), http.limits.keep_alive)
}

/// When the server goes, a conversation ends after its calls have; its stream ends with it.
async fn drain(http: Arc<Shared>, id: String) {
    http.closing.cancelled().await;
    let open = http.runtime.shelf::<Open>();
    if let Some(opened) = open.find(&id) {
        opened.conversation.tracker.close();
        let _ = tokio::time::timeout(DRAIN / 2, opened.conversation.tracker.wait()).await;
    }
    lock(&open.by_id).remove(&id);
}

#[derive(Deserialize)]
pub(super) struct Address {
    session: String,
}

/// POST: one message; whatever it is answered with is said on the stream.
pub(super) async fn post(
    State(http): State<Arc<Shared>>,
    Query(address): Query<Address>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let opened = http.runtime.shelf::<Open>().find(&address.session);
    let opened = opened.filter(|opened| opened.principal == Principal::of(&parts.extensions));
    let Some(opened) = opened else {
        return refusal(StatusCode::NOT_FOUND, "no such stream: open one with GET /sse");
    };
    let peer = parts.extensions.get::<PeerAddress>().copied();
    let mut scale = Scale::new(&http.runtime, peer, None);
    match body::read(body, &http.limits, None, &mut scale).await {
        Ok(body) => {
            // What it says is not read: it is to come back when it reads.
            let room = opened.conversation.room();
            if tokio::time::timeout(http.limits.read, room).await.is_err() {
                return busy("the stream of this conversation is not read");
            }
            // What came with this message, not with the stream: its caller may show another token.
            opened.conversation.receive(body, &shared(parts.extensions));
            json_answer::accepted()
        }
        Err(refused) => refused,
    }
}
