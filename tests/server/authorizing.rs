//! What layers see and decide: everything a peer does, by the caller of each message.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use http::Request;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use tower::{
    ServiceExt,
    layer::{LayerFn, layer_fn},
    service_fn,
    util::MapRequestLayer,
};
use zcp::{
    Call, Caller, Catalog, Ctx, Fault, ListKind, Op, Outcome, Principal, RateLimit, Resource,
    Runtime, Scopes, Server, Service, Tool, View,
    store::{Memory, Store},
};
use zcp_tests::{
    away::{SESSION, at, first_id, modern_slow, resumable, resume, slow, tool},
    call, everything,
    http::HttpServer,
    initialize, modern, notification,
    pipe::PipeClient,
    request, response,
    socket::Socket,
    text,
};

/// A layer that decides by a function: none is yes.
fn deciding(
    decide: impl Fn(&Call) -> Option<Fault> + Clone + Send + Sync + 'static,
) -> LayerFn<impl Fn(Service) -> Service + Clone + Send + 'static> {
    layer_fn(move |inner: Service| {
        let decide = decide.clone();
        Service::new(service_fn(move |call: Call| {
            let (refused, inner) = (decide(&call), inner.clone());
            async move {
                match refused {
                    Some(fault) => Ok::<_, Infallible>(Outcome::Fault(fault)),
                    None => inner.oneshot(call).await,
                }
            }
        }))
    })
}

/// The labels of what passed a layer.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn layer(&self) -> LayerFn<impl Fn(Service) -> Service + Clone + Send + 'static> {
        let seen = self.clone();
        deciding(move |call| {
            let target = call.op.target().unwrap_or_default();
            let line = format!("{} {target}", call.op.label());
            seen.0.lock().unwrap().push(line.trim().to_owned());
            None
        })
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A user by `x-user`, with the scopes in `x-scopes`.
fn sign_in<B>(mut request: Request<B>) -> Request<B> {
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    if let Some(user) = header("x-user") {
        let scopes = header("x-scopes").unwrap_or_default();
        let caller = Caller::new(Principal::issued_by("https://id.example.com", user));
        let caller = caller.granted(Scopes::new(scopes.split_whitespace()));
        let caller = match header("x-seconds") {
            Some(seconds) => {
                let left = Duration::from_secs_f64(seconds.parse().unwrap());
                caller.until(SystemTime::now() + left)
            }
            None => caller,
        };
        request.extensions_mut().insert(caller);
    }
    request
}

async fn signed(server: Server) -> HttpServer {
    let runtime: Runtime = server.build().unwrap();
    HttpServer::with(runtime, |http| http.layer(MapRequestLayer::new(sign_in))).await
}

#[tokio::test]
async fn everything_a_peer_does_passes_the_layers() {
    let seen = Seen::default();
    let mut client = PipeClient::open(everything().layer(seen.layer()), "2025-11-25").await;
    assert_eq!(seen.take(), ["open"]);
    client.ask(request(1, "logging/setLevel", json!({ "level": "debug" }))).await;
    let watched = json!({ "uri": "test://watched-resource" });
    client.ask(request(2, "resources/subscribe", watched.clone())).await;
    client.ask(request(3, "resources/unsubscribe", watched)).await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 77 }))).await;
    client.ask(request(4, "tools/list", json!({}))).await;
    assert_eq!(
        seen.take(),
        [
            "set level",
            "subscribe test://watched-resource",
            "unsubscribe test://watched-resource",
            "cancel",
            "list tools"
        ]
    );
    client.send(tool(5, "test_list_roots")).await;
    let question = client.next().await;
    client.send(response(&question["id"], json!({ "roots": [] }))).await;
    client.until(&json!(5)).await;
    assert_eq!(seen.take(), ["call tool test_list_roots", "answer"]);
    client.ask(modern(6, "server/discover", json!({}))).await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    client.send(modern(7, "subscriptions/listen", filter)).await;
    client.next().await;
    assert_eq!(seen.take(), ["open", "listen"]);
}

