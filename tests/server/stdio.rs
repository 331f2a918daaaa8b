//! Standard input and output of a real process: lines in, lines out, nothing else.

use serde_json::{Value, json};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use zcp::{Pipe, Server, Transport};
use zcp_tests::{
    NEWEST, call, examples::examples, initialize, modern, modern_as, notification, request, text,
};

/// Longer than a server may take to answer anything here.
const SOON: Duration = Duration::from_secs(15);

/// A server in a process of its own.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn everything() -> Self {
        Self::start("everything", &["--stdio"])
    }

    fn start(name: &str, words: &[&str]) -> Self {
        let mut command = Command::new(examples().join(name));
        command.args(words).kill_on_drop(true).stderr(Stdio::piped());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("it is piped");
        let output = BufReader::new(output).lines();
        Self { child, input, output }
    }

    async fn write(&mut self, line: &[u8]) {
        let input = self.input.as_mut().expect("the input was not closed");
        input.write_all(line).await.expect("the server reads");
        input.write_all(b"\n").await.expect("the server reads");
        input.flush().await.expect("the server reads");
    }

    async fn send(&mut self, message: Value) {
        self.write(message.to_string().as_bytes()).await;
    }

    /// The next line, which must be a message; nothing at the end.
    async fn next(&mut self) -> Option<Value> {
        let line = timeout(SOON, self.output.next_line()).await;
        let line = line.expect("the server said something in time").expect("UTF-8")?;
        let message: Value = serde_json::from_str(&line).expect("every line is JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        Some(message)
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.exchange(message).await.pop().expect("there is a response")
    }

    /// Everything said up to the response, which is last.
    async fn exchange(&mut self, message: Value) -> Vec<Value> {
        let id = message["id"].clone();
        self.send(message).await;
        let mut said = vec![];
        loop {
            let message = self.next().await.expect("the server goes on");
            let last = message["id"] == id;
            said.push(message);
            if last {
                return said;
            }
        }
    }

    /// Ends the input; gives what was said after it, and what went to standard error.
    async fn close(mut self) -> (Vec<Value>, String) {
        drop(self.input.take());
        let mut said = vec![];
        while let Some(message) = self.next().await {
            said.push(message);
        }
        let ended = timeout(SOON, self.child.wait()).await;
        assert!(ended.expect("it ended in time").expect("it ran").success());
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut errors).await.expect("UTF-8");
        (said, errors)
    }
}

fn run(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    modern(id, "tools/call", call(name, arguments))
}

fn cancel(params: Value) -> Value {
    notification("notifications/cancelled", params)
}

/// SI01
#[tokio::test]
async fn what_a_handler_prints_goes_to_standard_error() {
    let mut process = Process::start("printing", &[]);
    for id in 1..=3 {
        let answer = process.ask(run(id, "shout", json!({ "words": "NOT A MESSAGE" }))).await;
        assert_eq!(text(&answer["result"]), "printed:\nNOT A MESSAGE");
    }
    let (said, errors) = process.close().await;
    assert_eq!(said, [json!(null); 0]);
    assert_eq!(errors.matches("NOT A MESSAGE").count(), 6, "{errors}");
}

