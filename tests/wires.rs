//! One transcript on every wire: the same messages, in the same order, in every revision.

mod rfc6455;

use serde_json::{Value, json};
use tower::util::MapRequestLayer;
use zcp::{Call, Level, Server};
use zcp_tests::{
    HANDSHAKES, NEWEST, call, everything,
    wire::{Client, Stage, Wire},
};

/// What the client's answers say.
const MARK: &str = "mark";

/// Everything a client says, by name.
fn steps(version: &str) -> Vec<(&'static str, &'static str, Value)> {
    let tool = |name| call(name, json!({}));
    let reported = |name| {
        let mut params = tool(name);
        params["_meta"] = json!({ "progressToken": name });
        params
    };
    let asked = |name| call(name, json!({ "message": "Who?", "prompt": "What?" }));
    let prompt = json!({ "arg1": "x", "arg2": "y" });
    let complete = json!({ "argument": { "name": "arg1", "value": "par" },
        "ref": { "type": "ref/prompt", "name": "test_prompt_with_arguments" } });
    let mut all = vec![
        ("tools", "tools/list", json!({})),
        ("prompts", "prompts/list", json!({})),
        ("resources", "resources/list", json!({})),
        ("templates", "resources/templates/list", json!({})),
        ("text", "tools/call", tool("test_simple_text")),
        ("image", "tools/call", tool("test_image_content")),
        ("audio", "tools/call", tool("test_audio_content")),
        ("embedded", "tools/call", tool("test_embedded_resource")),
        ("many", "tools/call", tool("test_multiple_content_types")),
        ("failure", "tools/call", tool("test_error_handling")),
        ("array", "tools/call", tool("test_array_output")),
        ("invalid", "tools/call", call("add", json!({ "a": "x" }))),
        ("unknown", "tools/call", tool("nowhere")),
        ("progress", "tools/call", reported("test_tool_with_progress")),
        ("logging", "tools/call", reported("test_logging_tool")),
        ("elicitation", "tools/call", asked("test_elicitation")),
        ("sampling", "tools/call", asked("test_sampling")),
        ("roots", "tools/call", tool("test_list_roots")),
        ("read", "resources/read", json!({ "uri": "test://static-text" })),
        ("bytes", "resources/read", json!({ "uri": "test://static-binary" })),
        ("template", "resources/read", json!({ "uri": "test://template/7/data" })),
        ("missing", "resources/read", json!({ "uri": "test://nowhere" })),
        ("complete", "completion/complete", complete),
    ];
    let weather = call("test_structured_output", json!({ "city": "Rome" }));
    all.push(("structured", "tools/call", weather));
    let name = "test_prompt_with_arguments";
    let prompt = json!({ "name": name, "arguments": prompt });
    all.push(("prompt", "prompts/get", prompt));
    let twice = "test_input_required_result_multi_round";
    all.push(("twice", "tools/call", tool(twice)));
    if version == NEWEST {
        all.push(("discover", "server/discover", json!({})));
        let prompt = json!({ "name": "test_input_required_result_prompt" });
        all.push(("asking prompt", "prompts/get", prompt));
    } else {
        all.insert(0, ("level", "logging/setLevel", json!({ "level": "debug" })));
        all.push(("ping", "ping", json!({})));
    }
    all
}

/// What the server says at each step.
type Transcript = Vec<(&'static str, Vec<Value>)>;

/// How HTTP is expected to answer.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    /// By JSON where there is only a response.
    Json,
    /// By a stream, even so.
    Stream,
}

async fn transcript(mut client: Client, version: &str, answers: Answers) -> Transcript {
    let mut all = vec![];
    for (name, method, mut params) in steps(version) {
        params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        let mut said = client.call(method, params).await;
        let chatty = said.iter().any(|said| said.get("method").is_some());
        if let Some(was_stream) = client.was_stream() {
            let at_once = ["ping", "level", "discover"].contains(&name);
            let forced = answers == Answers::Stream && !at_once;
            assert_eq!(was_stream, chatty || forced, "{version} {name}");
        }
        said.retain(|said| said["params"]["logger"] != FORCED);
        for message in &mut said {
            // Sealed anew each time.
            if let Some(state) = message.pointer_mut("/result/requestState") {
                *state = json!("sealed");
            }
        }
        all.push((name, said));
    }
    client.close().await;
    all
}

/// Who says the words that make a stream of every answer.
const FORCED: &str = "forced";

/// A server that has something to say before every response.
fn chatty(server: Server) -> Server {
    server.layer(MapRequestLayer::new(|call: Call| {
        call.ctx.log_as(Level::Emergency, Some(FORCED), "begun");
        call
    }))
}

