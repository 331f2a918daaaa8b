//! What a hostile or an unlucky peer must not achieve.

use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};
use zcp::{
    Answer, Catalog, Ctx, Http, Provider, Result, Server, Tool, Transport, tool,
    wire::header::SESSION_ID,
};
use zcp_tests::{
    NEWEST, all_capabilities, call, everything, http::HttpServer, initialize, modern, modern_as,
    pipe::PipeClient, request, socket::Socket, text, unix::UnixServer,
};

/// Says how much it was given.
#[tool]
async fn pay(amount: i64) -> String {
    format!("paid {amount}")
}

/// What is checked and what is used must be the same value.
#[tokio::test]
async fn an_argument_given_twice_is_refused() {
    let mut client = PipeClient::new(Server::new("bank").tool(pay));
    let call = modern(1, "tools/call", call("pay", json!({ "amount": 1 })));
    let twice = call.to_string().replace(r#"{"amount":1}"#, r#"{"amount":1000,"amount":1}"#);
    client.write(twice.as_bytes()).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(text(&answer["result"]).contains("`amount` is given twice"), "{answer}");
}

/// Owns where its catalog comes from, as a provider may.
struct Owner(watch::Sender<Arc<Catalog>>);

impl Provider for Owner {
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.0.subscribe()
    }
}

/// A provider lives as long as its server, and one that is gone leaves its tools behind.
#[tokio::test]
async fn a_provider_lives_with_its_server() {
    let named = |name: &str| Arc::new(Catalog::default().tool(Tool::new(name, async || "done")));
    let owner = Owner(watch::Sender::new(named("owned")));
    let live = zcp::Live::default();
    let (sender, gone) = watch::channel(named("left_behind"));
    struct Receiver(watch::Receiver<Arc<Catalog>>);
    impl Provider for Receiver {
        fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
            self.0.clone()
        }
    }
    let server = Server::new("test").provide(owner).provide(live.clone()).provide(Receiver(gone));
    let mut client = PipeClient::open(server, "2025-11-25").await;
    drop(sender);
    live.set(Catalog::default().tool(Tool::new("added", async || "done")));
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
    let list = client.ask(request(1, "tools/list", json!({}))).await;
    let names: Vec<&Value> =
        list["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["added", "left_behind", "owned"]);
}

/// A proxy that reads the other of two headers must not be fooled.
#[tokio::test]
async fn a_header_given_twice_is_refused() {
    let server = HttpServer::new(Server::new("bank").tool(pay)).await;
    let body = modern(1, "tools/call", call("pay", json!({ "amount": 1 }))).to_string();
    for twice in ["Mcp-Name: pay\r\nMcp-Name: other", "Mcp-Name: pay\r\nMcp-Method: tools/list"] {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nMCP-Protocol-Version: {NEWEST}\r\n\
             Mcp-Method: tools/call\r\n{twice}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("-32020"), "{answer}");
    }
}

/// A mistyped path must not cost a file.
#[tokio::test]
async fn a_file_in_the_place_of_a_socket_is_left_alone() {
    let path = std::env::temp_dir().join(format!("zcp-{}.db", std::process::id()));
    std::fs::write(&path, "precious").unwrap();
    let runtime = Server::new("test").build().unwrap();
    let served = Http::unix(&path).serve(runtime, Default::default()).await;
    assert!(served.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_file(&path).unwrap();
}

/// Only the server's own user may connect, and what another server put there stays.
#[tokio::test]
async fn a_unix_socket_is_its_user_s_alone() {
    use std::os::unix::{fs::PermissionsExt, net::UnixListener};
    let mode = |path: &std::path::Path| {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    };
    let server = UnixServer::new(everything().build().unwrap()).await;
    let path = server.path.clone();
    assert_eq!(mode(&path), 0o600);
    let ready = server.client().get("http://localhost/healthz").send().await.unwrap();
    assert_eq!(ready.status(), 200);
    server.close().await;
    assert!(!path.exists());

    let server = UnixServer::new(everything().build().unwrap()).await;
    let path = server.path.clone();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    server.close().await;
    assert!(path.exists(), "another server's socket is left alone");
    std::fs::remove_file(&path).unwrap();

    let served = UnixServer::with(everything().build().unwrap(), |http| http.unix_mode(0o660));
    assert_eq!(mode(&served.await.path), 0o660);
}

/// The status of a request that is sent as it is written.
async fn plain(server: &HttpServer, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
    let request = request.replace('\n', "\r\n");
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server answers");
    answer.get(9..12).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_request_names_one_host() {
    let server = HttpServer::new(everything()).await;
    let end = "Connection: close\n\n";
    for (head, status) in [
        ("GET /healthz HTTP/1.1\nHost: localhost\n", "200"),
        ("GET /healthz HTTP/1.1\n", "400"),
        ("GET /healthz HTTP/1.1\nHost: localhost\nHost: localhost\n", "400"),
        ("GET /healthz HTTP/1.1\nHost: localhost\nHost: evil.example.com\n", "400"),
        ("GET http://evil.example.com/metadata HTTP/1.1\nHost: localhost\n", "403"),
        ("GET /healthz HTTP/1.0\n", "200"),
    ] {
        assert_eq!(plain(&server, &format!("{head}{end}")).await, status, "{head}");
    }
}

#[tokio::test]
async fn a_request_is_of_one_session() {
    let server = HttpServer::new(everything()).await;
    let (one, two) = (server.open("2025-11-25").await, server.open("2025-11-25").await);
    let head = "DELETE /mcp HTTP/1.1\nHost: localhost\nConnection: close\n";
    for other in [&one.id, &two.id] {
        let both = format!("Mcp-Session-Id: {}\nMcp-Session-Id: {other}\n\n", one.id);
        assert_eq!(plain(&server, &format!("{head}{both}")).await, "400", "{other}");
    }
    for session in [one, two] {
        let pong = session.ask(&request(1, "ping", json!({}))).await;
        assert!(pong.get("result").is_some(), "{pong}");
    }
}

#[tokio::test]
async fn a_stream_says_when_to_come_back() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-11-25").await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {}\r\n\r\n",
        session.id
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut said, mut part) = (String::new(), [0; 1024]);
    while !said.contains("retry: 1000\n") {
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "{said}");
        said += &String::from_utf8_lossy(&part[..read]);
    }
}

