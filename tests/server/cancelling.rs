//! A call that was cancelled stays cancelled, whatever its client does next.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use zcp::{Ctx, Server, State, Tool};
use zcp_tests::{
    away::{Pair, at, first_id, pairs, resume, slow, steps, stopped, wait_until_stopped},
    call, everything,
    folder::Folder,
    http::{Answer, HttpServer, Session},
    initialize, notification,
    replica::Replica,
    request,
};

/// How often the tool was started, and how often it ended by being stopped.
#[derive(Clone, Default)]
struct Runs(Arc<(AtomicUsize, AtomicUsize)>);

impl Runs {
    fn started(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    fn stopped(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    async fn wait_until_stopped(&self) {
        for _ in 0..250 {
            if self.stopped() == self.started() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} were started, {} stopped", self.started(), self.stopped());
    }
}

struct Counted(Runs);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// May be run twice by its own account, so nothing but the cancellation forbids it.
async fn count(runs: State<Runs>, ctx: Ctx) -> String {
    runs.0.0.0.fetch_add(1, Ordering::SeqCst);
    let _counted = Counted(Runs::clone(&runs));
    for step in 1..600 {
        ctx.progress(f64::from(step), 600.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "done".to_owned()
}

fn counting(runs: &Runs) -> Server {
    let tool = Tool::new("count", count).idempotent().read_only();
    Server::new("counting").state(runs.clone()).tool(tool)
}

fn counted(id: u64) -> Value {
    let mut params = call("count", json!({}));
    params["_meta"] = json!({ "progressToken": id });
    request(id, "tools/call", params)
}

fn cancel(id: u64) -> Value {
    notification("notifications/cancelled", json!({ "requestId": id }))
}

/// What a stream says after an event; nothing if there is nothing left.
async fn rest(session: &Session<'_>, last: &str) -> Vec<Value> {
    let answer = resume(session, last).await;
    match answer.is_stream() {
        true => answer.messages().await,
        false => vec![],
    }
}

/// The id of a stream's last event.
async fn last_id(mut answer: Answer) -> String {
    let mut last = None;
    while let Some(event) = answer.event().await {
        last = event.id.or(last);
    }
    last.expect("events have ids")
}

/// What clients of the official SDKs do by themselves when a stream ends without a response.
#[tokio::test]
async fn a_cancelled_call_is_not_started_again_by_a_resume() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let runs = Runs::default();
        let server = HttpServer::new(counting(&runs)).await;
        let session = server.open(version).await;
        let mut answer = session.post(&counted(1)).send().await;
        let last = first_id(&mut answer).await;
        assert_eq!(session.post(&cancel(1)).send().await.status, 202);
        // No response follows a cancellation.
        let said = answer.messages().await;
        assert!(said.iter().all(|said| said.get("id").is_none()), "{said:?}");
        runs.wait_until_stopped().await;
        let missed = steps(&said);
        for _ in 0..3 {
            let replayed = rest(&session, &last).await;
            assert_eq!(steps(&replayed), missed, "{version}: what was said, and nothing else");
            assert_eq!(replayed.len(), missed.len(), "{version}: no response");
        }
        // A client that has all there is would take an empty stream for a lost one, and ask again.
        let mut last = last;
        while let answer = resume(&session, &last).await
            && answer.is_stream()
        {
            last = last_id(answer).await;
        }
        assert_eq!(resume(&session, &last).await.status, 405, "{version}");
        assert_eq!((runs.started(), runs.stopped()), (1, 1), "{version}");
    }
}

#[tokio::test]
async fn a_call_cancelled_after_its_client_left_stays_cancelled() {
    let runs = Runs::default();
    let server = HttpServer::new(counting(&runs)).await;
    let session = server.open("2025-11-25").await;
    let mut answer = session.post(&counted(1)).send().await;
    let last = first_id(&mut answer).await;
    drop(answer);
    let following = resume(&session, &last).await;
    session.post(&cancel(1)).send().await;
    let said = following.messages().await;
    assert!(said.iter().all(|said| said.get("id").is_none()), "{said:?}");
    runs.wait_until_stopped().await;
    assert_eq!(rest(&session, &last).await.len(), said.len());
    assert_eq!(runs.started(), 1);
}

#[tokio::test]
async fn an_answered_call_is_not_started_again_by_a_resume() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-11-25").await;
    let mut answer = session.post(&slow(1, "answered", 0.3)).send().await;
    let last = first_id(&mut answer).await;
    let said = answer.messages().await;
    assert_eq!(said.last().unwrap()["id"], 1);
    for _ in 0..2 {
        assert_eq!(resume(&session, &last).await.messages().await, said);
    }
}

/// The cancellation may reach any server of the store.
#[tokio::test]
async fn a_call_is_cancelled_by_way_of_another_server() {
    for Pair { a, b, .. } in &pairs("cancelled").await {
        let session = a.open("2025-11-25").await;
        let mut answer = session.post(&slow(1, "far", 30.0)).send().await;
        let last = first_id(&mut answer).await;
        assert_eq!(at(b, &session.id, &cancel(1)).send().await.status, 202);
        assert!(answer.messages().await.iter().all(|said| said.get("id").is_none()));
        wait_until_stopped(a, "far").await;
        let resumed = b.get("/mcp").header("mcp-session-id", &session.id);
        let resumed = resumed.header("accept", "text/event-stream").header("last-event-id", &last);
        let replayed = resumed.send().await;
        if replayed.is_stream() {
            let replayed = replayed.messages().await;
            assert!(replayed.iter().all(|said| said.get("id").is_none()), "{replayed:?}");
        }
        assert_eq!(stopped(b).await, Vec::<String>::new(), "it was not started there");
    }
}

/// A client of real processes: what is posted, and what a stream said.
struct Caller {
    http: reqwest::Client,
    session: Option<String>,
}

impl Caller {
    async fn open(replica: &Replica) -> Self {
        let mut caller = Self { http: reqwest::Client::new(), session: None };
        let opened = caller.post(replica, &initialize(0, "2025-11-25")).await;
        caller.session = Some(opened.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        caller
    }

    fn request(&self, replica: &Replica, method: reqwest::Method) -> reqwest::RequestBuilder {
        let request = self.http.request(method, replica.http().address().clone());
        let request = request.header("accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    async fn post(&self, replica: &Replica, message: &Value) -> reqwest::Response {
        let request = self.request(replica, reqwest::Method::POST);
        let request = request.header("content-type", "application/json");
        request.body(message.to_string()).send().await.unwrap()
    }

    /// All that is said after an event, until the stream ends.
    async fn resume(&self, replica: &Replica, last: &str) -> String {
        let request = self.request(replica, reqwest::Method::GET).header("last-event-id", last);
        let rest = async { request.send().await.unwrap().text().await.unwrap() };
        tokio::time::timeout(Duration::from_secs(25), rest).await.expect("the stream ends")
    }

    /// The id of the first event that carries a message.
    async fn first_id(stream: &mut reqwest::Response) -> String {
        let mut text = String::new();
        loop {
            text += &String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap());
            let mut events = text.split("\n\n").filter(|event| event.contains("data: {"));
            if let Some(event) = events.next() {
                let id = event.lines().find_map(|line| line.strip_prefix("id: "));
                return id.unwrap().to_owned();
            }
        }
    }
}

/// A server that takes over from a dead one looks at what was cancelled meanwhile.
#[tokio::test]
async fn a_call_cancelled_while_its_server_is_dead_is_not_taken_over() {
    let folder = Folder::new("cancelled-dead");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut a = Replica::everything(&["--data", &file]).await;
    let b = Replica::everything(&["--data", &file]).await;
    let caller = Caller::open(&a).await;
    let mut stream = caller.post(&a, &slow(1, "dead", 2.0)).await;
    let last = Caller::first_id(&mut stream).await;
    a.kill();
    assert_eq!(caller.post(&b, &cancel(1)).await.status(), 202);
    let said = caller.resume(&b, &last).await;
    assert!(!said.contains("computed"), "{said}");
}

/// However many are cancelled, none is forgotten.
#[tokio::test]
async fn many_cancelled_calls_stay_cancelled_on_another_server() {
    let folder = Folder::new("cancelled-many");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut a = Replica::everything(&["--data", &file]).await;
    let b = Replica::everything(&["--data", &file]).await;
    let caller = Caller::open(&a).await;
    let mut streams = vec![];
    for id in 1..=40 {
        let mut stream = caller.post(&a, &slow(id, &format!("many{id}"), 2.0)).await;
        let last = Caller::first_id(&mut stream).await;
        streams.push((stream, last));
    }
    a.kill();
    for id in 1..=40 {
        assert_eq!(caller.post(&b, &cancel(id)).await.status(), 202);
    }
    for (_, last) in &streams[..3] {
        let said = caller.resume(&b, last).await;
        assert!(!said.contains("computed"), "{said}");
    }
}

/// Neither is one forgotten over ids that nobody knows.
#[tokio::test]
async fn ids_that_nobody_knows_do_not_push_out_a_cancelled_call() {
    let folder = Folder::new("cancelled-flood");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut a = Replica::everything(&["--data", &file]).await;
    let b = Replica::everything(&["--data", &file]).await;
    let caller = Caller::open(&a).await;
    let mut stream = caller.post(&a, &slow(1, "flood", 2.0)).await;
    let last = Caller::first_id(&mut stream).await;
    a.kill();
    for id in [1].into_iter().chain(1000..2500) {
        assert_eq!(caller.post(&b, &cancel(id)).await.status(), 202);
    }
    let said = caller.resume(&b, &last).await;
    assert!(!said.contains("computed"), "{said}");
}

/// The server dies as soon as it said that it was told.
#[tokio::test]
async fn a_call_stays_cancelled_if_its_server_dies_at_once() {
    let folder = Folder::new("cancelled-at-once");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut a = Replica::everything(&["--data", &file]).await;
    let b = Replica::everything(&["--data", &file]).await;
    for id in 1..6 {
        let caller = Caller::open(&a).await;
        let mut stream = caller.post(&a, &slow(id, &format!("once{id}"), 2.0)).await;
        let last = Caller::first_id(&mut stream).await;
        assert_eq!(caller.post(&a, &cancel(id)).await.status(), 202);
        a.kill();
        let said = caller.resume(&b, &last).await;
        assert!(!said.contains("computed"), "{id}: {said}");
        a.start().await;
    }
}

/// What was cancelled is known to the process that comes after a kill.
#[tokio::test]
async fn a_cancelled_call_stays_cancelled_after_a_kill() {
    let folder = Folder::new("cancelled-kill");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut replica = Replica::everything(&["--data", &file]).await;
    let caller = Caller::open(&replica).await;
    let mut stream = caller.post(&replica, &slow(1, "killed", 2.0)).await;
    let last = Caller::first_id(&mut stream).await;
    caller.post(&replica, &cancel(1)).await;
    stream.text().await.unwrap();
    replica.again().await;
    let said = caller.resume(&replica, &last).await;
    assert!(!said.contains("computed"), "{said}");
}
