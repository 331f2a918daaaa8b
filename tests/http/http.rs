//! Streamable HTTP since 2026-07-28: who may knock, what headers must say, what comes back.

use futures_util::StreamExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Barrier, Notify, mpsc},
    time::timeout,
};
use zcp::{
    Args, CallError, Ctx, Http, Level, Prompt, Resource, Result, Server, State, Tool, tool,
    wire::header::{LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID},
};
use zcp_tests::{
    NEWEST, call, everything,
    http::{Call, HttpServer},
    modern, notification,
    pipe::PipeClient,
    request, text,
};

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const LONG: Duration = Duration::from_secs(10);

fn list() -> Value {
    modern(1, "tools/list", json!({}))
}

fn simple() -> Value {
    named("test_simple_text", "tools/call")
}

fn named(name: &str, method: &str) -> Value {
    modern(1, method, json!({ "name": name, "uri": name }))
}

/// A call of a tool that reports under the token 5, and logs.
fn reporting(name: &str) -> Value {
    let meta = json!({ "progressToken": 5, LOG_LEVEL: "debug" });
    modern(1, "tools/call", json!({ "name": name, "_meta": meta }))
}

async fn with(server: Server, change: impl FnOnce(Http) -> Http) -> HttpServer {
    HttpServer::with(server.build().expect("no mistakes"), change).await
}

async fn status(call: Call<'_>) -> u16 {
    call.send().await.status.as_u16()
}

/// The status, and the code of the error; 0 without one.
async fn code(call: Call<'_>) -> (u16, i64) {
    let answer = call.send().await;
    let status = answer.status.as_u16();
    let response = answer.response().await;
    (status, response["error"]["code"].as_i64().unwrap_or(0))
}

/// Lines of words between bars.
fn table<const N: usize>(lines: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = lines.lines().filter(|line| line.contains('|'));
    lines.map(|line| {
        let words: Vec<_> = line.split('|').map(str::trim).collect();
        words.try_into().expect("as many words as columns")
    })
}

/// A page of another site may not use this machine's server; programs have no origin. SV10
#[tokio::test]
async fn a_foreign_origin_gets_403() {
    let server = with(everything(), |http| http.allow_origin("https://app.example.com")).await;
    for foreign in "http://evil.example.com https://localhost.evil.example.com null".split(' ') {
        let call = server.post(&simple()).header("origin", foreign);
        assert_eq!(status(call).await, 403, "{foreign}");
        for path in ["/mcp", "/sse", "/ws", "/healthz"] {
            let call = server.get(path).header("origin", foreign);
            assert_eq!(status(call).await, 403, "{path}");
        }
    }
    let rebound = server.post(&simple()).header("host", "evil.example.com");
    assert_eq!(status(rebound).await, 403);
    for own in "http://localhost:3000 http://127.0.0.1 https://app.example.com".split(' ') {
        let call = server.post(&simple()).header("origin", own);
        assert_eq!(status(call).await, 200, "{own}");
    }
    assert_eq!(status(server.post(&simple())).await, 200);
}

/// A notification is taken without a word, whatever its headers say. SV11
#[tokio::test]
async fn a_notification_gets_202_and_an_empty_body() {
    let server = HttpServer::new(everything()).await;
    let bare = notification("notifications/cancelled", json!({ "requestId": 1 }));
    let said = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": NEWEST } });
    let said = notification("notifications/anything", said);
    let by_header = server.post(&bare).header(PROTOCOL_VERSION.as_str(), NEWEST);
    let by_body = server.post(&said).without(PROTOCOL_VERSION.as_str());
    for call in [by_header, server.post(&said), by_body] {
        let answer = call.send().await;
        let status = answer.status;
        assert_eq!((status, answer.text().await.as_str()), (StatusCode::ACCEPTED, ""));
    }
}

/// Only requests and notifications go to a server, one in a body. SV12
#[tokio::test]
async fn responses_and_arrays_are_refused() {
    let server = HttpServer::new(everything()).await;
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    for body in [response, json!([list()]), json!([list(), list()]), json!([])] {
        let call = server.post_text("/mcp", body.to_string());
        let call = call.header(PROTOCOL_VERSION.as_str(), NEWEST);
        assert_eq!(code(call).await, (400, -32600), "{body}");
    }
    // An array that says its revision only inside is no batch of an older one.
    let call = server.post_text("/mcp", json!([list()]).to_string());
    assert_eq!(code(call).await, (400, -32600));
}

