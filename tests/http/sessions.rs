//! Sessions: whose they are, how long they live, and what a client that was away finds again.

use http::HeaderName;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tower::util::MapRequestLayer;
use zcp::{
    RateLimit,
    store::{Store, redis::Redis},
};
use zcp_tests::{
    away::{
        Pair, SESSION, at, first_id, modern_slow, pair, pairs, resumable, resume, resumed_beside,
        sign_in, slow, steps, stopped, tool, wait_until_stopped,
    },
    call, everything,
    http::HttpServer,
    initialize, modern, notification,
    pipe::PipeClient,
    redis::RedisServer,
    request, response,
    socket::Socket,
    sse2024::OldClient,
    text,
};

const LAST: &str = "2025-11-25";

fn ping(id: u64) -> Value {
    request(id, "ping", json!({}))
}

/// Session id.
#[tokio::test]
async fn the_answer_to_a_handshake_names_the_session() {
    let server = HttpServer::new(everything()).await;
    let answer = server.post(&initialize(1, LAST)).send().await;
    let id = answer.headers[SESSION].to_str().unwrap();
    assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(answer.headers["x-zcp-session"], id);
    let other = server.post(&ping(1)).header("x-zcp-session", id).send().await;
    assert_eq!(other.response().await["result"], json!({}));
    let list = server.post(&modern(1, "tools/list", json!({}))).send().await;
    assert!(!list.headers.contains_key(SESSION));

    let runtime = everything().build().unwrap();
    let name = HeaderName::from_static("x-app");
    let server = HttpServer::with(runtime, |http| http.session_header(name)).await;
    let answer = server.post(&initialize(1, LAST)).send().await;
    assert_eq!(answer.headers["x-app"], answer.headers[SESSION]);
    assert!(!answer.headers.contains_key("x-zcp-session"));
    let id = answer.headers["x-app"].to_str().unwrap();
    assert_eq!(server.post(&ping(1)).header("x-app", id).send().await.status, 200);
}

/// Missing, unknown and ended sessions.
#[tokio::test]
async fn a_session_that_is_not_there_is_refused() {
    let server = HttpServer::new(everything()).await;
    assert_eq!(server.post(&ping(1)).send().await.status, 400);
    assert_eq!(at(&server, "nobody", &ping(1)).send().await.status, 404);
    let session = server.open(LAST).await;
    let other = server.open(LAST).await;
    assert_eq!(session.delete().send().await.status, 204);
    for call in [session.post(&ping(1)), session.get(), session.delete()] {
        assert_eq!(call.send().await.status, 404);
    }
    assert_eq!(other.ask(&ping(1)).await["result"], json!({}));
}

/// Session 404 on another node.
#[tokio::test]
async fn servers_that_share_a_store_share_sessions() {
    for Pair { a, b, .. } in &pairs("sessions").await {
        let session = a.open(LAST).await;
        for server in [b, a, b] {
            assert_eq!(at(server, &session.id, &ping(1)).send().await.status, 200);
        }
        assert_eq!(session.delete().send().await.status, 204);
        for server in [b, a] {
            assert_eq!(at(server, &session.id, &ping(1)).send().await.status, 404);
        }
    }
}

/// 6: what a session subscribed to is known to every node.
#[tokio::test]
async fn what_a_session_asks_of_one_server_the_other_knows() {
    for Pair { a, b, .. } in &pairs("subscribed").await {
        let session = a.open(LAST).await;
        assert_eq!(at(b, &session.id, &ping(1)).send().await.status, 200);
        let subscribe = json!({ "uri": "test://watched-resource" });
        session.ask(&request(2, "resources/subscribe", subscribe)).await;
        let stream = b.get("/mcp").header(SESSION, &session.id);
        let mut stream = stream.header("accept", "text/event-stream").send().await;
        session.ask(&tool(3, "test_trigger_resource_update")).await;
        let told = stream.message().await.unwrap();
        assert_eq!(told["method"], "notifications/resources/updated");
    }
}

