//! What a call says while it runs: logs, progress, and the trace it is part of.

use http::Extensions;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use zcp::{
    Args, Ctx, Level, Mcp, Result, Server, State, Tool, tool,
    wire::{Frame, Message, Peer},
};
use zcp_tests::{everything, http::HttpServer, modern, pipe::PipeClient, text};

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LOG: &str = "notifications/message";
const PROGRESS: &str = "notifications/progress";

/// A call of a tool, with members of `_meta`.
fn call(name: &str, meta: Value) -> Value {
    let mut params = json!({ "name": name });
    params["_meta"] = meta;
    modern(1, "tools/call", params)
}

fn at_level(name: &str, level: &str) -> Value {
    call(name, json!({ LOG_LEVEL: level }))
}

/// The parameters of the notifications of a method.
fn said(messages: &[Value], method: &str) -> Vec<Value> {
    let said = messages.iter().filter(|message| message["method"] == method);
    said.map(|message| message["params"].clone()).collect()
}

fn members(said: &[Value], name: &str) -> Vec<Value> {
    said.iter().map(|params| params[name].clone()).collect()
}

async fn post(server: &HttpServer, message: &Value) -> Vec<Value> {
    server.post(message).send().await.messages().await
}

/// A request hears of its own level and of what is more serious. SV18
#[tokio::test]
async fn a_level_is_told_with_all_above_it() {
    let server = HttpServer::new(everything()).await;
    let mut pipe = PipeClient::new(everything());
    for (index, level) in Level::NAMES.iter().enumerate() {
        let message = at_level("test_logging_tool", level);
        for messages in [post(&server, &message).await, pipe.exchange(message).await] {
            let logs = said(&messages, LOG);
            assert_eq!(members(&logs, "level"), Level::NAMES[index..], "{level}");
            assert_eq!(members(&logs, "data")[0], json!({ "level": level }));
            assert_eq!(messages.len(), logs.len() + 1);
        }
    }
}

/// Who does not ask hears nothing, whatever was asked before. SV18
#[tokio::test]
async fn without_a_level_nothing_is_logged() {
    let server = HttpServer::new(everything()).await;
    let mut pipe = PipeClient::open(everything(), "2025-11-25").await;
    let silent = call("test_logging_tool", json!({}));
    for _ in 0..2 {
        assert_eq!(post(&server, &silent).await.len(), 1);
        assert_eq!(pipe.exchange(silent.clone()).await.len(), 1);
        let loud = at_level("test_logging_tool", "debug");
        assert_eq!(post(&server, &loud).await.len(), 9);
        assert_eq!(pipe.exchange(loud).await.len(), 9);
    }
}

/// Logs and progress belong to their request: who listens for changes hears of these alone. SV18
#[tokio::test]
async fn a_log_is_never_told_to_listeners() {
    let server = HttpServer::new(everything()).await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listen = modern("l", "subscriptions/listen", filter);
    let mut stream = server.post(&listen).send().await;
    stream.message().await.unwrap();
    assert_eq!(post(&server, &at_level("test_logging_tool", "debug")).await.len(), 9);
    let progress = call("test_tool_with_progress", json!({ "progressToken": 1 }));
    assert!(post(&server, &progress).await.len() > 1);
    post(&server, &call("test_trigger_tool_change", json!({}))).await;
    let told = stream.message().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"][SUBSCRIPTION], "l");
}

/// A level that is none of the eight is refused. SV19
#[tokio::test]
async fn an_unknown_level_is_refused() {
    let server = HttpServer::new(everything()).await;
    let mut pipe = PipeClient::new(everything());
    for level in [json!("verbose"), json!("INFO"), json!(""), json!(3), json!({})] {
        let message = call("test_logging_tool", json!({ LOG_LEVEL: level }));
        let answer = server.post(&message).send().await;
        assert_eq!(answer.status.as_u16(), 400, "{level}");
        for messages in [answer.messages().await, pipe.exchange(message).await] {
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert_eq!(messages[0]["id"], 1);
            assert_eq!(messages[0]["error"]["code"], -32602, "{level}");
        }
    }
}

/// A server that can log says so. SV20
#[tokio::test]
async fn logging_is_declared() {
    let logs = Tool::new("logs", async |ctx: Ctx| ctx.log(Level::Info, "hello"));
    let mut client = PipeClient::new(Server::new("test").tool(logs));
    let offer = client.ask(modern(1, "server/discover", json!({}))).await;
    assert_eq!(offer["result"]["capabilities"]["logging"], json!({}));
    let messages = client.exchange(at_level("logs", "info")).await;
    assert_eq!(members(&said(&messages, LOG), "data"), ["hello"]);
}

