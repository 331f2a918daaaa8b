//! Roots that change while a handler runs.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tower::{ServiceExt, layer::layer_fn, service_fn};
use zcp::{
    Call, Ctx, KeyRing, Result, Server, Service,
    store::{Memory, Store},
    tool,
};
use zcp_tests::{
    away::at, call, http::HttpServer, notification, pipe::PipeClient, request, response, text,
};

const LAST: &str = "2025-11-25";

/// Says which roots there are, and which there are after they have changed.
#[tool]
async fn follow(ctx: Ctx) -> Result<String> {
    let mut changes = ctx.root_changes().await;
    let before = ctx.roots("before").await?;
    changes.changed().await;
    let after = ctx.roots("after").await?;
    Ok(format!("{} then {}", before.len(), after.len()))
}

fn roots(count: usize) -> Value {
    let root = |at| json!({ "uri": format!("file:///{at}") });
    json!({ "roots": (0..count).map(root).collect::<Vec<_>>() })
}

fn changed() -> Value {
    notification("notifications/roots/list_changed", json!({}))
}

#[tokio::test]
async fn a_handler_hears_that_roots_have_changed() {
    let heard = Arc::new(Mutex::new(vec![]));
    let layer = {
        let heard = heard.clone();
        layer_fn(move |inner: Service| {
            let heard = heard.clone();
            Service::new(service_fn(move |call: Call| {
                heard.lock().unwrap().push(call.op.label());
                let inner = inner.clone();
                async move { inner.oneshot(call).await }
            }))
        })
    };
    let mut client = PipeClient::open(Server::new("roots").tool(follow).layer(layer), LAST).await;
    client.send(request(1, "tools/call", call("follow", json!({})))).await;
    let asked = client.next().await;
    assert_eq!(asked["method"], "roots/list");
    client.send(changed()).await;
    client.send(response(&asked["id"], roots(1))).await;
    let asked = client.next().await;
    client.send(response(&asked["id"], roots(3))).await;
    let answer = client.until(&json!(1)).await.pop().unwrap();
    assert_eq!(text(&answer["result"]), "1 then 3");
    // So do layers, which may refuse it.
    assert!(heard.lock().unwrap().contains(&"roots changed"));
}

#[tokio::test]
async fn changed_roots_are_heard_of_on_another_server() {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let keys = KeyRing::kept_in(&*store).await.unwrap();
    let server = || {
        let server = Server::new("roots").tool(follow).keys(keys.clone());
        HttpServer::new(server.shared_store(store.clone()))
    };
    let (a, b) = (server().await, server().await);
    let session = a.open(LAST).await;
    let mut answer =
        session.post(&request(1, "tools/call", call("follow", json!({})))).send().await;
    let asked = answer.message().await.unwrap();
    assert_eq!(session.post(&response(&asked["id"], roots(1))).send().await.status, 202);
    assert_eq!(at(&b, &session.id, &changed()).send().await.status, 202);
    let asked = answer.message().await.unwrap();
    assert_eq!(session.post(&response(&asked["id"], roots(2))).send().await.status, 202);
    assert_eq!(text(&answer.response().await["result"]), "1 then 2");
}
