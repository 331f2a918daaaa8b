//! Input nobody should send: refused in words, and the server answers the next one.

use futures_util::{SinkExt, StreamExt, future::join_all};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};
use zcp::{Ctx, Level, Server, Tool};
use zcp_tests::{
    HANDSHAKES, NEWEST, call, everything,
    http::HttpServer,
    initialize, memory, modern,
    pipe::PipeClient,
    request,
    socket::Socket,
    sse2024::OldClient,
    talk::{Talk, code},
};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;
const LAST: &str = HANDSHAKES[3];

/// Tests that need or measure much memory run one at a time.
static LARGE: Mutex<()> = Mutex::const_new(());

/// Bytes that are no JSON.
const BROKEN: [&[u8]; 8] = [
    b"{",
    b"nonsense",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} extra",
    b"{'jsonrpc':'2.0'}",
    b"[1, 2",
    b"\xff\xfe\x00binary",
    b"{\"a\":\"\x01\"}",
];

/// JSON that is no message.
const ODD: [&str; 10] = [
    "7",
    "null",
    "\"text\"",
    "{}",
    r#"{"id":1,"method":"ping"}"#,
    r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
    r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
    r#"{"jsonrpc":"2.0","id":1}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#,
];

async fn still_answers(client: &mut PipeClient) {
    let answer = client.ask(modern("alive", "tools/list", json!({}))).await;
    assert_eq!(code(&answer), 0);
}

async fn server_answers(server: &HttpServer) {
    let list = server.post(&modern("alive", "tools/list", json!({})));
    let answer = timeout(Duration::from_secs(5), list.send()).await;
    assert_eq!(answer.expect("in time").status, 200);
}

/// -32700 and -32600.
#[tokio::test]
async fn what_is_no_message_is_refused_on_a_pipe() {
    let mut client = PipeClient::new(everything());
    for broken in BROKEN {
        client.write(broken).await;
        assert_eq!(code(&client.next().await), PARSE_ERROR, "{broken:?}");
        still_answers(&mut client).await;
    }
    for odd in ODD {
        client.write(odd.as_bytes()).await;
        assert_eq!(code(&client.next().await), INVALID_REQUEST, "{odd}");
        still_answers(&mut client).await;
    }
    // Blank lines are nothing at all.
    client.write(b"\n \r\n").await;
    still_answers(&mut client).await;
}

/// What is no JSON and what is no message, in every era.
#[tokio::test]
async fn what_is_no_message_is_a_bad_request_over_http() {
    let server = HttpServer::new(everything()).await;
    for body in BROKEN.into_iter().chain([b"" as &[u8]]) {
        let answer = server.post_text("/mcp", body).send().await;
        assert_eq!(answer.status, 400, "{body:?}");
        assert_eq!(code(&answer.json().await), PARSE_ERROR, "{body:?}");
    }
    for body in ODD {
        let answer = server.post_text("/mcp", body).send().await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(code(&answer.json().await), INVALID_REQUEST, "{body}");
    }
    server_answers(&server).await;
}

/// -32700 and -32600, in frames of both kinds.
#[tokio::test]
async fn what_is_no_message_is_refused_on_a_socket() {
    let server = HttpServer::new(everything()).await;
    let url = format!("ws://{}/ws", server.address);
    let (mut socket, _) = connect_async(&url).await.unwrap();
    for odd in ODD {
        socket.send(Message::text(odd)).await.unwrap();
        assert_eq!(heard(&mut socket).await, INVALID_REQUEST, "{odd}");
    }
    for broken in BROKEN {
        socket.send(Message::binary(broken)).await.unwrap();
        assert_eq!(heard(&mut socket).await, PARSE_ERROR, "{broken:?}");
    }
    let list = modern(1, "tools/list", json!({})).to_string();
    socket.send(Message::text(list)).await.unwrap();
    assert_eq!(heard(&mut socket).await, 0);
    // What is no WebSocket frame ends the connection, and nothing else.
    let garbage = [0xff; 64];
    socket.get_mut().write_all(&garbage).await.unwrap();
    let rest = timeout(Duration::from_secs(5), socket.collect::<Vec<_>>());
    assert!(rest.await.unwrap().len() < 3);
    server_answers(&server).await;
}