/// Reports what it is told to, 20 milliseconds apart.
#[tool]
async fn report(values: Vec<f64>, total: Option<f64>, ctx: Ctx) {
    for value in values {
        ctx.progress(value, total);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn reporter() -> PipeClient {
    PipeClient::new(Server::new("test").tool(report))
}

fn reports(values: Value, meta: Value) -> Value {
    let mut message = call("report", meta);
    message["params"]["arguments"]["values"] = values;
    message["params"]["arguments"]["total"] = json!(9.0);
    message
}

/// What does not grow is not progress. SV21
#[tokio::test(start_paused = true)]
async fn progress_strictly_increases() {
    let values = json!([-1.0, 0.0, 0.0, 2.5, 1.0, 2.5, 2.6, -3.0, 9.0, 9.0, 8.0]);
    let message = reports(values, json!({ "progressToken": "t" }));
    let messages = reporter().exchange(message).await;
    let progress = said(&messages, PROGRESS);
    let expected = [-1.0, 0.0, 2.5, 2.6, 9.0].map(Value::from);
    assert_eq!(members(&progress, "progress"), expected);
    assert!(progress.iter().all(|one| one["total"] == 9.0 && one["progressToken"] == "t"));
    assert_eq!(messages.len(), progress.len() + 1);
}

/// A token comes back as it was: a string or an integer, and the least of each. SV21
#[tokio::test(start_paused = true)]
async fn progress_bears_the_token_it_was_asked_by() {
    let mut client = reporter();
    for token in [json!(0), json!(""), json!("0"), json!(-5), json!(u64::MAX), json!("a\"b")] {
        let message = reports(json!([1.0]), json!({ "progressToken": token }));
        let messages = client.exchange(message).await;
        assert_eq!(members(&said(&messages, PROGRESS), "progressToken"), [token]);
    }
}

/// Without a token that is one, nothing is reported. SV21
#[tokio::test(start_paused = true)]
async fn without_a_token_there_is_no_progress() {
    let mut client = reporter();
    for meta in [
        json!({}),
        json!({ "progressToken": null }),
        json!({ "progressToken": 1.5 }),
        json!({ "progressToken": {} }),
        json!({ "progressToken": true }),
    ] {
        assert_eq!(client.exchange(reports(json!([1.0, 2.0]), meta)).await.len(), 1);
    }
}

/// Some clients write the token where it is not; they are told too. SV21
#[tokio::test(start_paused = true)]
async fn a_token_is_found_in_three_places() {
    let mut client = reporter();
    for (place, member) in
        [("_meta", "progressToken"), ("meta", "progressToken"), ("meta", "progress_token")]
    {
        let mut message = reports(json!([1.0]), json!({}));
        message["params"][place][member] = json!(7);
        let messages = client.exchange(message).await;
        assert_eq!(members(&said(&messages, PROGRESS), "progressToken"), [json!(7)], "{place}");
    }
}

/// Reports often: `every` so many milliseconds, or at once with 0.
#[tool]
async fn hurry(steps: u32, total: f64, every: u64, ctx: Ctx) {
    for step in 1..=steps {
        ctx.progress(f64::from(step), total);
        if every > 0 {
            tokio::time::sleep(Duration::from_millis(every)).await;
        }
    }
}

async fn hurried(arguments: Value) -> Vec<Value> {
    let mut client = PipeClient::new(Server::new("test").tool(hurry));
    let meta = json!({ "progressToken": 1 });
    let params = json!({ "name": "hurry", "arguments": arguments, "_meta": meta });
    let messages = client.exchange(modern(1, "tools/call", params)).await;
    members(&said(&messages, PROGRESS), "progress")
}

/// However often a handler reports, a client hears a hundred times a second at most, and of the
/// end. SV21
#[tokio::test(start_paused = true)]
async fn progress_is_rate_limited() {
    let progress = hurried(json!({ "steps": 1000, "total": 1000.0, "every": 1 })).await;
    assert!((10..=110).contains(&progress.len()), "{}", progress.len());
    assert_eq!(progress.last(), Some(&json!(1000.0)));
    let progress = hurried(json!({ "steps": 1000, "total": 1000.0, "every": 0 })).await;
    assert_eq!(progress, [json!(1.0), json!(1000.0)]);
}

/// A total that was guessed too low does not lift the limit. SV21
#[tokio::test(start_paused = true)]
async fn progress_beyond_its_total_is_rate_limited_too() {
    let progress = hurried(json!({ "steps": 1000, "total": 5.0, "every": 0 })).await;
    assert!(progress.len() <= 5, "{} reports at once", progress.len());
}

/// Reports what is no number.
#[tool]
async fn infinite(ctx: Ctx) {
    ctx.progress(f64::NAN, 2.0);
    ctx.progress(f64::INFINITY, None);
    ctx.progress(1.0, f64::INFINITY);
}

/// Progress and total are numbers or are not there. SV21
#[tokio::test]
async fn what_is_no_number_is_not_reported() {
    let mut client = PipeClient::new(Server::new("test").tool(infinite));
    let messages = client.exchange(call("infinite", json!({ "progressToken": 1 }))).await;
    let progress = said(&messages, PROGRESS);
    assert_eq!(progress, [json!({ "progressToken": 1, "progress": 1.0 })]);
}

type Kept = Arc<Mutex<Option<Ctx>>>;

/// Leaves its context behind, as one does who starts a task.
#[tool]
async fn leave(kept: State<Kept>, ctx: Ctx) -> &'static str {
    ctx.progress(1.0, None);
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(ctx);
    "left"
}

/// After the response neither progress nor a log is sent, whoever still holds the call. SV21
#[tokio::test]
async fn nothing_is_reported_after_the_end() {
    let kept = Kept::default();
    let server = Server::new("test").state(kept.clone()).tool(leave);
    let mcp = Mcp::new(server.build().unwrap());
    let message = call("leave", json!({ "progressToken": 1, LOG_LEVEL: "debug" }));
    let Ok(Message::One(frame)) = Message::parse(message.to_string().into()) else {
        panic!("a request");
    };
    let mut frames = mcp.send(frame, Extensions::new());
    let mut next = async || futures_util::StreamExt::next(&mut frames).await;
    assert!(matches!(next().await, Some(Frame::Notification(_))));
    assert!(matches!(next().await, Some(Frame::Response(_))));
    let ctx = kept.lock().unwrap().take().unwrap();
    ctx.progress(2.0, None);
    ctx.log(Level::Emergency, "too late");
    assert_eq!(next().await, None);
}

async fn trace(ctx: Ctx) -> String {
    let trace = ctx.trace();
    let parent = trace.map(|trace| &trace.parent);
    let state = trace.and_then(|trace| trace.state.as_ref());
    let baggage = trace.and_then(|trace| trace.baggage.as_ref());
    json!([parent, state, baggage]).to_string()
}

/// A trace is passed on to the handler if it is well-formed, each of its parts by itself. SV55
#[tokio::test]
async fn only_a_well_formed_trace_is_passed_on() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let mut client = PipeClient::new(Server::new("test").tool(Tool::new("trace", trace)));
    let mut passed = async |parent: &str, state: Value, baggage: Value| {
        let meta = json!({ "traceparent": parent, "tracestate": state, "baggage": baggage });
        let answer = client.ask(call("trace", meta)).await;
        serde_json::from_str::<Value>(text(&answer["result"])).unwrap()
    };
    let (state, baggage) = (json!("a=1,b@c=x y"), json!("user=ann;p=1,k=%20"));
    let all = passed(PARENT, state.clone(), baggage.clone()).await;
    assert_eq!(all, json!([PARENT, state, baggage]));
    for parent in [
        "",
        "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7",
        "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-00",
    ] {
        let none = passed(parent, state.clone(), baggage.clone()).await;
        assert_eq!(none, json!([null, null, null]), "{parent}");
    }
    for odd in [json!("a=1\r\nx-admin: yes"), json!("a=ü"), json!("no value"), json!(7)] {
        let rest = passed(PARENT, odd.clone(), baggage.clone()).await;
        assert_eq!(rest, json!([PARENT, null, baggage]), "{odd}");
        let rest = passed(PARENT, state.clone(), odd.clone()).await;
        assert_eq!(rest, json!([PARENT, state, null]), "{odd}");
    }
}

