//! The client over WebSockets that are lost: what goes on, what is sent again, and what fails.

use futures_util::StreamExt;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, Semaphore};
use zcp::{Ctx, Server, State, tool};
use zcp_client::{
    Change, Client, Error, Failure, Started, TaskStatus, Ws,
    wire::{
        Revision,
        mcp::{
            elicitation::{Action, ElicitResult},
            subscriptions::Filter,
        },
    },
};
use zcp_tests::{
    PATIENCE,
    away::{Pair, pairs},
    everything,
    folder::Folder,
    http::HttpServer,
    relay::Relay,
    replica::Replica,
};

const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// A server behind a relay.
async fn relayed(server: Server) -> (HttpServer, Relay) {
    let http = HttpServer::new(server).await;
    let relay = Relay::new(http.address).await;
    (http, relay)
}

async fn connect(relay: &Relay, revision: Revision) -> Client {
    let builder = Client::builder("sockets", "1").revision(revision);
    builder.connect(Ws::new(relay.ws())).await.expect("it is reached")
}

/// A client that follows tasks.
async fn follow(relay: &Relay, revision: Revision) -> Client {
    let builder = Client::builder("sockets", "1").revision(revision).tasks();
    let builder = builder.elicit(async |_| {
        let content = Some(json!({ "confirm": true }));
        Ok(ElicitResult { action: Action::Accept, content })
    });
    builder.connect(Ws::new(relay.ws())).await.expect("it is reached")
}

/// Waits until something is so; panics when it takes too long.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("not so: {what}"));
}

