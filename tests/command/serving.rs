//! `zcp serve`: what its log says of the store, and its limits and endpoints.

use serde_json::{Value, json};
use std::{
    fs::File,
    process::{Command, Stdio},
    time::Duration,
};
use zcp_tests::{
    examples::zcp, folder::Folder, http::free_address, initialize, redis::RedisServer,
    replica::Replica, request,
};

/// `zcp serve` with flags, whose standard error goes to a file.
async fn serve(folder: &Folder, flags: &[&str]) -> Replica {
    let address = free_address().to_string();
    let log = File::create(folder.0.join("log")).expect("it is made");
    let process = Command::new(zcp())
        .args(["serve", "--json", "--http", &address])
        .args(flags)
        .stdout(File::create(folder.0.join("out")).expect("it is made"))
        .stderr(Stdio::from(log))
        .spawn()
        .expect("it starts");
    Replica::of(process, address).await
}

fn url(server: &Replica, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

async fn page(server: &Replica, path: &str) -> (u16, String) {
    let answer = reqwest::get(url(server, path)).await.expect("it answers");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

async fn post(server: &Replica, session: Option<&str>, message: &Value) -> reqwest::Response {
    let post = reqwest::Client::new().post(url(server, "/mcp")).body(message.to_string());
    let post = post.header("content-type", "application/json");
    let post = post.header("accept", "application/json, text/event-stream");
    let post = match session {
        Some(session) => post.header("mcp-session-id", session),
        None => post,
    };
    post.send().await.expect("it answers")
}

#[tokio::test]
async fn serve_logs_when_the_store_goes_and_returns() {
    let (folder, mut redis) = (Folder::new("store-log"), RedisServer::new().await);
    let server = serve(&folder, &["--store", &redis.url()]).await;
    let numbers = async || page(&server, "/metrics").await.1;
    assert!(numbers().await.contains("\nzcp_store_up 1\n"));
    redis.kill();
    while server.ready().await.0 != 503 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for id in 0..3 {
        post(&server, Some("gone"), &zcp_tests::request(id, "ping", json!({}))).await;
    }
    // Longer than it takes to look after other processes.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(numbers().await.contains("\nzcp_store_up 0\n"));
    redis.start().await;
    server.is_ready().await;
    assert!(numbers().await.contains("\nzcp_store_up 1\n"));
    let log = std::fs::read_to_string(folder.0.join("log")).expect("it is there");
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines("the store went away: "), 1, "{log}");
    assert_eq!(lines("the store is back"), 1, "{log}");
    assert_eq!(lines("unavailable"), 0, "{log}");
}

#[tokio::test]
async fn endpoints_are_switched_off_by_flags() {
    let folder = Folder::new("endpoints");
    let off = ["--disable", "sse", "--disable", "metrics", "--disable", "ws"];
    let server = serve(&folder, &off).await;
    for path in ["/sse", "/messages", "/metrics", "/ws"] {
        assert_eq!(page(&server, path).await.0, 404, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(page(&server, path).await.0, 200, "{path}");
    }
    let about: Value = serde_json::from_str(&page(&server, "/metadata").await.1).expect("JSON");
    assert_eq!(about["endpoints"], json!({ "mcp": "/mcp" }));
    assert_eq!(post(&server, None, &initialize(1, "2025-11-25")).await.status(), 200);
    let out = std::fs::read_to_string(folder.0.join("out")).expect("it is there");
    let out: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&out["sse"], &out["websocket"]), (&Value::Null, &Value::Null));
    assert_eq!(out["mcp"], url(&server, "/mcp"));
    let server = serve(&folder, &["--disable", "mcp", "--disable", "metadata"]).await;
    assert_eq!(post(&server, None, &initialize(1, "2025-11-25")).await.status(), 404);
    assert_eq!(page(&server, "/metadata").await.0, 404);
    assert_eq!(page(&server, "/metrics").await.0, 200);
}

/// As in a cluster: clients use a public name, and probes the address of a pod.
#[tokio::test]
async fn probes_may_name_any_host_and_metrics_an_address() {
    let folder = Folder::new("probes");
    let port = free_address().port();
    let process = Command::new(zcp())
        .args(["serve", "--json", "--http", &format!("0.0.0.0:{port}")])
        .args(["--allow-host", "mcp.example.com"])
        .stdout(File::create(folder.0.join("out")).expect("it is made"))
        .spawn()
        .expect("it starts");
    let server = Replica::of(process, format!("127.0.0.1:{port}")).await;
    let status = async |path: &str, host: &str| {
        let get = reqwest::Client::new().get(url(&server, path)).header("host", host);
        get.send().await.expect("it answers").status().as_u16()
    };
    for (path, host, expected) in [
        ("/healthz", "10.1.2.3:8787", 200),
        ("/readyz", "pod.example.net", 200),
        ("/metrics", "10.1.2.3:8787", 200),
        ("/metadata", "mcp.example.com", 200),
        ("/metrics", "evil.example.net", 403),
        ("/metadata", "evil.example.net", 403),
        ("/sse", "10.1.2.3:8787", 403),
    ] {
        assert_eq!(status(path, host).await, expected, "{path} as {host}");
    }
}

#[tokio::test]
async fn limits_are_set_by_flags() {
    let folder = Folder::new("serve-limits");
    let limits = ["--max-body", "2KiB", "--rate-limit", "0.001", "--max-sessions", "1"];
    let server = serve(&folder, &limits).await;
    let large = request(1, "ping", json!({ "x": "x".repeat(4096) }));
    assert_eq!(post(&server, None, &large).await.status(), 413);
    let opened = post(&server, None, &initialize(1, "2025-11-25")).await;
    let session = opened.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
    // That was the one request there is room for.
    let list = post(&server, Some(&session), &request(2, "tools/list", json!({}))).await;
    let list = list.text().await.expect("a text");
    assert!(list.contains("retryAfterSeconds"), "{list}");
    for wrong in [["--max-body", "4MB"], ["--rate-limit", "0"], ["--disable", "zcp"]] {
        let refused = Command::new(zcp()).arg("serve").args(wrong).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_store_over_tls_is_refused_with_a_way_out() {
    let serve = ["serve", "--store", "rediss://10.0.0.5/"];
    let refused = Command::new(zcp()).args(serve).output().expect("it runs");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(why.contains("rediss:// is not supported") && why.contains("TLS tunnel"), "{why}");
}
