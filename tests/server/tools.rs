//! Tools: what is checked before and after a call, who may make it, what each revision sees of it.

use futures_util::StreamExt;
use http::Extensions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    io::ErrorKind,
    net::TcpListener,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tower::{ServiceExt, layer::LayerFn, service_fn, util::BoxCloneSyncService};
use zcp::{
    Args, Call, CallError, Catalog, Ctx, Error, Fault, FromCall, Input, Json, Live, Mcp, Op,
    Outcome, Output, Principal, Prompt, RateLimit, Resource, Result, Runtime, Server, Service,
    Signature, State, Tool,
    layer::{self, Next},
    tool,
    wire::{ByteString, Frame, Peer},
};
use zcp_tests::{HANDSHAKES, call, everything, modern, pipe::PipeClient, request, text};

/// What no client may be shown.
const HIDDEN: &str = "a secret in a panic";

fn run(name: &str, args: Value) -> Value {
    modern(1, "tools/call", call(name, args))
}

/// What a tool gave.
async fn gives(client: &mut PipeClient, name: &str, args: Value) -> Value {
    client.ask(run(name, args)).await["result"].take()
}

/// The tools a server lists.
async fn listed(client: &mut PipeClient) -> Value {
    client.ask(modern(0, "tools/list", json!({}))).await["result"]["tools"].take()
}

/// What a caller is answered with, without a wire.
async fn ask_as(runtime: &Runtime, who: &str, message: &Value) -> Value {
    let frame = Frame::parse(&ByteString::from(message.to_string())).expect("a frame");
    let mut extensions = Extensions::new();
    extensions.insert(Principal::new(who));
    let mcp = Mcp::new(runtime.clone());
    let frames: Vec<Frame> = mcp.send(frame, extensions).collect().await;
    let response = frames.last().expect("there is a response");
    serde_json::from_str(&response.to_text()).expect("frames are JSON")
}

#[track_caller]
fn fails(result: &Value, words: &str) {
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(result).contains(words), "{words}: {result}");
    assert_eq!(result.get("structuredContent"), None, "{result}");
}

#[track_caller]
fn refused(answer: &Value, code: i64) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert_eq!(answer["id"], 1);
}

fn mistakes(server: Server) -> Vec<String> {
    match server.build() {
        Ok(_) => vec![],
        Err(Error::Mistakes(mistakes)) => mistakes,
        Err(error) => panic!("{error}"),
    }
}

/// A layer that may answer the calls of a tool instead of it.
fn instead(
    tool: &'static str,
    answer: impl Fn(&Call) -> Option<Outcome> + Clone + Send + Sync + 'static,
) -> LayerFn<impl Fn(Service) -> Service + Send + 'static> {
    tower::layer::layer_fn(move |inner: Service| {
        let answer = answer.clone();
        BoxCloneSyncService::new(service_fn(move |call: Call| {
            let this = matches!(&call.op, Op::CallTool { name, .. } if name == tool);
            let answered = if this { answer(&call) } else { None };
            let inner = inner.clone();
            async move {
                match answered {
                    Some(outcome) => Ok(outcome),
                    None => inner.oneshot(call).await,
                }
            }
        }))
    })
}

fn takes(schema: Value) -> Server {
    let tool = Tool::new("takes", async |Args(args): Args<Value>| args.to_string());
    Server::new("takes").tool(tool.input_schema(schema))
}

/// SV31
#[tokio::test]
async fn a_bad_argument_is_told_to_the_model_by_its_name() {
    let mut client = PipeClient::new(everything());
    for (args, named) in [
        (json!({ "a": 1 }), "`b`"),
        (json!({ "a": 1, "b": "two" }), "`b`"),
        (json!({ "a": [], "b": 2 }), "`a`"),
    ] {
        fails(&gives(&mut client, "add", args).await, named);
    }
    let contact = json!({ "name": "Ann", "phone": 7, "contactMethod": "pigeon" });
    let result = gives(&mut client, "json_schema_2020_12_tool", contact).await;
    fails(&result, "`phone`");
    fails(&result, "`contactMethod`");
    for args in [json!([1, 2]), json!("a"), json!(7)] {
        refused(&client.ask(run("add", args)).await, -32602);
    }
}

