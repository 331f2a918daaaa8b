//! What a hostile server can make a client hold, and where it can send it.

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use futures_util::{SinkExt, StreamExt, stream};
use serde_json::{Value, json};
use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_tungstenite::tungstenite::{Message, handshake::server::Response as WsResponse};
use tokio_util::task::AbortOnDropHandle;
use zcp_client::{
    Client, Error, Failure, Http, Process, Ws,
    wire::{
        ByteString, Frame, Frames, Id, Peer, Request, Response as Answer,
        mcp::{elicitation::ElicitResult, lifecycle::Icon},
    },
};
use zcp_tests::actor::{Actor, discovered, said};

/// A request as a server sees it.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    headers: HeaderMap,
    uri: Uri,
    body: Value,
}

/// A web server that does as it likes, and remembers what it was asked.
struct Web {
    address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Web {
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    async fn new(answer: impl Fn(&Seen) -> Response + Clone + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let all = seen.clone();
        let app = Router::new().fallback(
            async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let one = Seen { method, headers, uri, body };
                all.lock().expect("no panic").push(one.clone());
                answer(&one)
            },
        );
        let serving = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("it serves");
        });
        Self { address, seen, _serving: AbortOnDropHandle::new(serving) }
    }

    fn endpoint(&self) -> Http {
        Http::new(format!("http://{}/mcp", self.address)).expect("a URL")
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }
}

fn answer(seen: &Seen, result: &str) -> Response {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.body["id"]);
    Response::builder().header("content-type", "application/json").body(text.into()).expect("fine")
}

fn events(stream: impl stream::Stream<Item = String> + Send + 'static) -> Response {
    let body = Body::from_stream(stream.map(Ok::<_, std::io::Error>));
    Response::builder().header("content-type", "text/event-stream").body(body).expect("fine")
}

fn nothing(status: u16) -> Response {
    Response::builder().status(status).body(Body::empty()).expect("fine")
}

/// What an old server says to begin with.
fn greeting() -> Value {
    json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
        "serverInfo": { "name": "hostile", "version": "1" } })
}

/// An old server in a session: `call` answers calls.
fn in_session(seen: &Seen, session: &str, call: impl Fn() -> Response) -> Response {
    match seen.body["method"].as_str() {
        Some("initialize") => {
            let mut response = answer(seen, &greeting().to_string());
            let session = session.parse().expect("a header");
            response.headers_mut().insert("mcp-session-id", session);
            response
        }
        Some("tools/call") => call(),
        Some("server/discover") => nothing(400),
        _ if seen.method == Method::GET => nothing(405),
        _ => nothing(202),
    }
}

#[tokio::test]
async fn a_message_with_too_many_values_is_an_error() {
    // 3 MB as text; a hundred times that as values.
    let many = format!("[{}0]", "[],".repeat(1_000_000));
    for as_events in [false, true] {
        let many = many.clone();
        let web = Web::new(move |seen| match seen.body["method"].as_str() {
            Some("server/discover") => answer(seen, &discovered().to_string()),
            _ if as_events => {
                let id = &seen.body["id"];
                let text = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"","data":{many}}}}}"#
                );
                events(stream::iter([format!("data: {text}\n\n")]))
            }
            _ => answer(seen, &many),
        });
        let web = web.await;
        let client = Client::connect(web.endpoint()).await.expect("it is reached");
        let error = client.tool("x").send().await.expect_err("too much").to_string();
        assert!(error.contains("JSON values"), "{error}");
    }
    let line = r#"{"jsonrpc":"2.0","id":2,"result":["#;
    let script = format!(
        "read line; printf '%s\\n' '{}'; read line; printf '%s' '{line}'; yes '[],' | head -n 1000001 | tr -d '\\n'; printf '0]}}\\n'; sleep 60",
        json!({ "jsonrpc": "2.0", "id": 1, "result": discovered() })
    );
    let process = Process::new("sh").args(["-c", &script]).grace(Duration::from_millis(100));
    let client = Client::connect(process).await.expect("it is reached");
    let error = client.tool("x").send().await.expect_err("too much").to_string();
    assert!(error.contains("JSON values"), "{error}");
}

