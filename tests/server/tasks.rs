//! Calls that go on as tasks, in both designs.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]
#![expect(clippy::needless_pass_by_value, reason = "tests read best with `json!(..)` in place")]

use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tower::util::MapRequestLayer;
use zcp::{
    CallError, Ctx, Result, Server, Tasks, Tool,
    store::{Memory, Store},
    tool,
};
use zcp_tests::{
    all_capabilities,
    away::{at, pairs, sign_in, wait_until_stopped},
    call, everything,
    http::{HttpServer, Session},
    modern_as,
    pipe::PipeClient,
    request,
    talk::code,
    text,
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A client that follows tasks the server makes.
fn follower(id: u64, method: &str, params: Value) -> Value {
    let mut capabilities = all_capabilities();
    capabilities["extensions"] = json!({ EXTENSION: {} });
    modern_as(id, method, params, capabilities)
}

async fn ask(client: &mut PipeClient, method: &str, params: Value) -> Value {
    client.ask(follower(1, method, params)).await
}

async fn begin(client: &mut PipeClient, name: &str, arguments: Value) -> String {
    let answer = ask(client, "tools/call", call(name, arguments)).await;
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn look(client: &mut PipeClient, id: &str) -> Value {
    let mut answer = ask(client, "tasks/get", json!({ "taskId": id })).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    answer["result"].take()
}

/// Looks at a task until its status is one that is waited for.
async fn until(client: &mut PipeClient, id: &str, status: &str) -> Value {
    for _ in 0..500 {
        let task = look(client, id).await;
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is not {status}: {}", look(client, id).await);
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[tokio::test]
async fn a_long_tool_is_a_task_for_whoever_follows_tasks() {
    let mut client = PipeClient::new(everything());
    let arguments = json!({ "seconds": 0.3, "label": "long" });
    let params = call("slow_compute", arguments.clone());
    let answer = ask(&mut client, "tools/call", params).await;
    let task = &answer["result"];
    let members = ["createdAt", "lastUpdatedAt", "status", "taskId"].map(|name| &task[name]);
    assert!(members.iter().all(|member| member.is_string()), "{task}");
    assert_eq!((&task["status"], &task["ttlMs"]), (&json!("working"), &json!(3_600_000)));
    assert_eq!(task["pollIntervalMs"], 1000);
    let id = task["taskId"].as_str().unwrap();
    assert!(id.len() * 6 >= 128, "{id} can be guessed");

    let done = until(&mut client, id, "completed").await;
    assert_eq!(text(&done["result"]), "long: computed for 0.3 seconds");
    assert_eq!(done["createdAt"], task["createdAt"]);
    // Looking changes nothing.
    assert_eq!(look(&mut client, id).await, done);

    let waits = modern_as(1, "tools/call", call("slow_compute", arguments), json!({}));
    let answer = client.ask(waits).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(text(&answer["result"]), "long: computed for 0.3 seconds");
}

#[tokio::test]
async fn a_failure_of_a_tool_is_a_result_and_a_refusal_is_an_error() {
    let mut client = PipeClient::new(everything());
    let id = begin(&mut client, "failing_job", json!({})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    assert_eq!(text(&task["result"]), "the job failed, as it always does");
    assert!(task.get("error").is_none(), "{task}");
    let id = begin(&mut client, "protocol_error_job", json!({})).await;
    let task = until(&mut client, &id, "failed").await;
    assert_eq!(task["error"]["code"], 403);
    assert!(task.get("result").is_none(), "{task}");
}

#[tokio::test]
async fn tasks_are_for_those_who_say_that_they_follow_them() {
    let mut client = PipeClient::new(everything());
    let required = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    let one = json!({ "taskId": "x" });
    for (method, params) in [
        ("tools/call", call("failing_job", json!({}))),
        ("tasks/get", one.clone()),
        ("tasks/update", json!({ "taskId": "x", "inputResponses": {} })),
        ("tasks/cancel", one.clone()),
        ("subscriptions/listen", json!({ "notifications": { "taskIds": ["x"] } })),
    ] {
        let refused = client.ask(modern_as(1, method, params, all_capabilities())).await;
        assert_eq!(code(&refused), -32021, "{method}: {refused}");
        assert_eq!(refused["error"]["data"], required);
    }
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(code(&ask(&mut client, method, one.clone()).await), -32601, "{method}");
    }
    for method in ["tasks/get", "tasks/cancel"] {
        assert_eq!(code(&ask(&mut client, method, one.clone()).await), -32602, "{method}");
    }
    let long = json!({ "taskId": "x".repeat(100_000) });
    assert_eq!(code(&ask(&mut client, "tasks/get", long).await), -32602);
    assert_eq!(code(&ask(&mut client, "tasks/get", json!({})).await), -32602);
}

#[tokio::test]
async fn a_task_asks_whoever_looks_at_it() {
    let mut client = PipeClient::new(everything());
    let id = begin(&mut client, "multi_input", json!({})).await;
    let mut asked = json!({});
    while asked["inputRequests"].as_object().is_none_or(|all| all.len() < 2) {
        asked = until(&mut client, &id, "input_required").await;
    }
    assert_eq!(asked["inputRequests"]["name"]["method"], "elicitation/create");
    assert_eq!(asked["inputRequests"]["name"]["params"]["message"], "Who are you?");

    let update = |answers: Value| json!({ "taskId": id, "inputResponses": answers });
    // What does not fit is refused, and asked on.
    let wrong = update(json!({ "name": accept(json!({ "name": 7 })) }));
    let refused = ask(&mut client, "tasks/update", wrong).await;
    assert_eq!(code(&refused), -32602);
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("the answer to `name` does not fit"), "{why}");
    // What is not asked is ignored.
    let other = update(json!({ "never asked": accept(json!({})) }));
    assert_eq!(code(&ask(&mut client, "tasks/update", other).await), 0);

    let name = update(json!({ "name": accept(json!({ "name": "Ann" })) }));
    assert_eq!(code(&ask(&mut client, "tasks/update", name.clone()).await), 0);
    let left = look(&mut client, &id).await;
    assert_eq!(left["status"], "input_required");
    let left: Vec<_> = left["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(left, ["confirm"]);
    // What was answered stays so.
    let again = update(json!({ "name": accept(json!({ "name": "Bob" })) }));
    assert_eq!(code(&ask(&mut client, "tasks/update", again).await), 0);
    let confirm = update(json!({ "confirm": accept(json!({ "confirm": true })) }));
    assert_eq!(code(&ask(&mut client, "tasks/update", confirm).await), 0);
    let done = until(&mut client, &id, "completed").await;
    assert_eq!(text(&done["result"]), "\"Ann\": true");
    assert!(done.get("inputRequests").is_none());
}

#[tokio::test]
async fn a_task_asks_nobody_who_cannot_answer() {
    let mut client = PipeClient::new(everything());
    let capabilities = json!({ "extensions": { EXTENSION: {} } });
    let params = call("confirm_delete", json!({ "filename": "a" }));
    let answer = client.ask(modern_as(1, "tools/call", params, capabilities)).await;
    let id = answer["result"]["taskId"].as_str().unwrap();
    let task = until(&mut client, id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    assert!(text(&task["result"]).contains("cannot be asked"), "{task}");
}

#[tokio::test]
async fn cancelling_a_task_stops_its_handler() {
    let server = HttpServer::new(everything()).await;
    let send = async |method: &str, params: Value| {
        server.post(&follower(1, method, params)).send().await.response().await
    };
    let params = call("slow_compute", json!({ "seconds": 60, "label": "cancelled task" }));
    let begun = send("tools/call", params).await;
    let one = json!({ "taskId": begun["result"]["taskId"] });
    for _ in 0..2 {
        let acknowledged = send("tasks/cancel", one.clone()).await;
        let members = acknowledged["result"].as_object().unwrap().keys();
        assert_eq!(members.filter(|name| *name != "_meta").collect::<Vec<_>>(), ["resultType"]);
    }
    assert_eq!(send("tasks/get", one).await["result"]["status"], "cancelled");
    wait_until_stopped(&server, "cancelled task").await;
}

#[tokio::test]
async fn a_task_goes_on_without_the_connection_that_began_it() {
    let server = HttpServer::new(everything()).await;
    let params = call("slow_compute", json!({ "seconds": 0.5, "label": "goes on" }));
    let begun = server.post(&follower(7, "tools/call", params)).send().await.response().await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7 } });
    server.post(&cancel).header("mcp-protocol-version", "2026-07-28").send().await;
    let get = follower(8, "tasks/get", json!({ "taskId": begun["result"]["taskId"] }));
    for _ in 0..200 {
        let task = server.post(&get).send().await.response().await;
        if task["result"]["status"] == "completed" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not go on");
}

#[tokio::test]
async fn a_task_is_its_callers_alone() {
    let runtime = everything().build().unwrap();
    let layer = MapRequestLayer::new(sign_in);
    let server = HttpServer::with(runtime, |http| http.layer(layer)).await;
    let send = async |user: &str, method: &str, params: Value| {
        let call = server.post(&follower(1, method, params)).header("x-user", user);
        call.send().await.response().await
    };
    let params = call("slow_compute", json!({ "seconds": 60, "label": "ann's" }));
    let begun = send("ann", "tools/call", params).await;
    let one = json!({ "taskId": begun["result"]["taskId"] });
    let update = json!({ "taskId": one["taskId"], "inputResponses": {} });
    for user in ["bob", ""] {
        for (method, params) in
            [("tasks/get", &one), ("tasks/cancel", &one), ("tasks/update", &update)]
        {
            let refused = send(user, method, params.clone()).await;
            assert_eq!(code(&refused), -32602, "{method}");
            assert_eq!(refused["error"]["message"], "no such task: it may have expired");
        }
    }
    assert_eq!(send("ann", "tasks/get", one.clone()).await["result"]["status"], "working");
    send("ann", "tasks/cancel", one).await;
}

fn slow_server(tasks: Tasks) -> Server {
    let slow = async |ctx: Ctx| {
        tokio::time::sleep(Duration::from_millis(400)).await;
        ctx.progress_with(1.0, 2.0, "half of it");
        tokio::time::sleep(Duration::from_millis(400)).await;
        "slow, but done"
    };
    Server::new("slow").tool(Tool::new("slow", slow)).tasks(tasks)
}

#[tokio::test]
async fn a_slow_call_becomes_a_task_by_itself() {
    let tasks = Tasks::default().promote_after(Duration::from_millis(100));
    let mut client = PipeClient::new(slow_server(tasks));
    let id = begin(&mut client, "slow", json!({})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(text(&task["result"]), "slow, but done");
    // Whoever does not follow tasks waits.
    let waits = modern_as(1, "tools/call", call("slow", json!({})), json!({}));
    assert_eq!(text(&client.ask(waits).await["result"]), "slow, but done");

    let mut client = PipeClient::new(slow_server(Tasks::default().never_promote()));
    let answer = ask(&mut client, "tools/call", call("slow", json!({}))).await;
    assert_eq!(text(&answer["result"]), "slow, but done");
}

#[tokio::test]
async fn how_far_a_task_is_can_be_read() {
    let tasks = Tasks::default().promote_after(Duration::from_millis(10));
    let mut client = PipeClient::new(slow_server(tasks));
    let id = begin(&mut client, "slow", json!({})).await;
    for _ in 0..200 {
        let task = look(&mut client, &id).await;
        if task["statusMessage"] == "half of it" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing was said");
}

#[tokio::test]
async fn what_is_asked_before_a_call_becomes_a_task_is_asked_of_the_call() {
    let server = HttpServer::new(everything()).await;
    let params = call("test_tool_with_task", json!({}));
    let asked = server.post(&follower(1, "tools/call", params.clone())).send().await;
    let asked = asked.response().await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let mut again = params;
    again["inputResponses"] = json!({ "user_name": accept(json!({ "name": "Alice" })) });
    again["requestState"] = asked["result"]["requestState"].clone();
    let begun = server.post(&follower(2, "tools/call", again)).send().await.response().await;
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    assert!(begun["result"].get("requestState").is_none());
}

#[tokio::test]
async fn what_earlier_runs_kept_is_there_after_a_call_became_a_task() {
    let remembers = Tool::new("remembers", async |ctx: Ctx| -> zcp::Result<String> {
        let schema = json!({ "type": "object", "properties": {} });
        if let Err(paused) = ctx.ask_with::<Value>("sure", "Sure?", schema).await {
            ctx.keep("first", json!("kept")).await;
            return Err(paused);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(ctx.kept("first").unwrap_or_default().to_string())
    });
    let tasks = Tasks::default().promote_after(Duration::from_millis(10));
    let mut client = PipeClient::new(Server::new("s").tool(remembers).tasks(tasks));
    let able = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut params = call("remembers", json!({}));
    let asked = client.ask(modern_as(1, "tools/call", params.clone(), able.clone())).await;
    params["inputResponses"] = json!({ "sure": accept(json!({})) });
    params["requestState"] = asked["result"]["requestState"].clone();
    let begun = client.ask(modern_as(2, "tools/call", params, able)).await;
    let id = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}"));
    let done = until(&mut client, id, "completed").await;
    assert_eq!(text(&done["result"]), "\"kept\"");
}

#[tokio::test]
async fn a_call_that_could_have_become_a_task_stops_with_whoever_waits_for_it() {
    struct Gone(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, mut gone) = tokio::sync::mpsc::unbounded_channel();
    let waits = move |ctx: Ctx| {
        let gone = Gone(sender.clone());
        async move {
            ctx.progress(1.0, None);
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(gone);
            "done"
        }
    };
    let server = HttpServer::new(Server::new("waits").tool(Tool::new("waits", waits))).await;
    let mut params = call("waits", json!({}));
    params["_meta"] = json!({ "progressToken": 1 });
    let mut waiting = server.post(&follower(1, "tools/call", params)).send().await;
    waiting.message().await.expect("it says how far it is");
    drop(waiting);
    let stopped = tokio::time::timeout(Duration::from_secs(5), gone.recv());
    stopped.await.expect("it stops").expect("it was there");
}

#[tokio::test]
async fn tasks_wait_for_their_turn_and_too_many_are_refused() {
    let server =
        everything().tasks(Tasks::default().max_concurrent(1).max_queued(1).max_per_caller(9));
    let server = HttpServer::new(server).await;
    let begin = async |label: &str, seconds: f64| {
        let params = call("slow_compute", json!({ "seconds": seconds, "label": label }));
        server.post(&follower(1, "tools/call", params)).send().await
    };
    let first = begin("first", 60.0).await.response().await;
    let second = begin("second", 0.1).await.response().await;
    assert_eq!(second["result"]["status"], "working");
    let third = begin("third", 0.1).await;
    assert_eq!(third.status, 429);
    assert_eq!(third.headers["retry-after"], "2");
    let third = third.response().await;
    assert_eq!(third["error"]["message"], "too many tasks wait for their turn: try again later");

    let send = async |method: &str, of: &Value| {
        let params = json!({ "taskId": of["result"]["taskId"] });
        server.post(&follower(1, method, params)).send().await.response().await
    };
    send("tasks/cancel", &first).await;
    for _ in 0..200 {
        if send("tasks/get", &second).await["result"]["status"] == "completed" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("its turn did not come");
}

#[tokio::test]
async fn a_task_is_forgotten_when_its_time_is_over_and_not_before() {
    let server = everything().tasks(Tasks::default().ttl(Duration::from_secs(2)));
    let mut client = PipeClient::new(server);
    // It takes longer than it would be kept.
    let long = begin(&mut client, "slow_compute", json!({ "seconds": 7 })).await;
    let short = begin(&mut client, "slow_compute", json!({ "seconds": 0 })).await;
    assert_eq!(look(&mut client, &short).await["ttlMs"], 2000);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(look(&mut client, &short).await["status"], "completed");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let gone = ask(&mut client, "tasks/get", json!({ "taskId": short })).await;
    assert_eq!(code(&gone), -32602);
    let task = until(&mut client, &long, "completed").await;
    assert!(task["ttlMs"].as_u64().unwrap() > 7000, "{task}");
}

#[tokio::test]
async fn whoever_listens_is_told_of_a_task_until_its_end() {
    let mut client = PipeClient::new(everything());
    let id = begin(&mut client, "confirm_delete", json!({ "filename": "a" })).await;
    let wanted = json!({ "taskIds": [id, "nobody's"] });
    let listen = json!({ "notifications": wanted });
    client.send(follower(10, "subscriptions/listen", listen)).await;
    let acknowledged = client.next().await;
    assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [id] }));
    let mut told = client.next().await;
    while told["params"]["status"] == "working" {
        told = client.next().await;
    }
    assert_eq!(told["method"], "notifications/tasks");
    assert_eq!(told["params"]["status"], "input_required");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 10);
    assert!(told["params"]["inputRequests"]["confirm"].is_object(), "{told}");
    let answers = json!({ "confirm": accept(json!({ "confirm": true })) });
    let update = json!({ "taskId": id, "inputResponses": answers });
    client.send(follower(11, "tasks/update", update)).await;
    loop {
        let told = client.next().await;
        if told["params"]["status"] == "completed" {
            assert_eq!(text(&told["params"]["result"]), "a deleted");
            return;
        }
    }
}

#[tokio::test]
async fn a_side_effect_of_a_task_happens_once() {
    /// Does something once, asks, and does something else once.
    #[tool(long_running)]
    async fn effects(ctx: Ctx) -> Result<String> {
        let first: u32 = ctx.once("first", async || Ok(1)).await?;
        let form = json!({ "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let answer: Value = ctx.ask_with("n", "How many?", form).await?.accepted()?;
        let again: u32 = ctx.once("first", async || Err(CallError::new("done twice"))).await?;
        Ok(format!("{first} {again} {}", answer["n"]))
    }
    let mut client = PipeClient::new(Server::new("effects").tool(effects));
    let id = begin(&mut client, "effects", json!({})).await;
    until(&mut client, &id, "input_required").await;
    let answers = json!({ "n": accept(json!({ "n": 3 })) });
    ask(&mut client, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(text(&task["result"]), "1 1 3");
}

// 2025-11-25

const OLDER: &str = "2025-11-25";

fn as_task(name: &str, arguments: Value) -> Value {
    let mut params = call(name, arguments);
    params["task"] = json!({ "ttl": 60_000 });
    params["_meta"] = json!({ "progressToken": "tok" });
    params
}

#[tokio::test]
async fn an_older_client_asks_for_a_task_and_waits_for_its_result() {
    let mut client = PipeClient::open(everything(), OLDER).await;
    let arguments = json!({ "seconds": 0.5, "label": "older" });
    let begun = client.ask(request(1, "tools/call", as_task("slow_compute", arguments))).await;
    let task = &begun["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)));
    assert_eq!(task["pollInterval"], 1000);
    for absent in ["resultType", "ttlMs", "taskId"] {
        assert!(begun["result"].get(absent).is_none(), "{begun}");
    }
    let one = json!({ "taskId": task["taskId"] });
    let seen = client.ask(request(2, "tasks/get", one.clone())).await;
    assert_eq!(seen["result"]["status"], "working");
    let said = client.exchange(request(3, "tasks/result", one.clone())).await;
    let result = &said.last().unwrap()["result"];
    assert_eq!(text(result), "older: computed for 0.5 seconds");
    assert_eq!(result["_meta"], json!({ RELATED: one }));
    // Progress has the token of the call it belongs to.
    let mut progress = said.iter().filter(|said| said["method"] == "notifications/progress");
    let first = &progress.next().expect("there is progress")["params"];
    assert_eq!(first["progressToken"], "tok");
    assert_eq!(first["_meta"], json!({ RELATED: one }));
    let seen = client.ask(request(4, "tasks/get", one.clone())).await;
    assert_eq!(seen["result"]["status"], "completed");
    let again = client.ask(request(5, "tasks/result", one.clone())).await;
    assert_eq!(again["result"], *result);
    let over = client.ask(request(6, "tasks/cancel", one)).await;
    assert_eq!(code(&over), -32602);
    assert_eq!(over["error"]["message"], "the task is over: completed");
}

#[tokio::test]
async fn an_older_client_must_ask_for_what_is_only_a_task_and_for_nothing_else() {
    let mut client = PipeClient::open(everything(), OLDER).await;
    let listed = client.ask(request(1, "tools/list", json!({}))).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let support = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].clone()
    };
    assert_eq!(support("slow_compute"), "optional");
    assert_eq!(support("failing_job"), "required");
    assert_eq!(support("greet"), Value::Null);
    let unasked = client.ask(request(2, "tools/call", call("failing_job", json!({})))).await;
    assert_eq!(code(&unasked), -32601);
    assert_eq!(unasked["error"]["message"], "tool `failing_job` can only be run as a task");
    let greet = as_task("greet", json!({ "name": "x" }));
    assert_eq!(code(&client.ask(request(3, "tools/call", greet)).await), -32601);

    let failing = client.ask(request(4, "tools/call", as_task("failing_job", json!({})))).await;
    let one = json!({ "taskId": failing["result"]["task"]["taskId"] });
    let failed = client.ask(request(5, "tasks/result", one.clone())).await;
    assert_eq!(failed["result"]["isError"], true);
    // In this design a tool's failure is the task's.
    let seen = client.ask(request(6, "tasks/get", one)).await;
    assert_eq!(seen["result"]["status"], "failed");
    let refused = as_task("protocol_error_job", json!({}));
    let refused = client.ask(request(7, "tools/call", refused)).await;
    let one = json!({ "taskId": refused["result"]["task"]["taskId"] });
    assert_eq!(code(&client.ask(request(8, "tasks/result", one)).await), 403);

    // A server without long tools has none of this, and takes no notice of the wish.
    let mut client = PipeClient::open(slow_server(Tasks::default()), OLDER).await;
    let answer = client.ask(request(1, "tools/call", as_task("slow", json!({})))).await;
    assert_eq!(text(&answer["result"]), "slow, but done");
    assert_eq!(code(&client.ask(request(2, "tasks/list", json!({}))).await), -32601);
}

#[tokio::test]
async fn an_older_client_is_asked_where_it_waits_for_the_result() {
    let mut client = PipeClient::open(everything(), OLDER).await;
    let params = as_task("confirm_delete", json!({ "filename": "a" }));
    let begun = client.ask(request(1, "tools/call", params)).await;
    let one = json!({ "taskId": begun["result"]["task"]["taskId"] });
    client.send(request(2, "tasks/result", one.clone())).await;
    let mut asked = client.next().await;
    while asked["method"] != "elicitation/create" {
        asked = client.next().await;
    }
    assert_eq!(asked["params"]["message"], "Delete a?");
    assert_eq!(asked["params"]["_meta"], json!({ RELATED: one }));
    client.send(request(3, "tasks/get", one.clone())).await;
    let seen = client.until(&json!(3)).await;
    assert_eq!(seen.last().unwrap()["result"]["status"], "input_required");
    client.send(zcp_tests::response(&asked["id"], accept(json!({ "confirm": true })))).await;
    let said = client.until(&json!(2)).await;
    let told = said.iter().filter(|said| said["method"] == "notifications/tasks/status");
    let told: Vec<_> = told.map(|told| told["params"]["status"].clone()).collect();
    assert_eq!(told.iter().filter(|status| **status == "working").count(), 1, "{told:?}");
    assert_eq!(text(&said.last().unwrap()["result"]), "a deleted");
}

/// The statuses of one task, up to its last.
async fn statuses(mut next: impl AsyncFnMut() -> Value, task: &Value) -> Vec<Value> {
    let mut all = vec![];
    loop {
        let said = next().await;
        if said["method"] == "notifications/tasks/status" && said["params"]["taskId"] == *task {
            all.push(said["params"]["status"].clone());
            if ["completed", "failed", "cancelled"]
                .iter()
                .any(|end| said["params"]["status"] == *end)
            {
                return all;
            }
        }
    }
}

#[tokio::test]
async fn an_older_client_is_told_of_its_tasks_without_waiting() {
    let quick = || request(1, "tools/call", as_task("slow_compute", json!({ "seconds": 0.3 })));
    // On a pipe.
    let mut client = PipeClient::open(everything(), OLDER).await;
    let task = client.ask(quick()).await["result"]["task"]["taskId"].clone();
    let told = statuses(async || client.next().await, &task).await;
    assert_eq!(told.last().unwrap(), "completed", "{told:?}");
    // On a socket.
    let (a, b) = zcp_tests::away::pair().await;
    let mut socket = zcp_tests::socket::Socket::connect(&a, "").await;
    socket.ask(zcp_tests::initialize(0, OLDER)).await;
    let task = socket.ask(quick()).await["result"]["task"]["taskId"].clone();
    let told = statuses(async || socket.next().await.unwrap(), &task).await;
    assert_eq!(told.last().unwrap(), "completed", "{told:?}");
    // On the stream of a session, by way of another server; and nobody else.
    let (session, stranger) = (a.open(OLDER).await, a.open(OLDER).await);
    let (mut stream, mut other) = (session.at(&b).get().send().await, stranger.get().send().await);
    assert!(stream.event().await.is_some() && other.event().await.is_some());
    let confirm = request(2, "tools/call", as_task("confirm_delete", json!({ "filename": "a" })));
    let asking = session.ask(&confirm).await["result"]["task"]["taskId"].clone();
    let task = session.ask(&quick()).await["result"]["task"]["taskId"].clone();
    let cancel = json!({ "taskId": asking });
    let mut asked = false;
    while !asked {
        let said = stream.message().await.unwrap();
        asked = said["params"]["taskId"] == asking && said["params"]["status"] == "input_required";
    }
    session.ask(&request(3, "tasks/cancel", cancel)).await;
    let mut ended = vec![];
    while ended.len() < 2 {
        let said = stream.message().await.unwrap();
        if ["completed", "cancelled"].iter().any(|end| said["params"]["status"] == *end) {
            ended.push(said["params"]["taskId"].clone());
        }
    }
    assert!(ended.contains(&task) && ended.contains(&asking), "{ended:?}");
    other.silent(std::time::Duration::from_millis(100)).await;
}

#[tokio::test]
async fn an_older_client_cancels_a_task() {
    let mut client = PipeClient::open(everything(), OLDER).await;
    let params = as_task("slow_compute", json!({ "seconds": 60, "label": "older cancelled" }));
    let begun = client.ask(request(1, "tools/call", params)).await;
    let one = json!({ "taskId": begun["result"]["task"]["taskId"] });
    client.send(request(2, "tasks/result", one.clone())).await;
    client.send(request(3, "tasks/cancel", one.clone())).await;
    let cancelled = client.until(&json!(3)).await.pop().unwrap();
    assert_eq!(cancelled["result"]["status"], "cancelled");
    let waited = client.until(&json!(2)).await.pop().unwrap();
    assert_eq!(code(&waited), -32602);
    assert_eq!(code(&client.ask(request(4, "tasks/cancel", one)).await), -32602);
}

#[tokio::test]
async fn a_list_of_tasks_is_a_conversations_own() {
    let server = HttpServer::new(everything().page_size(2)).await;
    let (ann, bob) = (server.open(OLDER).await, server.open(OLDER).await);
    let mut ids = vec![];
    for _ in 0..5 {
        let params = as_task("slow_compute", json!({ "seconds": 0 }));
        let begun = ann.ask(&request(1, "tools/call", params)).await;
        ids.push(begun["result"]["task"]["taskId"].clone());
    }
    assert_eq!(listed(&ann).await, ids);
    assert_eq!(listed(&bob).await, Vec::<Value>::new());
    let wrong = json!({ "cursor": "wrong" });
    assert_eq!(code(&ann.ask(&request(1, "tasks/list", wrong)).await), -32602);
}

/// Every task of a list, page by page.
async fn listed(session: &Session<'_>) -> Vec<Value> {
    let (mut all, mut params) = (vec![], json!({}));
    loop {
        let page = session.ask(&request(9, "tasks/list", params)).await["result"].take();
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 2, "{page}");
        all.extend(tasks.iter().map(|task| task["taskId"].clone()));
        let Some(cursor) = page.get("nextCursor") else { return all };
        params = json!({ "cursor": cursor });
    }
}

// Several servers

#[tokio::test]
async fn a_task_that_runs_on_one_server_is_looked_after_on_any() {
    for pair in pairs("tasks").await {
        let (a, b) = (&pair.a, &pair.b);
        let send = async |server: &HttpServer, method: &str, params: Value| {
            server.post(&follower(1, method, params)).send().await.response().await
        };
        let params = call("confirm_delete", json!({ "filename": "a" }));
        let begun = send(a, "tools/call", params).await;
        let id = begun["result"]["taskId"].clone();
        let seen = async |server, status: &str| {
            for _ in 0..200 {
                let task = send(server, "tasks/get", json!({ "taskId": id })).await;
                if task["result"]["status"] == status {
                    return task;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("it is not {status}");
        };
        seen(b, "input_required").await;
        let answers = json!({ "confirm": accept(json!({ "confirm": true })) });
        send(b, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
        let done = seen(b, "completed").await;
        assert_eq!(text(&done["result"]["result"]), "a deleted");

        let params = call("slow_compute", json!({ "seconds": 60, "label": "over there" }));
        let begun = send(a, "tools/call", params).await;
        send(b, "tasks/cancel", json!({ "taskId": begun["result"]["taskId"] })).await;
        wait_until_stopped(a, "over there").await;

        // In the older design the result is waited for on one server, and comes from the other.
        let session = a.open(OLDER).await;
        let params = as_task("slow_compute", json!({ "seconds": 1, "label": "older" }));
        let begun = session.ask(&request(1, "tools/call", params)).await;
        let one = json!({ "taskId": begun["result"]["task"]["taskId"] });
        let waits = request(2, "tasks/result", one);
        let result = at(b, &session.id, &waits).send().await.response().await;
        assert_eq!(text(&result["result"]), "older: computed for 1 seconds");
    }
}

// Limits of one caller

/// A call of one of several callers, who are told apart by a header.
async fn call_as(server: &HttpServer, user: &str, method: &str, params: Value) -> Value {
    let call = server.post(&follower(1, method, params)).header("x-user", user);
    call.send().await.response().await
}

async fn signed_in(server: Server) -> HttpServer {
    let runtime = server.build().unwrap();
    HttpServer::with(runtime, |http| http.layer(MapRequestLayer::new(sign_in))).await
}

#[tokio::test]
async fn one_caller_cannot_close_the_engine_to_another() {
    let server = everything().tasks(Tasks::default().max_concurrent(4).max_queued(8));
    let server = signed_in(server).await;
    let begin = async |user: &str, seconds: f64| {
        let label = format!("{user} {seconds}");
        let params = call("slow_compute", json!({ "seconds": seconds, "label": label }));
        call_as(&server, user, "tools/call", params).await
    };
    // A quarter of the places: three, of which one runs.
    for _ in 0..3 {
        let begun = begin("greedy", 60.0).await;
        assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    }
    let refused = begin("greedy", 60.0).await;
    assert_eq!(code(&refused), 429, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("you have too many tasks"), "{why}");
    for user in ["ann", "bob", "cid"] {
        let begun = begin(user, 0.0).await;
        let one = json!({ "taskId": begun["result"]["taskId"] });
        for tries in 0.. {
            let task = call_as(&server, user, "tasks/get", one.clone()).await;
            if task["result"]["status"] == "completed" {
                break;
            }
            assert!(tries < 500, "{user} waits for the others: {task}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_place_comes_back_when_a_task_ends() {
    let mut client =
        PipeClient::new(everything().tasks(Tasks::default().max_concurrent(4).max_queued(0)));
    for _ in 0..3 {
        let id = begin(&mut client, "slow_compute", json!({ "seconds": 60 })).await;
        let params = call("slow_compute", json!({ "seconds": 0 }));
        assert_eq!(code(&ask(&mut client, "tools/call", params).await), 429);
        ask(&mut client, "tasks/cancel", json!({ "taskId": id })).await;
        // Whoever runs it hears of it a little later.
        for tries in 0.. {
            let params = call("slow_compute", json!({ "seconds": 0 }));
            let begun = ask(&mut client, "tools/call", params).await;
            if let Some(id) = begun["result"]["taskId"].as_str() {
                until(&mut client, id, "completed").await;
                break;
            }
            assert!(tries < 500, "{begun}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_finished_task_forgets_its_arguments() {
    let store = Arc::new(Memory::new());
    let mut client = PipeClient::new(everything().shared_store(store.clone()));
    let arguments = json!({ "seconds": 0.2, "label": "card 4111" });
    let id = begin(&mut client, "slow_compute", arguments.clone()).await;
    let held = async || {
        let held = store.get(&format!("task/{id}")).await.unwrap().unwrap();
        serde_json::from_slice::<Value>(&held.value).unwrap()
    };
    assert!(held().await["args"].as_str().unwrap().contains("4111"));
    until(&mut client, &id, "completed").await;
    assert_eq!(held().await.get("args"), None);
    let id = begin(&mut client, "confirm_delete", json!({ "filename": "secret.txt" })).await;
    until(&mut client, &id, "input_required").await;
    ask(&mut client, "tasks/cancel", json!({ "taskId": id })).await;
    let held = store.get(&format!("task/{id}")).await.unwrap().unwrap().value;
    assert!(!String::from_utf8_lossy(&held).contains("secret.txt"), "{held:?}");
}

/// Gives a text of so many bytes.
#[tool(long_running)]
async fn give(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[tokio::test]
async fn a_result_too_large_for_a_task_is_an_error() {
    let server = Server::new("large").tool(give).tasks(Tasks::default().max_result(10_000));
    let mut client = PipeClient::new(server);
    let id = begin(&mut client, "give", json!({ "bytes": 20_000 })).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["isError"], true, "{task}");
    let why = text(&task["result"]);
    assert!(why.contains("too large") && why.contains("10000"), "{why}");
    let id = begin(&mut client, "give", json!({ "bytes": 9000 })).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(text(&task["result"]).len(), 9000);
}

#[tokio::test]
async fn the_oldest_finished_tasks_of_a_caller_go_first() {
    let limited = Tasks::default().max_finished(3, 50_000);
    let server = signed_in(Server::new("many").tool(give).tasks(limited)).await;
    let finish = async |user: &str, bytes: usize| {
        let params = call("give", json!({ "bytes": bytes }));
        let begun = call_as(&server, user, "tools/call", params).await;
        let one = json!({ "taskId": begun["result"]["taskId"] });
        for _ in 0..500 {
            let task = call_as(&server, user, "tasks/get", one.clone()).await;
            if task["result"]["status"] == "completed" {
                return one;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it does not end: {begun}");
    };
    let is_there = async |user: &str, one: &Value| {
        // What is forgotten is forgotten a moment after another is finished.
        tokio::time::sleep(Duration::from_millis(50)).await;
        call_as(&server, user, "tasks/get", one.clone()).await.get("result").is_some()
    };
    let of_bob = finish("bob", 10).await;
    let first = finish("ann", 10).await;
    let second = finish("ann", 10).await;
    let third = finish("ann", 10).await;
    assert!(is_there("ann", &first).await);
    let fourth = finish("ann", 10).await;
    assert!(!is_there("ann", &first).await, "three are kept");
    assert!(is_there("ann", &second).await && is_there("ann", &third).await);
    // One that is large takes the place of several.
    let large = finish("ann", 45_000).await;
    assert!(!is_there("ann", &third).await && !is_there("ann", &fourth).await);
    assert!(is_there("ann", &large).await && is_there("bob", &of_bob).await);
}

#[tokio::test]
async fn a_task_nobody_answers_ends() {
    let tasks = Tasks::default().input_ttl(Duration::from_millis(300));
    let mut client = PipeClient::new(everything().tasks(tasks));
    let id = begin(&mut client, "confirm_delete", json!({ "filename": "a.txt" })).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["isError"], true, "{task}");
    assert!(text(&task["result"]).contains("nobody answered within 300ms"), "{task}");
    // In time, it is answered as always.
    let id = begin(&mut client, "confirm_delete", json!({ "filename": "a.txt" })).await;
    let asked = until(&mut client, &id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ key: accept(json!({ "confirm": true })) });
    ask(&mut client, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"].get("isError"), None, "{task}");
}

#[tokio::test]
async fn the_longest_durations_are_no_mistake() {
    let tasks = Tasks::default().ttl(Duration::MAX).max_ttl(Duration::MAX);
    let tasks = tasks.promote_after(Duration::MAX).input_ttl(Duration::MAX);
    let server = everything().tasks(tasks).input_ttl(Duration::MAX).single_use_answers();
    let mut client = PipeClient::new(server.call_timeout(Duration::MAX));
    let id = begin(&mut client, "confirm_delete", json!({ "filename": "a.txt" })).await;
    let asked = until(&mut client, &id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ key: accept(json!({ "confirm": true })) });
    ask(&mut client, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    until(&mut client, &id, "completed").await;
}
