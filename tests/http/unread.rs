//! How much memory takes what clients do not read.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use serde_json::json;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::sleep,
};
use zcp::{Ctx, Level, Server, Tool};
use zcp_tests::{
    away::{first_id, resume, tool},
    call,
    http::{Answer, HttpServer, Session},
    memory::resident,
    modern,
    socket::Socket,
    text,
};

const MIB: usize = 1024 * 1024;

/// A tool that says a word before its answer, so that the answer is an event.
fn streaming(name: &str, bytes: usize) -> Tool {
    Tool::new(name, move |ctx: Ctx| async move {
        ctx.log(Level::Warning, "first");
        ctx.progress(1.0, None);
        "x".repeat(bytes)
    })
}

/// A connection whose client reads the status of an answer, and no more.
async fn unread(server: SocketAddr, request: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().unwrap();
    // The system takes little of what is not read.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    (stream, String::from_utf8_lossy(&first[9..]).into_owned())
}

/// A GET that fetches the rest of a call.
fn get(session: &Session<'_>, last: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {}\r\nLast-Event-ID: {last}\r\n\r\n",
        session.id
    )
}

/// The rest of a call, as soon as there is room for it.
async fn resumed(session: &Session<'_>, last: &str) -> Answer {
    for _ in 0..100 {
        let answer = resume(session, last).await;
        if answer.status == 200 {
            return answer;
        }
        assert_eq!(answer.status, 503);
        assert_eq!(answer.headers["retry-after"], "1");
        sleep(Duration::from_millis(50)).await;
    }
    panic!("there is no room");
}

/// Bytes of an answer that is kept in the log of a session.
const LARGE: usize = 3_900_000;

async fn server() -> HttpServer {
    HttpServer::new(Server::new("large").tool(streaming("large", LARGE))).await
}

/// Where a call whose answer is in the log can be resumed.
async fn answered(session: &Session<'_>) -> String {
    let mut answer = session.post(&tool(1, "large")).send().await;
    let last = first_id(&mut answer).await;
    drop(answer);
    assert_eq!(text(&resumed(session, &last).await.response().await["result"]).len(), LARGE);
    last
}

/// Streams that nobody reads, and how many more have no room.
async fn crowd(server: &HttpServer, session: &Session<'_>, last: &str) -> (Vec<TcpStream>, usize) {
    let (mut streams, mut refused) = (vec![], 0);
    // 512 MiB are 137 of them.
    for _ in 0..150 {
        let (stream, status) = unread(server.address, &get(session, last)).await;
        refused += usize::from(status == "503");
        streams.push(stream);
    }
    (streams, refused)
}

#[tokio::test]
async fn resumed_streams_that_nobody_reads_are_limited_together() {
    let server = server().await;
    let session = server.open("2025-11-25").await;
    let last = answered(&session).await;
    let before = resident();
    let (streams, refused) = crowd(&server, &session, &last).await;
    assert!((10..20).contains(&refused), "{refused}");
    let grown = resident().saturating_sub(before) / 1024;
    assert!(grown < 100, "{grown} MiB");
    // Whoever reads or goes away makes room.
    drop(streams);
    assert_eq!(text(&resumed(&session, &last).await.response().await["result"]).len(), LARGE);
}

#[tokio::test]
async fn a_streamed_answer_without_room_is_an_error() {
    let server = server().await;
    let session = server.open("2025-11-25").await;
    let last = answered(&session).await;
    let (_streams, _) = crowd(&server, &session, &last).await;
    let mut message = modern(2, "tools/call", call("large", json!({})));
    message["params"]["_meta"]["progressToken"] = json!("p");
    let said = server.post(&message).send().await.messages().await;
    assert_eq!(said[0]["method"], "notifications/progress");
    let why = said[1]["error"]["message"].as_str().unwrap();
    assert!(why.contains("too many large messages") && said[1]["id"] == 2, "{why}");
}

#[tokio::test]
async fn a_stream_in_a_session_without_room_is_resumed_later() {
    let server = server().await;
    let crowded = server.open("2025-11-25").await;
    let last = answered(&crowded).await;
    let (streams, _) = crowd(&server, &crowded, &last).await;
    let session = server.open("2025-11-25").await;
    let mut answer = session.post(&tool(1, "large")).send().await;
    let last = first_id(&mut answer).await;
    assert_eq!(answer.message().await, None, "it ends without an answer");
    assert_eq!(resume(&session, &last).await.status, 503);
    drop(streams);
    assert_eq!(text(&resumed(&session, &last).await.response().await["result"]).len(), LARGE);
}

#[tokio::test]
async fn the_socket_with_most_unread_messages_ends() {
    let made = Arc::new(AtomicUsize::new(0));
    let making = made.clone();
    let slow = Tool::new("slow", move || {
        let making = making.clone();
        async move {
            sleep(Duration::from_millis(300)).await;
            making.fetch_add(1, Ordering::Relaxed);
            "x".repeat(MIB)
        }
    });
    let server = HttpServer::new(Server::new("s").tool(slow)).await;
    let ask = |id| modern(id, "tools/call", call("slow", json!({})));
    let mut reader = Socket::connect(&server, "").await;
    let mut sockets = vec![];
    // Together they are more than 256 MiB, and the last one has most of them.
    for calls in [40, 40, 40, 190] {
        let mut socket = Socket::connect(&server, "").await;
        for id in 0..calls {
            socket.send(ask(id)).await;
        }
        sockets.push((socket, calls));
    }
    // Until all answers are there that will be.
    let mut before = usize::MAX;
    while std::mem::replace(&mut before, made.load(Ordering::Relaxed)) != before {
        sleep(Duration::from_secs(1)).await;
    }
    // Whoever reads is served all the time.
    assert_eq!(text(&reader.ask(ask(1)).await["result"]).len(), MIB);
    let (mut last, calls) = sockets.pop().unwrap();
    let mut heard = 0;
    while last.next().await.is_some() {
        heard += 1;
    }
    assert!(heard < calls, "{heard}");
    for (mut socket, calls) in sockets {
        for _ in 0..calls {
            assert_eq!(text(&socket.next().await.unwrap()["result"]).len(), MIB);
        }
    }
}
