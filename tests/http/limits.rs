//! How much one peer may take: ids, messages under way, frames, connections.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use zcp::{
    Ctx, PeerAddress, Server, State, Tool,
    store::{Memory, Store},
    tool,
};
use zcp_tests::{
    away::{resumable, slow},
    call, everything,
    http::{HttpServer, free_address},
    initialize, modern, modern_as, notification,
    pipe::PipeClient,
    replica::Replica,
    request, response,
    socket::Socket,
    sse2024::OldClient,
};

fn ping(id: impl Into<Value>) -> Value {
    request(id, "ping", json!({}))
}

/// An id of 1 KiB as JSON text, and one of a byte more.
fn ids() -> [String; 2] {
    [1022, 1023].map(|length| "x".repeat(length))
}

fn is_too_long(answer: &Value, code: i64) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    let message = answer["error"]["message"].as_str().expect("errors say why");
    assert!(message.contains("1024 bytes"), "{answer}");
}

#[tokio::test]
async fn an_id_over_one_kibibyte_is_refused_on_every_transport() {
    let [longest, too_long] = ids();
    let mut pipe = PipeClient::open(everything(), "2025-11-25").await;
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-11-25").await;
    let mut socket = Socket::connect(&server, "").await;
    socket.ask(zcp_tests::initialize(1, "2025-11-25")).await;
    let mut old = OldClient::open(&server).await;

    assert_eq!(pipe.ask(ping(&*longest)).await["result"], json!({}));
    assert_eq!(socket.ask(ping(&*longest)).await["result"], json!({}));
    assert_eq!(session.ask(&ping(&*longest)).await["result"], json!({}));
    let answered = json!({ "jsonrpc": "2.0", "id": too_long, "result": {} });
    for message in [ping(&*too_long), answered] {
        pipe.send(message.clone()).await;
        is_too_long(&pipe.next().await, -32600);
        socket.send(message.clone()).await;
        is_too_long(&socket.next().await.unwrap(), -32600);
        assert_eq!(old.send(&message).await, 202);
        is_too_long(&old.next().await, -32600);
        let answer = session.post(&message).send().await;
        assert_eq!(answer.status, 400);
        is_too_long(&answer.json().await, -32600);
    }
    // Nobody answers a notification; it is passed over.
    let cancelled = notification("notifications/cancelled", json!({ "requestId": too_long }));
    pipe.send(cancelled.clone()).await;
    socket.send(cancelled.clone()).await;
    assert_eq!(session.post(&cancelled).send().await.status, 202);
    assert_eq!(pipe.ask(ping(2)).await["result"], json!({}));
    assert_eq!(socket.ask(ping(2)).await["result"], json!({}));
    assert_eq!(old.ask(&ping(2)).await["result"], json!({}));
}

#[tokio::test]
async fn a_progress_token_over_one_kibibyte_is_refused() {
    let [longest, too_long] = ids();
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-11-25").await;
    let mut pipe = PipeClient::open(everything(), "2025-11-25").await;
    let list = |token: &str| json!({ "_meta": { "progressToken": token } });
    let ask = |token: &str| request(1, "tools/list", list(token));
    assert!(session.ask(&ask(&longest)).await["result"].is_object());
    is_too_long(&session.ask(&ask(&too_long)).await, -32602);
    is_too_long(&pipe.ask(ask(&too_long)).await, -32602);
    let older = json!({ "meta": { "progress_token": too_long } });
    is_too_long(&pipe.ask(request(2, "tools/list", older)).await, -32602);
    let answer = server.post(&modern(1, "tools/list", list(&too_long))).send().await;
    assert_eq!(answer.status, 400);
    is_too_long(&answer.json().await, -32602);
    assert_eq!(pipe.ask(ping(3)).await["result"], json!({}));
}

/// How many calls of `hold` are under way.
#[derive(Debug, Clone, Default)]
struct Held(Arc<AtomicUsize>);

