//! Who a message comes from: what its own connection or request carries, and nobody else's.

use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;
use tower::util::MapRequestLayer;
use zcp::{Ctx, Server, tool};
use zcp_tests::{
    away::{pair, resumable, sign_in, slow, steps},
    call,
    http::{Call, HttpServer},
    initialize, request,
    socket::Socket,
    text,
};

#[derive(Debug, Clone)]
struct Token(String);

/// Says with which token it was called.
#[tool]
async fn shown(ctx: Ctx) -> String {
    ctx.get::<Token>().map_or("none".to_owned(), |token| token.0.clone())
}

/// A server whose callers sign in by `x-user`, and show a token by `x-token`.
async fn guarded() -> HttpServer {
    let runtime = Server::new("guarded").tool(shown).build().expect("no mistakes");
    let show = |mut request: http::Request<axum::body::Body>| {
        if let Some(token) = request.headers().get("x-token") {
            let token = token.to_str().expect("ASCII").to_owned();
            request.extensions_mut().insert(Token(token));
        }
        sign_in(request)
    };
    HttpServer::with(runtime, |http| http.layer(MapRequestLayer::new(show))).await
}

fn which(id: u64) -> Value {
    request(id, "tools/call", call("shown", json!({})))
}

#[tokio::test]
async fn a_resumed_socket_has_its_new_connection_s_caller() {
    let server = guarded().await;
    let connect = |query: String, user: &'static str, token: &'static str| {
        let server = &server;
        async move { Socket::try_connect(server, &query, &[("x-user", user), ("x-token", token)]).await }
    };
    let mut socket = connect("?resume=true".into(), "ann", "old").await.unwrap();
    let id = socket.upgrade.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    socket.ask(initialize(1, "2025-11-25")).await;
    assert_eq!(text(&socket.ask(which(2)).await["result"]), "old");
    socket.cut();
    let query = format!("?session={id}&last_event_id=2");
    // Whoever else knows the session's name is nobody here.
    assert_eq!(connect(query.clone(), "bob", "new").await.unwrap_err(), 404);
    let mut socket = connect(query, "ann", "new").await.unwrap();
    assert_eq!(text(&socket.ask(which(3)).await["result"]), "new");
}

#[tokio::test]
async fn a_message_to_an_old_stream_has_its_own_caller() {
    let server = guarded().await;
    let signed =
        |call: Call<'static>, token: &str| call.header("x-user", "ann").header("x-token", token);
    let server: &'static HttpServer = Box::leak(Box::new(server));
    let mut stream = signed(server.get("/sse"), "get").send().await;
    let endpoint = stream.event().await.expect("it says where").data;
    let post = |message: Value, token: &str| {
        signed(server.post_text(&endpoint, message.to_string()), token)
    };
    assert_eq!(post(initialize(1, "2024-11-05"), "a").send().await.status, 202);
    stream.message().await.expect("it is open");
    for (id, token) in [(2, "a"), (3, "b")] {
        assert_eq!(post(which(id), token).send().await.status, 202);
        let answer = stream.message().await.expect("an answer");
        assert_eq!(text(&answer["result"]), token);
    }
    let foreign = post(which(4), "c").header("x-user", "bob");
    assert_eq!(foreign.send().await.status, 404);
}

/// Both ask for a conversation that another process has; one gets it, and it can be resumed once
/// more, with a call that is under way.
#[tokio::test]
async fn two_sockets_that_resume_at_once_share_one_session() {
    let (a, b) = pair().await;
    let (socket, id) = resumable(&a).await;
    socket.cut();
    let query = format!("?session={id}&last_event_id=1");
    let (mut one, mut two) = tokio::join!(Socket::connect(&b, &query), Socket::connect(&b, &query));
    let ended = async {
        tokio::select! {
            ended = one.next() => (ended, true),
            ended = two.next() => (ended, false),
        }
    };
    let (ended, is_one) = timeout(Duration::from_secs(10), ended).await.unwrap();
    assert_eq!(ended, None, "one of them has lost it");
    let mut socket = if is_one { two } else { one };
    socket.send(slow(1, "s", 0.5)).await;
    assert_eq!(socket.next().await.unwrap()["params"]["progress"], 0.0);
    socket.cut();
    let mut socket = Socket::connect(&a, &format!("?session={id}&last_event_id=2")).await;
    let mut said = vec![];
    while said.last().is_none_or(|said: &Value| said["id"] != 1) {
        said.push(socket.next().await.expect("it goes on"));
    }
    assert_eq!(steps(&said), [1.0, 2.0, 3.0, 4.0], "{said:#?}");
}
