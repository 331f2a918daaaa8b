//! Long conversations: questions that take time, subscriptions that outlive a session, streams
//! that end, and encryption.

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::Barrier};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};
use tokio_util::task::AbortOnDropHandle;
use zcp::{Ctx, Result, Server, tool};
use zcp_client::{
    Change, Client, Http, Process,
    wire::{
        Revision,
        mcp::{
            elicitation::{Action, ElicitResult},
            subscriptions::Filter,
        },
    },
};
use zcp_tests::{
    everything,
    examples::{examples, zcp},
    http::HttpServer,
};

fn accepted() -> ElicitResult {
    let content = json!({ "username": "ann", "email": "ann@example.com", "yes": true });
    ElicitResult { action: Action::Accept, content: Some(content) }
}

#[tokio::test]
async fn a_user_may_take_longer_than_a_server_is_waited_for() {
    let process = Process::new(examples().join("everything")).arg("--stdio");
    let client = Client::builder("sessions", "1")
        .revision(Revision::V2025_11_25)
        .timeout(Duration::from_millis(300))
        .elicit(async |_| {
            tokio::time::sleep(Duration::from_millis(900)).await;
            Ok(accepted())
        })
        .connect(process)
        .await
        .expect("it is reached");
    let result = client.tool("test_elicitation").arg("message", "Who?").send().await;
    assert!(!result.expect("it was waited for").is_error);
    client.close().await;
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Yes {
    yes: bool,
}

/// Asks two things at once.
#[tool]
async fn twice(ctx: Ctx) -> Result<bool> {
    let (one, two) = tokio::join!(ctx.ask::<Yes>("one", "One?"), ctx.ask::<Yes>("two", "Two?"));
    Ok(one?.accepted()?.yes && two?.accepted()?.yes)
}

#[tokio::test]
async fn questions_are_answered_side_by_side() {
    let both = Arc::new(Barrier::new(2));
    let waiting = both.clone();
    // Neither is answered before both were asked.
    let answer = move |_| {
        let both = waiting.clone();
        async move {
            both.wait().await;
            Ok(accepted())
        }
    };
    let server = zcp::Mcp::new(Server::new("two").tool(twice).build().unwrap());
    let builder = Client::builder("sessions", "1").revision(Revision::V2025_11_25).elicit(answer);
    let client = builder.connect(server).await.expect("it is reached");
    let call = client.call::<bool>("twice", json!({}));
    let answered = tokio::time::timeout(Duration::from_secs(10), call).await;
    assert!(answered.expect("in time").expect("an answer"));
}

#[tokio::test]
async fn a_subscription_outlives_its_session_and_ends_with_whoever_made_it() {
    let http = HttpServer::new(everything()).await;
    let builder = Client::builder("sessions", "1").revision(Revision::V2025_11_25);
    let endpoint = Http::new(http.url("/mcp")).unwrap();
    let client = builder.connect(endpoint).await.expect("it is reached");
    let uri = "test://watched-resource".to_owned();
    let filter = Filter { resource_subscriptions: vec![uri.clone()], ..Filter::default() };
    let mut changes = client.listen(filter.clone()).await.expect("it tells of changes");
    let address = http.address;
    http.close().await;
    let again = HttpServer::at(everything(), address).await;
    client.ping().await.expect("a new session");
    assert_eq!(changes.next().await, Some(Change::All));
    let mut heard = vec![];
    let listening = async {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tokio::select! {
                Some(change) = changes.next() => {
                    heard.push(change);
                    if heard.contains(&Change::Resource(uri.clone())) {
                        return;
                    }
                }
                _ = tick.tick() => {
                    client.tool("test_trigger_resource_update").send().await.expect("a change");
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), listening).await.expect("it is heard again");
    // One of two who listen leaves; the other still hears.
    let other = client.listen(filter).await.expect("it tells of changes");
    drop(other);
    client.tool("test_trigger_resource_update").send().await.expect("a change");
    assert_eq!(changes.next().await, Some(Change::Resource(uri)));
    drop(again);
}

#[tokio::test]
async fn a_server_that_dies_is_started_again_for_whoever_listens() {
    let everything = examples().join("everything");
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let lives = format!("{}-{revision}", std::process::id());
        let process = Process::new(&everything).arg("--stdio").env("ZCP_LISTENED", &lives);
        let client = Client::builder("sessions", "1").revision(revision).connect(process).await;
        let client = client.expect("it is reached");
        let filter = Filter { tools_list_changed: true, ..Filter::default() };
        let mut changes = client.listen(filter).await.expect("it tells of changes");
        let script = format!("grep -lz ZCP_LISTENED={lives} /proc/[0-9]*/environ 2>/dev/null");
        let found = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        for line in String::from_utf8_lossy(&found.stdout).lines() {
            let pid = line.split('/').nth(2).unwrap();
            std::process::Command::new("kill").args(["-9", pid]).status().unwrap();
        }
        let next = tokio::time::timeout(Duration::from_secs(10), changes.next()).await;
        assert_eq!(next.expect("in time"), Some(Change::All), "{revision}");
        // Whoever listens hears of the new one; it may be told twice that anything changed.
        let listening = async {
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    Some(change) = changes.next() => if change == Change::Tools { return },
                    _ = tick.tick() => {
                        client.tool("test_trigger_tool_change").send().await.expect("a change");
                    }
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), listening).await.expect("it is heard");
        client.close().await;
    }
}

