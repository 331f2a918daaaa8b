//! What a short text that holds very many messages costs. A program of its own: it counts every
//! byte that is allocated.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use zcp_client::{Client, wire::Revision};
use zcp_tests::{everything, http::HttpServer, pipe::PipeClient};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEBIBYTE: usize = 1024 * 1024;

/// An array of ones.
fn ones(bytes: usize) -> String {
    let mut text = "[1".to_owned();
    while text.len() < bytes - 2 {
        text.push_str(",1");
    }
    text + "]"
}

/// Every byte that was allocated, freed or not: never less than what was needed at once.
fn allocated(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated + usize::try_from(change.bytes_reallocated.max(0)).unwrap()
}

async fn post(server: &HttpServer, session: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/json\r\n{session}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_batch_of_a_million_costs_a_server_little() {
    let server = HttpServer::new(everything()).await;
    let body = ones(4 * MEBIBYTE - 16);
    let mut sessions = vec![String::new()];
    for version in ["2025-03-26", "2025-06-18"] {
        sessions.push(format!("Mcp-Session-Id: {}\r\n", server.open(version).await.id));
    }
    for session in sessions {
        let region = Region::new(ALLOCATOR);
        let answer = post(&server, &session, &body).await;
        let cost = allocated(&region);
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(cost < 16 * MEBIBYTE, "{session}: {cost} bytes");
    }
    let mut client = PipeClient::open(everything(), "2025-03-26").await;
    let region = Region::new(ALLOCATOR);
    client.write(body.as_bytes()).await;
    assert_eq!(client.next().await["error"]["code"], -32600);
    let cost = allocated(&region);
    assert!(cost < 32 * MEBIBYTE, "on a pipe: {cost} bytes");
}

#[tokio::test]
async fn a_batch_of_a_million_costs_a_client_little() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let body = ones(8 * MEBIBYTE);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(body.as_bytes()).await;
        }
    });
    let region = Region::new(ALLOCATOR);
    let builder = Client::builder("memory", "1").revision(Revision::V2025_11_25);
    assert!(builder.connect(zcp_client::Http::new(&url).unwrap()).await.is_err());
    let cost = allocated(&region);
    assert!(cost < 128 * MEBIBYTE, "{cost} bytes");
}