/// What tools of [`gated`] did, and when they may end.
#[derive(Clone)]
struct Gate {
    begun: Arc<AtomicUsize>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Waits at the gate, and says which run it was.
#[tool]
async fn pass(gate: State<Gate>) -> String {
    let run = gate.0.begun.fetch_add(1, Ordering::SeqCst) + 1;
    gate.0.open.acquire().await.expect("it is never closed").forget();
    format!("run {run}")
}

/// A server whose calls end when the test lets them.
fn gated() -> (Server, Gate) {
    let gate = Gate { begun: Arc::default(), open: Arc::new(Semaphore::new(0)) };
    (Server::new("gated").state(gate.clone()).tool(pass), gate)
}

#[tokio::test]
async fn calls_go_on_when_their_socket_is_cut() {
    for revision in ERAS {
        let (_http, relay) = relayed(everything()).await;
        let client = connect(&relay, revision).await;
        let calls = (0..8).map(|number| {
            let (client, relay) = (&client, &relay);
            async move {
                let heard = Arc::new(Mutex::new(vec![]));
                let (steps, label) = (heard.clone(), number.to_string());
                let call = client
                    .tool("slow_compute")
                    .args(json!({ "seconds": 1.5, "label": label }))
                    .on_progress(move |progress| steps.lock().unwrap().push(progress.progress));
                let cutting = async {
                    until("it has begun", || heard.lock().unwrap().len() > 2 + number).await;
                    relay.cut();
                    Ok::<_, Error>(())
                };
                let (result, ()) = tokio::try_join!(call.send(), cutting).expect("it is answered");
                let said = serde_json::to_value(result).unwrap();
                assert_eq!(
                    said["content"][0]["text"],
                    format!("{label}: computed for 1.5 seconds")
                );
                let steps: Vec<f64> = (0..15).map(f64::from).collect();
                assert_eq!(*heard.lock().unwrap(), steps, "each is heard once, in order");
            }
        });
        futures_util::future::join_all(calls).await;
        assert!(relay.connections() > 2, "{revision}");
        client.close().await;
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_is_sent_again() {
    for revision in ERAS {
        let (server, gate) = gated();
        let (_http, relay) = relayed(server).await;
        let client = connect(&relay, revision).await;
        let cutting = async {
            until("it runs", || gate.begun() == 1).await;
            relay.lose_to_client();
            gate.open.add_permits(1);
            // The server has written the answer once it has taken this.
            tokio::time::sleep(Duration::from_millis(100)).await;
            relay.cut();
        };
        let (said, ()) = tokio::join!(client.call::<String>("pass", json!({})), cutting);
        assert_eq!(said.expect("it is answered"), "run 1");
        assert_eq!((gate.begun(), relay.connections()), (1, 2));
    }
}

#[tokio::test]
async fn a_call_that_never_arrived_is_not_made_again() {
    for revision in ERAS {
        let (server, gate) = gated();
        let (_http, relay) = relayed(server).await;
        let client = connect(&relay, revision).await;
        gate.open.add_permits(9);
        relay.lose_to_server();
        let cutting = async {
            // Nothing shows that the request was written.
            tokio::time::sleep(Duration::from_millis(100)).await;
            relay.cut();
        };
        let call = client.call::<String>("pass", json!({}));
        let (said, list, ()) = tokio::join!(call, client.list_tools(), cutting);
        let error = said.expect_err("nobody knows what became of it");
        assert!(matches!(error, Error::Lost(Failure::Unconfirmed(_))), "{error:?}");
        assert_eq!(list.expect("asking twice does nothing").len(), 1);
        assert_eq!(client.call::<String>("pass", json!({})).await.expect("it goes on"), "run 1");
        assert_eq!((gate.begun(), relay.connections()), (1, 2));
    }
}

/// Says that it has begun, and asks whether to go on.
#[tool]
async fn ask(ctx: Ctx) -> zcp::Result<String> {
    ctx.progress(1.0, 2.0);
    let form =
        json!({ "properties": { "confirm": { "type": "boolean" } }, "required": ["confirm"] });
    let answer: Value = ctx.ask_with("confirm", "Go on?", form).await?.accepted()?;
    Ok(answer.to_string())
}

#[tokio::test]
async fn an_answer_of_the_user_is_sent_again() {
    let (http, asked) =
        (HttpServer::new(Server::new("asks").tool(ask)).await, Arc::new(Notify::new()));
    let relay = Arc::new(Relay::new(http.address).await);
    let (asking, losing) = (asked.clone(), relay.clone());
    let builder = Client::builder("sockets", "1").revision(Revision::V2025_11_25);
    let builder = builder.elicit(move |_| {
        losing.lose_to_server();
        asking.notify_one();
        async {
            Ok(ElicitResult { action: Action::Accept, content: Some(json!({ "confirm": true })) })
        }
    });
    let client = builder.connect(Ws::new(relay.ws())).await.expect("it is reached");
    let cutting = async {
        asked.notified().await;
        // Nothing shows that the answer was written.
        tokio::time::sleep(Duration::from_millis(100)).await;
        relay.cut();
    };
    let (said, ()) = tokio::join!(client.call::<Value>("ask", json!({})), cutting);
    assert_eq!(said.expect("it is answered")["confirm"], true);
}

/// Listens to one resource, and has it change.
async fn hears_of_a_resource(client: &Client, changes: &mut zcp_client::Changes) -> Change {
    let changed = async { client.tool("test_trigger_resource_update").send().await };
    let heard = tokio::time::timeout(PATIENCE, changes.next());
    let (heard, changed) = tokio::join!(heard, changed);
    changed.expect("it changes");
    heard.expect("it is heard").expect("it goes on")
}

#[tokio::test]
async fn a_conversation_goes_on_on_another_server() {
    for Pair { a, b, .. } in &pairs("sockets").await {
        let relay = Relay::new(a.address).await;
        let client = connect(&relay, Revision::V2025_11_25).await;
        let uri = "test://watched-resource".to_owned();
        let filter = Filter { resource_subscriptions: vec![uri.clone()], ..Filter::default() };
        let mut changes = client.listen(filter).await.expect("it tells of changes");
        let begun = Arc::new(Notify::new());
        let heard = begun.clone();
        let call = client
            .tool("slow_compute")
            .args(json!({ "seconds": 1.0, "label": "moved" }))
            .on_progress(move |_| heard.notify_one());
        let moving = async {
            begun.notified().await;
            relay.lead_to(b.address);
            relay.cut();
        };
        let (result, ()) = tokio::join!(call.send(), moving);
        assert!(!result.expect("the first server's answer arrives").is_error);
        // No new conversation was begun: what it had is still so, and nothing was missed.
        assert_eq!(hears_of_a_resource(&client, &mut changes).await, Change::Resource(uri));
        client.close().await;
    }
}

#[tokio::test]
async fn a_conversation_outlives_its_killed_server() {
    let folder = Folder::new("sockets-kill");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut first = Replica::everything(&["--data", &file]).await;
    let second = Replica::everything(&["--data", &file]).await;
    let relay = Relay::new(first.address()).await;
    let client = connect(&relay, Revision::V2025_11_25).await;
    let uri = "test://watched-resource".to_owned();
    let filter = Filter { resource_subscriptions: vec![uri.clone()], ..Filter::default() };
    let mut changes = client.listen(filter).await.expect("it tells of changes");
    let before = relay.connections();
    relay.lead_nowhere();
    first.kill();
    // Asked while there is no server at all, answered when there is one.
    until("it is noticed", || relay.connections() > before).await;
    let leading = async {
        until("it is tried again", || relay.connections() > before + 2).await;
        relay.lead_to(second.address());
    };
    let (said, ()) = tokio::join!(client.call::<String>("test_simple_text", json!({})), leading);
    assert_eq!(said.expect("it is answered"), "This is a simple text response for testing.");
    assert_eq!(hears_of_a_resource(&client, &mut changes).await, Change::Resource(uri));
    // And back, to a server that was started again.
    first.start().await;
    relay.lead_to(first.address());
    relay.cut();
    assert!(!client.list_tools().await.expect("it goes on").is_empty());
}

#[tokio::test]
async fn calls_of_a_killed_server_are_answered_on_the_resumed_socket() {
    let folder = Folder::new("sockets-under-way");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut first = Replica::everything(&["--data", &file]).await;
    let second = Replica::everything(&["--data", &file]).await;
    let relay = Relay::new(first.address()).await;
    let client = connect(&relay, Revision::V2025_11_25).await;
    let (again, once) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (again_begun, once_begun) = (again.clone(), once.clone());
    // One may be made twice, the other may not.
    let twice = client
        .tool("slow_compute")
        .args(json!({ "seconds": 2.0, "label": "again" }))
        .on_progress(move |_| again_begun.notify_one());
    let once_only = client
        .tool("slow_once")
        .args(json!({ "seconds": 60 }))
        .on_progress(move |_| once_begun.notify_one());
    let killing = async {
        again.notified().await;
        once.notified().await;
        relay.lead_to(second.address());
        first.kill();
    };
    let (twice, once_only, ()) = tokio::join!(twice.send(), once_only.send(), killing);
    let said = serde_json::to_value(twice.expect("it is answered")).unwrap();
    assert_eq!(said["content"][0]["text"], "again: computed for 2 seconds");
    let error = once_only.expect_err("it may not be made twice").to_string();
    assert!(error.contains("stopped before it was done"), "{error}");
}

#[tokio::test]
async fn a_conversation_the_server_forgot_ends_its_calls() {
    for revision in ERAS {
        let (server, gate) = gated();
        let (http, relay) = relayed(server).await;
        let client = connect(&relay, revision).await;
        let (again, new_gate) = gated();
        new_gate.open.add_permits(1);
        let forgetting = async {
            until("it runs", || gate.begun() == 1).await;
            let other = HttpServer::new(again).await;
            relay.lead_to(other.address);
            relay.cut();
            other
        };
        let call = client.call::<String>("pass", json!({}));
        let (said, _other) = tokio::join!(call, forgetting);
        let error = said.expect_err("its server does not know it");
        let Error::Lost(Failure::Gone(why)) = &error else { panic!("{error:?}") };
        assert!(why.contains("cannot be resumed") && why.contains("404"), "{why}");
        // The next request begins a new conversation.
        assert_eq!(client.call::<String>("pass", json!({})).await.expect("it goes on"), "run 1");
        drop(http);
    }
}

#[tokio::test]
async fn a_socket_without_resume_is_lost_with_its_connection() {
    let (server, gate) = gated();
    let (_http, relay) = relayed(server).await;
    let client =
        Client::connect(Ws::new(relay.ws()).without_resume()).await.expect("it is reached");
    let cutting = async {
        until("it runs", || gate.begun() == 1).await;
        relay.cut();
    };
    let (said, ()) = tokio::join!(client.call::<String>("pass", json!({})), cutting);
    let error = said.expect_err("it is lost");
    assert!(matches!(error, Error::Lost(Failure::Gone(_))), "{error:?}");
    assert_eq!(client.list_tools().await.expect("a new connection").len(), 1);
}

#[tokio::test]
async fn a_silent_socket_is_found_out_and_resumed() {
    let (server, gate) = gated();
    let (_http, relay) = relayed(server).await;
    // What the client adds to the URL may be there already.
    let ws = Ws::new(relay.ws() + "?resume=true").keep_alive(Duration::from_millis(200));
    let client = Client::connect(ws).await.expect("it is reached");
    let silencing = async {
        until("it runs", || gate.begun() == 1).await;
        // It stays open, and nothing comes through.
        relay.lose_to_server();
        relay.lose_to_client();
        gate.open.add_permits(1);
    };
    let (said, ()) = tokio::join!(client.call::<String>("pass", json!({})), silencing);
    assert_eq!(said.expect("it is answered"), "run 1");
    assert!(relay.connections() > 1);
}

#[tokio::test]
async fn a_quiet_socket_is_kept_alive() {
    let (server, gate) = gated();
    let (_http, relay) = relayed(server).await;
    let ws = Ws::new(relay.ws()).keep_alive(Duration::from_millis(50));
    let client = Client::connect(ws).await.expect("it is reached");
    let waiting = async {
        until("it runs", || gate.begun() == 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        gate.open.add_permits(1);
    };
    let (said, ()) = tokio::join!(client.call::<String>("pass", json!({})), waiting);
    assert_eq!(said.expect("it is answered"), "run 1");
    assert_eq!(relay.connections(), 1, "pongs keep it");
}

#[tokio::test]
async fn a_call_on_a_socket_that_takes_too_long_is_stopped() {
    for revision in ERAS {
        let (_http, relay) = relayed(everything()).await;
        let client = connect(&relay, revision).await;
        let call = client.tool("slow_compute").args(json!({ "seconds": 60, "label": "late" }));
        let late = call.ceiling(Duration::from_millis(300)).send().await;
        assert!(matches!(late, Err(Error::Late(_))), "{late:?}");
        let stopped = async {
            while !client
                .call::<Vec<String>>("test_cancelled_labels", json!({}))
                .await
                .expect("labels")
                .contains(&"late".to_owned())
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, stopped).await.expect("the server stops it");
    }
}

#[tokio::test]
async fn a_task_on_a_socket_is_asked_told_of_and_cancelled() {
    for revision in ERAS {
        let (_http, relay) = relayed(everything()).await;
        let client = follow(&relay, revision).await;
        client.list_tools().await.expect("tools");
        let begin = async |tool: &str, args: Value| match client
            .tool(tool)
            .args(args)
            .as_task()
            .start()
            .await
            .expect("it begins")
        {
            Started::Task(task) => task,
            other => panic!("it is no task: {other:?}"),
        };
        let asks = begin("confirm_delete", json!({ "filename": "a" })).await;
        relay.cut();
        let result = asks.result().await.expect("it is answered");
        let said = serde_json::to_value(result).unwrap();
        assert_eq!(said["content"][0]["text"], "a deleted");
        let long = begin("slow_once", json!({ "seconds": 60 })).await;
        let filter = Filter { task_ids: vec![long.id().to_owned()], ..Filter::default() };
        let mut changes = client.listen(filter).await.expect("it tells of tasks");
        relay.cut();
        long.cancel().await.expect("it is cancelled");
        // A session may be told of the task's beginning first.
        let heard = tokio::time::timeout(PATIENCE, changes.next()).await.expect("it is heard");
        assert_eq!(heard, Some(Change::Task(long.id().to_owned())));
        assert_eq!(long.state().await.expect("a state").status, TaskStatus::Cancelled);
    }
}
