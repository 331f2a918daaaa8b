//! What a client must and must not do, against servers that say exactly what a rule is about.

use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::task::AbortOnDropHandle;
use zcp_client::{
    Client, Error, Failure, Http, OAuth,
    wire::{
        Frame, Id, Method, Notification, Request, Revision, RpcError,
        mcp::{
            elicitation::{Action, ElicitResult},
            roots::Root,
        },
        method::{Kind, METHODS, Row},
    },
};
use zcp_tests::actor::{Actor, discovered, said, text};

async fn client(actor: &Actor) -> Client {
    let root = Root { uri: "file:///work".into(), ..Root::default() };
    let accept = async |_| Ok(ElicitResult { action: Action::Accept, content: Some(json!({})) });
    let builder = Client::builder("rules", "1").elicit(accept).roots([root]);
    builder.connect(actor.clone()).await.expect("it is reached")
}

#[tokio::test]
async fn an_unknown_kind_of_result_is_invalid_and_a_missing_one_is_complete() {
    for (kind, fine) in [(json!("complete"), true), (json!("sparkling"), false), (json!(7), false)]
    {
        let actor = Actor::new(move |_, _| said(json!({ "resultType": kind, "content": [] })));
        let result = client(&actor).await.tool("x").send().await;
        assert_eq!(result.is_ok(), fine, "{result:?}");
        assert!(fine || matches!(result, Err(Error::Invalid(_))));
    }
    let actor = Actor::new(|_, _| said(json!({ "content": [] })));
    client(&actor).await.tool("x").send().await.expect("it is complete");
}