type Plain = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The code of the next answer on a socket.
async fn heard(socket: &mut Plain) -> i64 {
    loop {
        let next = timeout(Duration::from_secs(5), socket.next()).await;
        let next = next.expect("in time").expect("the socket is open");
        if let Message::Text(text) = next.expect("a frame") {
            return code(&serde_json::from_str(&text).expect("JSON"));
        }
    }
}

/// Id type.
#[tokio::test]
async fn an_id_is_a_string_or_an_integer_and_comes_back_as_it_was() {
    let mut client = PipeClient::open(everything(), LAST).await;
    for good in ["0", "-1", "9007199254740993", "\"\"", "\"7\"", "\"ä\\n\""] {
        let ping = format!(r#"{{"jsonrpc":"2.0","id":{good},"method":"ping"}}"#);
        client.write(ping.as_bytes()).await;
        let answer = client.next().await;
        assert_eq!(answer["id"].to_string(), good);
        assert_eq!(answer["result"], json!({}));
    }
    for bad in ["null", "1.5", "true", "[]", "{}", "[1]", "{\"a\":1}"] {
        let ping = format!(r#"{{"jsonrpc":"2.0","id":{bad},"method":"ping"}}"#);
        client.write(ping.as_bytes()).await;
        let answer = client.next().await;
        assert_eq!(code(&answer), INVALID_REQUEST, "{bad}");
        assert!(answer.get("id").is_none_or(Value::is_null), "{answer}");
    }
    still_answers(&mut client).await;
}

/// Request id uniqueness.
#[tokio::test]
async fn an_id_in_use_is_refused_and_the_call_that_has_it_goes_on() {
    for version in [LAST, NEWEST] {
        let mut talk = Talk::open(everything(), version).await;
        let slow = call("slow_compute", json!({ "seconds": 0.2 }));
        let slow = match version {
            NEWEST => modern("same", "tools/call", slow),
            _ => request("same", "tools/call", slow),
        };
        talk.pipe.send(slow.clone()).await;
        talk.pipe.send(slow.clone()).await;
        let answers = [talk.pipe.next().await, talk.pipe.next().await];
        assert_eq!(answers.map(|answer| code(&answer)), [INVALID_REQUEST, 0]);
        // Once it was answered, the id may be used again.
        assert_eq!(code(&talk.pipe.ask(slow).await), 0);
    }
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    let slow = call("slow_compute", json!({ "seconds": 0.2 }));
    let slow = request("same", "tools/call", slow);
    let (one, two) = tokio::join!(session.ask(&slow), session.ask(&slow));
    let mut codes = [code(&one), code(&two)];
    codes.sort_unstable();
    assert_eq!(codes, [INVALID_REQUEST, 0]);
}

/// Members of the wrong kind, each of its method's.
fn wrong_members() -> Vec<(&'static str, Value)> {
    let argument = json!({ "name": "arg1", "value": "" });
    let prompt = json!({ "type": "ref/prompt", "name": "test_simple_prompt" });
    let simple = "test_simple_text";
    vec![
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 7 })),
        ("tools/call", json!({ "name": null })),
        ("tools/call", json!({ "name": [simple] })),
        ("tools/call", json!({ "name": simple, "arguments": [] })),
        ("tools/call", json!({ "name": simple, "arguments": "x" })),
        ("tools/call", json!({ "name": simple, "arguments": 7 })),
        ("tools/list", json!({ "cursor": 7 })),
        ("tools/list", json!({ "cursor": {} })),
        ("tools/list", json!({ "cursor": "forged" })),
        ("resources/list", json!({ "cursor": true })),
        ("resources/read", json!({})),
        ("resources/read", json!({ "uri": 7 })),
        ("prompts/get", json!({ "name": {} })),
        ("prompts/get", json!({ "name": "x", "arguments": [] })),
        ("prompts/get", json!({ "name": "x", "arguments": { "a": 7 } })),
        ("completion/complete", json!({ "ref": prompt })),
        ("completion/complete", json!({ "argument": argument })),
        ("completion/complete", json!({ "ref": 7, "argument": argument })),
        ("completion/complete", json!({ "ref": prompt, "argument": [] })),
        ("completion/complete", json!({ "ref": { "type": "?" }, "argument": argument })),
    ]
}

