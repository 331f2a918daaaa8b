//! What a client gets that comes back for the rest of a stream, and what it is told where that is gone.

use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use zcp::{
    Ctx, KeyRing, Level, Server, State,
    store::{Memory, Store, redis::Redis},
    tool,
};
use zcp_tests::{
    away::{SESSION, first_id, pair, resume, slow, steps, tool as tool_call},
    everything,
    http::{Answer, HttpServer},
    redis::RedisServer,
    text,
};

const LAST: &str = "2025-11-25";

/// Says two things, and one more when it is let go.
#[tool(read_only)]
async fn steps_of_three(go: State<Arc<Notify>>, ctx: Ctx) -> &'static str {
    ctx.log(Level::Warning, "one");
    ctx.log(Level::Warning, "two");
    go.notified().await;
    ctx.log(Level::Warning, "three");
    go.notified().await;
    "done"
}

/// So much that a session's log does not hold it five times.
#[tool(read_only)]
async fn large(ctx: Ctx) -> String {
    ctx.log(Level::Warning, "large");
    "x".repeat(1024 * 1024)
}

/// Two servers that share a store, and what lets calls go.
async fn servers() -> (HttpServer, HttpServer, Arc<Notify>) {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let keys = KeyRing::kept_in(&*store).await.expect("the store is there");
    let go = Arc::new(Notify::new());
    let server = || {
        let server = Server::new("large").tool(steps_of_three).tool(large).state(go.clone());
        server.shared_store(store.clone()).keys(keys.clone())
    };
    (HttpServer::new(server()).await, HttpServer::new(server()).await, go)
}

/// The next message of a stream, and its id.
async fn next(answer: &mut Answer) -> (String, Value) {
    let event = answer.event().await.expect("it goes on");
    match event.data.is_empty() {
        true => Box::pin(next(answer)).await,
        false => {
            let said = serde_json::from_str(&event.data).expect("events are JSON");
            (event.id.expect("it has one"), said)
        }
    }
}

#[tokio::test]
async fn a_stream_whose_events_were_dropped_is_refused() {
    let (server, other, go) = servers().await;
    let session = server.open(LAST).await;
    let mut answer = session.post(&tool_call(1, "steps_of_three")).send().await;
    let (first, _) = next(&mut answer).await;
    let (second, _) = next(&mut answer).await;
    drop(answer);
    for id in 2..8 {
        session.ask(&tool_call(id, "large")).await;
    }
    let there = session.at(&other);
    for (session, last) in [(&session, &first), (&there, &first), (&there, &second)] {
        let refused = resume(session, last).await;
        assert_eq!(refused.status, 400);
        let why = refused.text().await;
        assert!(why.contains("not held any more"), "{why}");
    }
    // A call whose client has all that it said goes on, however much others said meanwhile.
    let mut rest = resume(&session, &second).await;
    go.notify_one();
    let (third, said) = next(&mut rest).await;
    assert_eq!(said["params"]["data"], "three");
    drop(rest);
    assert_eq!(resume(&session, &first).await.status, 400);
    // Nobody can say there whether the call goes on.
    for last in [&first, &second, &third] {
        assert_eq!(resume(&there, last).await.status, 400);
    }
    go.notify_one();
    let rest = resume(&session, &third).await.response().await;
    assert_eq!(text(&rest["result"]), "done");
    assert_eq!(text(&resume(&there, &third).await.response().await["result"]), "done");
    // When it has ended, too.
    assert_eq!(resume(&session, &first).await.status, 400);
}

#[tokio::test]
async fn a_stream_of_a_deleted_session_is_gone() {
    let (a, b) = pair().await;
    let session = a.open(LAST).await;
    let mut answer = session.post(&slow(1, "deleted", 9.0)).send().await;
    let last = first_id(&mut answer).await;
    drop(answer);
    let delete = b.call(reqwest::Method::DELETE, "/mcp").header(SESSION, &session.id);
    assert_eq!(delete.send().await.status, 204);
    let there = session.at(&b);
    for session in [&session, &there] {
        assert_eq!(resume(session, &last).await.status, 404);
    }
}

#[tokio::test]
async fn a_stream_is_resumed_when_the_store_is_back() {
    let mut redis = RedisServer::new().await;
    let store = Arc::new(Redis::new(&redis.url()).unwrap());
    let server = HttpServer::new(everything().shared_store(store)).await;
    let session = server.open(LAST).await;
    let mut answer = session.post(&slow(1, "away", 0.5)).send().await;
    let last = first_id(&mut answer).await;
    drop(answer);
    redis.kill();
    let refused = resume(&session, &last).await;
    assert_eq!(refused.status, 503);
    assert!(refused.text().await.contains("try again later"));
    redis.start().await;
    let mut rest = resume(&session, &last).await;
    while rest.status == 503 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        rest = resume(&session, &last).await;
    }
    let said = rest.messages().await;
    assert!(text(&said.last().unwrap()["result"]).ends_with("computed for 0.5 seconds"));
}

#[tokio::test]
async fn a_running_call_is_resumed_on_another_server() {
    let (a, b) = pair().await;
    let session = a.open(LAST).await;
    let mut answer = session.post(&slow(1, "there", 0.5)).send().await;
    let last = first_id(&mut answer).await;
    drop(answer);
    let there = session.at(&b);
    let said = resume(&there, &last).await.messages().await;
    assert_eq!(steps(&said), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(said.last().unwrap()["id"], 1);
}

/// The second takes the stream from the first.
#[tokio::test]
async fn two_resumes_at_once_answer_the_call_once() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    let mut answer = session.post(&slow(1, "both", 1.0)).send().await;
    let last = first_id(&mut answer).await;
    drop(answer);
    let rest = async || resume(&session, &last).await.messages().await;
    let (one, two) = tokio::join!(rest(), rest());
    let answers = |said: &[Value]| said.iter().filter(|said| said["id"] == 1).count();
    assert_eq!(answers(&one) + answers(&two), 1, "{one:?}\n{two:?}");
}