#[tokio::test]
async fn no_id_is_used_twice_and_a_state_goes_back_untouched() {
    let state = "é\"\\\u{1F600} {\"a\": 1}";
    let actor = Actor::new(move |_, params| match params.get("requestState") {
        None => said(json!({ "resultType": "input_required", "requestState": state,
            "inputRequests": {
                "who": { "method": "elicitation/create",
                    "params": { "message": "?", "requestedSchema": { "type": "object" } } },
                "where": { "method": "roots/list" } } })),
        Some(given) => {
            assert_eq!(given, state);
            let keys: Vec<_> = params["inputResponses"].as_object().unwrap().keys().collect();
            assert_eq!(keys, ["who", "where"], "everything is answered");
            text("thanks")
        }
    });
    let client = client(&actor).await;
    client.tool("x").send().await.expect("a result");
    client.tool("y").send().await.expect("a result");
    let asked = actor.all_asked();
    let ids: BTreeSet<_> = asked.iter().map(|(id, ..)| id.clone()).collect();
    assert_eq!(ids.len(), asked.len());
    // A state is for its own call alone.
    let fresh = asked.iter().filter(|(_, method, params, _)| {
        method == "tools/call" && params.get("requestState").is_none()
    });
    assert_eq!(fresh.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn rounds_have_an_end_and_a_pace() {
    let actor =
        Actor::new(|_, _| said(json!({ "resultType": "input_required", "requestState": "again" })));
    let client = client(&actor).await;
    let begun = tokio::time::Instant::now();
    let error = client.tool("x").send().await.expect_err("it never ends");
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(actor.asked("tools/call").len() <= 16);
    assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_question_without_a_mode_is_a_form_and_other_modes_must_be_declared() {
    let asking = |mode: Option<&'static str>| {
        Actor::new(move |_, params| {
            let mut question = json!({ "message": "?", "requestedSchema": {}, "url": "https://a" });
            if let Some(mode) = mode {
                question["mode"] = mode.into();
            }
            match params.get("inputResponses") {
                Some(_) => text("thanks"),
                None => said(json!({ "resultType": "input_required", "inputRequests": {
                    "q": { "method": "elicitation/create", "params": question } } })),
            }
        })
    };
    for mode in [None, Some("form")] {
        client(&asking(mode)).await.tool("x").send().await.expect("a form is answered");
    }
    for mode in ["url", "telepathy"] {
        let error = client(&asking(Some(mode))).await.tool("x").send().await;
        assert!(matches!(error, Err(Error::Unable(_))), "{mode}: {error:?}");
    }
}

#[tokio::test]
async fn an_empty_cursor_is_not_the_end_and_a_circle_is() {
    let actor = Actor::new(|_, params| {
        let page = |name: &str, next: Value| {
            let mut page = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "tools": [{ "name": name, "inputSchema": { "type": "object" } }] });
            if !next.is_null() {
                page["nextCursor"] = next;
            }
            said(page)
        };
        match params.get("cursor").and_then(Value::as_str) {
            None => page("a", json!("")),
            Some("") => page("b", json!("c")),
            Some(_) => page("c", Value::Null),
        }
    });
    let names: Vec<_> = client(&actor).await.list_tools().await.unwrap();
    assert_eq!(names.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    let circle = Actor::new(|_, _| said(json!({ "tools": [], "nextCursor": "again" })));
    assert!(matches!(client(&circle).await.list_tools().await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn both_codes_of_a_missing_resource_are_known() {
    for code in [-32002, -32602] {
        let actor = Actor::new(move |_, _| (vec![], Err(RpcError::new(code, "no such resource"))));
        let error = client(&actor).await.read("test://none").await.expect_err("there is none");
        assert!(error.is_not_found(), "{error}");
    }
}

fn mirrored_tool(header: &str) -> Value {
    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{
        "name": "x", "inputSchema": { "type": "object", "properties": {
            "to": { "type": "object", "properties": {
                "city": { "type": "string", "x-mcp-header": header } } },
            "n": { "type": "integer", "x-mcp-header": "Count" } } } }] })
}

#[tokio::test]
async fn arguments_are_mirrored_wherever_they_are_and_names_are_encoded() {
    let actor = Actor::new(|method, _| match method {
        "tools/list" => said(mirrored_tool("City")),
        _ => text("done"),
    });
    let client = client(&actor).await;
    client.list_tools().await.unwrap();
    let args = json!({ "to": { "city": "Zürich" }, "n": 9_007_199_254_740_991_u64 });
    client.tool("x").args(args).send().await.unwrap();
    client.tool("größe").send().await.unwrap();
    let calls = actor.asked("tools/call");
    let shown = |at: usize, name: &str| calls[at].1[name].to_str().unwrap().to_owned();
    assert_eq!(shown(0, "mcp-param-city"), "=?base64?WsO8cmljaA==?=");
    assert_eq!(shown(0, "mcp-param-count"), "9007199254740991");
    assert_eq!(shown(0, "mcp-name"), "x");
    assert_eq!(shown(0, "mcp-method"), "tools/call");
    assert_eq!(shown(1, "mcp-name"), "=?base64?Z3LDtsOfZQ==?=");
}

#[tokio::test]
async fn every_request_repeats_its_method_and_what_it_names_as_headers() {
    let actor = Actor::new(|_, _| text("done"));
    let client = client(&actor).await;
    let stateless = |row: &&Row| row.kind == Kind::Request && row.method.is_in(Revision::LATEST);
    for row in METHODS.iter().filter(stateless).filter(|row| row.method != Method::Discover) {
        let params = json!({ "name": "a name", "uri": "a:uri", "taskId": "a task" });
        client.request(row.name, params.clone()).await.expect("an answer");
        let (_, headers) = actor.asked(row.name).pop().expect("it was asked");
        assert_eq!(headers["mcp-method"], row.name);
        let named = row.method.name_header_of().map(|member| params[member.as_str()].clone());
        let header = headers.get("mcp-name").map(|name| json!(name.to_str().expect("a text")));
        assert_eq!(header, named, "{}", row.name);
    }
    client.request("x/y", json!({ "name": "a name" })).await.expect("an answer");
    let (_, headers) = actor.asked("x/y").pop().expect("it was asked");
    assert_eq!((&headers["mcp-method"], headers.get("mcp-name")), (&"x/y".parse().unwrap(), None));
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().expect("no panic while held"), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_tool_whose_headers_nobody_can_send_is_left_out_and_logged() {
    let actor = Actor::new(|_, _| {
        let mut listed = mirrored_tool("not a\nheader");
        let good = mirrored_tool("City")["tools"][0].clone();
        listed["tools"][0]["name"] = "odd".into();
        listed["tools"].as_array_mut().expect("a list").push(good);
        said(listed)
    });
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    let tools = client(&actor).await.list_tools().await.expect("the others are listed");
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["x"]);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).expect("text");
    let line = log.lines().find(|line| line.contains("\"odd\"")).expect("it is logged");
    assert!(line.contains("WARN") && line.contains("left out"), "{line}");
    assert!(!log.contains("\"x\""), "{log}");
}

