//! How much memory messages, logs and answers may take while they are under way.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tower::{ServiceExt, layer::layer_fn, service_fn};
use zcp::{
    Call, Fault, Op, Outcome, Server, Service, TaskOp, Tool,
    store::{Memory, Store},
};
use zcp_tests::{
    away::slow, call, everything, http::HttpServer, modern, modern_as, notification,
    pipe::PipeClient, request, socket::Socket, text,
};

const MIB: usize = 1024 * 1024;

async fn is_refused(client: &mut PipeClient, id: u64) {
    let refused = client.until(&json!(id)).await.pop().unwrap();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("too many large messages"), "{why}");
}

#[tokio::test]
async fn members_beside_the_parameters_count_as_well() {
    let mut client = PipeClient::open(everything(), "2025-11-25").await;
    for id in 0..9 {
        let mut call = slow(id, &format!("padded-{id}"), 30.0);
        call["pad"] = json!("x".repeat(4_000_000));
        client.send(call).await;
    }
    is_refused(&mut client, 8).await;
}

#[tokio::test]
async fn a_listener_keeps_the_room_of_its_message() {
    let mut client = PipeClient::new(everything());
    for id in 0..9 {
        let mut params = json!({ "notifications": { "toolsListChanged": true } });
        params["pad"] = json!("x".repeat(4_000_000));
        client.send(modern(id, "subscriptions/listen", params)).await;
    }
    is_refused(&mut client, 8).await;
}

#[tokio::test]
async fn a_full_conversation_can_still_be_cancelled() {
    let mut client = PipeClient::open(everything(), "2025-11-25").await;
    for id in 0..1025 {
        client.send(slow(id, &format!("full-{id}"), 60.0)).await;
    }
    let refused = client.until(&json!(1024)).await.pop().unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("1024 calls"));
    for id in 0..10 {
        let cancel = json!({ "requestId": id });
        client.send(notification("notifications/cancelled", cancel)).await;
    }
    for attempt in 0.. {
        let answer = client.ask(request(format!("t{attempt}"), "ping", json!({}))).await;
        if answer["error"].is_null() {
            return;
        }
        assert!(attempt < 100, "{answer}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Small messages need room, too, for as long as they are under way.
#[tokio::test]
async fn calls_of_many_sockets_are_limited_together() {
    let server = HttpServer::new(everything()).await;
    let mut sockets = vec![];
    for number in 0.. {
        // 33 times 1000 are more than 512 MiB at 16 KiB each.
        assert!(number < 33, "nothing is refused");
        let mut socket = Socket::connect(&server, "").await;
        let params = json!({ "notifications": { "toolsListChanged": true } });
        for id in 0..1000 {
            socket.send(modern(id, "subscriptions/listen", params.clone())).await;
        }
        // What was refused is answered before the ping, or shortly after it.
        let said = socket.exchange(modern("last", "ping", json!({}))).await;
        sockets.push(socket);
        if said.iter().any(|said| said["error"]["message"].is_string()) {
            return;
        }
    }
}

fn large() -> Server {
    Server::new("large").tool(Tool::new("large", async || "x".repeat(MIB)))
}

#[tokio::test]
async fn logs_of_sockets_are_limited_together() {
    let store = Arc::new(Memory::default());
    let server = HttpServer::new(large().shared_store(store.clone())).await;
    let mut names = vec![];
    let mut sockets = vec![];
    for _ in 0..90 {
        let (mut socket, name) = zcp_tests::away::resumable(&server).await;
        for id in 0..3 {
            socket.ask(request(id, "tools/call", call("large", json!({})))).await;
        }
        names.push(name);
        sockets.push(socket);
    }
    let mut bytes = 0;
    for name in names {
        let log = store.after(&format!("ws/{name}"), 0).await.unwrap_or_default();
        bytes += log.iter().map(|(_, entry)| entry.len()).sum::<usize>();
    }
    assert!(bytes > 128 * MIB && bytes <= 256 * MIB, "{bytes} bytes");
}

#[tokio::test]
async fn finished_tasks_of_all_sessions_are_limited_together() {
    let store = Arc::new(Memory::default());
    let huge = Tool::new("huge", async || "x".repeat(10 * MIB)).long_running();
    let tasks = zcp::Tasks::default().max_result(12 * MIB);
    let server = Server::new("huge").tool(huge).tasks(tasks).shared_store(store.clone());
    let server = HttpServer::new(server).await;
    let mut ids = vec![];
    // Every session is a caller of its own.
    for _ in 0..30 {
        let session = server.open("2025-11-25").await;
        let mut params = call("huge", json!({}));
        params["task"] = json!({});
        let begun = session.ask(&request(1, "tools/call", params)).await;
        let id = begun["result"]["task"]["taskId"].as_str().unwrap().to_owned();
        for attempt in 0.. {
            let record = store.get(&format!("task/{id}")).await.unwrap().unwrap();
            if record.value.len() > 10 * MIB {
                break;
            }
            assert!(attempt < 1000, "{begun}");
            sleep(Duration::from_millis(20)).await;
        }
        ids.push(id);
    }
    sleep(Duration::from_millis(100)).await;
    let (mut bytes, mut kept) = (0, vec![]);
    for (place, id) in ids.iter().enumerate() {
        if let Some(record) = store.get(&format!("task/{id}")).await.unwrap() {
            bytes += record.value.len();
            kept.push(place);
        }
    }
    assert!(bytes > 200 * MIB && bytes <= 256 * MIB, "{bytes} bytes");
    assert_eq!(kept, (5..30).collect::<Vec<_>>(), "the oldest go");
}

#[tokio::test]
async fn bodies_count_while_they_arrive() {
    let server = HttpServer::new(everything()).await;
    // 140 bodies of nearly 4 MiB, of which the last byte never comes, are more than 512 MiB.
    let head = |bytes: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {bytes}\r\n\r\n"
        )
    };
    let body = "x".repeat(4 * MIB - 1);
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut waiting = vec![];
    let mut refused = 0;
    for _ in 0..140 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(head(4 * MIB).as_bytes()).await.unwrap();
        let _ = stream.write_all(body.as_bytes()).await;
        waiting.push(stream);
    }
    for stream in &mut waiting {
        let mut first = [0; 12];
        if let Ok(Ok(12)) = timeout(Duration::from_millis(20), stream.read(&mut first)).await {
            refused += usize::from(first.ends_with(b"503"));
        }
    }
    assert!(refused >= 10, "{refused}");
}

