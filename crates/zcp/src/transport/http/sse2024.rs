//! HTTP+SSE of 2024-11-05: everything the server says on one GET stream, messages by POST.

use super::{Shared, event_stream, exchange, refusal, status};
use crate::{
    auth::{Caller, PeerAddress, Principal},
    protocol::mcp::{Mcp, session::Session, shared},
    transport::{DRAIN, converse::Conversation, outbox::outbox, weight::Scale},
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
    sync::{Arc, Mutex, PoisonError},
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
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
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
        open.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
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
    let (outbox, inbox) = outbox();
    let conversation = Conversation::new(mcp, outbox);
    conversation.tell_changes().await;
    let opened = Opened { conversation, principal };
    let table = http.runtime.shelf::<Open>();
    table.by_id.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), Arc::new(opened));

    let mut first = vec![];
    let address = format!("{base}/messages?session={id}");
    sse::write(&mut first, Some("endpoint"), None, address.as_bytes());
    let gone = CancellationToken::new();
    http.tracker.spawn(gone.clone().run_until_cancelled_owned(drain(http.clone(), id.clone())));
    let closing = Closing { http: http.clone(), id, _gone: gone.drop_guard() };
    let said = stream::unfold(inbox, |inbox| async move {
        let text = inbox.next().await?;
        Some((event_stream::message(None, text.as_bytes()), inbox))
    });
    let said = said.take_until(expired).inspect(move |_| {
        let _ = &closing;
    });
    event_stream::respond(stream::iter([first]).chain(said), http.limits.keep_alive)
}

/// When the server goes, a conversation ends after its calls have; its stream ends with it.
async fn drain(http: Arc<Shared>, id: String) {
    http.closing.cancelled().await;
    let open = http.runtime.shelf::<Open>();
    if let Some(opened) = open.find(&id) {
        opened.conversation.tracker.close();
        let _ = tokio::time::timeout(DRAIN / 2, opened.conversation.tracker.wait()).await;
    }
    open.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
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
    match exchange::read(body, &http.limits, None, &mut scale).await {
        Ok(body) => {
            // What it says is not read: it is to come back when it reads.
            let room = opened.conversation.room();
            if tokio::time::timeout(http.limits.read, room).await.is_err() {
                return exchange::busy("the stream of this conversation is not read");
            }
            // What came with this message, not with the stream: its caller may show another token.
            opened.conversation.receive(body, &shared(parts.extensions));
            status::accepted()
        }
        Err(refused) => refused,
    }
}
