//! A store that fails: what its clients are told, and what is for the log.

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream::BoxStream};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use zcp::{
    Ctx, Result, Server, Tasks,
    store::{Bound, Entry, If, Memory, Store, StoreError, StoreResult},
    tool,
};
use zcp_tests::{PATIENCE, all_capabilities, call, http::HttpServer, modern_as, request, text};

/// A store whose disk is full from some time on, or slow to say that something was appended.
#[derive(Default)]
struct Full {
    memory: Memory,
    is_full: AtomicBool,
    is_slow: AtomicBool,
}

impl Full {
    fn room(&self) -> StoreResult<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("/srv/private/zcp.sqlite: disk is full".into())),
            false => Ok(()),
        }
    }
}

impl Store for Full {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        Box::pin(async move {
            if key == "ready" {
                self.room()?;
            }
            self.memory.get(key).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            self.room()?;
            self.memory.put(key, value, condition, ttl).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        self.memory.remove(key)
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            self.room()?;
            let appended = self.memory.append(log, value, bound, ttl).await;
            if self.is_slow.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            appended
        })
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        self.memory.after(log, position)
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        self.memory.watch(log)
    }
}

/// Tells of a change.
#[tool]
async fn touch(ctx: Ctx) -> Result<String> {
    ctx.updated("note://one").await?;
    Ok("told".to_owned())
}

/// Asks.
#[tool]
async fn sure(ctx: Ctx) -> Result<String> {
    let schema = json!({ "type": "object", "properties": {} });
    ctx.ask_with::<Value>("sure", "Sure?", schema).await?;
    Ok("done".to_owned())
}

/// Its reason names a file of the server, which is for the log.
#[tokio::test]
async fn a_store_that_fails_shows_clients_no_details() {
    let store = Arc::new(Full::default());
    let server = Server::new("full").tool(touch).tool(sure).single_use_answers();
    let server = server.shared_store(store.clone());
    let server = HttpServer::new(server).await;
    let session = server.open("2025-11-25").await;
    let asks = call("sure", json!({}));
    let asked = modern_as(1, "tools/call", asks.clone(), all_capabilities());
    let asked = server.post(&asked).send().await.response().await;
    let mut again = asks;
    again["inputResponses"] = json!({ "sure": { "action": "accept", "content": {} } });
    again["requestState"] = asked["result"]["requestState"].clone();
    let again = modern_as(2, "tools/call", again, all_capabilities());
    store.is_full.store(true, Ordering::Relaxed);

    let why = "the store is unavailable: try again later";
    assert_eq!(server.get("/readyz").send().await.text().await, format!("{why}\n"));
    let level = request(3, "logging/setLevel", json!({ "level": "info" }));
    let answers = [
        session.ask(&level).await["error"]["message"].clone(),
        server.post(&again).send().await.response().await["error"]["message"].clone(),
        json!(text(
            &session.ask(&request(4, "tools/call", call("touch", json!({})))).await["result"]
        )),
    ];
    assert_eq!(answers, [why, why, why]);
}

#[tokio::test]
async fn a_frame_whose_connection_goes_while_it_is_noted_is_noted_once() {
    let store = Arc::new(Full::default());
    let chatty = zcp::Tool::new("chatty", async |ctx: Ctx| {
        ctx.log(zcp::Level::Warning, "once");
        tokio::time::sleep(Duration::from_secs(3)).await;
        "done"
    });
    let server = Server::new("s").tool(chatty).shared_store(store.clone());
    let server = HttpServer::new(server).await;
    let session = server.open("2025-11-25").await;
    store.is_slow.store(true, Ordering::Relaxed);
    let mut answer =
        session.post(&request(1, "tools/call", call("chatty", json!({})))).send().await;
    let primer = answer.event().await.and_then(|event| event.id).expect("it can be resumed");
    drop(answer);
    let said = zcp_tests::away::resume(&session, &primer).await.messages().await;
    let logged = said.iter().filter(|said| said["method"] == "notifications/message").count();
    assert_eq!((logged, text(&said.last().expect("an answer")["result"])), (1, "done"), "{said:?}");
}

/// Other servers forget a name that is not alive when they read it.
#[tokio::test]
async fn a_server_is_alive_before_its_name_is_known() {
    let store = Arc::new(Full::default());
    let slow = zcp::Tool::new("slow", async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "done"
    });
    let tasks = Tasks::default().promote_after(Duration::from_millis(10));
    let server = Server::new("s").tool(slow).tasks(tasks).shared_store(store.clone());
    let server = HttpServer::new(server).await;
    store.is_slow.store(true, Ordering::Relaxed);
    let mut named = store.memory.watch("runners");
    let able = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let task = modern_as(1, "tools/call", call("slow", json!({})), able);
    let known = async {
        named.next().await.expect("the store is there");
        let names = store.memory.after("runners", 0).await.expect("it is held");
        let name = std::str::from_utf8(&names[0].1).expect("a name is text").to_owned();
        store.memory.get(&format!("alive/{name}")).await.expect("it is held")
    };
    let known = tokio::time::timeout(PATIENCE, known);
    let (_begun, alive) = tokio::join!(server.post(&task).send(), known);
    assert!(alive.expect("a task makes its server known").is_some());
}