struct Holding(Held);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Held {
    async fn until(&self, count: usize) {
        for _ in 0..500 {
            if self.0.load(Ordering::SeqCst) == count {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{} are under way, and not {count}", self.0.load(Ordering::SeqCst));
    }
}

/// Goes on until it is stopped.
#[tool]
async fn hold(held: State<Held>) -> &'static str {
    let held: &Held = &held;
    held.0.fetch_add(1, Ordering::SeqCst);
    let _holding = Holding(held.clone());
    std::future::pending().await
}

fn holder(held: &Held) -> Server {
    Server::new("holder").state(held.clone()).tool(hold)
}

fn holds(ids: std::ops::Range<u64>) -> Value {
    ids.map(|id| request(id, "tools/call", call("hold", json!({})))).collect()
}

#[tokio::test]
async fn a_batch_counts_as_many_calls_as_it_has_messages() {
    let held = Held::default();
    let mut client = PipeClient::open(holder(&held), "2025-03-26").await;
    for batch in 0..10 {
        client.send(holds(batch * 100..batch * 100 + 100)).await;
    }
    held.until(1000).await;
    client.send(holds(1000..1100)).await;
    let refused = client.next().await;
    let refused = refused.as_array().expect("they are answered together");
    assert_eq!(refused.len(), 100);
    assert!(refused.iter().all(|answer| answer["error"]["code"] == -32603), "{refused:?}");
    // A notification of such a batch is heard all the same.
    let mut mixed = holds(1000..1050).as_array().unwrap().clone();
    mixed.push(notification("notifications/cancelled", json!({ "requestId": 0 })));
    client.send(json!(mixed)).await;
    assert_eq!(client.next().await.as_array().map(Vec::len), Some(50));
    held.until(999).await;
    client.send(holds(1000..1024)).await;
    held.until(1023).await;
    let one = client.ask(request(2000, "tools/call", call("hold", json!({})))).await;
    assert_eq!(one["error"]["code"], -32603, "{one}");
    drop(client);
    held.until(0).await;
}

#[tokio::test]
async fn a_large_batch_ends_with_its_connection() {
    let held = Held::default();
    let server = HttpServer::new(holder(&held)).await;
    for (messages, left) in [(100, 0), (10, 10)] {
        let session = server.open("2025-03-26").await;
        let batch = holds(0..messages);
        let posted = session.post(&batch).send();
        let lost = tokio::time::timeout(Duration::from_secs(10), async {
            tokio::select! {
                _ = posted => panic!("it is not answered"),
                () = held.until(usize::try_from(messages).unwrap()) => (),
            }
        });
        lost.await.unwrap();
        // The connection went with the request.
        sleep(Duration::from_millis(200)).await;
        held.until(left).await;
    }
}

/// A frame that is too large is refused before it is there.
#[tokio::test]
async fn a_websocket_frame_has_the_limit_of_a_message() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    let mut head = vec![0x82, 0xff];
    head.extend((5u64 * 1024 * 1024).to_be_bytes());
    head.extend([0; 4 + 16]);
    socket.write_raw(&head).await;
    assert_eq!(timeout(Duration::from_secs(8), socket.next()).await.expect("it is ended"), None);
}