/// The reply to a question is a POST, possibly on another node.
#[tokio::test]
async fn an_answer_given_to_one_server_reaches_the_call_on_the_other() {
    for Pair { a, b, .. } in &pairs("answers").await {
        let session = a.open(LAST).await;
        let mut asking = session.post(&tool(1, "test_list_roots")).send().await;
        let question = asking.message().await.unwrap();
        let answer = response(&question["id"], json!({ "roots": [{ "uri": "file:///r" }] }));
        assert_eq!(at(b, &session.id, &answer).send().await.status, 202);
        let answer = asking.message().await.unwrap();
        assert!(text(&answer["result"]).contains("file:///r"), "{answer}");
    }
}

/// Session 404 after expiry.
#[tokio::test]
async fn a_session_nobody_used_for_a_day_is_gone() {
    let (a, b) = pair().await;
    let session = a.open(LAST).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(25 * 60 * 60)).await;
    tokio::time::resume();
    for server in [&b, &a] {
        assert_eq!(at(server, &session.id, &ping(1)).send().await.status, 404);
    }
}

/// Opening costs a client nothing, so what was opened and never used is soon forgotten.
#[tokio::test]
async fn a_session_that_was_never_used_is_soon_forgotten() {
    let server = HttpServer::new(everything()).await;
    let used = server.open(LAST).await;
    let opened = server.post(&initialize(1, LAST)).send().await;
    let unused = opened.headers[SESSION].to_str().unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6 * 60)).await;
    tokio::time::resume();
    assert_eq!(at(&server, unused, &ping(1)).send().await.status, 404);
    assert_eq!(at(&server, &used.id, &ping(1)).send().await.status, 200);
}

/// Session bound to principal.
#[tokio::test]
async fn a_session_belongs_to_whoever_opened_it() {
    let runtime = everything().build().unwrap();
    let layer = MapRequestLayer::new(sign_in);
    let server = HttpServer::with(runtime, |http| http.layer(layer)).await;
    let open = server.post(&initialize(1, LAST)).header("x-user", "ann");
    let id = open.send().await.headers[SESSION].to_str().unwrap().to_owned();
    let ping = || at(&server, &id, &ping(1));
    let get = || server.get("/mcp").header(SESSION, &id);
    for other in ["bob", "Ann", ""] {
        assert_eq!(ping().header("x-user", other).send().await.status, 404);
        assert_eq!(get().header("x-user", other).send().await.status, 404);
    }
    assert_eq!(ping().send().await.status, 404);
    assert_eq!(ping().header("x-user", "ann").send().await.status, 200);
}

/// GET stream delivery of list_changed.
#[tokio::test]
async fn the_get_stream_tells_what_changes_and_nothing_of_calls() {
    let server = HttpServer::new(everything()).await;
    let (session, other) = (server.open(LAST).await, server.open(LAST).await);
    let mut stream = session.get().send().await;
    let mut others = other.get().send().await;
    let subscribe = json!({ "uri": "test://watched-resource" });
    session.ask(&request(1, "resources/subscribe", subscribe)).await;
    assert_eq!(session.post(&slow(2, "s", 0.1)).send().await.messages().await.len(), 2);
    session.ask(&tool(3, "test_trigger_resource_update")).await;
    session.ask(&tool(4, "test_trigger_tool_change")).await;
    let told = stream.message().await.unwrap();
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "test://watched-resource");
    for stream in [&mut stream, &mut others] {
        let told = stream.message().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed");
    }
}

/// One-stream-only delivery.
#[tokio::test]
async fn a_second_get_takes_over_from_the_first() {
    let server = HttpServer::new(everything()).await;
    for version in ["2025-03-26", "2025-06-18", LAST] {
        let session = server.open(version).await;
        let mut first = session.get().send().await;
        let mut second = session.get().send().await;
        session.ask(&tool(1, "test_trigger_tool_change")).await;
        let told = second.message().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(first.message().await, None);
        second.silent(Duration::from_millis(50)).await;
    }
}

/// `retry` and the priming event, by server-side disconnect.
#[tokio::test]
async fn a_client_that_was_let_go_comes_back_for_the_rest() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    let mut answer = session.post(&tool(1, "test_reconnection")).send().await;
    let primer = answer.event().await.unwrap();
    assert_eq!(primer.data, "");
    let wait = answer.event().await.unwrap();
    assert_eq!(wait.retry, Some(Duration::from_millis(500)));
    assert_eq!(answer.event().await, None);
    let rest = resume(&session, &primer.id.unwrap()).await;
    let said = rest.messages().await;
    assert_eq!((said.len(), &said[0]["id"]), (1, &json!(1)));
    assert_eq!(text(&said[0]["result"]), "Reconnection test completed");
    // An older client knows nothing of this, and is not let go.
    let session = server.open("2025-06-18").await;
    let answer = session.ask(&tool(1, "test_reconnection")).await;
    assert_eq!(text(&answer["result"]), "Reconnection test completed");
    let mut answer = session.post(&slow(1, "s", 0.1)).send().await;
    assert_ne!(answer.event().await.unwrap().data, "");
}

