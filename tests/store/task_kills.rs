//! Tasks whose servers are killed: they go on elsewhere, or say why not.

use serde_json::{Value, json};
use std::{
    convert::Infallible,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tower::{ServiceExt, layer::layer_fn, service_fn};
use zcp::{Call, Fault, Op, Outcome, Service, TaskOp, store::sqlite::Sqlite};
use zcp_client::{
    Client, Error, Started, Task, TaskStatus,
    wire::{
        Revision,
        mcp::elicitation::{Action, ElicitResult},
    },
};
use zcp_tests::{
    everything, examples::zcp, folder::Folder, http::HttpServer, redis::RedisServer,
    replica::Replica,
};

const DESIGNS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

async fn client(replica: &Replica, revision: Revision) -> Client {
    let agree = async |_| {
        let content = Some(json!({ "confirm": true }));
        Ok(ElicitResult { action: Action::Accept, content })
    };
    let builder = Client::builder("kills", "1").revision(revision).elicit(agree).tasks();
    let client = builder.connect(replica.http()).await.expect("it is reached");
    // What may be a task is known from the list.
    client.list_tools().await.expect("tools");
    client
}

async fn begin(client: &Client, tool: &str, args: Value) -> Task {
    match client.tool(tool).args(args).as_task().start().await.expect("it begins") {
        Started::Task(task) => task,
        other => panic!("it is no task: {other:?}"),
    }
}

async fn status(task: &Task, wanted: TaskStatus) {
    for _ in 0..200 {
        if task.state().await.expect("it is known").status == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is not {wanted:?}");
}

fn status_in_store(redis: &RedisServer, task: &Task) -> String {
    let shown = Command::new(zcp())
        .args(["tasks", "show", "--json", "--store", &redis.url(), "--", task.id()])
        .output()
        .expect("it runs");
    assert!(shown.status.success(), "{shown:?}");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    shown["status"].as_str().expect("a status").to_owned()
}

fn text(result: &zcp_client::wire::mcp::tools::CallToolResult) -> String {
    serde_json::to_value(result).expect("JSON")["content"][0]["text"]
        .as_str()
        .expect("text")
        .to_owned()
}

#[tokio::test]
async fn what_may_be_done_twice_is_done_again_after_a_kill() {
    let folder = Folder::new("task-again");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    for revision in DESIGNS {
        let mut replica = Replica::everything(&["--data", &file]).await;
        let before = client(&replica, revision).await;
        let args = json!({ "seconds": 1.5, "label": "again" });
        let task = begin(&before, "slow_compute", args).await;
        replica.again().await;
        // By its id it is found again from another process, too.
        let after = client(&replica, revision).await;
        let found = after.task(task.id());
        assert_eq!(found.state().await.expect("it is known").status, TaskStatus::Working);
        let result = found.result().await.expect("it is done");
        assert_eq!(text(&result), "again: computed for 1.5 seconds");
        // What it came to outlives another kill.
        replica.again().await;
        let after = client(&replica, revision).await;
        let result = after.task(task.id()).result().await.expect("it is kept");
        assert_eq!(text(&result), "again: computed for 1.5 seconds");
    }
}

#[tokio::test]
async fn what_must_not_be_done_twice_fails_and_says_why() {
    let folder = Folder::new("task-once");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    for revision in DESIGNS {
        let mut replica = Replica::everything(&["--data", &file]).await;
        let before = client(&replica, revision).await;
        let task = begin(&before, "slow_once", json!({ "seconds": 60 })).await;
        replica.again().await;
        let after = client(&replica, revision).await;
        let failed = after.task(task.id()).result().await.expect_err("it is not done");
        let Error::Refused(why) = &failed else { panic!("{failed}") };
        assert!(why.message.contains("stopped before it was done"), "{why}");
    }
}

#[tokio::test]
async fn a_question_outlives_the_server_that_asked_it() {
    let folder = Folder::new("task-asks");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    for revision in DESIGNS {
        let mut replica = Replica::everything(&["--data", &file]).await;
        let before = client(&replica, revision).await;
        let task = begin(&before, "confirm_delete", json!({ "filename": "a" })).await;
        status(&task, TaskStatus::InputRequired).await;
        replica.again().await;
        let after = client(&replica, revision).await;
        let result = after.task(task.id()).result().await.expect("it is answered");
        assert_eq!(text(&result), "a deleted");
    }
}

#[tokio::test]
async fn the_tasks_of_a_dead_server_are_taken_over_by_another() {
    let redis = RedisServer::new().await;
    let args = ["--store", &redis.url()];
    let (mut one, two) = (Replica::everything(&args).await, Replica::everything(&args).await);
    for revision in DESIGNS {
        let (here, there) = (client(&one, revision).await, client(&two, revision).await);
        let again = json!({ "seconds": 2, "label": "moved" });
        let moved = begin(&here, "slow_compute", again).await;
        let once = begin(&here, "slow_once", json!({ "seconds": 60 })).await;
        let asks = begin(&here, "confirm_delete", json!({ "filename": "a" })).await;
        status(&asks, TaskStatus::InputRequired).await;
        one.kill();
        let result = there.task(moved.id()).result().await.expect("it is done");
        assert_eq!(text(&result), "moved: computed for 2 seconds");
        let result = there.task(asks.id()).result().await.expect("it is done");
        assert_eq!(text(&result), "a deleted");
        there.task(once.id()).result().await.expect_err("it is not done");
        one.start().await;
    }
}

#[tokio::test]
async fn nobody_needs_to_ask_for_a_task_to_be_taken_over() {
    let redis = RedisServer::new().await;
    let args = ["--store", &redis.url()];
    let (mut one, two) = (Replica::everything(&args).await, Replica::everything(&args).await);
    let here = client(&one, Revision::V2026_07_28).await;
    let args = json!({ "seconds": 1, "label": "unasked" });
    let task = begin(&here, "slow_compute", args).await;
    one.kill();
    // Only the store is looked at: a question to the other server might be what wakes it.
    let deadline = Instant::now() + Duration::from_secs(60);
    while status_in_store(&redis, &task) != "completed" {
        assert!(Instant::now() < deadline, "nobody has taken it over");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let there = client(&two, Revision::V2026_07_28).await;
    let result = there.task(task.id()).result().await.expect("it is done");
    assert_eq!(text(&result), "unasked: computed for 1 seconds");
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_finishes_its_tasks_first() {
    let folder = Folder::new("task-drain");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut replica = Replica::everything(&["--data", &file]).await;
    let before = client(&replica, Revision::V2026_07_28).await;
    let task = begin(&before, "slow_once", json!({ "seconds": 2 })).await;
    replica.stop().await;
    let after = client(&replica, Revision::V2026_07_28).await;
    let result = after.task(task.id()).result().await.expect("it was finished");
    assert_eq!(text(&result), "done once, in 2 seconds");
}

/// Several look at it at the same time: one of them takes it over, and it runs once.
#[tokio::test]
async fn a_task_that_several_look_at_is_taken_over_once() {
    let folder = Folder::new("task-once");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut a = Replica::everything(&["--data", &file]).await;
    let b = Replica::everything(&["--data", &file]).await;
    let (before, after) = (client(&a, DESIGNS[1]).await, client(&b, DESIGNS[1]).await);
    let mut tasks = vec![];
    for n in 0..8 {
        let args = json!({ "seconds": 20, "label": format!("once-{n}") });
        tasks.push(begin(&before, "slow_compute", args).await);
    }
    a.kill();
    let started = async |n: usize| {
        let args = json!({ "label": format!("once-{n}") });
        let counts = after.tool("test_runs").args(args).send().await.expect("it answers");
        serde_json::to_value(counts).expect("JSON")["structuredContent"]["started"].clone()
    };
    let began = Instant::now();
    for n in 0..tasks.len() {
        while started(n).await == 0 && began.elapsed() < Duration::from_secs(30) {
            let looks = tasks.iter().chain(&tasks).chain(&tasks);
            let looks = looks.map(async |task| after.task(task.id()).state().await.map(drop));
            futures_util::future::join_all(looks).await;
        }
    }
    for _ in 0..5 {
        let looks = tasks.iter().map(async |task| after.task(task.id()).state().await.map(drop));
        futures_util::future::join_all(looks).await;
    }
    for n in 0..tasks.len() {
        assert_eq!(started(n).await, 1, "once-{n}");
    }
}

/// A server that runs a task says so for as long as it does, and nobody takes the task from it.
#[tokio::test]
async fn a_task_of_a_living_server_is_left_to_it() {
    let folder = Folder::new("task-alive");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let a = Replica::everything(&["--data", &file]).await;
    let b = Replica::everything(&["--data", &file]).await;
    let (here, beside) = (client(&a, DESIGNS[1]).await, client(&b, DESIGNS[1]).await);
    // Longer than two leases of a server.
    let args = json!({ "seconds": 14, "label": "alive" });
    let again = begin(&here, "slow_compute", args).await;
    let once = begin(&here, "slow_once", json!({ "seconds": 14 })).await;
    for task in [&again, &once] {
        beside.task(task.id()).result().await.expect("it is done by the server that began it");
    }
    for client in [&here, &beside] {
        let args = json!({ "label": "alive" });
        let counts = client.tool("test_runs").args(args).send().await.expect("it answers");
        let started = &serde_json::to_value(counts).expect("JSON")["structuredContent"]["started"];
        let expected = if std::ptr::eq(client, &here) { 1 } else { 0 };
        assert_eq!(*started, json!(expected), "runs of this server");
    }
}

#[tokio::test]
async fn a_task_that_the_layers_deny_is_not_taken_over() {
    let folder = Folder::new("task-denied");
    let file = folder.0.join("state.sqlite");
    let mut replica = Replica::everything(&["--data", &file.to_string_lossy()]).await;
    let before = client(&replica, Revision::V2026_07_28).await;
    let args = json!({ "seconds": 1, "label": "denied" });
    let task = begin(&before, "slow_compute", args).await;
    replica.kill();
    let deny = layer_fn(|inner: Service| {
        Service::new(service_fn(move |call: Call| {
            let inner = inner.clone();
            async move {
                match &call.op {
                    Op::Task(TaskOp::Resume { tool, .. }) => {
                        assert_eq!(tool, "slow_compute");
                        Ok::<_, Infallible>(Outcome::Fault(Fault::Denied("resume".into())))
                    }
                    _ => inner.oneshot(call).await,
                }
            }
        }))
    });
    let store = Arc::new(Sqlite::open(file).expect("it opens"));
    let server = HttpServer::new(everything().shared_store(store).layer(deny)).await;
    let http = zcp_client::Http::new(server.url("/mcp")).expect("a URL");
    let builder = Client::builder("kills", "1").revision(Revision::V2026_07_28).tasks();
    let after = builder.connect(http).await.expect("it is reached");
    let denied = after.task(task.id()).result().await.expect_err("it is not taken over");
    assert!(denied.to_string().contains("resume"), "{denied}");
}

/// Lists of tasks show no results, and hold none.
#[tokio::test]
async fn lists_of_tasks_take_little_memory() {
    let folder = Folder::new("task-lists");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let server = Replica::everything(&["--data", &file]).await;
    let url = format!("http://{}/mcp", server.address());
    let post = |session: &str, message: Value| {
        let request = reqwest::Client::new().post(&url).body(message.to_string());
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        request.header("mcp-session-id", session)
    };
    let opened = reqwest::Client::new().post(&url).header("content-type", "application/json");
    let opened = opened.header("accept", "application/json, text/event-stream");
    let opened = opened.body(zcp_tests::initialize(1, "2025-11-25").to_string()).send().await;
    let opened = opened.expect("it answers");
    let session = opened.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
    let label = "x".repeat(200_000);
    for id in 0..60 {
        let mut params =
            zcp_tests::call("slow_compute", json!({ "seconds": 0.01, "label": label }));
        params["task"] = json!({});
        let begun = post(&session, zcp_tests::request(id, "tools/call", params)).send().await;
        let begun = begun.expect("it answers").text().await.expect("text");
        assert!(begun.contains("taskId"), "{}", &begun[..begun.len().min(300)]);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.peak();
    let lists = (0..300).map(async |id| {
        let list = zcp_tests::request(1000 + id, "tasks/list", json!({}));
        let listed = post(&session, list).send().await.expect("it answers");
        listed.text().await.expect("text").len()
    });
    let sizes: Vec<usize> = futures_util::future::join_all(lists).await;
    assert!(sizes.iter().all(|size| *size > 60 * 100), "{sizes:?}");
    let grown = (server.peak() - before) / 1024;
    assert!(grown < 200, "{grown} MiB for 300 lists");
}