#[tokio::test]
async fn headers_that_are_out_of_date_are_learned_again_once() {
    let lists = Arc::new(AtomicUsize::new(0));
    let listed = lists.clone();
    let actor = Actor::new(move |method, _| match method {
        "tools/list" => {
            let old = listed.fetch_add(1, Ordering::Relaxed) == 0;
            said(mirrored_tool(if old { "Town" } else { "City" }))
        }
        _ if listed.load(Ordering::Relaxed) < 2 => {
            (vec![], Err(RpcError::header_mismatch("`Mcp-Param-City` is missing")))
        }
        _ => text("done"),
    });
    let client = client(&actor).await;
    client.list_tools().await.unwrap();
    client.tool("x").args(json!({ "to": { "city": "Rome" } })).send().await.expect("the second");
    let calls = actor.asked("tools/call");
    assert!(calls[0].1.contains_key("mcp-param-town"));
    assert_eq!(calls[1].1["mcp-param-city"], "Rome");
    // A server that is never content is asked twice, and not more.
    let never = Actor::new(|method, _| match method {
        "tools/list" => said(mirrored_tool("City")),
        _ => (vec![], Err(RpcError::header_mismatch("never"))),
    });
    let error = self::client(&never).await.tool("x").send().await.expect_err("never");
    assert_eq!(error.code(), Some(-32020));
    assert_eq!(never.asked("tools/call").len(), 2);
}

#[tokio::test]
async fn every_request_says_who_asks_and_what_they_can_do() {
    let actor = Actor::new(|_, _| text("done"));
    client(&actor).await.tool("x").send().await.unwrap();
    let about = actor.asked("tools/call")[0].0["_meta"].clone();
    assert_eq!(about["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(about["io.modelcontextprotocol/clientInfo"]["name"], "rules");
    let can = about["io.modelcontextprotocol/clientCapabilities"].as_object().unwrap();
    assert_eq!(can.keys().collect::<Vec<_>>(), ["elicitation", "roots"]);
    let shy = Client::builder("rules", "1").anonymous().connect(actor.clone()).await.unwrap();
    shy.tool("y").send().await.unwrap();
    let about = actor.asked("tools/call")[1].0["_meta"].clone();
    assert!(about.get("io.modelcontextprotocol/clientInfo").is_none());
}

#[tokio::test]
async fn a_stateless_server_is_never_sent_a_response() {
    let question = Request { id: Id::number(1), method: "roots/list".into(), params: None };
    let actor = Actor::new(move |_, _| (vec![Frame::Request(question.clone())], text("done").1));
    client(&actor).await.tool("x").send().await.unwrap();
    assert_eq!(actor.answered(), 0);
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_help_beyond_the_ceiling() {
    let busy = zcp::Server::new("busy").tool(zcp::Tool::new("work", async |ctx: zcp::Ctx| {
        for step in 0..100_000 {
            ctx.progress(f64::from(step), 100_000.0);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        "done"
    }));
    let client = Client::connect(zcp::Mcp::new(busy.build().unwrap())).await.unwrap();
    let call = client.tool("work").timeout(Duration::from_secs(2)).ceiling(Duration::from_secs(30));
    let begun = tokio::time::Instant::now();
    assert!(matches!(call.send().await, Err(Error::Late(_))));
    assert!(begun.elapsed() >= Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// A web server that answers every request after the first with the same bytes.
#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
async fn canned(answer: &'static str) -> (Http, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let serving = tokio::spawn(async move {
        for count in 0.. {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = vec![0; 64 * 1024];
            let read = stream.read(&mut request).await.expect("a request");
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
            let id = serde_json::from_str::<Value>(body).map(|it| it["id"].clone());
            let id = id.unwrap_or_default().to_string();
            let hello = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{}",
                json!({ "jsonrpc": "2.0", "id": 1, "result": discovered() })
            );
            let answer = if count == 0 { hello } else { answer.replace("$ID", &id) };
            stream.write_all(answer.as_bytes()).await.expect("a reader");
        }
    });
    (Http::new(url).expect("a URL"), AbortOnDropHandle::new(serving))
}

#[tokio::test]
async fn any_event_stream_is_read_and_json_too() {
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         \u{FEFF}: hello\r\n\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\n\
         data: \"id\":$ID,\"result\":{\"content\":[]}}\r\n\r\n: bye\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n\
         event: other\ndata: ignored\n\ndata:{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[]}}\n\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\nconnection: close\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[]}}",
    ];
    for answer in answers {
        let (http, _serving) = canned(answer).await;
        let client = Client::connect(http).await.expect("it is reached");
        client.tool("x").send().await.expect("an answer");
    }
}

#[tokio::test]
async fn what_is_too_large_or_no_message_is_an_error_with_a_name() {
    for (answer, status) in [
        ("HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", 413),
        ("HTTP/1.1 431 Too Large\r\nconnection: close\r\n\r\nheaders too large", 431),
        ("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>", 200),
    ] {
        let (http, _serving) = canned(answer).await;
        let client = Client::connect(http).await.expect("it is reached");
        let error = client.tool("x").send().await.expect_err("it is refused");
        let Error::Lost(Failure::Status { status: found, .. }) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(*found, status);
    }
}

#[tokio::test]
async fn a_wish_for_a_token_is_no_sign_of_age() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = async {
        let mut count = 0;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 8192];
            let _ = stream.read(&mut request).await;
            let _ = stream
                .write_all(
                    b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                )
                .await;
            count += 1;
            assert!(count < 2, "it is asked again");
        }
    };
    let error = tokio::select! {
        client = Client::connect(Http::new(url).unwrap()) => client.expect_err("it wants a token"),
        () = serving => unreachable!(),
    };
    assert!(matches!(error, Error::Lost(Failure::Status { status: 401, .. })), "{error:?}");
}

