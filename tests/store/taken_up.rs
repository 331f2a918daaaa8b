//! Calls of killed servers on streams and sockets: others go on with them, once, or say why not.

use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tower::{ServiceExt, layer::layer_fn, service_fn};
use zcp::{
    Call, Fault, Op, Outcome, Service,
    store::{Browse, redis::Redis, sqlite::Sqlite},
};
use zcp_tests::{
    away::slow, call, everything, folder::Folder, http::HttpServer, initialize, notification,
    redis::RedisServer, replica::Replica, request, socket::Socket, text,
};

/// A socket that can be taken up again, with its session.
async fn open(replica: &Replica) -> (Socket, String) {
    let socket = Socket::to(replica.address(), "?resume=true", &[]).await;
    let mut socket = socket.expect("it upgrades");
    let id = socket.upgrade.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
    socket.ask(initialize("open", "2025-11-25")).await;
    (socket, id)
}

/// A call that nothing is known of but that it takes its time.
fn once(id: u64) -> Value {
    let mut params = call("slow_once", json!({ "seconds": 30 }));
    params["_meta"] = json!({ "progressToken": id });
    request(id, "tools/call", params)
}

/// Reads up to the response to a request.
async fn until(socket: &mut Socket, id: u64) -> Vec<Value> {
    let mut said = vec![];
    loop {
        let message = socket.next().await.expect("the socket goes on");
        let is_last = message["id"] == id && message.get("method").is_none();
        said.push(message);
        if is_last {
            return said;
        }
    }
}

/// How often a slow call was started on the server of a socket.
async fn started(socket: &mut Socket, label: &str) -> Value {
    let counts = request(99, "tools/call", call("test_runs", json!({ "label": label })));
    socket.ask(counts).await["result"]["structuredContent"]["started"].clone()
}

