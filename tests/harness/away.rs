//! What tests of sessions are written with: slow calls, servers that share, streams found again.

use crate::{
    call, everything,
    folder::Folder,
    http::{Answer, Call, HttpServer, Session},
    initialize, modern,
    redis::RedisServer,
    request,
    socket::Socket,
    text,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use zcp::{
    KeyRing, Principal,
    store::{Memory, Store, redis::Redis, sqlite::Sqlite},
};

/// The header that names a session.
pub const SESSION: &str = "mcp-session-id";

/// A call of a tool without arguments.
pub fn tool(id: u64, name: &str) -> Value {
    request(id, "tools/call", call(name, json!({})))
}

/// A call that takes its time and says how far it is, in steps of a tenth of a second.
pub fn slow(id: u64, label: &str, seconds: f64) -> Value {
    let mut params = call("slow_compute", json!({ "seconds": seconds, "label": label }));
    params["_meta"] = json!({ "progressToken": label });
    request(id, "tools/call", params)
}

/// The same as a stateless request.
pub fn modern_slow(label: &str, seconds: f64) -> Value {
    modern(1, "tools/call", slow(1, label, seconds)["params"].clone())
}

/// A message in a session that may have been opened elsewhere.
pub fn at<'a>(server: &'a HttpServer, session: &str, message: &Value) -> Call<'a> {
    server.post(message).header(SESSION, session)
}

/// Labels of slow calls that were stopped.
pub async fn stopped(server: &HttpServer) -> Vec<String> {
    let labels = modern(1, "tools/call", call("test_cancelled_labels", json!({})));
    let answer = server.post(&labels).send().await.response().await;
    serde_json::from_str(text(&answer["result"])).expect("a list of labels")
}

/// Waits until a slow call was stopped; panics after two seconds.
pub async fn wait_until_stopped(server: &HttpServer, label: &str) {
    for _ in 0..100 {
        if stopped(server).await.iter().any(|stopped| stopped == label) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("`{label}` was not stopped");
}

/// The id of the first event that carries a message.
pub async fn first_id(answer: &mut Answer) -> String {
    loop {
        let event = answer.event().await.expect("the stream goes on");
        if !event.data.is_empty() {
            return event.id.expect("events of a session have ids");
        }
    }
}

/// What a session's stream said after an event.
pub async fn resume(session: &Session<'_>, last: &str) -> Answer {
    session.get().header("last-event-id", last).send().await
}

/// The steps of slow calls, in order.
pub fn steps(said: &[Value]) -> Vec<f64> {
    said.iter().filter_map(|said| said["params"]["progress"].as_f64()).collect()
}

/// Two servers that share a store and keys.
pub async fn pair() -> (HttpServer, HttpServer) {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    sharing(store.clone(), store).await
}

async fn sharing(one: Arc<dyn Store>, two: Arc<dyn Store>) -> (HttpServer, HttpServer) {
    let keys = KeyRing::kept_in(&*one).await.expect("the store is there");
    let server = |store| everything().shared_store(store).keys(keys.clone());
    (HttpServer::new(server(one)).await, HttpServer::new(server(two)).await)
}

/// Two servers that share a store, as two processes would.
#[derive(Debug)]
pub struct Pair {
    /// The one.
    pub a: HttpServer,
    /// The other.
    pub b: HttpServer,
    _redis: Option<RedisServer>,
    _folder: Option<Folder>,
}

/// A pair for every kind of store.
pub async fn pairs(name: &str) -> [Pair; 3] {
    let (a, b) = pair().await;
    let memory = Pair { a, b, _redis: None, _folder: None };
    let folder = Folder::new(&format!("pair-{name}"));
    let open = || Arc::new(Sqlite::open(folder.0.join("store.sqlite")).expect("it opens"));
    let (a, b) = sharing(open(), open()).await;
    let sqlite = Pair { a, b, _redis: None, _folder: Some(folder) };
    let server = RedisServer::new().await;
    let open = || Arc::new(Redis::new(&server.url()).expect("a URL"));
    let (a, b) = sharing(open(), open()).await;
    let redis = Pair { a, b, _redis: Some(server), _folder: None };
    [memory, sqlite, redis]
}

/// Cuts two calls of one session, and resumes the first.
pub async fn resumed_beside(first: &HttpServer, second: &HttpServer) -> Vec<Value> {
    let session = first.open("2025-11-25").await;
    let (one, two) = (slow(1, "one", 0.5), slow(2, "two", 0.5));
    let (one, two) = (session.post(&one), at(second, &session.id, &two));
    let (mut one, mut two) = tokio::join!(one.send(), two.send());
    let last = first_id(&mut one).await;
    first_id(&mut two).await;
    drop((one, two));
    resume(&session, &last).await.messages().await
}

/// A socket that can be taken up again, with its name.
pub async fn resumable(server: &HttpServer) -> (Socket, String) {
    let mut socket = Socket::connect(server, "?resume=true").await;
    let id = socket.upgrade.headers()[SESSION].to_str().expect("ASCII");
    let id = id.to_owned();
    socket.ask(initialize("open", "2025-11-25")).await;
    (socket, id)
}

/// Lets a header say who calls.
pub fn sign_in<B>(mut request: http::Request<B>) -> http::Request<B> {
    if let Some(name) = request.headers().get("x-user") {
        let name = name.to_str().expect("ASCII").to_owned();
        request.extensions_mut().insert(Principal::new(name));
    }
    request
}