/// A call of a tool without arguments, as it is sent over a connection.
fn post(tool: &str) -> String {
    let body = modern(1, "tools/call", call(tool, json!({}))).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn answers_that_nobody_reads_are_limited_together() {
    let huge = Tool::new("huge", async || "x".repeat(32 * MIB - 64 * 1024));
    let server = HttpServer::new(large().tool(huge)).await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut waiting = vec![];
    // 16 of 32 MiB are 512 MiB.
    for place in 0..19 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(post("huge").as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        let status = if place < 16 { b"200" } else { b"503" };
        assert!(first.ends_with(status), "{place}: {}", String::from_utf8_lossy(&first));
        waiting.push(stream);
    }
    let ask = modern(1, "tools/call", call("large", json!({})));
    // Whoever reads or goes away makes room.
    drop(waiting);
    for attempt in 0.. {
        let answer = server.post(&ask).send().await;
        if answer.status == 200 {
            return;
        }
        assert!(answer.status == 503 && attempt < 100, "{}", answer.status);
        sleep(Duration::from_millis(50)).await;
    }
}

/// Sends pongs until the server ends the connection.
async fn is_ended(mut socket: Socket) {
    let pong = [0x8a, 0x80, 0, 0, 0, 0];
    for _ in 0..200 {
        match timeout(Duration::from_millis(100), socket.next()).await {
            Ok(None) => return,
            Ok(Some(message)) => panic!("{message}"),
            Err(_) if socket.try_write_raw(&pong).await.is_err() => return,
            Err(_) => (),
        }
    }
    panic!("the connection goes on");
}

#[tokio::test]
async fn an_unfinished_socket_message_counts_and_ends() {
    const LARGE: usize = 30 * MIB;
    let runtime = everything().build().unwrap();
    let change = |http: zcp::Http| http.max_body(LARGE).read_timeout(Duration::from_secs(1));
    let server = HttpServer::with(runtime, change).await;
    // A text frame that is not the last one of its message, with a mask of zeros.
    let mut fragment = vec![0x01, 0x80 | 127];
    fragment.extend((LARGE as u64 - 1024).to_be_bytes());
    fragment.resize(fragment.len() + 4 + LARGE - 1024, b' ');
    fragment[10..14].fill(0);
    // Together they are more than 512 MiB: each has to return its room.
    for _ in 0..6 {
        let sockets = (0..3).map(async |_| {
            let mut socket = Socket::connect(&server, "").await;
            let _ = socket.try_write_raw(&fragment).await;
            is_ended(socket).await;
        });
        futures_util::future::join_all(sockets).await;
    }
    let mut socket = Socket::connect(&server, "").await;
    let mut ping = request(1, "ping", json!({}));
    ping["pad"] = json!("x".repeat(4 * MIB));
    let answer = socket.ask(ping).await;
    assert!(answer["error"].is_null(), "{answer}");
    // A message that arrives in parts goes on as long as it is in time.
    socket.write_raw(&[0x01, 0x81, 0, 0, 0, 0, b'{', 0x8a, 0x80, 0, 0, 0, 0]).await;
    sleep(Duration::from_millis(200)).await;
    socket.write_raw(&[0x80, 0x81, 0, 0, 0, 0, b'}']).await;
    assert!(socket.next().await.unwrap()["error"].is_object());
}

#[tokio::test]
async fn an_answer_that_nobody_reads_ends_its_connection() {
    let runtime = large().build().unwrap();
    let change = |http: zcp::Http| http.read_timeout(Duration::from_millis(200));
    let server = HttpServer::with(runtime, change).await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    // Eight answers are more than the buffers of the system hold.
    for _ in 0..8 {
        stream.write_all(post("large").as_bytes()).await.unwrap();
    }
    sleep(Duration::from_secs(2)).await;
    let mut read = vec![];
    let ended = timeout(Duration::from_secs(10), stream.read_to_end(&mut read)).await;
    assert!(ended.is_ok(), "the connection has ended");
    assert!(read.len() < 8 * MIB, "{} bytes", read.len());
}

#[tokio::test]
async fn what_a_socket_does_not_read_stays_small() {
    let server = HttpServer::new(large()).await;
    let mut socket = Socket::connect(&server, "").await;
    for id in 0..200 {
        socket.send(modern(id, "tools/call", call("large", json!({})))).await;
    }
    // Whoever reads late gets every answer all the same.
    for _ in 0..200 {
        assert_eq!(text(&socket.next().await.unwrap()["result"]).len(), MIB);
    }
}

/// A client that follows tasks.
fn follower(id: u64, method: &str, params: Value) -> Value {
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    modern_as(id, method, params, tasks)
}

#[tokio::test]
async fn a_task_that_may_not_be_looked_at_is_not_listened_to() {
    let deny = layer_fn(|inner: Service| {
        Service::new(service_fn(move |call: Call| {
            let inner = inner.clone();
            async move {
                match call.op {
                    Op::Task(TaskOp::Get { .. }) => {
                        Ok::<_, Infallible>(Outcome::Fault(Fault::Denied("tasks".into())))
                    }
                    _ => inner.oneshot(call).await,
                }
            }
        }))
    });
    let mut client = PipeClient::new(everything().layer(deny));
    let slow = call("slow_compute", json!({ "seconds": 0.3, "label": "watched" }));
    let begun = client.ask(follower(1, "tools/call", slow)).await;
    let id = begun["result"]["taskId"].clone();
    assert!(id.is_string(), "{begun}");
    let filter = json!({ "notifications": { "taskIds": [id] } });
    client.send(follower(2, "subscriptions/listen", filter)).await;
    let acknowledged = client.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let told = timeout(Duration::from_secs(1), client.next()).await;
    assert!(told.is_err(), "{told:?}");
}

#[tokio::test]
async fn arguments_of_a_task_are_not_in_its_record() {
    let store = Arc::new(Memory::default());
    let mut client = PipeClient::new(everything().shared_store(store.clone()));
    for (bytes, allowed) in [(200_000, true), (500_000, false)] {
        let mut params = call("slow_compute", json!({ "seconds": 30, "label": "large" }));
        params["arguments"]["pad"] = json!("x".repeat(bytes));
        let begun = client.ask(follower(1, "tools/call", params)).await;
        assert_eq!(begun["error"].is_null(), allowed, "{bytes}: {begun}");
        let Some(id) = begun["result"]["taskId"].as_str() else { continue };
        let record = store.get(&format!("task/{id}")).await.unwrap().unwrap();
        assert!(record.value.len() < 16 * 1024, "{} bytes", record.value.len());
        assert!(store.get(&format!("args/{id}")).await.unwrap().is_some());
        client.ask(follower(2, "tasks/cancel", json!({ "taskId": id }))).await;
        assert!(store.get(&format!("args/{id}")).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_task_keeps_neither_its_message_nor_its_room() {
    let mut client = PipeClient::new(everything());
    // Twelve messages of 4 MB are more than a conversation may have under way.
    for id in 0..12 {
        let mut params = call("slow_compute", json!({ "seconds": 30, "label": "small" }));
        params["pad"] = json!("x".repeat(4_000_000));
        let begun = client.ask(follower(id, "tools/call", params)).await;
        assert!(begun["result"]["taskId"].is_string(), "{}", begun["error"]);
    }
}

#[tokio::test]
async fn a_slow_call_that_became_a_task_returns_its_room() {
    let slow = Tool::new("slow", async || sleep(Duration::from_secs(60)).await);
    let tasks = zcp::Tasks::default().promote_after(Duration::from_millis(10)).max_per_caller(100);
    let mut client = PipeClient::new(Server::new("s").tool(slow).tasks(tasks));
    // Twelve messages of 4 MB are more than a conversation may have under way.
    for id in 0..12 {
        let mut params = call("slow", json!({}));
        params["pad"] = json!("x".repeat(4_000_000));
        let begun = client.ask(follower(id, "tools/call", params)).await;
        assert!(begun["result"]["taskId"].is_string(), "{}", begun["error"]);
    }
}

#[tokio::test]
async fn a_large_answer_to_a_task_is_refused() {
    let mut client = PipeClient::new(everything());
    let params = call("confirm_delete", json!({ "filename": "a" }));
    let begun = client.ask(follower(1, "tools/call", params)).await;
    let id = &begun["result"]["taskId"];
    let answer = json!({ "action": "accept", "content": { "pad": "x".repeat(100_000) } });
    let update = json!({ "taskId": id, "inputResponses": { "confirm": answer } });
    let answer = client.ask(follower(2, "tasks/update", update)).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn layers_decide_about_a_limited_number_of_tasks() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = asked.clone();
    let count = layer_fn(move |inner: Service| {
        let counting = counting.clone();
        Service::new(service_fn(move |call: Call| {
            if matches!(call.op, Op::Task(TaskOp::Get { .. })) {
                counting.fetch_add(1, Ordering::Relaxed);
            }
            inner.clone().oneshot(call)
        }))
    });
    let mut client = PipeClient::new(everything().layer(count));
    let ids: Vec<String> = (0..3000).map(|id| format!("task-{id}")).collect();
    let filter = json!({ "notifications": { "taskIds": ids } });
    client.send(follower(1, "subscriptions/listen", filter)).await;
    client.next().await;
    assert_eq!(asked.load(Ordering::Relaxed), 100);
}

#[tokio::test]
async fn listening_to_tasks_is_one_message_for_a_rate_limit() {
    let limit = zcp::RateLimit::per_second(0.001).burst(3.0);
    let mut client = PipeClient::new(everything().layer(limit));
    let mut ids = vec![];
    for label in ["one", "two"] {
        let slow = call("slow_compute", json!({ "seconds": 30, "label": label }));
        let begun = client.ask(follower(1, "tools/call", slow)).await;
        ids.push(begun["result"]["taskId"].clone());
    }
    let filter = json!({ "notifications": { "taskIds": ids } });
    client.send(follower(2, "subscriptions/listen", filter)).await;
    let acknowledged = client.next().await;
    let heard = acknowledged["params"]["notifications"]["taskIds"].as_array().unwrap();
    assert!(ids.iter().all(|id| heard.contains(id)), "{acknowledged}");
    let refused = client.ask(follower(3, "tools/list", json!({}))).await;
    assert_eq!(refused["error"]["code"], 429, "{refused}");
}