#[tokio::test]
async fn whoever_leaves_and_comes_back_is_subscribed() {
    let process = Process::new(examples().join("everything")).arg("--stdio");
    let builder = Client::builder("sessions", "1").revision(Revision::V2025_11_25);
    let client = builder.connect(process).await.expect("it is reached");
    let uri = "test://watched-resource".to_owned();
    let filter = Filter { resource_subscriptions: vec![uri.clone()], ..Filter::default() };
    let first = client.listen(filter.clone()).await.expect("it tells of changes");
    drop(first);
    let mut second = client.listen(filter).await.expect("it tells of changes");
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.tool("test_trigger_resource_update").send().await.expect("a change");
    let heard = tokio::time::timeout(Duration::from_secs(5), second.next()).await;
    assert_eq!(heard.expect("in time"), Some(Change::Resource(uri)));
    client.close().await;
}

#[test]
fn what_is_dropped_outside_of_a_runtime_does_no_harm() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let process = Process::new(examples().join("everything")).arg("--stdio");
    let builder = Client::builder("sessions", "1").revision(Revision::V2025_11_25);
    let client = runtime.block_on(builder.connect(process)).expect("it is reached");
    let uri = "test://watched-resource".to_owned();
    let filter = Filter { resource_subscriptions: vec![uri], ..Filter::default() };
    let changes = runtime.block_on(client.listen(filter)).expect("it tells of changes");
    drop(changes);
    runtime.block_on(client.close());
}

/// An old server whose stream of events ends after one.
async fn message(State(_): State<Arc<AtomicUsize>>, body: String) -> Response {
    let asked: Value = serde_json::from_str(&body).expect("JSON");
    let Some(id) = asked.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": { "name": "short", "version": "1" } }),
        Some("server/discover") => return StatusCode::BAD_REQUEST.into_response(),
        _ => json!({}),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let mut answer = (headers, answer).into_response();
    answer.headers_mut().insert("mcp-session-id", "1".parse().expect("a value"));
    answer
}

async fn events(State(opened): State<Arc<AtomicUsize>>, headers: HeaderMap) -> Response {
    assert_eq!(headers["mcp-session-id"], "1");
    opened.fetch_add(1, Ordering::Relaxed);
    let change = r#"data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(format!("{change}\n\n")))
        .into_response()
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
async fn a_stream_of_events_that_ends_is_opened_again() {
    let opened = Arc::new(AtomicUsize::new(0));
    let app = Router::new().route("/mcp", get(events).post(message)).with_state(opened.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let _serving = AbortOnDropHandle::new(serving);
    let client = Client::connect(Http::new(url).unwrap()).await.expect("it is reached");
    let filter = Filter { tools_list_changed: true, ..Filter::default() };
    let mut changes = client.listen(filter).await.expect("it tells of changes");
    let mut heard = vec![];
    while opened.load(Ordering::Relaxed) < 2 || !heard.contains(&Change::All) {
        let change = tokio::time::timeout(Duration::from_secs(10), changes.next()).await;
        heard.push(change.expect("in time").expect("a change"));
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
async fn encrypted_servers_are_reached_and_strangers_are_not() {
    let server =
        HttpServer::with(everything().build().unwrap(), |http| http.allow_host("localhost")).await;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (acceptor, to) = (TlsAcceptor::from(Arc::new(config)), server.address);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let forwarding = tokio::spawn(async move {
        let listener = &listener;
        let connections = futures_util::stream::unfold((), async |()| {
            Some((listener.accept().await.ok()?.0, ()))
        });
        connections
            .for_each_concurrent(None, async |stream| {
                let Ok(mut near) = acceptor.accept(stream).await else { return };
                let mut far =
                    tokio::net::TcpStream::connect(to).await.expect("the server is there");
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            })
            .await;
    });
    let _forwarding = AbortOnDropHandle::new(forwarding);
    let folder = std::env::temp_dir().join(format!("zcp-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let known = folder.join("known.pem");
    std::fs::write(&known, made.cert.pem()).unwrap();
    for url in [format!("https://localhost:{port}/mcp"), format!("wss://localhost:{port}/ws")] {
        for is_known in [true, false] {
            let mut ping = tokio::process::Command::new(zcp());
            ping.args(["ping", &url]).env("XDG_CACHE_HOME", &folder).env("XDG_DATA_HOME", &folder);
            if is_known {
                ping.env("SSL_CERT_FILE", &known);
            }
            let output = ping.output().await.expect("it runs");
            let words = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_known, "{url}: {words}");
            assert!(is_known || words.contains("certificate"), "{url}: {words}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