#[tokio::test]
async fn a_log_on_the_way_is_heard_and_is_no_progress() {
    let log = Notification {
        method: "notifications/message".into(),
        params: Some(r#"{"level":"info","data":"hello"}"#.into()),
    };
    let actor = Actor::new(move |_, _| (vec![Frame::Notification(log.clone())], text("done").1));
    let heard = Arc::new(AtomicUsize::new(0));
    let counting = heard.clone();
    let client = Client::builder("rules", "1").on_log(move |message| {
        assert_eq!(message.data, "hello");
        counting.fetch_add(1, Ordering::Relaxed);
    });
    client.connect(actor).await.unwrap().tool("x").send().await.unwrap();
    assert_eq!(heard.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_token_is_for_one_server_and_never_travels_in_clear() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[]}}";
    let ((one, _first), (two, _second)) = (canned(answer).await, canned(answer).await);
    let oauth = OAuth::client_credentials("me", "secret");
    Client::connect(one.oauth(oauth.clone())).await.expect("it is the first");
    let error = Client::connect(two.oauth(oauth)).await.expect_err("it is another");
    assert!(matches!(error, Error::Lost(Failure::Denied(_))), "{error:?}");
    // An address of this machine that is not known to be one.
    let away = |http: &Http| {
        let port = http.address().port().expect("a port");
        Http::new(format!("http://[::ffff:127.0.0.1]:{port}/mcp")).expect("a URL")
    };
    let (open, _third) = canned(answer).await;
    let oauth = || OAuth::client_credentials("me", "secret");
    let client = Client::connect(away(&open).oauth(oauth())).await.expect("it wants no token");
    client.tool("x").send().await.expect("an answer");
    let wanting = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (closed, _fourth) = canned(wanting).await;
    let client = Client::connect(away(&closed).oauth(oauth())).await.expect("not at first");
    let error = client.tool("x").send().await.expect_err("it is not encrypted");
    assert!(matches!(&error, Error::Lost(Failure::Denied(why)) if why.contains("https")));
    assert!(!format!("{error:?}").contains("secret"));
}
