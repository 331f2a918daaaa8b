//! What a client remembers of its servers, and for how long.

use futures_util::StreamExt;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use zcp::{Mcp, Server, Tool};
use zcp_client::{
    Cache, Change, Client, Eras, Error, Group, Process, Started, TaskStatus,
    wire::{
        Revision,
        mcp::{
            elicitation::{Action, ElicitResult},
            subscriptions::Filter,
        },
    },
};
use zcp_tests::{
    actor::{Actor, Said, notified, refused, said, text},
    examples::examples,
};

async fn reach(actor: &Actor, cache: &Cache) -> Client {
    let builder = Client::builder("memory", "1").cache(cache.clone());
    builder.connect(actor.clone()).await.expect("it is reached")
}

/// Lists one tool, to be kept for so long.
fn tools(time: u64, scope: &str) -> Said {
    let tool = json!({ "name": "x", "inputSchema": { "type": "object" } });
    said(json!({ "resultType": "complete", "tools": [tool], "ttlMs": time, "cacheScope": scope }))
}

#[tokio::test]
async fn what_may_be_kept_is_asked_once_and_by_whom_it_was_told() {
    for (scope, asked) in [("public", 1), ("private", 2), ("sparkling", 2)] {
        let actor = Actor::new(move |_, _| tools(60_000, scope));
        let cache = Cache::default();
        let (one, two) = (reach(&actor, &cache).await, reach(&actor, &cache).await);
        for client in [&one, &two, &one, &two] {
            assert_eq!(client.list_tools().await.expect("a list").len(), 1);
        }
        assert_eq!(actor.asked("tools/list").len(), asked, "{scope}");
    }
    // What has no time, or none left, is asked again.
    for time in [json!(0), json!(-5), json!(null), json!("60000"), json!(1)] {
        let actor = Actor::new(move |_, _| {
            said(json!({ "resultType": "complete", "tools": [], "ttlMs": time }))
        });
        let client = reach(&actor, &Cache::default()).await;
        client.list_tools().await.expect("a list");
        tokio::time::sleep(Duration::from_millis(5)).await;
        client.list_tools().await.expect("a list");
        assert_eq!(actor.asked("tools/list").len(), 2);
    }
}

#[tokio::test]
async fn results_are_kept_by_what_was_asked_and_calls_are_not() {
    let actor = Actor::new(|method, params| match method {
        "tools/call" => said(json!({ "resultType": "complete", "content": [], "ttlMs": 60_000 })),
        _ => {
            let uri = params["uri"].clone();
            said(json!({ "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
                "contents": [{ "uri": uri, "text": uri }] }))
        }
    });
    let client = reach(&actor, &Cache::default()).await;
    for uri in ["a:1", "a:2", "a:1", "a:2"] {
        assert_eq!(client.read(uri).await.expect("a text").contents[0].uri, uri);
        client.tool("x").send().await.expect("a result");
    }
    assert_eq!(actor.asked("resources/read").len(), 2);
    assert_eq!(actor.asked("tools/call").len(), 4);
}

#[tokio::test]
async fn a_result_that_took_answers_is_not_kept() {
    let actor = Actor::new(|_, params| match params.get("inputResponses") {
        None => said(json!({ "resultType": "input_required",
            "inputRequests": { "a": { "method": "roots/list" } } })),
        Some(_) => said(json!({ "resultType": "complete", "contents": [], "ttlMs": 60_000,
            "cacheScope": "public" })),
    });
    let client = Client::builder("memory", "1").roots([]).connect(actor.clone()).await.unwrap();
    client.read("a:b").await.expect("a text");
    client.read("a:b").await.expect("a text");
    assert_eq!(actor.asked("resources/read").len(), 4);
}

#[tokio::test]
async fn a_change_makes_what_was_kept_old() {
    let listens = AtomicUsize::new(0);
    let actor = Actor::new(move |method, _| match method {
        "subscriptions/listen" => {
            let filter = json!({ "notifications": { "toolsListChanged": true } });
            let mut told = vec![notified("notifications/subscriptions/acknowledged", filter)];
            if listens.fetch_add(1, Ordering::Relaxed) == 0 {
                told.push(notified("notifications/tools/list_changed", json!({})));
            }
            (told, Ok(json!({ "resultType": "complete" })))
        }
        _ => tools(60_000, "private"),
    });
    let client = reach(&actor, &Cache::default()).await;
    let filter =
        Filter { tools_list_changed: true, prompts_list_changed: true, ..Filter::default() };
    client.list_tools().await.expect("a list");
    let mut changes = client.listen(filter).await.expect("it listens");
    // The server agreed to less than was wished for, and said so.
    assert!(changes.honoured().tools_list_changed);
    assert!(!changes.honoured().prompts_list_changed);
    assert_eq!(changes.next().await, Some(Change::Tools));
    client.list_tools().await.expect("a list");
    client.list_tools().await.expect("a list");
    assert_eq!(actor.asked("tools/list").len(), 2);
    // The stream ended: it is made again, and anything may have changed.
    assert_eq!(changes.next().await, Some(Change::All));
    client.list_tools().await.expect("a list");
    assert_eq!(actor.asked("tools/list").len(), 3);
}