/// SV30
#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error_in_every_revision() {
    let unknown = call("no_such_tool", json!({}));
    for version in HANDSHAKES {
        let mut client = PipeClient::open(everything(), version).await;
        let message = request(1, "tools/call", unknown.clone());
        refused(&client.ask(message).await, -32602);
    }
    let mut client = PipeClient::new(everything());
    refused(&client.ask(modern(1, "tools/call", unknown)).await, -32602);
}

#[derive(Serialize, JsonSchema)]
struct Point {
    x: i64,
}

/// Tools by name, with their output and its type.
const SHAPES: [(&str, &str, &str); 4] = [
    ("array", "[1,2]", "array"),
    ("null", "null", "null"),
    ("object", r#"{"x":1}"#, "object"),
    ("scalar", "7", "integer"),
];

fn shapes() -> Server {
    Server::new("shapes")
        .tool(Tool::new("array", async || Json(vec![1, 2])))
        .tool(Tool::new("null", async || Json(())))
        .tool(Tool::new("object", async || Json(Point { x: 1 })))
        .tool(Tool::new("scalar", async || Json(7)))
}

/// SV32, SV33
#[tokio::test]
async fn structured_output_of_any_root_is_sent_and_mirrored_as_text() {
    let mut client = PipeClient::new(shapes());
    let tools = listed(&mut client).await;
    for (index, (name, json, kind)) in SHAPES.into_iter().enumerate() {
        assert_eq!(tools[index]["outputSchema"]["type"], kind);
        let result = gives(&mut client, name, json!({})).await;
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(result.get("structuredContent"), Some(&value), "{result}");
        assert_eq!(result["content"], json!([{ "type": "text", "text": json }]));
        assert_eq!(result.get("isError"), None);
    }
}

/// Only objects until 2025-11-25, nothing before 2025-06-18: SV32
#[tokio::test]
async fn older_revisions_see_structured_objects_or_only_the_text() {
    for version in HANDSHAKES {
        let mut client = PipeClient::open(shapes(), version).await;
        let list = client.ask(request(0, "tools/list", json!({}))).await;
        for (index, (name, json, _)) in SHAPES.into_iter().enumerate() {
            let sees = name == "object" && version >= "2025-06-18";
            let tool = &list["result"]["tools"][index];
            assert_eq!(tool["name"], name);
            assert_eq!(tool.get("outputSchema").is_some(), sees, "{version}");
            let message = request(1, "tools/call", call(name, json!({})));
            let result = client.ask(message).await["result"].take();
            let structured = result.get("structuredContent");
            assert_eq!(structured.is_some(), sees, "{version}: {result}");
            assert_eq!(text(&result), json, "{version}");
        }
    }
}

/// SV32
#[tokio::test]
async fn output_that_breaks_its_schema_is_an_error_and_not_sent() {
    let words = json!({ "type": "string" });
    let promised = Tool::new("promised", async || "only text").output_schema(words.clone());
    let failing = Tool::new("failing", async || Output::failed("no")).output_schema(words);
    let mut client = PipeClient::new(everything().tool(promised).tool(failing));
    let found = [("test_invalid_output", "`count`"), ("promised", "structured"), ("failing", "no")];
    for (name, words) in found {
        fails(&gives(&mut client, name, json!({})).await, words);
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Renamed {
    #[serde(rename(serialize = "written", deserialize = "read"))]
    value: i64,
}

/// The schema of a type is that of the JSON it writes: SV32
#[tokio::test]
async fn output_of_a_type_fits_the_schema_that_is_listed() {
    let renamed = Tool::new("renamed", async || Json(Renamed { value: 1 }));
    let mut client = PipeClient::new(Server::new("typed").tool(renamed));
    let required = listed(&mut client).await[0]["outputSchema"]["required"].take();
    let result = gives(&mut client, "renamed", json!({})).await;
    assert_eq!(result["structuredContent"], json!({ "written": 1 }));
    assert_eq!(required, json!(["written"]));
}

/// JSON has no such number, and `null` is none: SV32
#[tokio::test]
async fn a_number_that_is_none_is_an_error() {
    let tool = Tool::new("number", async |_: Args<Value>| Json(f64::NAN));
    let mut client = PipeClient::new(Server::new("typed").tool(tool));
    assert_eq!(listed(&mut client).await[0]["outputSchema"]["type"], "number");
    fails(&gives(&mut client, "number", json!({})).await, "");
}

/// SV34
#[tokio::test]
async fn a_schema_is_read_in_the_dialect_it_names() {
    let pair = json!([{ "type": "string" }, { "type": "integer" }]);
    let old = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": { "pair": { "items": pair } } });
    let unnamed = json!({ "type": "object", "properties": { "pair": { "prefixItems": pair } } });
    for schema in [old, unnamed] {
        let mut client = PipeClient::new(takes(schema.clone()));
        assert_eq!(listed(&mut client).await[0]["inputSchema"], schema);
        let good = gives(&mut client, "takes", json!({ "pair": ["a", 1] })).await;
        assert_eq!(good.get("isError"), None, "{good}");
        let bad = gives(&mut client, "takes", json!({ "pair": [1, "a"] })).await;
        fails(&bad, "`pair[0]`");
    }
    let found = mistakes(takes(json!({ "$schema": "https://example.com/mine" })));
    assert_eq!(found.len(), 1);
    let words = "tool `takes`: input schema: unknown $schema `https://example.com/mine`";
    assert!(found[0].starts_with(words), "{found:?}");
}

/// SV35
#[test]
fn a_hostile_schema_is_refused_at_build_and_nothing_is_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema", listener.local_addr().unwrap());
    let deep = (0..70).fold(json!({}), |inner, _| json!({ "not": inner }));
    let mut doubling = json!({ "d40": { "type": "string" } });
    for step in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", step + 1) });
        doubling[format!("d{step}")] = json!({ "allOf": [next, next] });
    }
    let large = "x".repeat(300 * 1024);
    for (words, schema) in [
        ("leaves the schema", json!({ "properties": { "a": { "$ref": url } } })),
        ("leaves the schema", json!({ "$ref": "file:///etc/passwd" })),
        ("not a valid schema", json!({ "$ref": "#/$defs/none" })),
        ("not a valid schema", json!({ "properties": { "a": { "type": "text" } } })),
        ("64 levels", json!({ "properties": { "a": deep } })),
        ("10000 nodes", json!({ "enum": vec![0; 10_000] })),
        ("256 KiB", json!({ "description": large })),
        ("too many alternatives", json!({ "$defs": doubling, "$ref": "#/$defs/d0" })),
        ("pattern", json!({ "properties": { "a": { "pattern": r"(a)\1" } } })),
    ] {
        let gives = Tool::new("gives", async || Output::structured(1));
        let found = mistakes(takes(schema.clone()).tool(gives.output_schema(schema)));
        assert_eq!(found.len(), 2, "{words}: {found:?}");
        for (mistake, who) in found.iter().zip(["`takes`: input", "`gives`: output"]) {
            assert!(mistake.starts_with(&format!("tool {who} schema: ")), "{mistake}");
            assert!(mistake.contains(words), "{words}: {mistake}");
        }
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// SV35
#[tokio::test]
async fn a_hostile_value_is_refused_quickly_and_shortly() {
    let schema = json!({ "properties": { "word": { "pattern": "^(a+)+$" },
        "next": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
    let mut client = PipeClient::new(takes(schema));
    let began = Instant::now();
    let word = json!({ "word": "a".repeat(50_000) + "!" });
    let deep = (0..100).fold(json!({ "word": "!" }), |inner, _| json!({ "next": inner }));
    for value in [word, deep] {
        let result = gives(&mut client, "takes", value).await;
        fails(&result, "bad arguments");
        assert!(text(&result).len() < 3000);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// SV48
#[tokio::test]
async fn a_layer_decides_who_may_call_what() {
    let guard = instead("vault", |call| {
        let denied = Outcome::Fault(Fault::Denied("vault:open".into()));
        (call.ctx.principal().as_str() != "alice").then_some(denied)
    });
    let server = Server::new("guarded").tool(Tool::new("vault", async || "gold"));
    let server = server.tool(Tool::new("lobby", async || "welcome"));
    let runtime = server.layer(guard).build().unwrap();
    let vault = run("vault", json!({}));
    let answer = ask_as(&runtime, "bob", &vault).await;
    refused(&answer, 403);
    assert!(answer.to_string().contains("vault:open"));
    let answer = ask_as(&runtime, "alice", &vault).await;
    assert_eq!(text(&answer["result"]), "gold");
    let answer = ask_as(&runtime, "bob", &run("lobby", json!({}))).await;
    assert_eq!(text(&answer["result"]), "welcome");
}

/// SV48
#[tokio::test(start_paused = true)]
async fn a_rate_limit_holds_each_caller_apart() {
    let server = everything().layer(RateLimit::per_second(0.5).burst(2.0));
    let runtime = server.build().unwrap();
    let simple = run("test_simple_text", json!({}));
    for who in ["bob", "bob", "alice"] {
        assert_eq!(ask_as(&runtime, who, &simple).await.get("error"), None);
    }
    refused(&ask_as(&runtime, "bob", &simple).await, 429);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(ask_as(&runtime, "bob", &simple).await.get("error"), None);
    refused(&ask_as(&runtime, "bob", &simple).await, 429);
}

#[tokio::test]
async fn the_layer_added_last_runs_first() {
    let named = |name| instead("who", move |_| Some(Outcome::Tool(Output::text(name))));
    let mut client = PipeClient::new(everything().layer(named("inner")).layer(named("outer")));
    assert_eq!(text(&gives(&mut client, "who", json!({})).await), "outer");
}

/// What a panic says stays here: SV48
#[tokio::test]
async fn a_panic_is_an_error_of_its_call_alone() {
    let panics = async || -> String { panic!("{HIDDEN}") };
    let server = everything()
        .tool(Tool::new("panics", panics))
        .resource(Resource::new("test://panics", panics))
        .prompt(Prompt::new("panics", panics));
    let mut client = PipeClient::new(server);
    let result = gives(&mut client, "panics", json!({})).await;
    fails(&result, "");
    assert!(!result.to_string().contains(HIDDEN), "{result}");
    let read = modern(1, "resources/read", json!({ "uri": "test://panics" }));
    for message in [read, modern(1, "prompts/get", json!({ "name": "panics" }))] {
        let answer = client.ask(message).await;
        refused(&answer, -32603);
        assert!(!answer.to_string().contains(HIDDEN), "{answer}");
    }
    let result = gives(&mut client, "add", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(text(&result), "3");
}

#[tokio::test]
async fn a_panic_in_a_layer_is_an_error_of_its_call_alone() {
    let panics = instead("add", |_| panic!("{HIDDEN}"));
    let mut client = PipeClient::new(everything().layer(panics));
    let answer = client.ask(run("add", json!({ "a": 1, "b": 2 }))).await;
    assert!(!answer.to_string().contains(HIDDEN), "{answer}");
    let result = gives(&mut client, "test_simple_text", json!({})).await;
    assert_eq!(result.get("isError"), None, "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_ended() {
    let server = everything().call_timeout(Duration::from_secs(2));
    let slow = json!({ "seconds": 8 });
    let result = gives(&mut PipeClient::new(server), "slow_compute", slow).await;
    fails(&result, "2 seconds");
}

#[tokio::test]
async fn tools_come_and_go_while_the_server_runs() {
    let changed = "notifications/tools/list_changed";
    let live = Live::default();
    let server = Server::new("live").tool(Tool::new("own", async || "own"));
    let mut client = PipeClient::open(server.provide(live.clone()), "2025-11-25").await;
    assert_eq!(listed(&mut client).await.as_array().unwrap().len(), 1);
    // A name that is taken stays whose it was, and what is wrong is left out.
    let catalog = Catalog::default().tool(Tool::new("new", async || "new"));
    let catalog = catalog.tool(Tool::new("own", async || "other"));
    live.set(catalog.tool(Tool::new("bad name", async || "bad")));
    assert_eq!(client.next().await["method"], changed);
    let tools = listed(&mut client).await;
    assert_eq!((&tools[0]["name"], &tools[1]["name"]), (&json!("new"), &json!("own")));
    assert_eq!(tools.as_array().unwrap().len(), 2);
    for name in ["new", "own"] {
        assert_eq!(text(&gives(&mut client, name, json!({})).await), name);
    }
    live.set(Catalog::default());
    assert_eq!(client.next().await["method"], changed);
    refused(&client.ask(run("new", json!({}))).await, -32602);
}

struct Language(String);

impl FromCall for Language {
    fn describe(signature: &mut Signature) {
        signature.arg::<String>("language", "What to speak.");
    }

    async fn from_call(input: &Input) -> Result<Self> {
        let language: String = input.arg("language")?;
        match language.as_str() {
            "de" | "en" => Ok(Self(language)),
            other => Err(CallError::new(format!("nobody here speaks {other}"))),
        }
    }
}

/// Takes one of each.
#[tool]
async fn each(n: i64, lang: Language, times: State<i64>, who: Principal, ctx: Ctx) -> String {
    let form = ctx.client().form();
    format!("{} {} {} {form}", who.as_str(), lang.0, n * times.0)
}

#[tokio::test]
async fn a_handler_takes_what_it_names() {
    let server = Server::new("taking").state(7_i64).tool(each);
    let runtime = server.build().unwrap();
    let list = ask_as(&runtime, "ann", &modern(1, "tools/list", json!({}))).await;
    let schema = &list["result"]["tools"][0]["inputSchema"];
    assert_eq!(schema["required"], json!(["n", "language"]));
    assert_eq!(schema["properties"]["language"]["description"], "What to speak.");
    let good = run("each", json!({ "n": 6, "language": "de" }));
    let answer = ask_as(&runtime, "ann", &good).await;
    assert_eq!(text(&answer["result"]), "ann de 42 true");
    let bad = run("each", json!({ "n": 6, "language": "fr" }));
    let answer = ask_as(&runtime, "ann", &bad).await;
    fails(&answer["result"], "nobody here speaks fr");
}

/// SV56
#[test]
fn a_tool_name_has_1_to_128_of_the_allowed_characters_and_is_there_once() {
    let named = |name: &str| Server::new("names").tool(Tool::new(name, async || "x"));
    for good in ["a", "A-z_0.9", &"x".repeat(128)] {
        assert_eq!(mistakes(named(good)), [""; 0], "{good}");
    }
    let twice = named("a").tool(Tool::new("a", async || "y"));
    assert_eq!(mistakes(twice), ["tool `a` is there twice"]);
    for bad in ["", "a b", "ü", "a,b", "a\n", "a:b", &"x".repeat(129), "a/b"] {
        assert_eq!(mistakes(named(bad)).len(), 1, "{bad:?}");
    }
}

#[test]
fn build_reports_the_mistakes_of_all_offers_at_once() {
    let server = takes(json!("no schema"))
        .tool(each)
        .tool(Tool::new("bad name", async || "x"))
        .resource(Resource::new("no-scheme", async || "x"))
        .resource(Resource::new("x://{id", async || "x"))
        .prompt(Prompt::new("p", async || "x").complete("none", ["a"]));
    let found = mistakes(server);
    let words = ["`takes`", "`bad name`", "`no-scheme`", "`x://{id`", "`none`", "state `i64`"];
    for word in words {
        let named = found.iter().filter(|mistake| mistake.contains(word));
        assert_eq!(named.count(), 1, "{word}: {found:?}");
    }
    assert_eq!(found.len(), words.len(), "{found:?}");
}

#[test]
fn build_reports_every_mistake_of_one_tool() {
    let handler = async |_: State<u8>| Output::default();
    let tool = Tool::new("bad name", handler).input_schema(json!({ "$ref": "http://a/" }));
    let tool = tool.output_schema(json!({ "$ref": "http://b/" }));
    let found = mistakes(Server::new("mistaken").tool(tool)).join("\n");
    for word in ["a name has", "http://a/", "http://b/", "state `u8`"] {
        assert!(found.contains(word), "{word} is not in: {found}");
    }
}

#[test]
fn build_reports_arguments_that_would_be_no_object() {
    assert_eq!(mistakes(takes(json!({ "type": "array" }))).len(), 1);
}

/// Fails with an error of the server's own.
#[tool]
async fn internal(kind: String) -> Result<String> {
    let missing = std::io::Error::new(ErrorKind::NotFound, HIDDEN);
    match kind.as_str() {
        "std" => Err(missing)?,
        "boxed" => Err(Box::<dyn std::error::Error + Send + Sync>::from(missing))?,
        "anyhow" => Err(anyhow::Error::from(missing).context("outer"))?,
        "exposed" => Err(CallError::from(anyhow::anyhow!("try again")).expose()),
        _ => Err(CallError::new("no such kind")),
    }
}

/// A handler may return an error type of its own, too.
async fn foreign() -> anyhow::Result<String> {
    anyhow::bail!(HIDDEN)
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().expect("no panic while held"), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_internal_error_is_logged_and_not_shown() {
    let server = Server::new("failing")
        .tool(internal)
        .tool(Tool::new("foreign", foreign))
        .resource(Resource::new("x://a", foreign));
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    let mut client = PipeClient::new(server);
    for kind in ["std", "boxed", "anyhow"] {
        let result = gives(&mut client, "internal", json!({ "kind": kind })).await;
        fails(&result, "tool `internal` failed");
        assert!(!result.to_string().contains(HIDDEN), "{result}");
    }
    fails(&gives(&mut client, "foreign", json!({})).await, "tool `foreign` failed");
    fails(&gives(&mut client, "internal", json!({ "kind": "exposed" })).await, "try again");
    fails(&gives(&mut client, "internal", json!({ "kind": "?" })).await, "no such kind");
    let answer = client.ask(modern(1, "resources/read", json!({ "uri": "x://a" }))).await;
    refused(&answer, -32603);
    assert_eq!(answer["error"]["message"], "resource `x://a` failed");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for words in [
        r#"ERROR call{op="call tool" target="internal"}"#,
        r#"ERROR call{op="read resource" target="x://a"}"#,
        &format!("outer: {HIDDEN}"),
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(!log.contains("try again") && !log.contains("no such kind"), "{log}");
}

/// A tower error, as layers of others give them.
#[derive(Debug)]
struct Unreachable;

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl std::error::Error for Unreachable {}

#[tokio::test]
async fn the_error_of_a_layer_is_an_internal_error() {
    let broken = |_: Service| service_fn(async |_: Call| Err::<Outcome, _>(Unreachable));
    let any = Tool::new("any", async || "any");
    let server = Server::new("broken").tool(any.clone()).layer(tower::layer::layer_fn(broken));
    let answer = PipeClient::new(server).ask(run("any", json!({}))).await;
    refused(&answer, -32603);
    assert!(!answer.to_string().contains(HIDDEN), "{answer}");
    let busy = |_: Service| {
        service_fn(async |_: Call| {
            Err::<Outcome, _>(Fault::Busy { why: "later".into(), wait: None })
        })
    };
    let server = Server::new("busy").tool(any).layer(tower::layer::layer_fn(busy));
    refused(&PipeClient::new(server).ask(run("any", json!({}))).await, 429);
}

/// Only `add` may be called, and what comes of it is replaced.
async fn only_add(call: Call, next: Next) -> Result<Outcome> {
    match call.op.target() {
        Some("add") => drop(next.run(call).await),
        Some("lost") => Err(std::io::Error::new(ErrorKind::NotFound, HIDDEN))?,
        _ => return Err(CallError::Denied { scope: "more".into() }),
    }
    Ok(Outcome::Tool(Output::text("layered")))
}

#[tokio::test]
async fn a_function_is_a_layer() {
    let server = Server::new("layered")
        .tool(Tool::new("add", async || "added"))
        .layer(layer::from_fn(only_add))
        .layer(layer::from_fn(async |call, next| next.run(call).await));
    let mut client = PipeClient::new(server);
    assert_eq!(text(&gives(&mut client, "add", json!({})).await), "layered");
    refused(&client.ask(run("other", json!({}))).await, 403);
    let answer = client.ask(run("lost", json!({}))).await;
    refused(&answer, -32603);
    assert!(!answer.to_string().contains(HIDDEN), "{answer}");
}

/// A shelf of books, shared by its clones.
#[derive(Clone)]
struct Shelf(Arc<Vec<String>>);

impl Shelf {
    /// Find a book.
    #[tool(read_only)]
    async fn find(&self, title: &str, limit: Option<&str>) -> Result<String> {
        let found = self.0.iter().find(|book| book.contains(title));
        found.map(|book| format!("{book}{}", limit.unwrap_or("!"))).ok_or(CallError::new("none"))
    }

    /// The whole shelf.
    #[zcp::resource("shelf://all")]
    async fn all(&self) -> String {
        self.0.join("\n")
    }
}

/// Takes any kind of number.
#[tool(name = "double")]
async fn twice<T, const TIMES: usize>(number: &T) -> String
where
    T: serde::de::DeserializeOwned + JsonSchema + std::fmt::Display + Send + Sync,
{
    number.to_string().repeat(TIMES)
}

/// Takes as many as there may be, one of them named as the function.
#[tool]
#[expect(clippy::too_many_arguments, reason = "as many as there may be")]
async fn dozen(
    a: u8,
    b: u8,
    c: u8,
    d: u8,
    e: u8,
    f: u8,
    g: u8,
    h: u8,
    r#type: u8,
    words: &[String],
    State(more): State<i64>,
    dozen: &str,
) -> String {
    let sum: u8 = [a, b, c, d, e, f, g, h, r#type].iter().sum();
    format!("{sum} {} {more} {dozen}", words.join(","))
}

#[tokio::test]
async fn a_tool_is_still_a_function_or_a_method() {
    let shelf = Shelf(vec!["Dune".to_owned(), "Emma".to_owned()].into());
    // As plain functions.
    assert_eq!(shelf.find("mm", None).await.unwrap(), "Emma!");
    assert_eq!(twice::<_, 2>(&7).await, "77");
    let words = ["x".to_owned()];
    let all = dozen(1, 1, 1, 1, 1, 1, 1, 1, 1, &words, State(7), "y");
    assert_eq!(all.await, "9 x 7 y");
    // As tools.
    let server = Server::new("functions").state(7_i64).tool(shelf.find_tool());
    let server = server.tool(twice::<u8, 3>).tool(Tool::from_fn(dozen).title("Dozen"));
    let mut client = PipeClient::new(server.resource(shelf.all_resource()));
    let found = gives(&mut client, "find", json!({ "title": "un", "limit": "?" })).await;
    assert_eq!(text(&found), "Dune?");
    assert_eq!(text(&gives(&mut client, "double", json!({ "number": 4 })).await), "444");
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h", "type"];
    let mut args: Value = letters.iter().map(|name| ((*name).to_owned(), json!(2))).collect();
    args["words"] = json!(["p", "q"]);
    args["dozen"] = json!("z");
    assert_eq!(text(&gives(&mut client, "dozen", args).await), "18 p,q 7 z");
    let tools = listed(&mut client).await;
    assert_eq!((&tools[0]["name"], &tools[1]["title"]), (&json!("double"), &json!("Dozen")));
    assert_eq!(tools[1]["inputSchema"]["properties"]["dozen"]["type"], "string");
    let optional = &tools[2]["inputSchema"];
    assert_eq!((&tools[2]["name"], &optional["required"]), (&json!("find"), &json!(["title"])));
    let read = client.ask(modern(1, "resources/read", json!({ "uri": "shelf://all" }))).await;
    assert_eq!(read["result"]["contents"][0]["text"], "Dune\nEmma");
}