/// Logs without end, twice, a second apart.
#[tool]
async fn flood(ctx: Ctx) {
    for _ in 0..2 {
        for count in 0..5000 {
            ctx.log(Level::Error, count);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A call that logs too much is cut short, and its client told so. SV57
#[tokio::test(start_paused = true)]
async fn logs_are_rate_limited() {
    let mut client = PipeClient::new(Server::new("test").tool(flood));
    let messages = client.exchange(at_level("flood", "debug")).await;
    let logs = said(&messages, LOG);
    assert!((100..=500).contains(&logs.len()), "{}", logs.len());
    let notice = logs.last().unwrap()["data"].to_string();
    assert!(notice.contains("dropped"), "{notice}");
    let second = logs.iter().filter(|log| log["data"] == 0).count();
    assert_eq!(second, 2, "the limit is a rate, not an end");
}

/// Even the notice of what was dropped is not less serious than what was asked for. SV18
#[tokio::test(start_paused = true)]
async fn the_notice_of_dropped_logs_keeps_to_the_level() {
    let mut client = PipeClient::new(Server::new("test").tool(flood));
    let messages = client.exchange(at_level("flood", "error")).await;
    for log in said(&messages, LOG) {
        let level = log["level"].as_str().unwrap();
        let place = Level::NAMES.iter().position(|name| *name == level);
        assert!(place >= Some(4), "{log}");
    }
}

/// Fails with a secret on its lips.
async fn blurt(Args(args): Args<Value>) -> Result<String> {
    assert!(args["quiet"] == true, "password=hunter2");
    Ok("quiet".into())
}

/// What a handler panics with is for whoever runs the server, not for its clients. SV57
#[tokio::test]
async fn a_panic_tells_no_secrets() {
    let mut client = PipeClient::new(Server::new("test").tool(Tool::new("blurt", blurt)));
    let messages = client.exchange(at_level("blurt", "debug")).await;
    assert_eq!(messages.last().unwrap()["result"]["isError"], true);
    assert!(!format!("{messages:?}").contains("hunter2"), "{messages:?}");
}