/// -32602 and -32601.
#[tokio::test]
async fn a_member_of_the_wrong_kind_is_an_error_of_that_request() {
    for version in HANDSHAKES.into_iter().chain([NEWEST]) {
        let mut talk = Talk::open(everything(), version).await;
        for (method, params) in wrong_members() {
            let answer = talk.ask(method, params.clone()).await;
            assert_eq!(code(&answer), INVALID_PARAMS, "{version} {method} {params}");
        }
        let own: &[_] = match version {
            NEWEST => &[
                ("subscriptions/listen", json!({ "notifications": 7 })),
                ("tools/call", json!({ "name": "add", "inputResponses": 7 })),
                ("tools/call", json!({ "name": "add", "requestState": 7 })),
                ("tools/call", json!({ "name": "add", "requestState": "forged" })),
            ],
            _ => &[
                ("logging/setLevel", json!({ "level": "loud" })),
                ("logging/setLevel", json!({ "level": 7 })),
                ("resources/subscribe", json!({ "uri": [] })),
                ("resources/unsubscribe", json!({})),
            ],
        };
        for (method, params) in own {
            let code = talk.code(method, params.clone()).await;
            assert_eq!(code, INVALID_PARAMS, "{version} {method} {params}");
        }
        assert_eq!(talk.code("nonsense/method", json!({})).await, -32601);
        assert_eq!(talk.code("", json!({})).await, -32601);
        still_answers(&mut talk.pipe).await;
    }
}

/// Opening.
#[tokio::test]
async fn a_handshake_of_the_wrong_kind_opens_nothing() {
    let server = HttpServer::new(everything()).await;
    for params in [
        json!({}),
        json!({ "protocolVersion": 7, "capabilities": {} }),
        json!({ "protocolVersion": LAST, "capabilities": [] }),
        json!({ "protocolVersion": LAST, "capabilities": {}, "clientInfo": 7 }),
    ] {
        let answer = server.post(&request(1, "initialize", params)).send().await;
        assert!(!answer.headers.contains_key("mcp-session-id"));
        assert_eq!(code(&answer.json().await), INVALID_PARAMS);
    }
    server_answers(&server).await;
}

/// A client's name is for display: without one it is served, and one of the wrong type is a mistake.
#[tokio::test]
async fn a_client_need_not_say_who_it_is() {
    let server = HttpServer::new(everything()).await;
    let open = json!({ "protocolVersion": LAST, "capabilities": {} });
    let answer = server.post(&request(1, "initialize", open)).send().await;
    assert!(answer.headers.contains_key("mcp-session-id"));
    let name = "io.modelcontextprotocol/clientInfo";
    for wrong in [json!("me"), json!(["me"]), json!(7)] {
        let list = zcp_tests::modern(1, "tools/list", json!({ "_meta": { name: wrong } }));
        assert_eq!(code(&server.post(&list).send().await.json().await), INVALID_PARAMS);
    }
    server_answers(&server).await;
}