/// Asks for a page on a new connection from one of this machine's addresses: the status, or none
/// when the connection was ended.
async fn page(server: &HttpServer, from: [u8; 4]) -> Option<u16> {
    let socket = TcpSocket::new_v4().expect("there are sockets");
    socket.bind((from, 0).into()).expect("this machine has the address");
    let mut stream = socket.connect(server.address).await.expect("the server listens");
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let _ = stream.write_all(request).await;
    let mut answer = vec![];
    let read = timeout(Duration::from_secs(8), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("it is answered or ended");
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

/// Connections, WebSockets among them: other peers are served, and closing one makes room.
#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let runtime = everything().build().unwrap();
    let change = |http: zcp::Http| http.max_connections(64).max_connections_per_address(4);
    let server = HttpServer::with(runtime, change).await;
    let mut sockets = vec![Socket::connect(&server, "").await, Socket::connect(&server, "").await];
    let mut streams = vec![];
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
        streams.push(stream);
    }
    let mut refused = TcpStream::connect(server.address).await.unwrap();
    let mut answer = String::new();
    refused.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\ntoo many connections: close some, or try later"), "{answer}");
    assert_ne!(page(&server, [127, 0, 0, 1]).await, Some(200));
    assert_eq!(page(&server, [127, 0, 0, 2]).await, Some(200));
    sockets.pop().unwrap().cut();
    for attempt in 0.. {
        if page(&server, [127, 0, 0, 1]).await == Some(200) {
            break;
        }
        assert!(attempt < 500, "there is room again");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The usual limit of a shell and of systemd is 1024 files: here the process cannot raise it.
#[tokio::test]
async fn a_low_limit_of_open_files_stops_nobody_else() {
    let address = free_address();
    let command = format!(
        "ulimit -n 256; exec {} --http {address}",
        zcp_tests::examples::examples().join("everything").display()
    );
    let started = std::process::Command::new("sh").args(["-c", &command]).spawn().unwrap();
    let _server = Replica::of(started, address.to_string()).await;
    let mut held = vec![];
    for _ in 0..300 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let _ = stream.write_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        held.push(stream);
    }
    let health = timeout(Duration::from_secs(8), reqwest::get(format!("http://{address}/healthz")));
    assert_eq!(health.await.unwrap().unwrap().status(), 200);
    drop(held);
}

/// A conversation that waits for its client goes on with its calls, so it keeps its place.
#[tokio::test]
async fn a_lost_socket_that_may_come_back_counts_as_a_connection() {
    let runtime = everything().build().unwrap();
    let change = |http: zcp::Http| http.max_connections(64).max_connections_per_address(2);
    let server = HttpServer::with(runtime, change).await;
    let (socket, id) = resumable(&server).await;
    socket.cut();
    let other = Socket::connect(&server, "").await;
    sleep(Duration::from_millis(300)).await;
    assert_ne!(page(&server, [127, 0, 0, 1]).await, Some(200), "both places are taken");
    drop(other);
    for attempt in 0.. {
        if page(&server, [127, 0, 0, 1]).await == Some(200) {
            break;
        }
        assert!(attempt < 500, "there is room again");
        sleep(Duration::from_millis(10)).await;
    }
    // Taking it up again takes its place, too.
    Socket::connect(&server, &format!("?session={id}&last_event_id=1")).await;
}

/// Says where its caller is.
#[tool]
async fn whereabouts(ctx: Ctx) -> String {
    ctx.get::<PeerAddress>().map_or("nowhere".to_owned(), |peer| peer.0.ip().to_string())
}

#[tokio::test]
async fn layers_and_sockets_know_the_address_of_their_peer() {
    let runtime = Server::new("where").tool(whereabouts).build().unwrap();
    let layer = tower::util::MapRequestLayer::new(|request: http::Request<axum::body::Body>| {
        assert!(request.extensions().get::<PeerAddress>().is_some());
        request
    });
    let server = HttpServer::with(runtime, |http| http.layer(layer)).await;
    let ask = || modern(1, "tools/call", call("whereabouts", json!({})));
    let posted = server.post(&ask()).send().await.response().await;
    let mut socket = Socket::connect(&server, "").await;
    for answer in [posted, socket.ask(ask()).await] {
        assert_eq!(zcp_tests::text(&answer["result"]), "127.0.0.1");
    }
}

/// Memory this process has, in MiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

#[tokio::test]
async fn sessions_with_large_capabilities_cost_little() {
    let server = HttpServer::new(everything()).await;
    let numbers = [0; 8000].as_slice();
    let before = resident();
    for n in 0..2500 {
        let mut open = initialize(n, "2025-11-25");
        open["params"]["capabilities"] = json!({ "experimental": { (n.to_string()): numbers } });
        assert_eq!(server.post(&open).send().await.status, 200);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64, "{grown} MiB");
}

#[tokio::test]
async fn a_stateless_request_has_a_limit_for_its_capabilities() {
    let mut client = PipeClient::new(everything());
    let large = json!({ "experimental": { "x": "y".repeat(17 * 1024) } });
    let answer = client.ask(modern_as(1, "tools/list", json!({}), large)).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = client.ask(modern_as(2, "tools/list", json!({}), json!({}))).await;
    assert!(answer["result"]["tools"].is_array());
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_not_stored() {
    let store = Arc::new(Memory::new());
    let server = HttpServer::new(everything().shared_store(store.clone())).await;
    let session = server.open("2025-11-25").await;
    for id in ["nobody-1", "zzzzzzzzzzzz-1"] {
        let answer = response(&json!(id), json!({ "pad": "x".repeat(100_000) }));
        assert_eq!(session.post(&answer).send().await.status, 202);
    }
    let kept = store.after(&format!("answers/{}", session.id), 0).await.unwrap();
    assert_eq!(kept, vec![]);
}

#[tokio::test]
async fn a_large_request_is_not_kept_for_a_resume() {
    let store = Arc::new(Memory::new());
    let server = HttpServer::new(everything().shared_store(store.clone())).await;
    let session = server.open("2025-11-25").await;
    let mut call = slow(1, "large", 0.2);
    call["params"]["_meta"]["pad"] = json!("x".repeat(1024 * 1024));
    let said = session.post(&call).send().await.messages().await;
    assert_eq!(said.last().unwrap()["id"], 1);
    let kept = store.after(&format!("replay/{}", session.id), 0).await.unwrap();
    let bytes: usize = kept.iter().map(|(_, entry)| entry.len()).sum();
    assert!(!kept.is_empty() && bytes < 64 * 1024, "{bytes} bytes");
}

#[tokio::test]
async fn large_messages_of_one_conversation_are_limited() {
    let mut client = PipeClient::open(everything(), "2025-11-25").await;
    for id in 0..9 {
        let mut call = slow(id, &format!("large-{id}"), 30.0);
        call["params"]["_meta"] = json!({ "pad": "x".repeat(4_000_000) });
        client.send(call).await;
    }
    // 8 of them fit in 32 MiB.
    let refused = client.until(&json!(8)).await.pop().unwrap();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("too many large messages"), "{why}");
    let ping = client.ask(request("alive", "ping", json!({}))).await;
    assert_eq!(ping["result"], json!({}));
}

#[tokio::test]
async fn a_request_has_a_limit_for_its_json_values() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-11-25").await;
    let mut pipe = PipeClient::open(everything(), "2025-11-25").await;
    for (values, allowed) in [(200_000, true), (300_000, false)] {
        let args = json!({ "text": "x", "more": vec![0; values] });
        let message = request(1, "tools/call", call("test_simple_text", args));
        for answer in [session.ask(&message).await, pipe.ask(message.clone()).await] {
            assert_eq!(answer["error"]["code"] != -32602, allowed, "{values}: {answer}");
        }
    }
}

