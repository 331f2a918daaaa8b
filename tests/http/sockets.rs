//! WebSocket: tasks, heartbeats, whose a socket is, and what happens when there is too much.

use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio_tungstenite::tungstenite::Message;
use tower::util::MapRequestLayer;
use zcp::{
    Catalog, Ctx, Http, KeyRing, Live, RateLimit, Resource, Result, Server, Tool,
    store::{Memory, Store},
    tool,
};
use zcp_tests::{
    away::{SESSION, pair, resumable, sign_in, slow, tool as tool_call},
    call, everything,
    http::HttpServer,
    initialize, modern_as, request,
    socket::Socket,
    text,
};

const LAST: &str = "2025-11-25";

fn ping(id: u64) -> Value {
    request(id, "ping", json!({}))
}

/// A call that is to be a task of 2025-11-25.
fn as_task(id: u64, seconds: f64) -> Value {
    let mut call = slow(id, "task", seconds);
    call["params"]["task"] = json!({ "ttl": 60_000 });
    call
}

#[tokio::test]
async fn a_task_is_followed_over_a_socket_in_both_designs() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    socket.ask(initialize(0, LAST)).await;
    let begun = socket.ask(as_task(1, 0.5)).await;
    let one = json!({ "taskId": begun["result"]["task"]["taskId"] });
    let seen = socket.ask(request(2, "tasks/get", one.clone())).await;
    assert_eq!(seen["result"]["status"], "working");
    let result = socket.ask(request(3, "tasks/result", one)).await;
    assert!(text(&result["result"]).ends_with("computed for 0.5 seconds"), "{result}");
    let begun = socket.ask(as_task(4, 60.0)).await;
    let one = json!({ "taskId": begun["result"]["task"]["taskId"] });
    let cancelled = socket.ask(request(5, "tasks/cancel", one.clone())).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");

    let able = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let modern = |id: &str, method: &str, params| modern_as(id, method, params, able.clone());
    let long = call("slow_compute", json!({ "seconds": 0.5, "label": "modern" }));
    let begun = socket.ask(modern("call", "tools/call", long)).await;
    let id = begun["result"]["taskId"].clone();
    let wanted = json!({ "notifications": { "taskIds": [id] } });
    socket.send(modern("listen", "subscriptions/listen", wanted)).await;
    let mut told = vec![];
    while told.last() != Some(&json!("completed")) {
        let said = socket.next().await.expect("it goes on");
        if said["method"] == "notifications/tasks" {
            assert_eq!(said["params"]["taskId"], id);
            told.push(said["params"]["status"].clone());
        }
    }
    let done = socket.ask(modern("get", "tasks/get", json!({ "taskId": id }))).await;
    assert_eq!(done["result"]["status"], "completed");
}

/// Lets time pass for the server, which then does what is due.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_quiet_socket_is_pinged_and_stays_open() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    // A minute: longer than a client may be silent.
    for _ in 0..6 {
        pass(10).await;
        let frame = socket.frame().await.expect("it is open");
        assert!(matches!(frame, Message::Ping(_)), "{frame:?}");
    }
    assert_eq!(socket.ask(request(1, "server/discover", json!({}))).await["id"], 1);
}

