//! What a client believes of what a server says, and what it lets a server have.

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect},
    routing::get,
};
use http::Extensions;
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use zcp_client::{
    Client, Error, Failure, Http,
    transport::Fate,
    wire::{
        ByteString, Frame, Frames, Peer, Response,
        mcp::{
            lifecycle::Icon,
            roots::Root,
            sampling::{CreateMessage, CreateMessageResult},
        },
    },
};
use zcp_tests::{
    actor::{Actor, discovered, said, text},
    everything,
    http::HttpServer,
};

/// A server that says its tool changes nothing, and is lost in the middle of a call.
#[derive(Clone, Default)]
struct Lossy(Arc<AtomicUsize>);

impl Peer for Lossy {
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames {
        let Frame::Request(request) = frame else { return Frames::None };
        let result = match &*request.method {
            "server/discover" => discovered(),
            "tools/list" => json!({ "tools": [{ "name": "pay", "inputSchema": {},
                "annotations": { "readOnlyHint": true, "idempotentHint": true } }] }),
            _ => {
                self.0.fetch_add(1, Ordering::Relaxed);
                let fate = extensions.get::<Fate>().expect("every request has one");
                fate.set(Failure::Gone("it went away".into()));
                return Frames::None;
            }
        };
        let result = Ok(ByteString::from(result.to_string()).into());
        let answer = Frame::Response(Response { id: Some(request.id), result });
        Frames::stream(futures_util::stream::iter([answer]))
    }

    fn events(&self) -> Frames {
        Frames::None
    }
}