/// Last-Event-ID replay; disconnect is not cancel.
#[tokio::test]
async fn a_call_goes_on_without_its_connection_and_is_fetched_later() {
    let server = HttpServer::new(everything()).await;
    for version in ["2025-03-26", "2025-06-18", LAST] {
        let session = server.open(version).await;
        let mut answer = session.post(&slow(1, version, 0.4)).send().await;
        let last = first_id(&mut answer).await;
        drop(answer);
        for _ in 0..2 {
            let said = resume(&session, &last).await.messages().await;
            assert_eq!(steps(&said), [1.0, 2.0, 3.0], "{version}");
            let answer = said.last().unwrap();
            assert!(text(&answer["result"]).ends_with("computed for 0.4 seconds"));
        }
        assert_eq!(resume(&session, "nonsense").await.status, 400);
    }
    assert_eq!(stopped(&server).await, Vec::<String>::new());
}

/// Replay without cross-stream leakage.
#[tokio::test]
async fn a_resumed_stream_says_nothing_of_another() {
    let server = HttpServer::new(everything()).await;
    let said = resumed_beside(&server, &server).await;
    assert!(!json!(said).to_string().contains("two"), "{said:#?}");
    assert_eq!(said.last().unwrap()["id"], 1);
    // Nor does an id open another session's stream.
    let session = server.open(LAST).await;
    let mut answer = session.post(&slow(1, "secret", 0.3)).send().await;
    let last = first_id(&mut answer).await;
    let stranger = resume(&server.open(LAST).await, &last).await;
    if stranger.is_stream() {
        assert_eq!(stranger.messages().await, Vec::<Value>::new());
    }
    assert_eq!(answer.messages().await.last().unwrap()["id"], 1);
}

/// Replay without cross-stream leakage, on several nodes.
#[tokio::test]
async fn a_resumed_stream_says_nothing_of_one_on_another_server() {
    for Pair { a, b, .. } in &pairs("resumed").await {
        let said = resumed_beside(a, b).await;
        assert!(!json!(said).to_string().contains("two"), "{said:#?}");
        assert_eq!(said.last().unwrap()["id"], 1);
    }
}

/// Last-Event-ID replay of what changed.
#[tokio::test]
async fn changes_missed_by_a_get_stream_are_told_when_it_is_resumed() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    let mut stream = session.get().send().await;
    session.ask(&tool(1, "test_trigger_tool_change")).await;
    let last = first_id(&mut stream).await;
    drop(stream);
    session.ask(&tool(2, "test_trigger_prompt_change")).await;
    let mut stream = resume(&session, &last).await;
    let told = stream.message().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    stream.silent(Duration::from_millis(50)).await;
}

/// What stops a call, and what does not.
#[tokio::test]
async fn a_call_is_stopped_by_its_cancellation_or_its_session_s_end() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    let mut cancelled = session.post(&slow(1, "cancelled", 9.0)).send().await;
    first_id(&mut cancelled).await;
    let cancel = notification("notifications/cancelled", json!({ "requestId": 1 }));
    assert_eq!(session.post(&cancel).send().await.status, 202);
    wait_until_stopped(&server, "cancelled").await;
    let said = cancelled.messages().await;
    assert!(said.iter().all(|said| said.get("id").is_none()), "{said:?}");

    let mut ended = session.post(&slow(2, "ended", 9.0)).send().await;
    first_id(&mut ended).await;
    assert_eq!(session.delete().send().await.status, 204);
    wait_until_stopped(&server, "ended").await;
    let said = ended.messages().await;
    assert!(said.iter().all(|said| said.get("result").is_none()));
}