#[tokio::test]
async fn medium_messages_count_towards_the_limit() {
    let mut client = PipeClient::open(everything(), "2025-11-25").await;
    // 700 messages of 60 KB are more than 32 MiB, and fewer than 1024 calls.
    let pad = "x".repeat(60_000);
    for id in 0..700 {
        let mut call = slow(id, &format!("medium-{id}"), 30.0);
        call["params"]["_meta"] = json!({ "pad": pad });
        client.send(call).await;
    }
    let refused = client.until(&json!(699)).await.pop().unwrap();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("too many large messages"), "{why}");
}

#[tokio::test]
async fn input_responses_over_64_kibibytes_are_refused() {
    let mut client = PipeClient::new(everything());
    for (bytes, allowed) in [(60_000, true), (70_000, false)] {
        let mut params = call("test_simple_text", json!({}));
        params["inputResponses"] =
            json!({ "pad": { "action": "accept", "content": { "pad": "x".repeat(bytes) } } });
        let answer = client.ask(modern(1, "tools/call", params)).await;
        assert_eq!(answer["error"]["code"] != -32602, allowed, "{bytes}: {answer}");
    }
}

#[tokio::test]
async fn input_responses_of_many_values_are_refused() {
    let mut client = PipeClient::new(everything());
    for (values, allowed) in [(900, true), (1100, false)] {
        let mut params = call("test_simple_text", json!({}));
        let content = json!({ "list": vec![0; values] });
        params["inputResponses"] = json!({ "pad": { "action": "accept", "content": content } });
        let answer = client.ask(modern(1, "tools/call", params)).await;
        assert_eq!(answer["error"]["code"] != -32602, allowed, "{values}: {answer}");
    }
}

/// A handler may keep its arguments as values, which take many times the memory of their text.
#[tokio::test]
async fn values_count_towards_the_limit_of_large_messages() {
    let mut client = PipeClient::open(everything(), "2025-11-25").await;
    // 25 messages of 100 KB are few bytes, and of 20,000 values each more than 32 MiB.
    for id in 0..25 {
        let mut call = slow(id, &format!("values-{id}"), 30.0);
        call["params"]["_meta"] = json!({ "pad": vec![1; 20_000] });
        client.send(call).await;
    }
    let refused = client.until(&json!(24)).await.pop().unwrap();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("too many large messages"), "{why}");
}

/// Answers that wait for the other answers of their batch are limited together.
#[tokio::test]
async fn the_answers_of_a_batch_are_limited_together() {
    let large = || async { "x".repeat(1024 * 1024) };
    let server = Server::new("large").tool(Tool::new("large", large));
    let mut client = PipeClient::open(server, "2025-03-26").await;
    let batch: Vec<Value> =
        (1..=8).map(|id| request(id, "tools/call", call("large", json!({})))).collect();
    client.send(Value::Array(batch)).await;
    let answers = client.next().await;
    let answers = answers.as_array().expect("a batch").clone();
    assert_eq!(answers.len(), 8);
    let refused =
        answers.iter().filter(|one| one["error"]["message"].to_string().contains("batch"));
    let fine = answers.iter().filter(|one| one.get("result").is_some()).count();
    assert_eq!((refused.count(), fine), (5, 3));
}