#[tokio::test]
async fn an_answer_longer_than_the_limit_is_an_error() {
    let web = Web::new(|seen| match seen.body["method"].as_str() {
        Some("server/discover") => answer(seen, &discovered().to_string()),
        _ => answer(seen, &format!("\"{}\"", "x".repeat(100_000))),
    });
    let web = web.await;
    let client = Client::connect(web.endpoint().max_message(50_000)).await.expect("it is reached");
    let error = client.tool("x").send().await.expect_err("too much").to_string();
    assert!(error.contains("more than 50000 bytes"), "{error}");
}

/// A program that discovers itself, and then does as a shell script says.
fn program(script: &str) -> Process {
    let discovered = json!({ "jsonrpc": "2.0", "id": 1, "result": discovered() });
    let script = format!("read line; printf '%s\\n' '{discovered}'; {script}");
    Process::new("sh").args(["-c", &script]).grace(Duration::from_millis(100))
}

const RESULT: &str = r#""result":{"resultType":"complete","content":[]}"#;

#[tokio::test]
async fn a_program_s_long_answer_fails_its_own_request_only() {
    // The id comes after the result, and the line is twice as long as allowed.
    let script = format!(
        "read a; read b
        printf '%s' '{{\"result\":{{\"id\":3,\"text\":\"'
        head -c 100000 /dev/zero | tr '\\0' x; printf '%s\\n' '\"}},\"jsonrpc\":\"2.0\",\"id\":2}}'
        sleep 0.3; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":3,{RESULT}}}'
        read c; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":4,{RESULT}}}'; sleep 60"
    );
    let process = program(&script).max_message(50_000);
    let client = Client::connect(process).await.expect("it is reached");
    let (long, other) = tokio::join!(client.tool("x").send(), client.tool("x").send());
    let error = long.expect_err("it is too long");
    assert!(matches!(&error, Error::Lost(Failure::TooLong(_))), "{error:?}");
    assert!(error.to_string().contains("more than 50000 bytes"), "{error}");
    other.expect("another request is not affected");
    client.tool("x").send().await.expect("the same process answers the next one");
}

#[tokio::test]
async fn a_program_that_reads_late_delays_requests_and_loses_none() {
    // More requests than may wait to be written, and than fit into the pipe.
    let script = format!(
        "sleep 1; exec sed -u 's/^.\"jsonrpc\":\"2.0\",\"id\":\\([0-9]*\\),.*$/{{\"jsonrpc\":\"2.0\",\"id\":\\1,{RESULT}}}/'"
    );
    let client = Client::connect(program(&script)).await.expect("it is reached");
    let text = "x".repeat(2000);
    let calls = (0..600).map(|_| client.tool("x").args(json!({ "text": text })).send());
    let answers = futures_util::future::join_all(calls).await;
    let failed: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
}

/// A WebSocket server whose first connection answers the second request that it gets with too much,
/// and those after it as they should be. Gives the code that the first is closed with.
async fn overlong(listener: &tokio::net::TcpListener) -> Option<u16> {
    let mut code = None;
    for connection in 0.. {
        let (stream, _) = listener.accept().await.expect("a connection");
        let accept = |_: &_, mut response: WsResponse| {
            let protocol = "mcp".parse().expect("a header");
            response.headers_mut().insert("sec-websocket-protocol", protocol);
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, accept).await;
        let mut socket = socket.expect("a WebSocket");
        let mut count = 0;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = &message {
                code = code.or(frame.as_ref().map(|frame| frame.code.into()));
            }
            let asked: Value = match &message {
                Message::Text(text) => serde_json::from_str(text).expect("JSON"),
                _ => continue,
            };
            let result = match asked["method"].as_str() {
                Some("server/discover") => discovered(),
                Some("tools/list") => json!({ "resultType": "complete", "tools": [] }),
                _ => json!({ "resultType": "complete", "resources": [], "content": [] }),
            };
            if asked["id"].is_null() {
                continue;
            }
            count += usize::from(asked["method"] != "server/discover");
            let answer = match (connection, count) {
                (0, 1) => continue,
                (0, 2) => "x".repeat(100_000),
                _ => json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string(),
            };
            let _ = socket.send(Message::Text(answer.into())).await;
        }
        if connection > 0 {
            break;
        }
    }
    code
}