/// Disconnect means cancel in the stateless era.
#[tokio::test]
async fn a_lost_connection_stops_a_stateless_call() {
    let server = HttpServer::new(everything()).await;
    let mut answer = server.post(&modern_slow("modern", 9.0)).send().await;
    assert!(answer.message().await.is_some());
    drop(answer);
    wait_until_stopped(&server, "modern").await;
}

/// Disconnect is not cancel, for 2025-03-26 batches.
#[tokio::test]
async fn a_lost_connection_does_not_stop_a_batch() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-03-26").await;
    let batch = json!([slow(1, "batch", 0.3)]);
    let mut answer = session.post(&batch).send().await;
    assert!(answer.message().await.is_some());
    drop(answer);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(stopped(&server).await, Vec::<String>::new());
}

/// HTTP+SSE of 2024-11-05.
#[tokio::test]
async fn the_oldest_http_answers_on_its_one_stream() {
    let server = HttpServer::new(everything()).await;
    let nobody = server.post_text("/messages?session=nobody", ping(1).to_string());
    assert_eq!(nobody.send().await.status, 404);
    let mut quiet = OldClient::open(&server).await;
    let mut client = OldClient::open(&server).await;
    assert_ne!(client.endpoint, quiet.endpoint);
    client.send(&tool(1, "test_list_roots")).await;
    let question = client.next().await;
    assert_eq!(question["method"], "roots/list");
    let roots = json!({ "roots": [{ "uri": "file:///r" }] });
    client.send(&response(&question["id"], roots)).await;
    assert!(text(&client.next().await["result"]).contains("file:///r"));
    client.ask(&tool(2, "test_trigger_tool_change")).await;
    let told = quiet.next().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");

    client.send(&slow(3, "left", 9.0)).await;
    let endpoint = client.endpoint.clone();
    drop(client);
    wait_until_stopped(&server, "left").await;
    let gone = server.post_text(&endpoint, ping(1).to_string()).send();
    assert_eq!(gone.await.status, 404);
    assert_eq!(quiet.ask(&ping(4)).await["result"], json!({}));
}

/// Custom transport, both ways at once.
#[tokio::test]
async fn a_socket_says_things_as_they_happen() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    socket.ask(initialize(1, LAST)).await;
    socket.send(slow(2, "long", 0.5)).await;
    socket.send(slow(3, "short", 0.2)).await;
    socket.send(tool(4, "test_trigger_tool_change")).await;
    let (mut order, mut told) = (vec![], false);
    while order.len() < 3 {
        let said = socket.next().await.unwrap();
        told |= said["method"] == "notifications/tools/list_changed";
        order.extend(said["id"].as_u64());
    }
    assert_eq!((order, told), (vec![4, 3, 2], true));
}

/// Resumability over WebSocket: nothing lost, nothing repeated.
#[tokio::test]
async fn a_cut_socket_is_taken_up_where_it_ended() {
    let server = HttpServer::new(everything()).await;
    // The client may have lost messages that were on their way.
    for lost in [0, 1] {
        let (mut socket, id) = resumable(&server).await;
        socket.send(slow(1, "s", 0.5)).await;
        assert_eq!(socket.next().await.unwrap()["params"]["progress"], 0.0);
        assert_eq!(socket.next().await.unwrap()["params"]["progress"], 1.0);
        socket.cut();
        let change = call("test_trigger_tool_change", json!({}));
        server.post(&modern(1, "tools/call", change)).send().await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        let query = format!("?session={id}&last_event_id={}", 3 - lost);
        let mut socket = Socket::connect(&server, &query).await;
        let mut said = vec![];
        while said.last().is_none_or(|said: &Value| said["id"] != 1) {
            said.push(socket.next().await.unwrap());
        }
        said.extend(socket.exchange(ping(2)).await);
        assert_eq!(steps(&said), [1.0, 2.0, 3.0, 4.0][1 - lost..], "{said:#?}");
        let changed = |said: &&Value| said["method"] == "notifications/tools/list_changed";
        assert_eq!(said.iter().filter(changed).count(), 1, "{said:#?}");
        assert_eq!(said.len(), 3 + lost + 3, "{said:#?}");
    }
    let upgrade = server.get("/ws?session=nobody").header("upgrade", "websocket");
    let upgrade = upgrade.header("connection", "upgrade");
    let upgrade = upgrade.header("sec-websocket-version", "13");
    let upgrade = upgrade.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(upgrade.send().await.status, 404);
}