#[tokio::test]
async fn a_cursor_that_is_no_longer_valid_begins_the_list_again() {
    let actor = Actor::new(|_, params| {
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let page = |names: [&str; 2], next: Option<&str>| {
            let tools: Vec<_> = names.iter().map(|name| tool(name)).collect();
            said(json!({ "resultType": "complete", "tools": tools, "nextCursor": next,
                "ttlMs": 60_000, "cacheScope": "private" }))
        };
        match params["cursor"].as_str() {
            None => page(["a", "b"], Some("old")),
            Some("old") => refused(-32602, "unknown cursor"),
            Some(_) => page(["c", "d"], None),
        }
    });
    let client = reach(&actor, &Cache::default()).await;
    let error = client.list_tools().await.expect_err("it is refused again and again");
    assert_eq!(error.code(), Some(-32602));
    assert_eq!(actor.asked("tools/list").len(), 4, "two pages, twice");

    let asked = AtomicUsize::new(0);
    let actor = Actor::new(move |_, params| {
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let count = asked.fetch_add(1, Ordering::Relaxed);
        let answer = match (params["cursor"].as_str(), count) {
            (None, 0) => json!({ "tools": [tool("a"), tool("b")], "nextCursor": "old" }),
            (None, _) => json!({ "tools": [tool("b"), tool("c")], "nextCursor": "new" }),
            (Some("new"), _) => json!({ "tools": [tool("d")] }),
            _ => return refused(-32602, "unknown cursor"),
        };
        said(answer)
    });
    let tools = reach(&actor, &Cache::default()).await.list_tools().await.expect("a list");
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"], "none twice");
}

#[tokio::test]
async fn a_result_must_be_what_its_tool_promised() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } },
        "required": ["n"] });
    let elsewhere = json!({ "$ref": "https://example.com/schema.json" });
    let actor = Actor::new(move |method, params| match (method, params["name"].as_str()) {
        ("tools/list", _) => {
            let tool = |name: &str, output: &Value| {
                json!({ "name": name,
                "inputSchema": { "type": "object" }, "outputSchema": output })
            };
            said(json!({ "tools": [tool("right", &schema), tool("wrong", &schema),
                tool("bare", &schema), tool("failed", &schema), tool("elsewhere", &elsewhere)] }))
        }
        (_, Some("right")) => said(json!({ "content": [], "structuredContent": { "n": 1 } })),
        (_, Some("failed")) => said(json!({ "content": [], "isError": true })),
        (_, Some("bare")) => text("7"),
        _ => said(json!({ "content": [], "structuredContent": { "n": "one" } })),
    });
    let client = reach(&actor, &Cache::default()).await;
    // Nothing is known of a tool that was never listed.
    client.tool("wrong").send().await.expect("a result");
    assert_eq!(client.list_tools().await.expect("a list").len(), 5);
    client.tool("right").send().await.expect("it fits");
    assert!(client.tool("failed").send().await.expect("a result").is_error);
    // A schema elsewhere is not fetched, and what it says is not known.
    client.tool("elsewhere").send().await.expect("a result");
    for (name, why) in [("wrong", "integer"), ("bare", "lacks the structured content")] {
        let error = client.tool(name).send().await.expect_err("it does not fit");
        assert!(matches!(&error, Error::Invalid(said) if said.contains(why)), "{error}");
    }
}

/// A server that knows no `server/discover`, and says nothing to it.
const OLD: &str = r#"while read line; do case "$line" in
    *'"initialize"'*) id=${line#*'"id":'}; echo '{"jsonrpc":"2.0","id":'${id%%,*}',"result":{
        "protocolVersion":"2025-06-18","capabilities":{},
        "serverInfo":{"name":"old","version":"1"}}}' | tr -d '\n'; echo;;
esac; done"#;