/// Notifications are never answered.
#[tokio::test]
async fn stray_notifications_and_responses_are_passed_over() {
    let mut client = PipeClient::open(everything(), LAST).await;
    for stray in [
        json!({ "jsonrpc": "2.0", "method": "notifications/nonsense" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": {} } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "x": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 99, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 99, "error": { "code": 1, "message": "?" } }),
    ] {
        client.send(stray).await;
    }
    client.silent(Duration::from_millis(50)).await;
    still_answers(&mut client).await;
}

/// Depth is bounded.
#[tokio::test]
async fn a_hundred_thousand_brackets_overflow_nothing() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut talk = Talk::open(everything(), LAST).await;
    for tool in ["add", "test_custom_header", "json_schema_2020_12_tool"] {
        let params = format!(r#"{{"name":"{tool}","arguments":{{"value":{deep}}}}}"#);
        let head = r#"{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":"#;
        talk.pipe.write(format!("{head}{params}}}").as_bytes()).await;
        let answer = talk.pipe.next().await;
        let failed = answer["result"]["isError"] == true;
        assert!(failed || answer["error"].is_object(), "{answer}");
        still_answers(&mut talk.pipe).await;
    }
    for line in [deep.clone(), format!(r#"{{"jsonrpc":"2.0","id":{deep}}}"#)] {
        talk.pipe.write(line.as_bytes()).await;
        assert!(code(&talk.pipe.next().await) < 0);
    }
    let server = HttpServer::new(everything()).await;
    assert_eq!(server.post_text("/mcp", deep).send().await.status, 400);
    server_answers(&server).await;
}

/// Lines are bounded.
#[tokio::test]
async fn a_line_that_is_too_long_is_dropped_and_the_next_is_read() {
    let _alone = LARGE.lock().await;
    let mut client = PipeClient::new(everything());
    let line = vec![b'x'; 17 * 1024 * 1024];
    client.write(&line).await;
    assert_eq!(code(&client.next().await), INVALID_REQUEST);
    still_answers(&mut client).await;
}

/// Bodies and headers are bounded.
#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let runtime = everything().build().unwrap();
    let server = HttpServer::with(runtime, |http| http.max_body(10_000)).await;
    for path in ["/mcp", "/messages?session=x"] {
        let body = " ".repeat(10_001);
        let status = server.post_text(path, body).send().await.status;
        assert_eq!(status, if path == "/mcp" { 413 } else { 404 });
    }
    let old = OldClient::open(&server).await;
    let answer = server.post_text(&old.endpoint, " ".repeat(10_001)).send();
    assert_eq!(answer.await.status, 413);
    server_answers(&server).await;
}

/// Methods and types that are not served.
#[tokio::test]
async fn a_request_of_the_wrong_type_or_method_is_refused() {
    let server = HttpServer::new(everything()).await;
    let list = || server.post(&modern(1, "tools/list", json!({})));
    for kind in ["text/plain", "application/xml", "application/jsonp", ""] {
        let answer = list().header("content-type", kind).send().await;
        assert_eq!(answer.status, 415, "{kind}");
    }
    for kind in ["text/html", "application/json", "text/event-stream", "image/*"] {
        let answer = list().header("accept", kind).send().await;
        assert_eq!(answer.status, 406, "{kind}");
    }
    for method in ["PUT", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let answer = server.call(method, "/mcp").send().await;
        assert_eq!(answer.status, 405);
        assert!(answer.headers["allow"].to_str().unwrap().contains("POST"));
    }
    assert_eq!(server.get("/mcp").send().await.status, 405);
    assert_eq!(server.get("/messages").send().await.status, 405);
    assert_eq!(server.post_text("/sse", "{}").send().await.status, 405);
    assert_eq!(server.post_text("/ws", "{}").send().await.status, 405);
    assert_eq!(server.get("/nowhere").send().await.status, 404);
    let session = server.open(LAST).await;
    let answer = session.get().header("accept", "application/json").send();
    assert_eq!(answer.await.status, 406);
    server_answers(&server).await;
}

/// A server that waits for no one, and a raw connection to it.
async fn impatient() -> (HttpServer, TcpStream) {
    let runtime = everything().build().expect("the server has no mistakes");
    let limit = Duration::from_millis(200);
    let server = HttpServer::with(runtime, |http| http.read_timeout(limit)).await;
    let stream = TcpStream::connect(server.address).await;
    (server, stream.expect("the server listens"))
}

async fn all_of(mut stream: TcpStream) -> String {
    let mut said = vec![];
    let read = timeout(Duration::from_secs(5), stream.read_to_end(&mut said)).await;
    let _ = read.expect("the server lets go in time");
    String::from_utf8_lossy(&said).into_owned()
}

/// Time is bounded.
#[tokio::test]
async fn a_body_that_does_not_come_is_a_timeout() {
    let (server, mut stream) = impatient().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        connection: close\r\ncontent-length: 100\r\n\r\n{\"json";
    stream.write_all(head.as_bytes()).await.unwrap();
    server_answers(&server).await;
    let said = all_of(stream).await;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    server_answers(&server).await;
}

/// Time is bounded.
#[tokio::test]
async fn a_connection_that_says_nothing_whole_is_let_go() {
    let (server, mut half) = impatient().await;
    half.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").await.unwrap();
    let mute = TcpStream::connect(server.address).await.unwrap();
    let mut garbage = TcpStream::connect(server.address).await.unwrap();
    garbage.write_all(b"\x16\x03\x01 not HTTP\r\n\r\n").await.unwrap();
    let mut early = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
    early.write_all(head.as_bytes()).await.unwrap();
    drop(early);
    server_answers(&server).await;
    assert!(!all_of(half).await.contains("200 OK"));
    assert!(!all_of(garbage).await.contains("200 OK"));
    assert_eq!(all_of(mute).await, "");
    server_answers(&server).await;
}

/// Says thirty-two KiB as often as it may.
async fn flood(ctx: Ctx) -> &'static str {
    let words = "x".repeat(32 * 1024);
    for _ in 0..250 {
        ctx.log(Level::Error, &words);
        tokio::task::yield_now().await;
    }
    "done"
}

/// Long streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_up_nobody_and_fills_no_memory() {
    let _alone = LARGE.lock().await;
    let tools = || Server::new("s").tool(Tool::new("flood", flood));
    let server = HttpServer::new(tools()).await;
    let session = server.open(LAST).await;
    let mut socket = Socket::connect(&server, "").await;
    socket.ask(initialize("open", LAST)).await;
    let mut pipe = PipeClient::open(tools(), LAST).await;
    let before = memory::resident();
    let floods: Vec<_> =
        (0..8).map(|id| request(id, "tools/call", call("flood", json!({})))).collect();
    let unread = join_all(floods.iter().map(|flood| session.post(flood).send())).await;
    for flood in floods {
        socket.send(flood.clone()).await;
        pipe.send(flood).await;
    }
    for _ in 0..50 {
        server_answers(&server).await;
        let ping = request("p", "ping", json!({}));
        assert_eq!(session.ask(&ping).await["result"], json!({}));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What the calls have to say is 150 MiB.
    let grown = memory::resident().saturating_sub(before) / 1024;
    assert!(grown < 75, "{grown} MiB");
    drop((unread, socket, pipe));
    server_answers(&server).await;
}

/// Names that some readers of JSON take for something else, on every wire.
#[tokio::test]
async fn a_reserved_name_is_rejected_before_anything_reads_it() {
    let name = "$serde_json::private::RawValue";
    let escaped: String = name.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let server = HttpServer::new(everything()).await;
    for name in [name, &escaped] {
        let odd = format!(r#"{{"{name}":"{{\"a\":1}}"}}"#);
        let texts = [
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"x","data":{odd}}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{LAST}","capabilities":{{"experimental":{{"x":{odd}}}}},"clientInfo":{{"name":"x","version":"1"}}}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{odd}}}}}"#
            ),
        ];
        let mut pipe = PipeClient::new(everything());
        for text in texts {
            let answer = server.post_text("/mcp", text.clone()).send().await;
            let said = answer.text().await;
            assert!(said.contains("-32600") && said.contains("reserved"), "{text}: {said}");
            pipe.write(text.as_bytes()).await;
            let said = pipe.next().await;
            assert_eq!(said["error"]["code"], INVALID_REQUEST, "{text}: {said}");
        }
        still_answers(&mut pipe).await;
    }
}