/// The same on another server, which the client comes back to by chance: with a call that goes on
/// where it began, and with one that was answered before.
#[tokio::test]
async fn a_cut_socket_is_taken_up_on_another_server() {
    for pair in pairs("socket").await {
        let (mut socket, id) = resumable(&pair.a).await;
        socket.send(slow(1, "s", 1.0)).await;
        assert_eq!(socket.next().await.unwrap()["params"]["progress"], 0.0);
        assert_eq!(socket.next().await.unwrap()["params"]["progress"], 1.0);
        socket.cut();
        // The last message was on its way.
        let mut socket = Socket::connect(&pair.b, &format!("?session={id}&last_event_id=2")).await;
        let mut said = vec![];
        while said.last().is_none_or(|said: &Value| said["id"] != 1) {
            said.push(socket.next().await.unwrap());
        }
        assert_eq!(steps(&said), (1..10).map(f64::from).collect::<Vec<_>>(), "{said:#?}");
        // It goes on here, and can be taken back.
        assert_eq!(socket.ask(ping(2)).await["result"], json!({}));
        socket.cut();
        let count = 2 + said.len() + 1;
        let query = format!("?session={id}&last_event_id={count}");
        let mut socket = Socket::connect(&pair.a, &query).await;
        assert_eq!(socket.ask(ping(3)).await["result"], json!({}));
        socket.close().await;
    }
}

/// A server that is stopped in order lets go of its sockets: with and without their clients.
#[tokio::test]
async fn a_socket_of_a_server_that_stops_is_taken_up_on_another() {
    for pair in pairs("stopped").await {
        let (mut there, id) = resumable(&pair.a).await;
        assert_eq!(there.ask(ping(1)).await["result"], json!({}));
        let (mut away, lost) = resumable(&pair.a).await;
        assert_eq!(away.ask(ping(1)).await["result"], json!({}));
        away.cut();
        pair.a.close().await;
        for id in [id, lost] {
            let query = format!("?session={id}&last_event_id=2");
            let mut socket = Socket::connect(&pair.b, &query).await;
            assert_eq!(socket.ask(ping(2)).await["result"], json!({}));
            socket.close().await;
        }
    }
}

/// A taken over conversation lives as long as its new connection.
#[tokio::test]
async fn a_conversation_taken_over_is_not_forgotten_later() {
    let server = HttpServer::new(everything()).await;
    let (first, id) = resumable(&server).await;
    let mut second = Socket::connect(&server, &format!("?session={id}&last_event_id=1")).await;
    second.ask(ping(1)).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(65)).await;
    tokio::time::resume();
    assert_eq!(second.ask(ping(2)).await["result"], json!({}));
    second.cut();
    drop(first);
    let mut third = Socket::connect(&server, &format!("?session={id}&last_event_id=3")).await;
    assert_eq!(third.ask(ping(3)).await["result"], json!({}));
}

/// Shutdown, over HTTP and pipes.
#[tokio::test]
async fn a_server_that_stops_finishes_its_calls() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    let mut old = session.post(&slow(1, "old", 0.3)).send().await;
    let mut new = server.post(&modern_slow("new", 0.3)).send().await;
    assert!(old.message().await.is_some() && new.message().await.is_some());
    server.stop.cancel();
    for answer in [old, new] {
        assert_eq!(answer.messages().await.last().unwrap()["id"], 1);
    }
    server.close().await;

    let mut client = PipeClient::open(everything(), LAST).await;
    client.send(slow(1, "pipe", 0.3)).await;
    client.next().await;
    client.stop.cancel();
    client.until(&json!(1)).await;
    assert_eq!(client.next_or_end().await, None);
}

/// Shutdown, over WebSocket.
#[tokio::test]
async fn a_server_that_stops_finishes_the_calls_of_its_sockets() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    socket.send(modern_slow("socket", 0.3)).await;
    assert!(socket.next().await.is_some());
    server.stop.cancel();
    let mut said = vec![];
    while let Some(message) = socket.next().await {
        said.push(message);
    }
    assert!(said.iter().any(|said| said["id"] == 1), "{said:?}");
    server.close().await;
}