#[tokio::test]
async fn a_long_message_ends_a_socket_and_others_are_sent_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let asking = async {
        let ws = Ws::new(format!("ws://{address}/ws")).max_message(50_000);
        let client = Client::connect(ws).await.expect("it is reached");
        // Nobody knows which of them was answered. Neither changes anything.
        let (tools, resources) = tokio::join!(client.list_tools(), client.list_resources());
        tools.expect("it is sent again");
        resources.expect("it is sent again");
        client.close().await;
    };
    let (code, ()) = tokio::join!(overlong(&listener), asking);
    assert_eq!(code, Some(1009));
}

#[tokio::test]
async fn a_session_id_has_a_limit() {
    for (length, fine) in [(4096, true), (4097, false)] {
        let web = Web::new(move |seen| in_session(seen, &"s".repeat(length), || nothing(500)));
        let web = web.await;
        let client = Client::connect(web.endpoint()).await;
        assert_eq!(client.is_ok(), fine, "{client:?}");
    }
}

#[tokio::test]
async fn a_list_has_a_limit_in_bytes() {
    let actor = Actor::new(|_, params| {
        let page: u64 = params["cursor"].as_str().map_or(0, |it| it.parse().expect("ours"));
        let description = "x".repeat(4 * 1024 * 1024);
        said(json!({ "resultType": "complete", "nextCursor": (page + 1).to_string(),
            "tools": [{ "name": page.to_string(), "description": description, "inputSchema": {} }] }))
    });
    let client = Client::connect(actor.clone()).await.expect("it is reached");
    let error = client.list_tools().await.expect_err("it has no end").to_string();
    assert!(error.contains("its list takes more than"), "{error}");
    assert!(actor.asked("tools/list").len() < 20);
}

/// An old server that asks the same question again and again while a call is under way.
#[derive(Clone, Default)]
struct Asking {
    ids: Arc<AtomicUsize>,
    same: bool,
    count: usize,
    length: usize,
    answered: Arc<AtomicUsize>,
}

impl Peer for Asking {
    fn send(&self, frame: Frame, _: http::Extensions) -> Frames {
        let Frame::Request(request) = frame else {
            self.answered
                .fetch_add(usize::from(matches!(frame, Frame::Response(_))), Ordering::Relaxed);
            return Frames::None;
        };
        let result = match &*request.method {
            "initialize" => greeting(),
            _ => json!({ "content": [] }),
        };
        let result = Ok(ByteString::from(result.to_string()).into());
        let last = Frame::Response(Answer { id: Some(request.id), result });
        if &*request.method != "tools/call" {
            return Frames::One(last);
        }
        let (same, ids) = (self.same, self.ids.clone());
        let params = json!({ "message": "x".repeat(self.length), "requestedSchema": {} });
        let params = ByteString::from(params.to_string());
        let question = move |_| {
            let id = if same { 1 } else { ids.fetch_add(1, Ordering::Relaxed) };
            Frame::Request(Request {
                id: Id::number(i64::try_from(id).expect("small")),
                method: "elicitation/create".into(),
                params: Some(params.clone()),
            })
        };
        Frames::stream(stream::iter(0..self.count).map(question).chain(stream::iter([last])))
    }

    fn events(&self) -> Frames {
        Frames::None
    }
}

/// How many questions were open at once.
async fn asked(server: Asking) -> usize {
    let open = Arc::new(AtomicUsize::new(0));
    let seen = open.clone();
    let client = Client::builder("limits", "1")
        .revision(zcp_client::wire::Revision::V2025_06_18)
        .elicit(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<ElicitResult, _>>()
        })
        .connect(server)
        .await
        .expect("it is reached");
    client.tool("x").send().await.expect("an answer");
    open.load(Ordering::Relaxed)
}