#[tokio::test]
async fn what_was_found_out_of_a_server_is_not_asked_again() {
    let folder = std::env::temp_dir().join(format!("zcp-eras-{}", std::process::id()));
    let file = folder.join("eras.json");
    let connect = || async {
        let begun = Instant::now();
        let client = Client::builder("memory", "1")
            .eras(Eras::at(&file))
            .probe(Duration::from_millis(700))
            .connect(Process::new("sh").args(["-c", OLD]))
            .await
            .expect("it is reached");
        assert_eq!(client.server().revision, Revision::V2025_06_18);
        client.close().await;
        begun.elapsed()
    };
    assert!(connect().await >= Duration::from_millis(700), "it was waited for");
    assert!(connect().await < Duration::from_millis(700), "it was known");
    let text = std::fs::read_to_string(&file).expect("it is kept");
    assert!(text.contains("\"is_old\":true"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_verdict_that_proves_wrong_is_found_out_again() {
    let folder = std::env::temp_dir().join(format!("zcp-verdict-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let everything = examples().join("everything");
    // What was said of the old version is believed of the new one, until it fails.
    let script = folder.join("server");
    std::fs::write(&script, OLD).unwrap();
    let eras = Eras::default();
    let connect = || {
        let process = Process::new("sh").arg(script.as_os_str());
        Client::builder("memory", "1")
            .eras(eras.clone())
            .probe(Duration::from_secs(2))
            .timeout(Duration::from_secs(20))
            .connect(process)
    };
    let client = connect().await.expect("it is reached");
    assert_eq!(client.server().revision, Revision::V2025_06_18);
    drop(client);
    // The new one is of the stateless era alone: it knows no handshake.
    let refusal = r#"{"jsonrpc":"2.0","id":'${id%%,*}',"error":{"code":-32601,"message":"no"}}"#;
    let new = format!(
        "#!/bin/sh\nread line\ncase \"$line\" in *'\"initialize\"'*) \
         id=${{line#*'\"id\":'}}; echo '{refusal}'; exit 0;; esac\n\
         {{ echo \"$line\"; cat; }} | {} --stdio\n",
        everything.display()
    );
    std::fs::write(&script, new).unwrap();
    let client = connect().await.expect("it is reached");
    assert_eq!(client.server().revision, Revision::V2026_07_28);
    client.close().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

fn named(name: &'static str) -> Mcp {
    // What a server calls itself decides nothing.
    let server = Server::new("the very same");
    Mcp::new(
        server
            .tool(Tool::new("who", move || std::future::ready(name)))
            .build()
            .expect("no mistakes"),
    )
}

#[tokio::test]
async fn servers_are_told_apart_by_our_labels_and_a_dead_one_harms_nobody() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let group = Group::default()
        .member("one", || Client::connect(named("one")))
        .unwrap()
        .member("dead", move || {
            // It comes to life at the third try.
            let count = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                match count {
                    0 | 1 => Client::connect(Process::new("no-such-program-here")).await,
                    _ => Client::connect(named("dead")).await,
                }
            }
        })
        .unwrap()
        .member("two", || Client::connect(named("two")))
        .unwrap();
    let listed = group.list_tools().await;
    let names: Vec<_> = listed.items.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["one__who", "two__who"]);
    assert_eq!(listed.missing.len(), 1);
    assert_eq!(listed.missing[0].0, "dead");
    for label in ["one", "two"] {
        let who: String = group.call(&format!("{label}__who"), json!({})).await.expect("an answer");
        assert_eq!(who, label);
    }
    assert!(group.call::<String>("dead__who", json!({})).await.is_err());
    let who: String = group.call("dead__who", json!({})).await.expect("it is there again");
    assert_eq!((who.as_str(), tries.load(Ordering::Relaxed)), ("dead", 3));
    let unknown = group.call::<String>("three__who", json!({})).await.expect_err("nobody");
    assert!(unknown.to_string().contains("one, dead, two"), "{unknown}");
    assert!(Group::default().member("a__b", || Client::connect(named("x"))).is_err());
    group.close().await;
}

/// A server whose tool goes on as a task that asks one question.
fn tasked(polls: &Arc<Mutex<Vec<Instant>>>) -> Actor {
    let (polls, updates) = (polls.clone(), AtomicUsize::new(0));
    Actor::new(move |method, params| {
        let id = params["taskId"].as_str() == Some("task-1");
        let question = json!({ "name": { "method": "elicitation/create", "params": {
            "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } } } });
        let state = |status: &str| {
            json!({ "resultType": "complete", "taskId": "task-1",
            "status": status, "pollIntervalMs": 80 })
        };
        match method {
            "tools/call"
                if params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
                    ["io.modelcontextprotocol/tasks"]
                    .is_object() =>
            {
                said(json!({ "resultType": "task", "taskId": "task-1", "status": "working",
                    "createdAt": "2026-01-01T00:00:00Z", "ttlMs": null }))
            }
            "tools/call" => text("at once"),
            "tasks/update" if id => {
                updates.fetch_add(1, Ordering::Relaxed);
                assert_eq!(params["inputResponses"]["name"]["action"], "accept");
                said(json!({ "resultType": "complete" }))
            }
            "tasks/cancel" if id => said(json!({ "resultType": "complete" })),
            "tasks/get" if id => {
                let mut polls = polls.lock().expect("no panic");
                polls.push(Instant::now());
                match polls.len() {
                    1 => said(state("working")),
                    // It is slow to see that it was answered.
                    2 | 3 => {
                        let mut state = state("input_required");
                        state["inputRequests"] = question;
                        said(state)
                    }
                    4 => said(state("working")),
                    _ => {
                        assert_eq!(updates.load(Ordering::Relaxed), 1, "a key is answered once");
                        let mut state = state("completed");
                        state["result"] =
                            json!({ "content": [{ "type": "text", "text": "late" }] });
                        said(state)
                    }
                }
            }
            _ => refused(-32602, "no such task"),
        }
    })
}

#[tokio::test]
async fn a_task_is_followed_at_its_pace_and_answered_once() {
    let polls = Arc::default();
    let actor = tasked(&polls);
    let accept = async |_| Ok(ElicitResult { action: Action::Accept, content: Some(json!({})) });
    let builder = || Client::builder("memory", "1").elicit(accept);
    // Without the extension the server is told nothing of tasks.
    let plain = builder().connect(actor.clone()).await.unwrap();
    assert_eq!(plain.call::<String>("x", json!({})).await.expect("a result"), "at once");
    let client = builder().tasks().connect(actor.clone()).await.unwrap();
    assert_eq!(client.call::<String>("x", json!({})).await.expect("a result"), "late");
    let polls = polls.lock().unwrap().clone();
    assert_eq!(polls.len(), 5);
    let gaps = polls.windows(2).map(|two| two[1] - two[0]);
    for gap in gaps {
        assert!(gap >= Duration::from_millis(60), "{gap:?}");
    }
    let (_, headers) = actor.asked("tasks/get")[0].clone();
    assert_eq!(headers["mcp-name"], "task-1");
}

#[tokio::test]
async fn a_task_is_found_again_by_its_id_and_given_up_with_its_call() {
    let actor = tasked(&Arc::default());
    let accept = async |_| Ok(ElicitResult { action: Action::Accept, content: Some(json!({})) });
    let builder = Client::builder("memory", "1").elicit(accept).tasks();
    let client = builder.connect(actor.clone()).await.unwrap();
    let Started::Task(task) = client.tool("x").start().await.expect("it begins") else {
        panic!("it is a task");
    };
    assert_eq!(task.id(), "task-1");
    drop(task);
    assert!(actor.asked("tasks/cancel").is_empty(), "it goes on though nobody follows");
    let task = client.task("task-1");
    assert_eq!(task.state().await.expect("a state").status, TaskStatus::Working);
    assert_eq!(task.result().await.expect("a result").content.len(), 1);
    let unknown = client.task("task-2").state().await.expect_err("there is none");
    assert_eq!(unknown.code(), Some(-32602));

    let stuck = Actor::new(|method, _| match method {
        "tools/call" => said(json!({ "resultType": "task", "taskId": "t", "status": "working" })),
        _ => said(json!({ "resultType": "complete", "taskId": "t", "status": "working" })),
    });
    let client = Client::builder("memory", "1").tasks().connect(stuck.clone()).await.unwrap();
    let call = tokio::time::timeout(Duration::from_millis(100), client.tool("x").send()).await;
    assert!(call.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(stuck.asked("tasks/cancel").len(), 1);
}

#[tokio::test]
async fn only_a_call_can_be_a_task() {
    let actor = Actor::new(|_, _| {
        said(json!({ "resultType": "task", "taskId": "t", "status": "working" }))
    });
    let client = Client::builder("memory", "1").tasks().connect(actor).await.unwrap();
    assert!(matches!(client.read("a:b").await, Err(Error::Invalid(_))));
    assert!(matches!(client.list_tools().await, Err(Error::Invalid(_))));
}