/// Without sessions there is nothing to get or to delete, whatever name is sent along. SV13
#[tokio::test]
async fn get_and_delete_get_405() {
    let (both, modern) = (everything(), everything().stateless_only());
    let (both, modern) = (HttpServer::new(both).await, HttpServer::new(modern).await);
    for (server, session) in [(&both, None), (&modern, None), (&modern, Some("x"))] {
        for verb in [Method::GET, Method::DELETE, Method::PUT] {
            let mut call = server.call(verb.clone(), "/mcp");
            call = call.header("accept", "text/event-stream").header("last-event-id", "1");
            if let Some(id) = session {
                call = call.header(SESSION_ID.as_str(), id);
            }
            let answer = call.send().await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{verb} {session:?}");
            let allow = answer.headers["allow"].to_str().unwrap();
            assert!(allow.split(", ").any(|verb| verb == "POST"), "{allow}");
        }
    }
}

/// A stateless request knows no session and no place in a stream. SV13
#[tokio::test]
async fn session_and_event_ids_are_ignored_and_never_sent() {
    let server = HttpServer::new(everything()).await;
    for message in [simple(), reporting("test_tool_with_progress")] {
        let call = server.post(&message).header(SESSION_ID.as_str(), "nobody");
        let mut answer = call.header(LAST_EVENT_ID.as_str(), "7").send().await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers.get(SESSION_ID.as_str()), None);
        assert_eq!(answer.headers.get("x-zcp-session"), None);
        while answer.is_stream()
            && let Some(event) = answer.event().await
        {
            assert_eq!((event.id, event.retry), (None, None));
        }
    }
}

/// Says nothing until it is told to.
#[tool]
async fn wait(go: State<Arc<Notify>>) -> &'static str {
    go.notified().await;
    "gone"
}

/// Proxies neither hold a stream back nor think it dead. SV14
#[tokio::test]
async fn a_quiet_stream_is_unbuffered_and_kept_alive() {
    let go = Arc::new(Notify::new());
    let server = Server::new("test").state(go.clone()).tool(wait).provide(zcp::Live::default());
    let server = with(server, |http| http.keep_alive(Duration::from_millis(20))).await;
    let listen = modern(1, "subscriptions/listen", json!({ "notifications": {} }));
    for message in [listen, modern(2, "tools/call", call("wait", json!({})))] {
        let answer = server.post(&message).send().await;
        assert_eq!(answer.headers["x-accel-buffering"], "no");
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        let (mut read, mut chunks) = (String::new(), Box::pin(answer.chunks()));
        while read.matches("\n: ").count() < 2 {
            let chunk = timeout(LONG, chunks.next()).await.unwrap().unwrap();
            read = format!("{read}\n{}", std::str::from_utf8(&chunk).unwrap());
        }
        assert!(!read.contains("\"id\":2"), "{read}");
    }
    let answer = server.post(&modern(3, "tools/call", call("wait", json!({})))).send().await;
    go.notify_waiters();
    assert_eq!(text(&answer.response().await["result"]), "gone");
}

/// The response is the last event, and the stream ends with it. SV15
#[tokio::test]
async fn nothing_comes_after_the_response() {
    let server = HttpServer::new(everything()).await;
    for name in ["test_tool_with_progress", "test_logging_tool"] {
        let answer = server.post(&reporting(name)).send().await;
        assert!(answer.is_stream());
        let messages = answer.messages().await;
        let (last, before) = messages.split_last().unwrap();
        assert_eq!(last["id"], 1);
        assert!(last["result"].is_object(), "{last}");
        assert!(before.len() >= 3, "{before:?}");
        assert!(before.iter().all(|message| message.get("id").is_none()));
    }
}