#[tokio::test]
async fn a_call_is_not_made_again_because_a_server_says_it_is_harmless() {
    let server = Lossy::default();
    let client = Client::connect(server.clone()).await.expect("it is reached");
    client.list_tools().await.expect("a list");
    let error = client.tool("pay").send().await.expect_err("it is lost");
    assert!(matches!(error, Error::Lost(Failure::Gone(_))), "{error:?}");
    assert_eq!(server.0.load(Ordering::Relaxed), 1);
    // What may be asked again is, once.
    client.read("a:b").await.expect_err("it is lost");
    assert_eq!(server.0.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_lost_request_is_made_again_if_that_does_nothing_twice() {
    let server = Lossy::default();
    let client = Client::connect(server.clone()).await.expect("it is reached");
    for (method, times) in [
        ("prompts/get", 2),
        ("tasks/get", 2),
        ("tasks/cancel", 2),
        ("skills/get", 2),
        ("tools/call", 1),
        ("tasks/update", 1),
        ("x/y", 1),
    ] {
        server.0.store(0, Ordering::Relaxed);
        client.request(method, json!({})).await.expect_err("it is lost");
        assert_eq!(server.0.load(Ordering::Relaxed), times, "{method}");
    }
}

#[tokio::test]
async fn what_a_server_calls_itself_changes_nothing() {
    let mut transcripts = vec![];
    for name in [json!("plain"), json!("Claude"), json!("../../etc"), json!(7), json!(null)] {
        let about =
            json!({ "io.modelcontextprotocol/serverInfo": { "name": name, "version": "" } });
        let actor = Actor::new(|_, _| text("done")).about("_meta", about);
        let client = Client::connect(actor.clone()).await.expect("it is reached");
        client.tool("x").send().await.expect("a result");
        client.read("a:b").await.expect_err("it is no resource");
        transcripts.push(format!("{:?}", actor.all_asked()));
    }
    assert!(transcripts.windows(2).all(|two| two[0] == two[1]));
}

/// Has a server ask the model, and gives what came of it.
async fn asked(question: Value, tools: bool) -> (Result<(), Error>, Vec<CreateMessage>) {
    let actor = Actor::new(move |_, params| match params.get("inputResponses") {
        Some(_) => text("thanks"),
        None => said(json!({ "resultType": "input_required", "inputRequests": {
            "a": { "method": "sampling/createMessage", "params": question } } })),
    });
    let heard = Arc::new(Mutex::new(vec![]));
    let hearing = heard.clone();
    let mut builder = Client::builder("trust", "1").sample(move |question| {
        hearing.lock().expect("no panic").push(question);
        let answer = json!({ "role": "assistant", "model": "m",
            "content": { "type": "text", "text": "four" } });
        std::future::ready(Ok(
            serde_json::from_value::<CreateMessageResult>(answer).expect("it works")
        ))
    });
    if tools {
        builder = builder.sample_tools();
    }
    let client = builder.connect(actor).await.expect("it is reached");
    let result = client.tool("x").send().await.map(drop);
    let heard = heard.lock().expect("no panic").clone();
    (result, heard)
}

#[tokio::test]
async fn a_model_is_asked_what_it_can_be_asked() {
    let words = |text: &str| json!({ "role": "user", "content": { "type": "text", "text": text } });
    let using = |id: &str| {
        json!({ "role": "assistant",
        "content": [{ "type": "tool_use", "id": id, "name": "add", "input": {} }] })
    };
    let given = |id: &str| {
        json!({ "role": "user",
        "content": [{ "type": "tool_result", "toolUseId": id, "content": [] }] })
    };
    let (result, heard) =
        asked(json!({ "messages": [words("2+2?")], "maxTokens": 17 }), false).await;
    result.expect("it was answered");
    assert_eq!(heard[0].max_tokens, 17, "the limit is told as it is");

    let tools = json!([{ "name": "add", "inputSchema": { "type": "object" } }]);
    let with = |messages: Value| json!({ "messages": messages, "maxTokens": 9, "tools": tools });
    let right = with(json!([words("2+2?"), using("1"), given("1")]));
    asked(right.clone(), true).await.0.expect("it was answered");
    let mixed = json!({ "role": "user", "content": [
        { "type": "tool_result", "toolUseId": "1", "content": [] },
        { "type": "text", "text": "and" }] });
    for (wrong, tools) in [
        (right, false),
        (with(json!([words("2+2?"), using("1")])), true),
        (with(json!([words("2+2?"), using("1"), words("well?")])), true),
        (with(json!([words("2+2?"), using("1"), given("2")])), true),
        (with(json!([words("2+2?"), using("1"), mixed])), true),
        (with(json!([given("1")])), true),
    ] {
        let (result, heard) = asked(wrong.clone(), tools).await;
        assert!(matches!(result, Err(Error::Unable(_))), "{wrong}: {result:?}");
        assert!(heard.is_empty(), "{wrong}");
    }
}

#[tokio::test]
async fn roots_are_files() {
    for (uri, fine) in [("file:///work", true), ("https://a.example/", false), ("/work", false)] {
        let root = Root { uri: uri.into(), ..Root::default() };
        let actor = Actor::new(|_, _| text("done"));
        let client = Client::builder("trust", "1").roots([root]).connect(actor.clone()).await;
        assert_eq!(client.is_ok(), fine, "{uri}");
        assert_eq!(actor.all_asked().is_empty(), !fine, "the server is told nothing");
    }
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
async fn pictures() -> (String, AbortOnDropHandle<()>, Arc<Mutex<Vec<HeaderMap>>>) {
    let seen: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
    let (seeing, elsewhere) =
        (seen.clone(), TcpListener::bind("127.0.0.1:0").await.expect("it works"));
    let other = format!("http://{}/png", elsewhere.local_addr().expect("it works"));
    let app = Router::new()
        .route(
            "/png",
            get(move |headers: HeaderMap| {
                seeing.lock().expect("no panic").push(headers);
                async { ([(header::CONTENT_TYPE, "text/html")], PNG) }
            }),
        )
        .route("/page", get(async || "<html><script>alert(1)</script>"))
        .route("/none", get(async || StatusCode::NOT_FOUND))
        .route("/long", get(async || vec![b'x'; 2 * 1024 * 1024]))
        .route("/here", get(async || Redirect::to("/png")))
        .route("/there", get(async move || Redirect::to(&other)))
        .route("/round", get(async || Redirect::to("/round").into_response()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("it works");
    let origin = format!("http://{}", listener.local_addr().expect("it works"));
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("it works") });
    (origin, AbortOnDropHandle::new(serving), seen)
}

#[tokio::test]
async fn an_icon_is_fetched_without_telling_who_asks_and_taken_for_what_it_is() {
    let (origin, _serving, seen) = pictures().await;
    let server = HttpServer::new(everything()).await;
    let http = Http::new(server.url("/mcp")).unwrap().bearer("secret");
    let client = Client::connect(http).await.expect("it is reached");
    let icon = |src: &str, kind: Option<&str>| Icon {
        src: src.to_owned(),
        mime_type: kind.map(str::to_owned),
        ..Icon::default()
    };
    for (src, kind) in [
        (format!("{origin}/png"), None),
        (format!("{origin}/here"), Some("image/png")),
        ("data:image/png;base64,iVBORw0KGgo=".to_owned(), None),
        ("data:image/svg+xml,%3Csvg%3E%3C/svg%3E".to_owned(), Some("image/svg+xml")),
    ] {
        client.icon(&icon(&src, kind)).await.unwrap_or_else(|error| panic!("{src}: {error}"));
    }
    for headers in seen.lock().unwrap().iter() {
        assert!(headers.get(header::AUTHORIZATION).is_none(), "{headers:?}");
        assert!(headers.get(header::COOKIE).is_none(), "{headers:?}");
    }
    for (src, why) in [
        (format!("{origin}/page"), "no picture"),
        (format!("{origin}/none"), "404"),
        (format!("{origin}/long"), "too long"),
        (format!("{origin}/there"), "another server"),
        (format!("{origin}/round"), "on and on"),
        ("http://icons.example/png".to_owned(), "https"),
        ("file:///etc/passwd".to_owned(), "https"),
        ("javascript:alert(1)".to_owned(), "https"),
        ("data:text/html,<script>".to_owned(), "no picture"),
    ] {
        let error = client.icon(&icon(&src, None)).await.expect_err("it is not shown");
        assert!(error.to_string().contains(why), "{src}: {error}");
    }
    let lie = client.icon(&icon(&format!("{origin}/png"), Some("image/webp"))).await;
    assert!(lie.expect_err("it lies").to_string().contains("and is image/png"));
    // A server elsewhere leads to nothing here.
    let actor = Client::connect(Actor::new(|_, _| text("done"))).await.unwrap();
    let error = actor.icon(&icon(&format!("{origin}/png"), None)).await.expect_err("it is near");
    assert!(error.to_string().contains("this network"), "{error}");
}
