//! An echo server whose connections are those of `/ws`, for Autobahn's test suite: `./test autobahn`.

use super::{
    Handshake, arriving,
    connection::{Heard, Line, hear},
};
use crate::{
    Http, Server,
    protocol::mcp::shared,
    transport::{
        http::{Shared, WS, accept::Serving},
        outbox::counted_outbox,
        weight::LARGE,
    },
};
use ::http::Extensions;
use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The longest message that the suite sends.
const LARGEST: usize = 16 * 1024 * 1024;

async fn upgrade(State(http): State<Arc<Shared>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let handshake = match Handshake::of(&mut parts) {
        Ok(handshake) => handshake,
        Err(refusal) => return refusal.into_response(),
    };
    let response = handshake.response();
    let extensions = shared(parts.extensions);
    http.tracker.clone().spawn(async move { echo(&http, handshake.upgraded, &extensions).await });
    response
}

async fn echo(http: &Shared, upgraded: OnUpgrade, extensions: &Extensions) {
    let Ok(stream) = upgraded.await else { return };
    let mut socket = arriving::socket(http, stream, extensions).await;
    let (_outbox, inbox) = counted_outbox(&http.runtime, false);
    let taken = CancellationToken::new();
    let line = Line { taken: &taken, inbox: &inbox };
    loop {
        let read = socket.next().await;
        let message = match hear(read, &mut socket, &line).await {
            Heard::Message(message) => message,
            Heard::Nothing => continue,
            Heard::Refused => return arriving::linger(socket).await,
            Heard::Closed | Heard::Lost => return,
        };
        let is_large = message.len() >= LARGE;
        if !line.takes(socket.send(message)).await {
            return;
        }
        if is_large && socket.get_ref().is_between() {
            socket = arriving::renew(http, socket).await;
        }
    }
}

/// Serves until its process is ended.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "not a test by itself: `./test autobahn` starts it"]
async fn an_echo_server_for_autobahn() {
    let address = std::env::var_os("ZCP_ECHO").expect("`./test autobahn` says where");
    let address = address.into_string().expect("an address is text");
    let listener = TcpListener::bind(address).await.unwrap();
    let runtime = Server::new("echo").build().unwrap();
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    let connections = runtime.metrics.connections.clone();
    let http = Http::new(([127, 0, 0, 1], 0)).max_body(LARGEST);
    let limits = http.limits;
    let mut door = http.door(runtime, stop.clone(), tracker.clone());
    let shared = door.direct.take().expect("no layer was added");
    door.router = Router::new().route(WS, get(upgrade)).with_state(shared);
    Serving { door, limits, stop, tracker, connections }.tcp(listener).await.unwrap();
}
