//! A million events, a hundred thousand sessions and tasks: nothing grows without end, and what has
//! expired gives its room back.

use crate::held;
use axum::{Router, body::Body};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use zcp::{
    Http, Server, Tasks,
    store::{Bound, Browse, If, Memory, redis::Redis, sqlite::Sqlite},
    tool,
};
use zcp_tests::{folder::Folder, redis::RedisServer};

const EVENTS: usize = 1_000_000;
const SESSIONS: usize = 100_000;
const TASKS: usize = 100_000;
/// How much is under way at a time.
const AT_ONCE: usize = 256;
/// What an empty store may take more than one that was never used, in KiB.
const LEFT: u64 = 24 * 1024;

/// A store, and what it takes, in KiB.
struct Place {
    name: &'static str,
    store: Arc<dyn Browse>,
    size: Box<dyn Fn() -> u64>,
    _redis: Option<RedisServer>,
    _folder: Option<Folder>,
}

fn memory() -> Place {
    Place {
        name: "memory",
        store: Arc::new(Memory::new()),
        size: Box::new(held),
        _redis: None,
        _folder: None,
    }
}

fn sqlite() -> Place {
    let folder = Folder::new("soak");
    let file = folder.0.join("state.sqlite");
    Place {
        name: "sqlite",
        store: Arc::new(Sqlite::open(&file).unwrap()),
        size: Box::new(move || std::fs::metadata(&file).unwrap().len() / 1024),
        _redis: None,
        _folder: Some(folder),
    }
}

async fn shared() -> Place {
    let server = RedisServer::new().await;
    let address = server.address();
    Place {
        name: "redis",
        store: Arc::new(Redis::new(&server.url()).unwrap()),
        size: Box::new(move || keys_of(&address)),
        _redis: Some(server),
        _folder: None,
    }
}

/// Redis keeps its pages; what counts is what it holds. A key takes less than a KiB here.
fn keys_of(redis: &str) -> u64 {
    let mut connection = std::net::TcpStream::connect(redis).unwrap();
    std::io::Write::write_all(&mut connection, b"DBSIZE\r\n").unwrap();
    let mut answer = [0; 64];
    let length = std::io::Read::read(&mut connection, &mut answer).unwrap();
    let text = std::str::from_utf8(&answer[..length]).unwrap();
    text.trim().trim_start_matches(':').parse().unwrap()
}

/// Writes now and then, as servers do: what has expired is cleared away by whoever writes.
async fn until_empty(place: &Place, prefix: &str, before: u64) {
    let begun = Instant::now();
    loop {
        let writes = (0..2000).map(|n| {
            let key = format!("sweep/{}", n % 100);
            async move {
                let second = Some(Duration::from_secs(1));
                place.store.put(&key, Bytes::new(), If::Always, second).await.unwrap();
            }
        });
        stream::iter(writes).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        let left = place.store.keys(prefix).await.unwrap().len();
        let size = (place.size)();
        if left == 0 && size <= before + LEFT {
            return;
        }
        let name = place.name;
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "{name}: {left} of `{prefix}` are left, {size} KiB instead of {before}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn a_million_events(place: &Place) {
    let before = (place.size)();
    let event = Bytes::from(format!("1 -{}", json!({ "method": "notifications/progress" })));
    let ttl = Some(Duration::from_secs(5));
    let appends = (0..EVENTS)
        .map(|_| place.store.append("replay/x", event.clone(), Bound::entries(1024), ttl));
    let mut appends = stream::iter(appends).buffer_unordered(AT_ONCE);
    while let Some(position) = appends.next().await {
        position.unwrap();
    }
    drop(appends);
    assert_eq!(place.store.after("replay/x", 0).await.unwrap().len(), 1024);
    assert!((place.size)() <= before + LEFT, "{}: the log grows", place.name);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(place.store.after("replay/x", 0).await, Ok(vec![]));
}

/// Becomes a task that is done at once.
#[tool(long_running)]
async fn later() -> &'static str {
    "done"
}

fn router(place: &Place) -> (Router, CancellationToken) {
    let kept = Duration::from_secs(20);
    let tasks = Tasks::default().ttl(kept).max_ttl(kept).max_concurrent(AT_ONCE);
    // All of them are one caller's, and all are to be there at the end.
    let tasks = tasks.max_per_caller(usize::MAX).max_finished(usize::MAX, usize::MAX);
    let server = Server::new("soak").tool(later).tasks(tasks).session_ttl(kept);
    let runtime = server.shared_store(place.store.clone()).build().unwrap();
    let closing = CancellationToken::new();
    (Http::new(([127, 0, 0, 1], 0)).into_router(runtime, closing.clone()), closing)
}

async fn post(router: &Router, message: &Value, headers: &[(&str, &str)]) -> Value {
    let mut request = Request::post("/mcp")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(message.to_string())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        return Value::Null;
    }
    assert_eq!(response.status(), StatusCode::OK);
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Begins a task, as soon as not too many wait.
async fn begin(router: &Router) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let params = json!({ "name": "later", "arguments": {}, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "later"),
    ];
    loop {
        let answer = post(router, &message, &headers).await;
        if !answer.is_null() {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": { "form": {}, "url": {} }, "roots": {},
            "sampling": { "tools": {}, "context": {} } },
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

async fn sessions_and_tasks(place: &Place) {
    let before = (place.size)();
    let (router, closing) = router(place);
    let hello = initialize();
    let opened = (0..SESSIONS).map(|_| post(&router, &hello, &[]));
    let opened = stream::iter(opened).buffer_unordered(AT_ONCE).count().await;
    assert_eq!(opened, SESSIONS);
    let begun = (0..TASKS).map(|_| begin(&router));
    let mut begun = stream::iter(begun).buffer_unordered(AT_ONCE);
    while let Some(answer) = begun.next().await {
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    }
    drop(begun);
    let most = (place.size)();
    assert!(most <= before + 400 * 1024, "{}: {most} KiB", place.name);
    tokio::time::sleep(Duration::from_secs(21)).await;
    // The next client makes the server look for sessions it need not have at hand any more.
    post(&router, &hello, &[]).await;
    tokio::time::sleep(Duration::from_secs(21)).await;
    post(&router, &hello, &[]).await;
    closing.cancel();
    until_empty(place, "task/", before).await;
    tokio::time::sleep(Duration::from_secs(21)).await;
    until_empty(place, "session/", before).await;
}

async fn nothing_grows(place: Place) {
    let (begun, before) = (Instant::now(), held());
    a_million_events(&place).await;
    sessions_and_tasks(&place).await;
    let (after, took, name) = (held(), begun.elapsed().as_secs(), place.name);
    let words = format!("{name}: {before} KiB held before, {after} after, in {took} s\n");
    std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()).unwrap();
    assert!(after < before + LEFT, "{name}: {before} KiB became {after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_without_end() {
    nothing_grows(memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_does_not_grow_without_end() {
    nothing_grows(sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_does_not_grow_without_end() {
    nothing_grows(shared().await).await;
}