/// Reports under its own name, in step with all others.
#[tool]
async fn chat(label: String, all: State<Arc<Barrier>>, ctx: Ctx) -> String {
    for step in 1..=3 {
        all.wait().await;
        ctx.progress(f64::from(step), 3.0);
        ctx.log(Level::Info, &label);
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    label
}

/// What calls report at the same time reaches each its own client. SV16
#[tokio::test]
async fn a_response_stream_tells_of_its_own_request_only() {
    let all = Arc::new(Barrier::new(3));
    let server = HttpServer::new(Server::new("test").state(all).tool(chat)).await;
    let run = async |label: &str| {
        let meta = json!({ "progressToken": label, LOG_LEVEL: "info" });
        let params = json!({ "name": "chat", "arguments": { "label": label }, "_meta": meta });
        let messages = server.post(&modern(1, "tools/call", params)).send().await.messages().await;
        let (response, reports) = messages.split_last().unwrap();
        assert_eq!(text(&response["result"]), label);
        assert_eq!(reports.len(), 6, "{reports:?}");
        for report in reports {
            let own = match report["method"].as_str().unwrap() {
                "notifications/progress" => &report["params"]["progressToken"],
                _ => &report["params"]["data"],
            };
            assert_eq!(own, label);
        }
    };
    tokio::join!(run("a"), run("b"), run("c"));
}

/// What becomes of a call.
#[derive(Debug, PartialEq)]
enum Event {
    Started,
    Dropped,
}

/// Says so when it is dropped.
struct Fate(mpsc::UnboundedSender<Event>);

impl Drop for Fate {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Dropped);
    }
}

/// Never ends by itself.
#[tool]
async fn endless(fates: State<mpsc::UnboundedSender<Event>>, ctx: Ctx) {
    let fate = Fate(fates.0);
    let _ = fate.0.send(Event::Started);
    ctx.progress(1.0, 2.0);
    std::future::pending::<()>().await;
}