#[tokio::test]
async fn open_questions_are_limited_in_number_and_bytes() {
    let many = Asking { count: 1000, ..Asking::default() };
    assert!(asked(many.clone()).await <= 64);
    assert!(asked(Asking { same: true, ..many }).await <= 1);
    // Two of these fit into what all open questions may have, and the other alone is too long.
    let long = Asking { count: 5, length: 3 * 1024 * 1024, ..Asking::default() };
    assert!(asked(long.clone()).await <= 2);
    assert!(asked(Asking { length: 5 * 1024 * 1024, ..long }).await == 0);
}

#[tokio::test]
async fn a_cancelled_call_is_neither_resumed_nor_is_its_id_used_again() {
    let web = Web::new(|seen| {
        in_session(seen, "session", || {
            let first = stream::iter(["id: 1\nretry: 1\ndata: \n\n".to_owned()]);
            events(first.chain(stream::pending()))
        })
    });
    let web = web.await;
    let client = Client::connect(web.endpoint()).await.expect("it is reached");
    for _ in 0..2 {
        let call = client.tool("x").timeout(Duration::from_millis(300));
        assert!(matches!(call.send().await, Err(Error::Late(_))));
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let cancelled = || {
        let all = web.seen();
        let those = all.iter().filter(|one| one.body["method"] == "notifications/cancelled");
        those.map(|one| one.body["params"]["requestId"].clone()).collect::<Vec<_>>()
    };
    while cancelled().len() < 2 {
        assert!(Instant::now() < deadline, "{:?}", web.seen());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let calls = web.seen().into_iter().filter(|one| one.body["method"] == "tools/call");
    let ids: Vec<_> = calls.map(|one| one.body["id"].clone()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    assert!(web.seen().iter().all(|one| !one.headers.contains_key("last-event-id")));
}

#[tokio::test]
async fn a_stream_with_too_long_an_event_id_is_not_resumed() {
    let web = Web::new(|seen| {
        in_session(seen, "session", || {
            let id = "i".repeat(2000);
            events(stream::iter([format!("id: 1\ndata: \n\nid: {id}\ndata: \n\n")]))
        })
    });
    let web = web.await;
    let client = Client::connect(web.endpoint()).await.expect("it is reached");
    client.tool("x").send().await.expect_err("the stream ends");
    assert!(web.seen().iter().all(|one| !one.headers.contains_key("last-event-id")));
}

/// Fetches an icon that a server on this machine names; the environment names a proxy.
#[tokio::test]
async fn addresses_a_server_names_are_reached_without_a_proxy() {
    const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n";
    if let (Some(url), Some(icon)) = (std::env::var_os("TEST_URL"), std::env::var_os("TEST_ICON")) {
        let endpoint = Http::new(url.to_str().expect("text")).expect("a URL");
        let client = Client::connect(endpoint).await.expect("it is reached");
        let src = icon.into_string().expect("text");
        let icon = client.icon(&Icon { src, ..Icon::default() }).await.expect("a picture");
        assert_eq!(icon.bytes, PICTURE);
        return;
    }
    let picture = Web::new(|_| Response::new(PICTURE.into())).await;
    let proxy = Web::new(|seen| match seen.method {
        Method::POST => answer(seen, &discovered().to_string()),
        _ => nothing(502),
    });
    let proxy = proxy.await;
    let name = "client_limits::addresses_a_server_names_are_reached_without_a_proxy";
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", name, "--nocapture"]);
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    child.env("http_proxy", format!("http://{}", proxy.address));
    child.env("TEST_URL", "http://127.0.0.1:9/mcp");
    child.env("TEST_ICON", format!("http://{}/icon.png", picture.address));
    let ran = tokio::task::spawn_blocking(move || child.output()).await.expect("no panic");
    let ran = ran.expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // The server itself is the user's choice, and reached as everything else is.
    assert!(!proxy.seen().is_empty());
    assert!(proxy.seen().iter().all(|one| one.method == Method::POST), "{:?}", proxy.seen());
    assert_eq!(picture.seen()[0].uri.path(), "/icon.png");
}
