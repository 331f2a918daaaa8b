//! Many clients at once: every answer is right, is for whoever asked, and leaves nothing behind.

use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::Mutex;
use zcp_tests::{
    HANDSHAKES, NEWEST, call, everything, memory, text,
    wire::{Client, Stage, Wire},
};

const CLIENTS: usize = 50;
const CALLS: usize = 20;
/// What a round may leave behind once the first have filled every cache, in KiB.
const LEFT: u64 = 4 * 1024;

/// Memory is measured by one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// One of the calls a client makes with its own values, and what its answer must say.
fn call_of(mark: &str, number: usize) -> (&'static str, Value, String) {
    let own = format!("{mark}-{number:02}");
    match number % 7 {
        0 => {
            let sum = number * 1000 + mark.len();
            let add = json!({ "a": number * 1000, "b": mark.len() });
            ("tools/call", call("add", add), format!("\"{sum}\""))
        }
        1 => {
            let weather = call("test_structured_output", json!({ "city": own }));
            ("tools/call", weather, own)
        }
        2 => {
            let uri = format!("test://template/{own}/data");
            let expected = format!("Data for ID: {own}");
            ("resources/read", json!({ "uri": uri }), expected)
        }
        3 => {
            let name = "test_prompt_with_arguments";
            let prompt = json!({ "name": name, "arguments": { "arg1": own, "arg2": mark } });
            let expected = format!("arg1='{own}', arg2='{mark}'");
            ("prompts/get", prompt, expected)
        }
        4 => {
            let mut slow = call("slow_compute", json!({ "seconds": 0.1, "label": own }));
            slow["_meta"] = json!({ "progressToken": own });
            let expected = format!("{own}: computed for 0.1 seconds");
            ("tools/call", slow, expected)
        }
        5 => {
            let sample = call("test_sampling", json!({ "prompt": own }));
            ("tools/call", sample, format!("LLM response: {mark}"))
        }
        _ => {
            let ask = call("test_elicitation", json!({ "message": own }));
            ("tools/call", ask, format!(r#"\"username\":\"{mark}\""#))
        }
    }
}

/// Makes a client's calls; gives their number.
async fn work(mut client: Client, mark: String) -> usize {
    for number in 0..CALLS {
        let (method, params, expected) = call_of(&mark, number);
        let own = format!("{mark}-{number:02}");
        let said = client.call(method, params).await;
        let answer = said.last().expect("there is a response");
        assert!(answer.to_string().contains(&expected), "{own}: {answer}");
        for message in &said[..said.len() - 1] {
            // Progress is of this call; a question is what this client asked for.
            let token = &message["params"]["progressToken"];
            let asked = format!("{}{}", message["params"], message["result"]);
            assert!(*token == own || asked.contains(&own), "{message}");
        }
    }
    client.close().await;
    CALLS
}

async fn round(stage: &Stage, version: &'static str) {
    let clients = (0..CLIENTS).map(async |number| {
        let mark = format!("client-{number:03}");
        let client = stage.client(version, &mark).await;
        work(client, mark).await
    });
    let done: usize = join_all(clients).await.into_iter().sum();
    assert_eq!(done, CLIENTS * CALLS);
}

/// What is in memory once nothing is under way.
async fn settled(stage: &Stage) -> u64 {
    let Some(http) = &stage.http else {
        tokio::time::sleep(Duration::from_millis(200)).await;
        return memory::resident();
    };
    for _ in 0..100 {
        let numbers = http.get("/metrics").send().await.text().await;
        let none = ["zcp_sessions 0", "zcp_streams 0", "zcp_calls_running 0"];
        let has = |line: &&str| numbers.lines().any(|said| said == *line);
        if none.iter().all(has) {
            return memory::resident();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("something is still under way");
}

async fn under_load(wire: Wire, version: &'static str) {
    let _alone = ALONE.lock().await;
    let stage = Stage::new(wire, everything().build().expect("no mistakes")).await;
    round(&stage, version).await;
    round(&stage, version).await;
    let before = settled(&stage).await;
    round(&stage, version).await;
    let after = settled(&stage).await;
    assert!(after <= before + LEFT, "{before} KiB, then {after} KiB");
    let mut client = stage.client(version, "after").await;
    let said = client.call("tools/call", call("test_simple_text", json!({}))).await;
    assert!(text(&said[0]["result"]).starts_with("This is a simple"));
    client.close().await;
    stage.close().await;
}

/// Every message reaches its one client, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_on_pipes_are_each_answered_right() {
    under_load(Wire::Pipe, HANDSHAKES[3]).await;
}

/// Every message reaches its one client, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_stateless_calls_over_http_are_each_answered_right() {
    under_load(Wire::Http, NEWEST).await;
}

/// Every message reaches its one client, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_in_http_sessions_are_each_answered_right() {
    under_load(Wire::Http, HANDSHAKES[3]).await;
}

/// Every message reaches its one client, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_on_sockets_are_each_answered_right() {
    under_load(Wire::Socket, HANDSHAKES[3]).await;
}

/// Every message reaches its one client, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_on_a_unix_socket_are_each_answered_right() {
    under_load(Wire::Unix, HANDSHAKES[3]).await;
}