/// An image or a frame of a page elsewhere has no `Origin`.
#[tokio::test]
async fn a_page_of_another_site_opens_no_stream() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-11-25").await;
    for site in ["cross-site", "same-origin"] {
        let refused = site == "cross-site";
        let old = server.get("/sse").header("sec-fetch-site", site).send().await;
        assert_eq!(old.status == 403, refused, "/sse, {site}");
        let stream = session.get().header("sec-fetch-site", site).send().await;
        assert_eq!(stream.status == 403, refused, "/mcp, {site}");
    }
}

#[tokio::test]
async fn a_batch_has_a_hundred_messages_at_most() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-03-26").await;
    let pings: Vec<Value> = (0..101).map(|id| request(id, "ping", json!({}))).collect();
    let posted = session.post(&json!(pings)).send().await;
    assert_eq!(posted.status, 400);
    assert_eq!(
        session.post(&json!(pings[..100])).send().await.json().await.as_array().unwrap().len(),
        100
    );
    let mut client = PipeClient::open(everything(), "2025-03-26").await;
    client.send(json!(pings)).await;
    assert_eq!(client.next().await["error"]["code"], -32600);
}

#[tokio::test]
async fn a_client_that_says_too_much_of_itself_gets_no_session() {
    let server = HttpServer::new(everything()).await;
    let mut open = initialize(1, "2025-11-25");
    open["params"]["capabilities"]["experimental"] = json!({ "x": "y".repeat(20_000) });
    let answer = server.post(&open).send().await;
    assert!(!answer.headers.contains_key(SESSION_ID.as_str()));
    assert_eq!(answer.json().await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_count_no_socket_ever_had_is_gone() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "?resume=true").await;
    let id = socket.upgrade.headers()[SESSION_ID.as_str()].to_str().unwrap().to_owned();
    socket.ask(modern(1, "server/discover", json!({}))).await;
    for count in ["2", "18446744073709551615"] {
        let answer = server
            .get(&format!("/ws?session={id}&last_event_id={count}"))
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(answer.send().await.status, 410, "{count}");
    }
    // The connection that has the conversation still has it.
    socket.ask(modern(2, "server/discover", json!({}))).await;
}

#[derive(serde::Deserialize, schemars::JsonSchema, Debug)]
struct Amount {
    amount: i64,
}

/// Asks how much, acts on it, and asks whether that was right.
#[tool]
async fn transfer(ctx: Ctx) -> Result<String> {
    let first: Answer<Amount> = ctx.ask("amount", "How much?").await?;
    let amount = first.accepted()?.amount;
    ctx.once("act", async || Ok(amount)).await?;
    let _: Answer<Amount> = ctx.ask("again", "And again?").await?;
    Ok(format!("moved {amount}"))
}

/// What a handler has acted on cannot be said otherwise afterwards.
#[tokio::test]
async fn an_answer_once_given_stays_given() {
    let mut client = PipeClient::new(Server::new("bank").tool(transfer));
    let accept = |amount: i64| json!({ "action": "accept", "content": { "amount": amount } });
    let mut retry = async |id: u64, answers: Value, state: Option<&Value>| {
        let mut params = call("transfer", json!({}));
        params["inputResponses"] = answers;
        if let Some(state) = state {
            params["requestState"] = state.clone();
        }
        client.ask(modern_as(id, "tools/call", params, all_capabilities())).await["result"].clone()
    };
    let asked = retry(1, json!({}), None).await;
    assert_eq!(asked["resultType"], "input_required");
    let asked = retry(2, json!({ "amount": accept(1) }), Some(&asked["requestState"])).await;
    assert_eq!(asked["inputRequests"].as_object().unwrap().keys().next().unwrap(), "again");
    let answers = json!({ "amount": accept(1000), "again": accept(0) });
    let moved = retry(3, answers, Some(&asked["requestState"])).await;
    assert_eq!(text(&moved), "moved 1");
}