#[tokio::test]
async fn a_socket_that_answers_no_ping_is_ended() {
    let server = HttpServer::new(everything()).await;
    let (mut socket, id) = resumable(&server).await;
    // Nobody reads, so nobody answers the pings.
    for _ in 0..5 {
        pass(10).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Its own answer to the first of them finds the connection closed.
    let first = socket.frame().await.expect("it was pinged");
    assert!(matches!(first, Message::Ping(_)), "{first:?}");
    while let Some(frame) = socket.frame().await {
        assert!(matches!(frame, Message::Ping(_)), "{frame:?}");
    }
    // A client that was only asleep comes back.
    let query = format!("?session={id}&last_event_id=1");
    let mut socket = Socket::connect(&server, &query).await;
    assert_eq!(socket.ask(ping(2)).await["result"], json!({}));
}

#[tokio::test]
async fn a_socket_belongs_to_its_principal_on_every_server() {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let keys = KeyRing::kept_in(&*store).await.unwrap();
    let server = async || {
        let server = everything().shared_store(store.clone()).keys(keys.clone());
        let layer = MapRequestLayer::new(sign_in);
        HttpServer::with(server.build().unwrap(), |http: Http| http.layer(layer)).await
    };
    let (a, b) = (server().await, server().await);
    let ann = [("x-user", "ann")];
    let mut socket = Socket::try_connect(&a, "?resume=true", &ann).await.unwrap();
    let id = socket.upgrade.headers()[SESSION].to_str().unwrap().to_owned();
    socket.ask(initialize(1, LAST)).await;
    socket.cut();
    let query = format!("?session={id}&last_event_id=1");
    for server in [&a, &b] {
        assert_eq!(
            Socket::try_connect(server, &query, &[("x-user", "bob")]).await.unwrap_err(),
            404
        );
        assert_eq!(Socket::try_connect(server, &query, &[]).await.unwrap_err(), 404);
    }
    let mut socket = Socket::try_connect(&b, &query, &ann).await.unwrap();
    assert_eq!(socket.ask(ping(2)).await["result"], json!({}));
}

/// So much that what a socket was sent is not held five times.
#[tool(read_only)]
async fn large() -> String {
    "x".repeat(1024 * 1024)
}

#[tokio::test]
async fn a_socket_that_missed_more_than_is_held_starts_over() {
    let server = HttpServer::new(Server::new("large").tool(large)).await;
    let (mut socket, id) = resumable(&server).await;
    for id in 0..6 {
        socket.ask(tool_call(id, "large")).await;
    }
    socket.cut();
    let connect = async |count: u64| {
        let query = format!("?session={id}&last_event_id={count}");
        Socket::try_connect(&server, &query, &[]).await
    };
    assert_eq!(connect(1).await.unwrap_err(), 410);
    let mut socket = connect(6).await.unwrap();
    // The last of them was on its way.
    assert_eq!(socket.next().await.unwrap()["id"], 5);
    assert_eq!(socket.ask(ping(9)).await["result"], json!({}));
}

/// Tells of one resource, again and again.
#[tool]
async fn flood(times: u32, ctx: Ctx) -> Result<String> {
    for _ in 0..times {
        ctx.updated("note://one").await?;
    }
    Ok("told".to_owned())
}

#[tokio::test]
async fn a_flood_of_changes_leaves_a_socket_usable() {
    let live = Live::default();
    let note = Resource::new("note://one", async || "note").watched();
    let server = Server::new("flood").tool(flood).resource(note).provide(live.clone());
    let server = HttpServer::new(server).await;
    let mut socket = Socket::connect(&server, "").await;
    socket.ask(initialize(0, LAST)).await;
    let uri = json!({ "uri": "note://one" });
    socket.ask(request(1, "resources/subscribe", uri)).await;
    // More than the log of changes holds, while nobody reads.
    socket.send(request(2, "tools/call", call("flood", json!({ "times": 5000 })))).await;
    let (mut answered, mut told) = (false, 0);
    while !answered {
        let said = socket.next().await.expect("it goes on");
        answered = said["id"] == 2;
        told += usize::from(said["method"] == "notifications/resources/updated");
    }
    // What comes after is told as ever.
    live.set(Catalog::default().tool(Tool::new("new", async || "new")));
    let mut changed = false;
    while !changed || told == 0 {
        let said = socket.next().await.expect("it goes on");
        changed |= said["method"] == "notifications/tools/list_changed";
        told += usize::from(said["method"] == "notifications/resources/updated");
    }
    assert!(told <= 5000, "{told}");
    assert_eq!(socket.ask(ping(3)).await["result"], json!({}));
}

#[tokio::test]
async fn a_rate_limit_holds_for_sockets() {
    let limit = RateLimit::per_second(0.001).burst(3.0);
    let server = HttpServer::new(everything().layer(limit)).await;
    let (mut one, mut two) =
        (Socket::connect(&server, "").await, Socket::connect(&server, "").await);
    one.ask(initialize(0, LAST)).await;
    two.ask(initialize(0, LAST)).await;
    let answer = one.ask(tool_call(1, "test_simple_text")).await;
    assert!(answer["result"].is_object(), "{answer}");
    // Both are anonymous, and come from the same address.
    for socket in [&mut one, &mut two] {
        let refused = socket.ask(tool_call(2, "test_simple_text")).await;
        assert!(refused["error"]["data"]["retryAfterSeconds"].is_number(), "{refused}");
        assert_eq!(socket.ask(ping(3)).await["result"], json!({}));
    }
}

/// Two that resume at once on two servers: one has the conversation, and it goes on.
#[tokio::test]
async fn a_socket_that_two_servers_resume_at_once_goes_on() {
    let (a, b) = pair().await;
    let (socket, id) = resumable(&a).await;
    socket.cut();
    let query = format!("?session={id}&last_event_id=1");
    let (one, two) = tokio::join!(Socket::connect(&a, &query), Socket::connect(&b, &query));
    drop((one, two));
    let mut socket = Socket::connect(&b, &query).await;
    assert_eq!(socket.ask(ping(1)).await["result"], json!({}));
}