/// Shutdown, over HTTP+SSE.
#[tokio::test]
async fn a_server_that_stops_finishes_the_calls_of_its_old_streams() {
    let server = HttpServer::new(everything()).await;
    let mut client = OldClient::open(&server).await;
    client.send(&slow(1, "oldest", 0.3)).await;
    client.next().await;
    server.stop.cancel();
    let said = client.stream.messages().await;
    assert!(said.iter().any(|said| said["id"] == 1), "{said:?}");
    server.close().await;
}

/// Pages for those who operate the server.
#[tokio::test]
async fn the_pages_of_an_operator_say_how_the_server_is() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    session.ask(&tool(1, "test_simple_text")).await;
    session.ask(&tool(2, "test_error_handling")).await;
    assert_eq!(server.get("/healthz").send().await.text().await, "ok\n");
    assert_eq!(server.get("/readyz").send().await.text().await, "ready\n");
    let page = server.get("/metadata").send().await.json().await;
    assert_eq!(page["serverInfo"]["name"], "zcp-everything");
    assert_eq!(page["protocolVersions"].as_array().unwrap().len(), 5);
    let numbers = server.get("/metrics").send().await.text().await;
    for line in [
        r#"zcp_calls_total{op="call tool",outcome="ok"} 1"#,
        r#"zcp_calls_total{op="call tool",outcome="error"} 1"#,
        r#"zcp_call_seconds_count{op="call tool"} 2"#,
        r#"zcp_tool_calls_total{tool="test_simple_text",outcome="ok"} 1"#,
        r#"zcp_tool_calls_total{tool="test_error_handling",outcome="error"} 1"#,
        r#"zcp_tool_seconds_count{tool="test_simple_text"} 1"#,
        "zcp_store_up 1",
        "zcp_sessions 1",
        "zcp_calls_running 0",
    ] {
        assert!(numbers.lines().any(|said| said == line), "{line}\n{numbers}");
    }
    let info = numbers.lines().find(|line| line.starts_with("zcp_build_info{version=\""));
    assert!(info.is_some_and(|line| line.ends_with("\"} 1")), "{numbers}");
    assert_eq!(session.delete().send().await.status, 204);
    let numbers = server.get("/metrics").send().await.text().await;
    assert!(numbers.contains("zcp_sessions 0"), "{numbers}");
}

/// A limit is a caller's on all servers together, and says when to come back.
#[tokio::test]
async fn a_rate_limit_is_shared_by_all_who_share_a_store() {
    let redis = RedisServer::new().await;
    let server = async || {
        let store: Arc<dyn Store> = Arc::new(Redis::new(&redis.url()).unwrap());
        let limit = RateLimit::per_second(0.5).burst(4.0).each_tool().shared(store);
        HttpServer::new(everything().layer(limit)).await
    };
    let (a, b) = (server().await, server().await);
    let call = |name: &str| modern(1, "tools/call", call(name, json!({})));
    let mut answers = vec![];
    for server in [&a, &b, &a, &b] {
        answers.push(server.post(&call("test_simple_text")).send().await.status.as_u16());
    }
    assert_eq!(answers, [200; 4]);
    for server in [&a, &b] {
        let refused = server.post(&call("test_simple_text")).send().await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.headers["retry-after"], "2");
        let refused = refused.response().await;
        assert_eq!(refused["error"]["data"]["retryAfterSeconds"], 2);
    }
    // Another tool is counted by itself.
    assert_eq!(a.post(&call("test_image_content")).send().await.status, 200);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(b.post(&call("test_simple_text")).send().await.status, 200);
    assert_eq!(a.post(&call("test_simple_text")).send().await.status, 429);
}

/// Without its store a limit holds each server by itself.
#[tokio::test]
async fn a_rate_limit_goes_on_without_its_store() {
    let mut redis = RedisServer::new().await;
    let store: Arc<dyn Store> = Arc::new(Redis::new(&redis.url()).unwrap());
    let limit = RateLimit::per_second(0.001).burst(2.0).shared(store);
    let server = HttpServer::new(everything().layer(limit)).await;
    redis.kill();
    let call = modern(1, "tools/call", call("test_simple_text", json!({})));
    let mut answers = vec![];
    for _ in 0..3 {
        answers.push(server.post(&call).send().await.status.as_u16());
    }
    assert_eq!(answers, [200, 200, 429]);
}