/// Waits until a session has so many calls that others could go on with.
async fn noted(store: &dyn Browse, session: &str, calls: usize) {
    let prefix = format!("open/{session}/");
    for _ in 0..500 {
        if store.keys(&prefix).await.expect("it is read").len() == calls {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", store.keys(&prefix).await);
}

#[tokio::test]
async fn a_socket_s_call_is_answered_after_a_kill() {
    let redis = RedisServer::new().await;
    let args = ["--store", &redis.url()];
    let (mut a, b) = (Replica::everything(&args).await, Replica::everything(&args).await);
    let (mut socket, id) = open(&a).await;
    socket.send(slow(1, "again", 6.0)).await;
    assert_eq!(socket.next().await.expect("progress")["params"]["progress"], 0.0);
    socket.send(once(2)).await;
    while socket.next().await.expect("progress")["params"]["progressToken"] != 2 {}
    // A call is known to others a moment after it has begun.
    noted(&Redis::new(&redis.url()).expect("a URL"), &id, 2).await;
    a.kill();
    // Whatever was said after the first message is said again.
    let query = format!("?session={id}&last_event_id=2");
    let mut socket = Socket::to(b.address(), &query, &[]).await.expect("it is taken up");
    let (mut done, mut refused) = (None, None);
    while done.is_none() || refused.is_none() {
        let message = socket.next().await.expect("the socket goes on");
        match message["id"].as_u64() {
            Some(1) => assert!(done.replace(message).is_none(), "it is answered once"),
            Some(2) => assert!(refused.replace(message).is_none(), "it is answered once"),
            _ => (),
        }
    }
    let done = done.expect("an answer");
    assert_eq!(text(&done["result"]), "again: computed for 6 seconds");
    let why = refused.expect("an answer")["error"]["message"].to_string();
    assert!(why.contains("stopped before it was done"), "{why}");
    // The socket goes on as any other.
    assert_eq!(socket.ask(request(3, "ping", json!({}))).await["result"], json!({}));
    assert_eq!(started(&mut socket, "again").await, 1);
}

#[tokio::test]
async fn an_answered_or_cancelled_call_is_not_made_again() {
    let folder = Folder::new("taken-up");
    let file = folder.0.join("state.sqlite");
    let args = ["--data", &file.to_string_lossy()];
    let mut a = Replica::everything(&args).await;
    let store = Sqlite::open(&file).expect("it opens");
    let (mut socket, id) = open(&a).await;
    for (call, label) in [(1, "cancelled"), (2, "left")] {
        socket.send(slow(call, label, 30.0)).await;
        while socket.next().await.expect("progress")["params"]["progressToken"] != label {}
    }
    socket.send(slow(3, "answered", 0.3)).await;
    until(&mut socket, 3).await;
    noted(&store, &id, 2).await;
    socket.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    noted(&store, &id, 1).await;
    a.kill();
    let b = Replica::everything(&args).await;
    let query = format!("?session={id}&last_event_id=1");
    let mut socket = Socket::to(b.address(), &query, &[]).await.expect("it is taken up");
    // The one that was left is made again.
    while started(&mut socket, "left").await == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for label in ["cancelled", "answered"] {
        assert_eq!(started(&mut socket, label).await, 0, "{label}");
    }
}

/// Its client is away when it is answered, and comes back to another server.
#[tokio::test]
async fn an_answer_that_waits_for_its_client_outlives_a_kill() {
    let folder = Folder::new("taken-up-away");
    let file = folder.0.join("state.sqlite");
    let args = ["--data", &file.to_string_lossy()];
    let mut a = Replica::everything(&args).await;
    let store = Sqlite::open(&file).expect("it opens");
    let (mut socket, id) = open(&a).await;
    socket.send(slow(1, "away", 1.0)).await;
    assert_eq!(socket.next().await.expect("progress")["params"]["progress"], 0.0);
    noted(&store, &id, 1).await;
    socket.cut();
    noted(&store, &id, 0).await;
    a.kill();
    let b = Replica::everything(&args).await;
    let query = format!("?session={id}&last_event_id=2");
    let mut socket = Socket::to(b.address(), &query, &[]).await.expect("it is taken up");
    let answer = until(&mut socket, 1).await.pop().expect("an answer");
    assert_eq!(text(&answer["result"]), "away: computed for 1 seconds");
    assert_eq!(started(&mut socket, "away").await, 0);
}

#[tokio::test]
async fn a_call_that_the_layers_deny_is_not_made_again() {
    let folder = Folder::new("taken-up-denied");
    let file = folder.0.join("state.sqlite");
    let mut a = Replica::everything(&["--data", &file.to_string_lossy()]).await;
    let (mut socket, id) = open(&a).await;
    socket.send(slow(1, "denied", 30.0)).await;
    assert_eq!(socket.next().await.expect("progress")["params"]["progress"], 0.0);
    let store = Arc::new(Sqlite::open(file).expect("it opens"));
    noted(&*store, &id, 1).await;
    a.kill();
    let deny = layer_fn(|inner: Service| {
        Service::new(service_fn(move |call: Call| {
            let inner = inner.clone();
            async move {
                match &call.op {
                    Op::CallTool { name, .. } if name == "slow_compute" => {
                        Ok::<_, Infallible>(Outcome::Fault(Fault::Denied("compute".into())))
                    }
                    _ => inner.oneshot(call).await,
                }
            }
        }))
    });
    let b = HttpServer::new(everything().shared_store(store).layer(deny)).await;
    let mut socket = Socket::connect(&b, &format!("?session={id}&last_event_id=2")).await;
    let answer = until(&mut socket, 1).await.pop().expect("an answer");
    assert!(answer["error"]["message"].to_string().contains("compute"), "{answer}");
    assert_eq!(started(&mut socket, "denied").await, 0);
}

/// A socket and its call move twice: whoever took the call up dies, too.
#[tokio::test]
async fn a_call_outlives_two_servers() {
    let folder = Folder::new("taken-up-twice");
    let file = folder.0.join("state.sqlite");
    let args = ["--data", &file.to_string_lossy()];
    let store = Sqlite::open(&file).expect("it opens");
    let mut replica = Replica::everything(&args).await;
    let (mut socket, id) = open(&replica).await;
    socket.send(slow(1, "twice", 4.0)).await;
    assert_eq!(socket.next().await.expect("progress")["params"]["progress"], 0.0);
    noted(&store, &id, 1).await;
    let mut count = 2;
    for _ in 0..2 {
        replica.again().await;
        let query = format!("?session={id}&last_event_id={count}");
        socket = Socket::to(replica.address(), &query, &[]).await.expect("it is taken up");
        // It begins again.
        loop {
            count += 1;
            if socket.next().await.expect("progress")["params"]["progress"] == 0.0 {
                break;
            }
        }
    }
    let answer = until(&mut socket, 1).await.pop().expect("an answer");
    assert_eq!(text(&answer["result"]), "twice: computed for 4 seconds");
    noted(&store, &id, 0).await;
}

/// Two connections ask for the rest of one dead call at once.
#[tokio::test]
async fn two_resumes_of_a_dead_call_make_it_once() {
    let folder = Folder::new("taken-up-once");
    let file = folder.0.join("state.sqlite");
    let mut replica = Replica::everything(&["--data", &file.to_string_lossy()]).await;
    let address = replica.address().to_owned();
    let post = |session: Option<String>, message: Value| {
        let url = format!("http://{address}/mcp");
        let request = reqwest::Client::new().post(url).body(message.to_string());
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    };
    let opened = post(None, initialize(1, "2025-11-25")).send().await.expect("it answers");
    let session = opened.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
    let begun = post(Some(session.clone()), slow(2, "both", 1.0)).send().await;
    let mut begun = begun.expect("it answers");
    let mut first = String::new();
    while !first.contains("id: ") || !first.ends_with("\n\n") {
        let chunk = begun.chunk().await.expect("it goes on").expect("an event");
        first += &String::from_utf8_lossy(&chunk);
    }
    let last = first.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id");
    replica.again().await;
    let rest = async || {
        let get = reqwest::Client::new().get(format!("http://{address}/mcp"));
        let get = get.header("mcp-session-id", &session).header("last-event-id", last);
        let answer = get.header("accept", "text/event-stream").send().await.expect("it answers");
        answer.text().await.expect("it ends")
    };
    let (one, two) = tokio::join!(rest(), rest());
    assert!(one.contains("computed for") || two.contains("computed for"), "{one}\n{two}");
    let runs = request(3, "tools/call", call("test_runs", json!({ "label": "both" })));
    let runs = post(Some(session), runs).send().await.expect("it answers").text().await;
    let runs: Value = serde_json::from_str(&runs.expect("a text")).expect("JSON");
    assert_eq!(runs["result"]["structuredContent"]["started"], 1);
}

/// What is cancelled by way of another server ends where it runs, and is not answered.
#[tokio::test]
async fn calls_cancelled_after_a_move_end_where_they_run() {
    let folder = Folder::new("taken-up-cancelled");
    let file = folder.0.join("state.sqlite");
    let args = ["--data", &file.to_string_lossy()];
    let (a, b) = (Replica::everything(&args).await, Replica::everything(&args).await);
    let store = Sqlite::open(&file).expect("it opens");
    let (mut socket, id) = open(&a).await;
    for call in 1..=150 {
        socket.send(once(call)).await;
    }
    noted(&store, &id, 150).await;
    let query = format!("?session={id}&last_event_id=1");
    let mut socket = Socket::to(b.address(), &query, &[]).await.expect("it is taken up");
    for call in 1..=150 {
        socket.send(notification("notifications/cancelled", json!({ "requestId": call }))).await;
    }
    // Whoever runs a call takes its note away when it has ended, cancelled or not.
    noted(&store, &id, 0).await;
    let metrics = reqwest::get(format!("http://{}/metrics", a.address())).await;
    let metrics = metrics.expect("it answers").text().await.expect("text");
    assert!(metrics.lines().any(|line| line == "zcp_calls_running 0"), "{metrics}");
}