async fn on(wire: Wire, version: &'static str, answers: Answers) -> Transcript {
    let server = match answers {
        Answers::Json => everything(),
        Answers::Stream => chatty(everything()),
    };
    let runtime = server.build().expect("the server has no mistakes");
    let stage = Stage::new(wire, runtime).await;
    let client = stage.client(version, MARK).await;
    let said = transcript(client, version, answers).await;
    stage.close().await;
    said
}

/// The last text of a step.
fn last<'a>(all: &'a Transcript, name: &str) -> &'a Value {
    let step = all.iter().find(|(step, _)| *step == name);
    step.and_then(|(_, said)| said.last()).expect("the step was taken")
}

fn count(all: &Transcript, name: &str, method: &str) -> usize {
    let step = all.iter().filter(|(step, _)| *step == name);
    let said = step.flat_map(|(_, said)| said);
    said.filter(|said| said["method"] == method).count()
}

/// That the transcript is the right one, and not only the same everywhere.
fn check(all: &Transcript, version: &str) {
    let said = |name: &str| last(all, name).to_string();
    let expected = if version == NEWEST { -32602 } else { -32002 };
    assert_eq!(last(all, "missing")["error"]["code"], expected);
    assert_eq!(last(all, "unknown")["error"]["code"], -32602);
    for (name, said) in all {
        let refused = ["missing", "unknown"].contains(name);
        let answer = said.last().expect("there is a response");
        assert_eq!(answer.get("error").is_some(), refused, "{name} {answer}");
    }
    assert!(said("sampling").contains("LLM response: mark"));
    assert!(said("roots").contains("file:///mark"));
    assert!(said("template").contains("Data for ID: 7"));
    assert!(said("complete").contains(r#"["paris","park","party"]"#));
    assert_eq!(count(all, "progress", "notifications/progress"), 3);
    assert_eq!(count(all, "logging", "notifications/message"), 8);
    let asks = version >= "2025-06-18";
    assert_eq!(said("elicitation").contains("action=accept"), asks);
    assert_eq!(said("twice").contains("likes"), asks, "{}", said("twice"));
    let live = if version == NEWEST { 0 } else { 1 };
    assert_eq!(count(all, "sampling", "sampling/createMessage"), live);
    assert_eq!(count(all, "roots", "roots/list"), live);
}

/// What was said, without the ids the server gives its own questions: each wire has its own.
fn nameless(said: &[Value]) -> Vec<Value> {
    let mut said = said.to_vec();
    for message in said.iter_mut().filter(|message| message.get("method").is_some()) {
        message.as_object_mut().into_iter().for_each(|message| drop(message.remove("id")));
    }
    said
}

async fn same_on_every_wire(version: &'static str) {
    let pipe = on(Wire::Pipe, version, Answers::Json).await;
    check(&pipe, version);
    let (http, stream, socket, sse, unix, process, direct) = tokio::join!(
        on(Wire::Http, version, Answers::Json),
        on(Wire::Http, version, Answers::Stream),
        on(Wire::Socket, version, Answers::Json),
        on(Wire::Sse, version, Answers::Json),
        on(Wire::Unix, version, Answers::Json),
        on(Wire::Process, version, Answers::Json),
        on(Wire::Direct, version, Answers::Json),
    );
    for (wire, said) in [
        ("HTTP", http),
        ("HTTP as a stream", stream),
        ("WebSocket", socket),
        ("HTTP+SSE", sse),
        ("a Unix socket", unix),
        ("a process", process),
        ("in this process", direct),
    ] {
        assert_eq!(said.len(), pipe.len(), "{version} {wire}");
        for ((name, said), (_, expected)) in said.iter().zip(&pipe) {
            assert_eq!(nameless(said), nameless(expected), "{version} {wire} {name}");
        }
    }
}

/// 2024-11-05 entirely.
#[tokio::test]
async fn every_wire_says_the_same_in_2024_11_05() {
    same_on_every_wire(HANDSHAKES[0]).await;
}

/// Transports of 2025-03-26.
#[tokio::test]
async fn every_wire_says_the_same_in_2025_03_26() {
    same_on_every_wire(HANDSHAKES[1]).await;
}

/// Transports of 2025-06-18.
#[tokio::test]
async fn every_wire_says_the_same_in_2025_06_18() {
    same_on_every_wire(HANDSHAKES[2]).await;
}

/// Transports of 2025-11-25.
#[tokio::test]
async fn every_wire_says_the_same_in_2025_11_25() {
    same_on_every_wire(HANDSHAKES[3]).await;
}

/// Transports of 2026-07-28.
#[tokio::test]
async fn every_wire_says_the_same_in_2026_07_28() {
    same_on_every_wire(NEWEST).await;
}
