//! The fixture answers on every wire the harness has.

use serde_json::json;
use zcp_tests::{
    HANDSHAKES, call, everything, http::HttpServer, modern, pipe::PipeClient, request,
    socket::Socket, text,
};

const SIMPLE: &str = "This is a simple text response for testing.";

#[tokio::test]
async fn a_pipe_answers_in_every_revision() {
    for version in HANDSHAKES {
        let mut client = PipeClient::open(everything(), version).await;
        let answer =
            client.ask(request(1, "tools/call", call("test_simple_text", json!({})))).await;
        assert_eq!(text(&answer["result"]), SIMPLE);
        client.close().await;
    }
    let mut client = PipeClient::new(everything());
    let answer = client.ask(modern(1, "tools/call", call("test_simple_text", json!({})))).await;
    assert_eq!(text(&answer["result"]), SIMPLE);
}

#[tokio::test]
async fn http_answers_with_and_without_a_session() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-06-18").await;
    let answer = session.ask(&request(1, "tools/call", call("test_simple_text", json!({})))).await;
    assert_eq!(text(&answer["result"]), SIMPLE);
    let call = modern(1, "tools/call", call("test_simple_text", json!({})));
    assert_eq!(text(&server.post(&call).send().await.response().await["result"]), SIMPLE);
    server.close().await;
}

#[tokio::test]
async fn a_socket_answers() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    let answer = socket.ask(modern(1, "tools/call", call("test_simple_text", json!({})))).await;
    assert_eq!(text(&answer["result"]), SIMPLE);
    socket.close().await;
}

/// Programs show their own version, which is another one than that of this library.
#[tokio::test]
async fn a_server_has_the_name_and_version_of_its_package() {
    let mut client = PipeClient::new(zcp::server!());
    let answer = client.ask(modern(1, "server/discover", json!({}))).await;
    let shown = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    let own = (json!(env!("CARGO_PKG_NAME")), json!(env!("CARGO_PKG_VERSION")));
    assert_eq!((shown["name"].clone(), shown["version"].clone()), own, "{answer}");
}