#[tokio::test]
async fn what_a_layer_refuses_does_not_happen() {
    let refuse = deciding(|call| {
        matches!(call.op, Op::Subscribe { .. } | Op::SetLevel { .. } | Op::Listen { .. })
            .then(|| Fault::Denied("admin".into()))
    });
    let server = HttpServer::new(everything().layer(refuse)).await;
    let session = server.open("2025-11-25").await;
    let watched = json!({ "uri": "test://watched-resource" });
    let subscribe = request(1, "resources/subscribe", watched);
    assert_eq!(session.ask(&subscribe).await["error"]["code"], 403);
    let level = request(2, "logging/setLevel", json!({ "level": "debug" }));
    assert_eq!(session.ask(&level).await["error"]["code"], 403);
    assert_eq!(session.get().send().await.status, 403);
    let filter =
        json!({ "notifications": { "resourceSubscriptions": ["test://watched-resource"] } });
    let listen = server.post(&modern(3, "subscriptions/listen", filter)).send().await;
    assert_eq!(listen.status, 403);
    let challenge = &listen.headers["www-authenticate"];
    assert_eq!(challenge, "Bearer error=\"insufficient_scope\", scope=\"admin\"");
}

#[tokio::test]
async fn resuming_and_ending_a_session_pass_the_layers() {
    let refuse = deciding(|call| {
        let denied = matches!(call.op, Op::Resume | Op::Close);
        denied.then(|| Fault::Denied("admin".into()))
    });
    let server = HttpServer::new(everything().layer(refuse)).await;
    let session = server.open("2025-11-25").await;
    let mut stream = session.post(&slow(1, "lost", 30.0)).send().await;
    let last = first_id(&mut stream).await;
    drop(stream);
    assert_eq!(resume(&session, &last).await.status, 403);
    assert_eq!(session.get().send().await.status, 200, "listening is another operation");
    assert_eq!(session.delete().send().await.status, 403);
    let ping = session.ask(&request(2, "ping", json!({}))).await;
    assert_eq!(ping["result"], json!({}), "the session goes on");
    let (socket, id) = resumable(&server).await;
    socket.cut();
    let again = Socket::try_connect(&server, &format!("?session={id}"), &[]).await;
    let refused = again.err().map(|error| error.to_string());
    assert!(refused.is_some_and(|why| why.contains("403")));
}

#[tokio::test]
async fn a_denied_takeover_leaves_the_socket_where_it_is() {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let refuse =
        deciding(|call| matches!(call.op, Op::Resume).then(|| Fault::Denied("admin".into())));
    let first = HttpServer::new(everything().shared_store(store.clone())).await;
    let second = HttpServer::new(everything().shared_store(store).layer(refuse)).await;
    let (mut socket, id) = resumable(&first).await;
    let again = Socket::try_connect(&second, &format!("?session={id}&last_event_id=1"), &[]).await;
    assert!(again.err().is_some_and(|error| error.to_string().contains("403")));
    let ping = socket.ask(request("still", "ping", json!({}))).await;
    assert_eq!(ping["result"], json!({}), "the first server still has the conversation");
}

#[tokio::test]
async fn listening_can_be_denied_without_denying_to_resume() {
    let refuse = deciding(|call| {
        let denied = matches!(call.op, Op::Listen { .. });
        denied.then(|| Fault::Denied("listen".into()))
    });
    let server = HttpServer::new(everything().layer(refuse)).await;
    let session = server.open("2025-11-25").await;
    let mut stream = session.post(&slow(1, "found", 0.5)).send().await;
    let last = first_id(&mut stream).await;
    drop(stream);
    assert_eq!(session.get().send().await.status, 403);
    let said = resume(&session, &last).await.messages().await;
    assert_eq!(said.last().unwrap()["id"], 1);
}

#[tokio::test]
async fn a_denied_subscription_does_not_say_what_is_there() {
    let refuse = deciding(|call| {
        let denied = matches!(call.op, Op::Subscribe { .. });
        denied.then(|| Fault::Denied("read".into()))
    });
    let mut client = PipeClient::open(everything().layer(refuse), "2025-11-25").await;
    for uri in ["test://watched-resource", "test://no-such-resource"] {
        let answer = client.ask(request(1, "resources/subscribe", json!({ "uri": uri }))).await;
        assert_eq!(answer["error"]["code"], 403, "{uri}");
    }
}