/// A client that goes away takes its call with it, streaming or not. SV17
#[tokio::test]
async fn closing_the_connection_cancels_the_call() {
    let (sender, mut fates) = mpsc::unbounded_channel();
    let server = HttpServer::new(Server::new("test").state(sender).tool(endless)).await;
    for meta in [json!({}), json!({ "progressToken": 1 })] {
        let message = modern(1, "tools/call", json!({ "name": "endless", "_meta": meta }));
        let streaming = async {
            let mut answer = server.post(&message).send().await;
            assert_eq!(answer.message().await.unwrap()["params"]["progress"], 1.0);
            answer.message().await
        };
        let begun = async {
            assert_eq!(timeout(LONG, fates.recv()).await.unwrap(), Some(Event::Started));
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        tokio::select! {
            _ = streaming => panic!("the call does not end"),
            () = begun => (),
        }
        assert_eq!(timeout(LONG, fates.recv()).await.unwrap(), Some(Event::Dropped));
    }
    server.close().await;
}

/// Sends headers letter by letter as they are written.
async fn raw(server: &HttpServer, headers: &str, message: &Value) -> (u16, i64) {
    let body = message.to_string();
    let length = body.len();
    let headers = format!(
        "POST /mcp HTTP/1.1\nHost: 127.0.0.1\nConnection: close\nContent-Length: {length}\n\
        Content-Type: application/json\n{headers}\n\n"
    );
    let request = headers.replace('\n', "\r\n") + &body;
    let stream = TcpStream::connect(server.address).await;
    let mut stream = stream.expect("the server listens");
    let written = stream.write_all(request.as_bytes()).await;
    written.expect("the server reads");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("the server answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let body: Value = serde_json::from_str(body).expect("a JSON body");
    let status = head[9..12].parse().expect("a status");
    (status, body["error"]["code"].as_i64().unwrap_or(0))
}

/// Names in any case, values in their own, blanks around them nowhere. SV36
#[tokio::test]
async fn header_names_have_no_case_and_values_no_margins() {
    let server = HttpServer::new(everything()).await;
    let plain = "mcp-protocol-version:2026-07-28\nmcp-method:tools/call\nmcp-name:add";
    let loud = "MCP-PROTOCOL-VERSION: \t2026-07-28 \nMcp-METHOD:  tools/call\t \nmcP-naMe:\tadd  ";
    let add = modern(1, "tools/call", call("add", json!({ "a": 1, "b": 2 })));
    assert_eq!(raw(&server, plain, &add).await, (200, 0));
    assert_eq!(raw(&server, loud, &add).await, (200, 0));
    for (right, wrong) in [("tools/call", "Tools/Call"), ("add", "Add")] {
        let headers = plain.replace(right, wrong);
        assert_eq!(raw(&server, &headers, &add).await, (400, -32020), "{wrong}");
    }
}

/// A name HTTP cannot carry travels as Base64, and is compared decoded. SV37
#[tokio::test]
async fn an_encoded_name_is_decoded_before_it_is_compared() {
    let server = Server::new("test").prompt(Prompt::new("größe", async || "big"));
    let server = server.prompt(Prompt::new("=?base64?eA==?=", async || "marked"));
    let server = server.resource(Resource::new("test://käse/{id}", async || "cheese"));
    let server = server.tool(Tool::new("plain", async || "plain"));
    let server = HttpServer::new(server).await;
    for [method, name, header, expected] in table(
        "
        prompts/get    | größe           | =?base64?Z3LDtsOfZQ==?=                 | 0
        prompts/get    | =?base64?eA==?= | =?base64?PT9iYXNlNjQ/ZUE9PT89?=         | 0
        resources/read | test://käse/ü   | =?base64?dGVzdDovL2vDpHNlL8O8?=         | 0
        tools/call     | plain           | =?base64?cGxhaW4=?=                     | 0
        tools/call     | plain           | plain                                   | 0
        prompts/get    | größe           | =?base64?Z3LDtsOfZQ?=                   | -32020
        prompts/get    | größe           | =?base64?Z3LDtsOf*Q==?=                 | -32020
        prompts/get    | größe           | =?BASE64?Z3LDtsOfZQ==?=                 | -32020
        prompts/get    | größe           | =?base64?/w==?=                         | -32020
        prompts/get    | größe           | grosse                                  | -32020
        prompts/get    | =?base64?eA==?= | =?base64?eA==?=                         | -32020
        ",
    ) {
        let call = server.post(&named(name, method)).header(NAME.as_str(), header);
        let expected = match expected {
            "0" => (200, 0),
            _ => (400, -32020),
        };
        assert_eq!(code(call).await, expected, "{name} {header}");
    }
}

/// Whoever routes by the method or the version reads them as they stand. SV37
#[tokio::test]
async fn a_method_and_a_version_are_never_encoded() {
    let server = HttpServer::new(everything()).await;
    let call = server.post(&list());
    let call = call.header(METHOD.as_str(), "=?base64?dG9vbHMvbGlzdA==?=");
    assert_eq!(code(call).await, (400, -32020));
    let call = server.post(&list());
    let call = call.header(PROTOCOL_VERSION.as_str(), "=?base64?MjAyNi0wNy0yOA==?=");
    assert_eq!(code(call).await, (400, -32020));
}

/// Calls a tool three of whose arguments are repeated as headers. Lines of arguments, headers and
/// the status.
async fn check_parameters(lines: &str) {
    let schema = json!({ "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "dry": { "type": "boolean", "x-mcp-header": "Dry" },
        "page": { "properties": { "size": { "type": "integer", "x-mcp-header": "Size" } } } } });
    let tool = Tool::new("pick", async |Args(args): Args<Value>| args.to_string());
    let server = Server::new("test").tool(tool.input_schema(schema));
    let server = HttpServer::new(server).await;
    for [args, headers, expected] in table(lines) {
        let args = serde_json::from_str(args).expect("JSON");
        let mut request = server.post(&modern(1, "tools/call", call("pick", args)));
        for (name, value) in headers.split(' ').filter_map(|one| one.split_once('=')) {
            request = request.header(&format!("mcp-param-{name}"), value);
        }
        let expected = match expected {
            "200" => (200, 0),
            _ => (400, -32020),
        };
        assert_eq!(code(request).await, expected, "{headers}");
    }
}

/// An integer is a number, however it is written. SV38
#[tokio::test]
async fn integer_headers_are_compared_as_numbers() {
    check_parameters(
        r#"
        {"page":{"size":42}} | size=42     | 200
        {"page":{"size":42}} | size=42.0   | 200
        {"page":{"size":42}} | size=43     | 400
        {"page":{"size":42}} | size=42.5   | 400
        {"page":{"size":42}} | size=-42    | 400
        {"page":{"size":42}} | size=many   | 400
        {"page":{"size":42}} | size=       | 400
        {"page":{"size":9007199254740993}} | size=9007199254740992 | 400
        "#,
    )
    .await;
}

/// A header is wanted where there is a value, at any depth, and nowhere else. SV39
#[tokio::test]
async fn a_parameter_header_is_needed_exactly_where_there_is_a_value() {
    check_parameters(
        r#"
        {}                             |                                | 200
        {"page":{}}                    |                                | 200
        {"region":null}                |                                | 200
        {"region":"eu"}                | region=eu                      | 200
        {"region":""}                  | region=                        | 200
        {"region":"zürich"}            | region==?base64?esO8cmljaA==?= | 200
        {"dry":true,"page":{"size":1}} | dry=true size=1                | 200
        {"region":"eu"}                | region=eu unknown=ignored      | 200
        {"region":"eu"}                |                                | 400
        {"region":"eu"}                | region=EU                      | 400
        {"region":"eu"}                | region==?base64?e?=            | 400
        {"region":""}                  |                                | 400
        {"dry":false}                  |                                | 400
        {"dry":false}                  | dry=true                       | 400
        {"page":{"size":1}}            |                                | 400
        {"dry":true,"page":{"size":1}} | dry=true                       | 400
        "#,
    )
    .await;
}

/// Only a string, an integer or a boolean reached by `properties` can be a header. SV40
#[tokio::test]
async fn a_tool_with_a_header_that_cannot_be_is_found_at_start() {
    for [fault, property] in table(
        r##"
        | MARKED
        | {"type":"object","properties":{"b":MARKED}}
        items | {"type":"array","items":MARKED}
        one of | {"oneOf":[MARKED]}
        any of | {"anyOf":[MARKED]}
        all of | {"allOf":[{"properties":{"b":MARKED}}]}
        not | {"not":MARKED}
        then | {"if":{},"then":{"properties":{"b":MARKED}}}
        additional | {"additionalProperties":MARKED}
        reference | {"$ref":"#/properties/a/$defs/c","$defs":{"c":MARKED}}
        number | {"type":"number","x-mcp-header":"A"}
        object | {"type":"object","x-mcp-header":"A"}
        untyped | {"x-mcp-header":"A"}
        empty | {"type":"string","x-mcp-header":""}
        blank | {"type":"string","x-mcp-header":"a b"}
        newline | {"type":"string","x-mcp-header":"a\r\nb"}
        no text | {"type":"string","x-mcp-header":1}
        twice | {"properties":{"b":MARKED,"c":{"type":"string","x-mcp-header":"a"}}}
        "##,
    ) {
        let property = property.replace("MARKED", r#"{"type":"string","x-mcp-header":"A"}"#);
        let property: Value = serde_json::from_str(&property).unwrap();
        let schema = json!({ "properties": { "a": property } });
        let tool = Tool::new("pick", async || "done").input_schema(schema);
        match Server::new("test").tool(tool).build() {
            Ok(_) => assert_eq!(fault, "", "{property}"),
            Err(mistake) => {
                assert_ne!(fault, "", "{mistake}");
                assert!(mistake.to_string().starts_with("tool `pick`"), "{mistake}");
            }
        }
    }
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *self.0.lock().expect("no panic while held"), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A secret in a header is a warning to the one who wrote it, not the end of the server. SV41
#[tokio::test]
async fn a_secret_may_be_mirrored_against_advice() {
    let secret = json!({ "type": "string", "x-mcp-header": "Password" });
    let schema = json!({ "properties": { "password": secret } });
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let server = tracing::subscriber::with_default(subscriber, || {
        Server::new("test").tool(Tool::new("pick", async || "done").input_schema(schema))
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("WARN") && log.contains("`password`"), "{log:?}");
    let mut client = PipeClient::new(server);
    let tools = client.ask(list()).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "pick");
}

/// A request about to be sent, and to be spoilt before.
struct Draft {
    verb: Method,
    message: Value,
    headers: BTreeMap<&'static str, String>,
    garble: fn(String) -> String,
}

impl Draft {
    /// One that is all right.
    fn new() -> Self {
        let params = call("pick", json!({ "region": "eu" }));
        let mut draft = Self {
            verb: Method::POST,
            message: modern("ladder", "tools/call", params),
            headers: BTreeMap::new(),
            garble: |text| text,
        };
        draft.set("content-type", "application/json");
        draft.set("accept", "application/json, text/event-stream");
        draft.set(PROTOCOL_VERSION.as_str(), NEWEST);
        draft.set(METHOD.as_str(), "tools/call");
        draft.set(NAME.as_str(), "pick");
        draft.set("mcp-param-region", "eu");
        draft
    }

    fn set(&mut self, header: &'static str, value: &str) {
        self.headers.insert(header, value.to_owned());
    }

    fn spoil(&mut self, fault: &str) {
        let params = &mut self.message["params"];
        let capabilities = "io.modelcontextprotocol/clientCapabilities";
        let version = "io.modelcontextprotocol/protocolVersion";
        match fault {
            "foreign origin" => self.set("origin", "http://evil.example.com"),
            "not POST" => self.verb = Method::PUT,
            "too large" => params["padding"] = json!("x".repeat(100_000)),
            "content type" => self.set("content-type", "text/plain"),
            "accept" => self.set("accept", "text/html"),
            "not JSON" => self.garble = |text| text.replace("}}", ""),
            "array" => self.garble = |text| format!("[{text}]"),
            "no meta" => drop(params["_meta"].take()),
            "no capabilities" => params["_meta"][capabilities] = Value::Null,
            "versions differ" => {
                params["_meta"][version] = json!("1999-01-01");
                self.set(PROTOCOL_VERSION.as_str(), NEWEST);
            }
            "unsupported version" => {
                params["_meta"][version] = json!("1999-01-01");
                if let Some(header) = self.headers.get_mut(PROTOCOL_VERSION.as_str()) {
                    *header = "1999-01-01".into();
                }
            }
            "no version header" => drop(self.headers.remove(PROTOCOL_VERSION.as_str())),
            "no method header" => drop(self.headers.remove(METHOD.as_str())),
            "methods differ" => self.set(METHOD.as_str(), "TOOLS/CALL"),
            "no name header" => drop(self.headers.remove(NAME.as_str())),
            "names differ" => self.set(NAME.as_str(), "Pick"),
            "undecodable name" => self.set(NAME.as_str(), "=?base64?cGljaw?="),
            "unknown method" => {
                self.message["method"] = json!("prompts/get");
                self.set(METHOD.as_str(), "prompts/get");
            }
            "no sampling" => params["_meta"][capabilities] = json!({}),
            "no parameter" => drop(self.headers.remove("mcp-param-region")),
            "parameters differ" => self.set("mcp-param-region", "us"),
            "unknown tool" => {
                params["name"] = json!("nobody");
                self.set(NAME.as_str(), "nobody");
            }
            other => panic!("unknown fault {other}"),
        }
    }

    async fn send(self, server: &HttpServer) -> String {
        let mut call = match self.verb {
            Method::POST => server.post_text("/mcp", (self.garble)(self.message.to_string())),
            verb => server.call(verb, "/mcp"),
        };
        for (name, value) in &self.headers {
            call = call.header(name, value);
        }
        let answer = call.send().await;
        let (status, response) = (answer.status.as_u16(), answer.response().await);
        format!("{status} {} {}", response["error"]["code"], response["id"])
    }
}

/// Rungs, faults, and what each is answered with: the status, the code and the id.
const LADDER: &str = r#"
     0 | foreign origin      | 403 -32600 null
     2 | not POST            | 405 -32600 null
     3 | too large           | 413 -32600 null
     4 | content type        | 415 -32600 null
     4 | accept              | 406 -32600 null
     5 | not JSON            | 400 -32700 null
     6 | array               | 400 -32600 null
     8 | no meta             | 400 -32602 "ladder"
     8 | no capabilities     | 400 -32602 "ladder"
     9 | versions differ     | 400 -32020 "ladder"
    10 | unsupported version | 400 -32022 "ladder"
    11 | no version header   | 400 -32020 "ladder"
    12 | no method header    | 400 -32020 "ladder"
    12 | methods differ      | 400 -32020 "ladder"
    13 | no name header      | 400 -32020 "ladder"
    13 | names differ        | 400 -32020 "ladder"
    13 | undecodable name    | 400 -32020 "ladder"
    14 | unknown method      | 404 -32601 "ladder"
    15 | no sampling         | 400 -32021 "ladder"
    16 | no parameter        | 400 -32020 "ladder"
    16 | parameters differ   | 400 -32020 "ladder"
    17 | unknown tool        | 200 -32602 "ladder"
"#;

/// Faults that cannot be told together: without `_meta` only the header says the version, a
/// handler knows what it needs of its client when it runs, and an unknown tool has no schema.
fn exclude(upper: (u8, &str), lower: u8) -> bool {
    match upper {
        (8, "no meta") => matches!(lower, 10 | 11),
        (9, _) => lower == 11,
        (rung, _) => rung >= 15,
    }
}

async fn asks(ctx: Ctx) -> Result<String> {
    let question = json!({ "messages": [], "maxTokens": 1 });
    let question = serde_json::from_value(question)?;
    Ok(ctx.sample("model", question).await?.text())
}

/// Of several faults, the one higher on the ladder is answered. SV42
#[tokio::test]
async fn of_two_faults_the_upper_one_is_answered() {
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    let schema = json!({ "properties": { "region": region } });
    let server = Server::new("test").tool(Tool::new("pick", asks).input_schema(schema));
    let server = with(server, |http| http.max_body(50_000)).await;
    let right = Draft::new().send(&server).await;
    assert_eq!(right, r#"200 null "ladder""#);
    let rung = |text: &str| text.parse::<u8>().unwrap();
    let mut wrong = String::new();
    for [upper, fault, expected] in table(LADDER) {
        let upper = rung(upper);
        let below = table(LADDER).filter(|[lower, _, _]: &[&str; 3]| rung(lower) > upper);
        let below = below.filter(|[lower, _, _]| !exclude((upper, fault), rung(lower)));
        let below = below.map(|[_, other, _]| Some(other));
        for other in std::iter::once(None).chain(below) {
            let mut draft = Draft::new();
            other.inspect(|other| draft.spoil(other));
            draft.spoil(fault);
            let found = draft.send(&server).await;
            if found != expected {
                wrong += &format!("{fault} and {other:?}: {found}, not {expected}\n");
            }
        }
    }
    assert_eq!(wrong, "");
}

async fn fails() -> Result<String> {
    Err(CallError::new("out of paper"))
}

/// What goes wrong once a handler is asked is the answer of a request that went right. SV42
#[tokio::test]
async fn a_failure_inside_is_answered_with_200() {
    let server = everything().resource(Resource::new("test://fails", fails));
    let server = HttpServer::new(server).await;
    for [name, method, expected] in table(
        "
        nobody         | tools/call     | -32602
        nobody         | prompts/get    | -32602
        test://nowhere | resources/read | -32602
        test://fails   | resources/read | -32603
        ",
    ) {
        let call = server.post(&named(name, method));
        assert_eq!(code(call).await, (200, expected.parse().unwrap()), "{name}");
    }
}

/// What is no JSON is that before it is anything else, wherever it breaks. SV42
#[tokio::test]
async fn a_body_that_is_no_json_is_a_parse_error() {
    let server = HttpServer::new(everything()).await;
    let list = list().to_string();
    let bodies =
        ["", "{", "nul", "7 8", &list[1..], &list[..list.len() - 1], &format!("{list} {list}")];
    for body in bodies {
        let call = server.post_text("/mcp", body.to_owned());
        let call = call.header(PROTOCOL_VERSION.as_str(), NEWEST);
        assert_eq!(code(call).await, (400, -32700), "{body}");
    }
}

/// Bodies are JSON in UTF-8, and answers JSON or events. SV52
#[tokio::test]
async fn types_are_json_or_an_event_stream() {
    let server = HttpServer::new(everything()).await;
    for (message, kind) in [
        (simple(), "application/json"),
        (request(1, "ping", json!({})), "application/json"),
        (named("nobody", "tools/call"), "application/json"),
        (reporting("test_tool_with_progress"), "text/event-stream"),
    ] {
        let answer = server.post(&message).send().await;
        assert_eq!(answer.headers["content-type"], kind, "{message}");
    }
    for [kind, expected] in table(
        "
        application/json; charset=utf-8 | 200
        Application/JSON | 200
        text/plain | 415
        application/jsonp | 415
        application/x-www-form-urlencoded | 415
        | 415
        ",
    ) {
        let call = server.post(&simple()).header("content-type", kind);
        assert_eq!(status(call).await.to_string(), expected, "{kind}");
    }
    let untyped = server.post(&simple()).without("content-type");
    assert_eq!(status(untyped).await, 415);
    let mut latin = list().to_string().replace("tools", "ü").into_bytes();
    latin.retain(|byte| *byte != 0xc3);
    assert_eq!(code(server.post_text("/mcp", latin)).await, (400, -32700));
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_in_the_error() {
    let first = HttpServer::new(Server::new("first")).await;
    let second = Server::new("second").serve(Http::new(first.address)).await;
    let error = second.expect_err("the port is taken");
    let words = format!("cannot listen on {}: ", first.address);
    assert!(error.to_string().starts_with(&words), "{error}");
    let zcp::Error::Io(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);

    let folder = Server::new("third").serve(Http::unix(std::env::temp_dir())).await;
    let error = folder.expect_err("a folder is in the way").to_string();
    let words = format!("cannot listen on {}: ", std::env::temp_dir().display());
    assert!(error.starts_with(&words), "{error}");
}