/// SI01
#[tokio::test]
async fn a_panic_goes_to_standard_error_and_the_server_goes_on() {
    let mut process = Process::everything();
    let answer = process.ask(run(1, "test_panic", json!({}))).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let answer = process.ask(run(2, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(text(&answer["result"]), "3");
    let (said, errors) = process.close().await;
    assert_eq!(said, [json!(null); 0]);
    assert!(errors.contains("on purpose"), "{errors}");
}

/// SI02
#[tokio::test]
async fn no_request_is_written_to_a_stateless_client() {
    let mut process = Process::everything();
    let mut said = vec![];
    for (id, (name, arguments)) in [
        ("test_elicitation", json!({ "message": "You?" })),
        ("test_sampling", json!({ "prompt": "You?" })),
        ("test_list_roots", json!({})),
        ("test_input_required_result_multiple_inputs", json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let answers = process.exchange(run(id, name, arguments)).await;
        assert_eq!(answers[0]["result"]["resultType"], "input_required", "{answers:?}");
        said.extend(answers);
    }
    said.extend(process.close().await.0);
    assert_eq!(said.len(), 4);
    assert!(said.iter().all(|message| message.get("method").is_none()), "{said:?}");
}

/// SI03
#[tokio::test]
async fn after_a_cancel_nothing_more_is_said_and_the_work_stops() {
    let mut process = Process::everything();
    let mut slow = call("slow_compute", json!({ "seconds": 30, "label": "cancelled" }));
    slow["_meta"] = json!({ "progressToken": "slow" });
    process.send(modern("slow", "tools/call", slow)).await;
    let progress = process.next().await.unwrap();
    assert_eq!(progress["params"]["progressToken"], "slow");
    process.send(cancel(json!({ "requestId": "slow", "reason": "enough" }))).await;
    // What was said before the cancel was read may still come; after this answer nothing may.
    process.exchange(modern(2, "server/discover", json!({}))).await;
    let said = process.exchange(run(3, "slow_compute", json!({ "seconds": 0.3 }))).await;
    assert_eq!(said.len(), 1, "{said:?}");
    let labels = process.ask(run(4, "test_cancelled_labels", json!({}))).await;
    assert_eq!(labels["result"]["structuredContent"], json!(["cancelled"]));
    let again = process.ask(run("slow", "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(text(&again["result"]), "3");
    assert_eq!(process.close().await.0, [json!(null); 0]);
}

/// SI04
#[tokio::test]
async fn the_end_of_input_ends_the_process_after_what_can_be_finished() {
    let began = Instant::now();
    let idle = Process::everything();
    assert_eq!(idle.close().await.0, [json!(null); 0]);
    let mut process = Process::everything();
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    process.send(modern("listen", "subscriptions/listen", filter)).await;
    let acknowledged = process.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    process.send(run("work", "slow_compute", json!({ "seconds": 0.3 }))).await;
    let (said, _) = process.close().await;
    let mut ended: Vec<&Value> = said.iter().map(|message| &message["id"]).collect();
    ended.sort_by_key(|id| id.to_string());
    assert_eq!(ended, ["listen", "work"], "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// SI04
#[tokio::test]
async fn the_end_of_input_ends_the_process_though_work_would_go_on() {
    let mut process = Process::everything();
    process.send(run(1, "slow_compute", json!({ "seconds": 3600 }))).await;
    let answer = process.ask(run(2, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(answer["id"], 2);
    let (said, _) = process.close().await;
    assert!(said.iter().all(|message| message.get("result").is_none()), "{said:?}");
}

/// More than may wait is asked for, the input ends, and only then does the client read.
#[tokio::test]
async fn a_client_that_reads_late_gets_every_answer() {
    const CALLS: usize = 5000;
    let server = Server::new("late");
    let (mut input, server_input) = tokio::io::duplex(8 << 20);
    let (server_output, output) = tokio::io::duplex(1024);
    for id in 0..CALLS {
        // Short, so that many come at once.
        let line = format!("{}\n", request(id, "ping", json!({})));
        input.write_all(line.as_bytes()).await.unwrap();
    }
    drop(input);
    let pipe = Pipe { input: server_input, output: server_output };
    let read = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut lines = BufReader::new(output).lines();
        let mut ids = std::collections::BTreeSet::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            let answer: Value = serde_json::from_str(&line).unwrap();
            ids.insert(answer["id"].as_u64().unwrap());
        }
        ids.len()
    };
    let serve = pipe.serve(server.build().unwrap(), CancellationToken::new());
    let (served, answers) = tokio::join!(serve, read);
    served.unwrap();
    assert_eq!(answers, CALLS);
}

/// SI04
#[tokio::test]
async fn a_question_nobody_can_answer_any_more_does_not_delay_the_end() {
    let mut process = Process::everything();
    process.ask(initialize(0, "2025-06-18")).await;
    let question = call("test_elicitation", json!({ "message": "You?" }));
    process.send(request(1, "tools/call", question)).await;
    assert_eq!(process.next().await.unwrap()["method"], "elicitation/create");
    let began = Instant::now();
    process.close().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// SI06
#[tokio::test]
async fn a_cancel_of_nothing_is_ignored() {
    let mut process = Process::everything();
    process.send(run(1, "slow_compute", json!({ "seconds": 0.2 }))).await;
    let none = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" });
    process.send(none).await;
    for params in [
        json!({}),
        json!({ "requestId": null }),
        json!({ "requestId": 1.5 }),
        json!({ "requestId": { "id": 1 } }),
        json!({ "requestId": "1" }),
        json!({ "requestId": 99 }),
        json!({ "requestId": 99 }),
    ] {
        process.send(cancel(params)).await;
    }
    let answer = process.next().await.unwrap();
    assert_eq!((&answer["id"], answer.get("error")), (&json!(1), None), "{answer}");
    process.send(cancel(json!({ "requestId": 1 }))).await;
    let said = process.exchange(run(1, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(text(&said[0]["result"]), "3");
}

/// SI07
#[tokio::test]
async fn discovery_is_answered_first_and_needs_no_handshake() {
    let mut process = Process::everything();
    process.send(modern("first", "server/discover", json!({}))).await;
    let answer = process.next().await.unwrap();
    assert_eq!(answer["id"], "first");
    assert_eq!(answer["result"]["supportedVersions"], json!([NEWEST]));
    assert!(answer["result"]["capabilities"]["tools"].is_object());
}

/// SI08
#[tokio::test]
async fn what_is_no_message_is_answered_without_an_id_and_the_loop_goes_on() {
    let mut process = Process::everything();
    for (line, code) in [
        (&b"{"[..], -32700),
        (b"nonsense", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700),
        (b"[[[[", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
    ] {
        process.write(line).await;
        let answer = process.next().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer.get("id"), None, "{answer}");
    }
    process.write(b"{\"jsonrpc\":\"1.0\",\"id\":\"old\",\"method\":\"ping\"}").await;
    let answer = process.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("old"), &json!(-32600)));
    // Empty lines and carriage returns are nobody's message.
    process.write(b"\r\n\n  ").await;
    let message = run(2, "add", json!({ "a": 1, "b": 2 })).to_string() + "\r";
    process.write(message.as_bytes()).await;
    assert_eq!(process.next().await.unwrap()["id"], 2);
}

/// SI08
#[tokio::test]
async fn huge_and_deep_lines_are_refused_and_the_loop_goes_on() {
    let mut process = Process::everything();
    let large = "x".repeat(1024 * 1024);
    let contact = json!({ "name": large, "email": "a@b" });
    let answer = process.ask(run(1, "json_schema_2020_12_tool", contact)).await;
    assert!(text(&answer["result"]).contains(&large));

    process.write(&vec![b'x'; 17 * 1024 * 1024]).await;
    let answer = process.next().await.unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_eq!(answer.get("id"), None);

    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    process.write(format!("{open}{close}").as_bytes()).await;
    let answer = process.next().await.unwrap();
    assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32600), None));
    let deep = run(3, "json_schema_2020_12_tool", json!({ "name": "DEEP" })).to_string();
    process.write(deep.replace("\"DEEP\"", &format!("{open}{close}")).as_bytes()).await;
    let answer = process.next().await.unwrap();
    assert_eq!(answer["id"], 3);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let answer = process.ask(run(4, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(text(&answer["result"]), "3");
}

/// SI09
#[tokio::test]
async fn a_session_and_stateless_requests_share_a_pipe_and_nothing_else() {
    let mut process = Process::everything();
    let asking = call("test_elicitation", json!({ "message": "You?" }));
    process.ask(modern(1, "tools/list", json!({}))).await;
    let early = process.ask(request(2, "tools/list", json!({}))).await;
    assert_eq!(early["error"]["code"], -32600, "a stateless request opens no session: {early}");

    let client = json!({ "name": "test", "version": "1" });
    let open = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let opened = process.ask(request(3, "initialize", open)).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-06-18");
    process.send(notification("notifications/initialized", json!({}))).await;
    process.ask(request(4, "logging/setLevel", json!({ "level": "debug" }))).await;

    // Capabilities are each request's own, or the session's.
    let said = process.exchange(modern(5, "tools/call", asking.clone())).await;
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["result"]["resultType"], "input_required");
    let said = process.exchange(request(6, "tools/call", asking.clone())).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["result"]["isError"], true);
    assert_eq!((said[0]["result"].get("resultType"), said[0]["result"].get("_meta")), (None, None));
    let said = process.exchange(modern_as(7, "tools/call", asking, json!({}))).await;
    assert_eq!(said[0]["error"]["code"], -32021);

    // So are log levels and methods.
    let logging = call("test_logging_tool", json!({}));
    let said = process.exchange(modern(8, "tools/call", logging.clone())).await;
    assert_eq!(said.len(), 1, "{said:?}");
    let mut errors = logging.clone();
    errors["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "alert" });
    assert_eq!(process.exchange(modern(9, "tools/call", errors)).await.len(), 3);
    assert_eq!(process.exchange(request(10, "tools/call", logging)).await.len(), 9);
    let ping = process.ask(modern(11, "ping", json!({}))).await;
    assert_eq!(ping["error"]["code"], -32601);
    assert_eq!(process.ask(request(12, "ping", json!({}))).await["result"], json!({}));
}