#[tokio::test]
async fn a_handshake_that_a_layer_refuses_opens_no_session() {
    let refuse = deciding(|call| {
        let named = !call.ctx.principal().is_anonymous();
        (matches!(call.op, Op::Open) && !named).then(|| Fault::Denied("open".into()))
    });
    let server = signed(everything().layer(refuse)).await;
    let answer = server.post(&initialize(1, "2025-11-25")).send().await;
    assert_eq!(answer.status, 403);
    assert!(!answer.headers.contains_key(SESSION));
    let answer = server.post(&initialize(1, "2025-11-25")).header("x-user", "ann").send().await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_cancel_that_a_layer_refuses_stops_nothing() {
    let refuse = deciding(|call| {
        let denied = matches!(call.op, Op::Cancel { .. });
        denied.then(|| Fault::Denied("cancel".into()))
    });
    let mut client = PipeClient::open(everything().layer(refuse), "2025-11-25").await;
    let slow = call("slow_compute", json!({ "seconds": 0.4, "label": "kept" }));
    client.send(request(1, "tools/call", slow)).await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    let answer = client.until(&json!(1)).await;
    assert!(text(&answer.last().unwrap()["result"]).contains("computed"));
}

#[tokio::test]
async fn a_handler_sees_the_caller_of_its_message() {
    let scopes = Tool::new("scopes", async |ctx: Ctx| {
        let caller = ctx.caller();
        let scopes: Vec<_> = caller.scopes().iter().collect();
        format!("{} {}", caller.principal().subject(), scopes.join(","))
    });
    let server = signed(Server::new("scopes").tool(scopes)).await;
    let open = server.post(&initialize(1, "2025-11-25")).header("x-user", "ann").send().await;
    let id = open.headers[SESSION].to_str().unwrap().to_owned();
    for scopes in ["read", "read write", ""] {
        let call = at(&server, &id, &tool(2, "scopes")).header("x-user", "ann");
        let answer = call.header("x-scopes", scopes).send().await.response().await;
        assert_eq!(text(&answer["result"]), format!("ann {}", scopes.replace(' ', ",")));
    }
    // The same subject of another issuer, or of none, is somebody else.
    assert_eq!(at(&server, &id, &tool(3, "scopes")).send().await.status, 404);
}

/// A layer that shows `secret` to callers with the scope `admin`.
fn by_scope(inner: Service) -> Service {
    let tools = |names: &[&str]| {
        let tool = |name: &str| Tool::new(name, async || "done");
        Arc::new(names.iter().fold(Catalog::default(), |all, name| all.tool(tool(name))))
    };
    let (all, public) = (tools(&["a", "b", "secret"]), tools(&["a", "b"]));
    Service::new(service_fn(move |call: Call| {
        let (inner, all, public) = (inner.clone(), all.clone(), public.clone());
        async move {
            let admin = call.ctx.caller().scopes().contains("admin");
            let mut outcome = inner.oneshot(call).await?;
            if let Outcome::Page(page) = &mut outcome
                && page.kind == ListKind::Tools
            {
                page.catalog = if admin { all } else { public };
            }
            Ok::<_, Infallible>(outcome)
        }
    }))
}

#[tokio::test]
async fn lists_and_cursors_belong_to_a_view() {
    let server = Server::new("views").tool(Tool::new("a", async || "done")).page_size(1);
    let server = signed(server.layer(layer_fn(by_scope))).await;
    let list = async |scopes: &str, cursor: Option<&Value>| {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let list = server.post(&modern(1, "tools/list", params)).header("x-user", "ann");
        list.header("x-scopes", scopes).send().await.text().await
    };
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for _ in 0..2 {
        let (admin, reader) = (list("admin", None).await, list("read", None).await);
        assert_eq!((&admin, &reader), (&list("admin", None).await, &list("read", None).await));
        let cursors =
            [&parsed(&admin)["result"]["nextCursor"], &parsed(&reader)["result"]["nextCursor"]]
                .map(Clone::clone);
        assert_eq!(
            parsed(&list("admin", Some(&cursors[0])).await)["result"]["tools"][0]["name"],
            "b"
        );
        assert_eq!(
            parsed(&list("read", Some(&cursors[1])).await)["result"]["tools"][0]["name"],
            "b"
        );
        assert_eq!(parsed(&list("read", Some(&cursors[0])).await)["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_view_can_be_more_than_scopes() {
    let caller = Caller::new(Principal::new("ann")).granted(Scopes::new(["a", "b"]));
    let same = Caller::new(Principal::new("bob")).granted(Scopes::new(["b", "a"]));
    assert_eq!(caller.view(), same.view());
    assert_ne!(caller.view(), View::ALL);
    assert_ne!(caller.clone().seeing(View::new("ann")).view(), caller.view());
    assert_eq!(Caller::new(Principal::new("ann")).view(), View::ALL);
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_expires() {
    let server = signed(everything()).await;
    let open = server.post(&initialize(1, "2025-11-25")).header("x-user", "ann").send().await;
    let id = open.headers[SESSION].to_str().unwrap().to_owned();
    let get = server.get("/mcp").header(SESSION, &id).header("accept", "text/event-stream");
    let mut stream = get.header("x-user", "ann").header("x-seconds", "0.5").send().await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.message().await, None, "the stream ends");
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listen = server.post(&modern(3, "subscriptions/listen", filter));
    let listen = listen.header("x-user", "ann").header("x-seconds", "0.5").send().await;
    let said = listen.messages().await;
    assert_eq!(said[0]["method"], "notifications/subscriptions/acknowledged");
    let mut old =
        server.get("/sse").header("x-user", "ann").header("x-seconds", "0.5").send().await;
    assert_eq!(old.event().await.unwrap().name.as_deref(), Some("endpoint"));
    assert_eq!(old.event().await, None, "the stream ends");
    let headers = [("x-user", "ann"), ("x-seconds", "0.5")];
    let mut socket = Socket::try_connect(&server, "", &headers).await.unwrap();
    assert_eq!(socket.next().await, None, "the socket ends");
}

#[tokio::test]
async fn the_stream_of_a_call_ends_when_its_caller_expires() {
    let server = signed(everything()).await;
    let open = server.post(&initialize(1, "2025-11-25")).header("x-user", "ann").send().await;
    let id = open.headers[SESSION].to_str().unwrap().to_owned();
    let (in_session, stateless) = (slow(1, "expires", 30.0), modern_slow("expires too", 30.0));
    for call in [at(&server, &id, &in_session), server.post(&stateless)] {
        let stream = call.header("x-user", "ann").header("x-seconds", "0.5").send().await;
        assert!(stream.is_stream());
        let ends = tokio::time::timeout(Duration::from_secs(10), stream.messages()).await;
        let said = ends.expect("the stream ends");
        assert!(said.iter().all(|message| message["result"].is_null()), "{said:?}");
    }
}

#[tokio::test]
async fn sessions_of_anonymous_callers_are_separate() {
    let keep = Tool::new("keep", async |ctx: Ctx| ctx.handle(&42, Duration::from_secs(60)));
    let open = Tool::new("open", async |zcp::Args(args): zcp::Args<Value>, ctx: Ctx| {
        ctx.open_handle::<i64>(args["handle"].as_str().unwrap_or_default()).map(|n| n.to_string())
    });
    let server = HttpServer::new(Server::new("handles").tool(keep).tool(open)).await;
    let (one, two) = (server.open("2025-11-25").await, server.open("2025-11-25").await);
    let handle = text(&one.ask(&tool(1, "keep")).await["result"]).to_owned();
    let opening = request(2, "tools/call", call("open", json!({ "handle": handle })));
    assert_eq!(text(&one.ask(&opening).await["result"]), "42");
    assert_eq!(two.ask(&opening).await["result"]["isError"], true);
    // Without a session a handle is a bearer capability.
    let modern_call = |name, args| modern(3, "tools/call", call(name, args));
    let kept = server.post(&modern_call("keep", json!({}))).send().await.json().await;
    let handle = text(&kept["result"]);
    let opened = server.post(&modern_call("open", json!({ "handle": handle }))).send().await;
    assert_eq!(text(&opened.json().await["result"]), "42");
}

#[tokio::test]
async fn anonymous_callers_are_limited_apart() {
    let limit = || RateLimit::per_second(0.001).burst(3.0);
    let server = || Server::new("limited").tool(Tool::new("open", async || "open"));
    let runtime = server().layer(limit()).build().unwrap();
    let mut refused = 0;
    for _ in 0..2 {
        // Each pipe is a peer of its own, with a handshake that counts.
        let mut client = PipeClient::serving(runtime.clone());
        client.ask(initialize(0, "2025-11-25")).await;
        for id in 1..5 {
            let answer = client.ask(tool(id, "open")).await;
            refused += usize::from(answer["error"]["code"] == 429);
        }
        // Whoever is over the limit may still cancel.
        client.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    }
    assert_eq!(refused, 4, "two of four calls of each, after the handshake");
}

#[tokio::test]
async fn a_limit_of_each_tool_counts_only_tools_that_are_there() {
    let limit = RateLimit::per_second(0.001).burst(2.0).each_tool();
    let server = Server::new("limited").tool(Tool::new("open", async || "open")).layer(limit);
    let mut client = PipeClient::new(server);
    let mut refused = 0;
    for id in 0..6 {
        let unknown = call(&format!("unknown-{id}"), json!({}));
        let answer = client.ask(modern(id, "tools/call", unknown)).await;
        refused += usize::from(answer["error"]["code"] == 429);
    }
    assert_eq!(refused, 4, "unknown tools are counted together");
}

#[tokio::test]
async fn subscriptions_of_one_session_are_bounded_in_bytes() {
    let all = Resource::new("test://{+name}", async |uri: zcp::Uri| uri.0).watched();
    let mut client = PipeClient::open(Server::new("many").resource(all), "2025-11-25").await;
    let mut refused = 0;
    for id in 0..20 {
        let uri = format!("test://{id}/{}", "x".repeat(8000));
        let answer = client.ask(request(id, "resources/subscribe", json!({ "uri": uri }))).await;
        refused += usize::from(answer["error"]["code"] == -32602);
    }
    assert_eq!(refused, 12, "8 URIs of 8,000 bytes fit in 64 KiB");
}

/// A yes to one run is not a yes to a second one.
/// What was answered in an earlier round is carried along, and is good for one run, too.
#[tokio::test]
async fn a_carried_answer_is_good_for_one_run_of_a_tool_that_acts() {
    async fn pay(ctx: Ctx) -> zcp::Result<String> {
        let form = || json!({ "type": "object", "properties": {} });
        ctx.ask_with::<Value>("sure", "Pay?", form()).await?;
        ctx.ask_with::<Value>("really", "Really?", form()).await?;
        Ok("paid".to_owned())
    }
    let mut client = PipeClient::new(Server::new("paying").tool(Tool::new("pay", pay)));
    let again = |answer: &Value, answers: Value| {
        let mut retry = call("pay", json!({}));
        retry["requestState"] = answer["result"]["requestState"].clone();
        retry["inputResponses"] = answers;
        retry
    };
    let asked = client.ask(modern(1, "tools/call", call("pay", json!({})))).await;
    let yes = json!({ "sure": { "action": "accept", "content": {} } });
    let first = client.ask(modern(2, "tools/call", again(&asked, yes))).await;
    // Twice from here, with nothing new.
    let second = client.ask(modern(3, "tools/call", again(&first, json!({})))).await;
    assert!(second["result"]["inputRequests"]["really"].is_object(), "{second}");
    let refused = client.ask(modern(4, "tools/call", again(&first, json!({})))).await;
    assert!(refused["error"]["message"].to_string().contains("used before"), "{refused}");
    let yes = json!({ "really": { "action": "accept", "content": {} } });
    let paid = client.ask(modern(5, "tools/call", again(&second, yes))).await;
    assert_eq!(text(&paid["result"]), "paid", "{paid}");
}

#[tokio::test]
async fn an_answer_is_good_for_one_run_of_a_tool_that_acts() {
    async fn pay(ctx: Ctx) -> zcp::Result<String> {
        let sure =
            ctx.ask_with::<Value>("sure", "Pay?", json!({ "type": "object", "properties": {} }));
        sure.await?;
        Ok("paid".to_owned())
    }
    let server = Server::new("paying").tool(Tool::new("pay", pay));
    let server = server.tool(Tool::new("look", pay).read_only());
    let mut client = PipeClient::new(server);
    for (name, again) in [("pay", false), ("look", true)] {
        let asked = client.ask(modern(1, "tools/call", call(name, json!({})))).await;
        let mut retry = call(name, json!({}));
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry["inputResponses"] = json!({ "sure": { "action": "accept", "content": {} } });
        let first = client.ask(modern(2, "tools/call", retry.clone())).await;
        assert_eq!(text(&first["result"]), "paid", "{first}");
        let second = client.ask(modern(3, "tools/call", retry)).await;
        assert_eq!(second.get("result").is_some(), again, "{name}: {second}");
    }
}
