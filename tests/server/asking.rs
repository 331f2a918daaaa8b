//! Questions: one handler for both eras, and answers only from whom they were asked of.

use futures_util::StreamExt;
use http::Extensions;
use offers::asks;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use zcp::{
    KeyRing, Mcp, Principal, Runtime, Server,
    store::{Memory, Store},
    wire::{ByteString, Frame, Peer},
};
use zcp_tests::{
    HANDSHAKES, call, everything, http::HttpServer, modern, modern_as, notification,
    pipe::PipeClient, request, response, text,
};

/// A server that asks in every way there is.
mod offers {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, from_value, json};
    use std::{
        sync::{Arc, atomic::AtomicU32, atomic::Ordering::SeqCst},
        time::Duration,
    };
    use zcp::{CacheScope, CallError, Ctx, Resource, Result, Server, State, Visit, tool};

    #[derive(Clone, Default)]
    struct Charges(Arc<AtomicU32>);

    #[derive(Deserialize, JsonSchema)]
    struct Size {
        size: i64,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "it is only asked for")]
    struct Note {
        note: Option<String>,
    }

    /// Asks, charges, asks again.
    #[tool]
    async fn buy(item: String, charges: State<Charges>, ctx: Ctx) -> Result<String> {
        let Size { size } = ctx.ask("size", "Which size?").await?.accepted()?;
        let charge = async || Ok(charges.0.0.fetch_add(1, SeqCst) + 1);
        let bill: u32 = ctx.once("charge", charge).await?;
        let again: Size = ctx.ask("again", "Really?").await?.accepted()?;
        Ok(format!("{item} {size} {}, bill {bill}", again.size))
    }

    /// Asks in one of the ways there are.
    #[tool]
    async fn gate(what: String, with: Option<Value>, ctx: Ctx) -> Result<String> {
        let mut sample = json!({ "messages": [], "maxTokens": 1 });
        let page = with.as_ref().and_then(Value::as_str);
        let visit = Visit::new("Go", page.unwrap_or("https://example.com/"));
        let form = with.clone().unwrap_or_else(|| json!({}));
        match what.as_str() {
            "form" => return ctx.ask_with("q", "?", form).await?.accepted(),
            "note" => return Ok(format!("{:?}", ctx.ask::<Note>("q", "?").await?)),
            "visit" => return Ok(format!("{:?}", ctx.visit("q", &visit).await?)),
            "roots" => return Ok(format!("{:?}", ctx.roots("q").await?)),
            "tools" => sample["tools"] = json!([]),
            "choice" => sample["toolChoice"] = json!({ "mode": "none" }),
            "context" => sample["includeContext"] = json!("thisServer"),
            _ => sample = with.unwrap_or(sample),
        }
        Ok(ctx.sample("q", from_value(sample)?).await?.text())
    }

    /// Must be preceded by a visit.
    #[tool]
    async fn visit_first() -> Result<String> {
        let visit = Visit::new("Connect first", "https://example.com/connect");
        Err(CallError::VisitFirst(visit))
    }

    /// A page was visited.
    #[tool]
    async fn arrived(id: String, ctx: Ctx) -> Result<()> {
        ctx.visited(&id).await
    }

    /// Makes a handle.
    #[tool]
    async fn make(seconds: u64, ctx: Ctx) -> Result<String> {
        ctx.handle(&"treasure", Duration::from_secs(seconds))
    }

    /// Opens a handle.
    #[tool]
    async fn open(handle: String, ctx: Ctx) -> Result<String> {
        ctx.open_handle(&handle)
    }

    async fn guarded(ctx: Ctx) -> Result<String> {
        let Size { size } = ctx.ask("size", "Which size?").await?.accepted()?;
        Ok(format!("size {size}"))
    }

    pub(super) fn asks() -> Server {
        let server = Server::new("asks").state(Charges::default());
        let server = server.tool(buy).tool(gate).tool(visit_first).tool(arrived);
        let resource = Resource::new("ask://size", guarded);
        let resource = resource.cache(Duration::from_secs(60), CacheScope::Public);
        server.tool(make).tool(open).resource(resource)
    }
}

fn runtime(server: Server) -> Runtime {
    server.build().expect("the server has no mistakes")
}

/// What a caller is answered with, without a wire.
async fn send(runtime: &Runtime, who: &str, message: &Value) -> Value {
    let frame = Frame::parse(&ByteString::from(message.to_string())).expect("a frame");
    let mut extensions = Extensions::new();
    extensions.insert(Principal::new(who));
    let mcp = Mcp::new(runtime.clone());
    let frames: Vec<Frame> = mcp.send(frame, extensions).collect().await;
    assert_eq!(frames.len(), 1, "a question is the response itself");
    serde_json::from_str(&frames[0].to_text()).expect("frames are JSON")
}

async fn ask(runtime: &Runtime, params: &Value) -> Value {
    send(runtime, "alice", &modern(1, "tools/call", params.clone())).await
}

fn buy() -> Value {
    call("buy", json!({ "item": "hat" }))
}

fn gate(what: &str, with: &Value) -> Value {
    call("gate", json!({ "what": what, "with": with }))
}

/// The call again, with what was answered.
fn again(params: &Value, paused: &Value, answers: Value) -> Value {
    let mut params = params.clone();
    params["requestState"] = paused["result"]["requestState"].clone();
    params["inputResponses"] = answers;
    params
}

fn size(size: impl Into<Value>) -> Value {
    let size: Value = size.into();
    json!({ "action": "accept", "content": { "size": size } })
}

/// The keys of what is asked.
#[track_caller]
fn keys(paused: &Value) -> Vec<&str> {
    assert_eq!(paused["result"]["resultType"], "input_required", "{paused}");
    let asked = paused["result"]["inputRequests"].as_object();
    asked.into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// The parameters of the question `q`.
fn question(paused: &Value) -> &Value {
    &paused["result"]["inputRequests"]["q"]["params"]
}

fn says(answer: &Value) -> &str {
    text(&answer["result"])
}

#[track_caller]
fn fails(answer: &Value, words: &str) {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(says(answer).contains(words), "{words}: {answer}");
}

#[track_caller]
fn refused(answer: &Value) {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(answer["id"], 1);
}

/// Calls a tool in a session, and answers what it asks; gives the questions and the response.
async fn live(client: &mut PipeClient, params: Value, answers: Vec<Value>) -> (Vec<Value>, Value) {
    client.send(request("call", "tools/call", params)).await;
    let (mut answers, mut asked) = (answers.into_iter(), vec![]);
    loop {
        let message = client.next().await;
        if message.get("method").is_none() {
            return (asked, message);
        }
        let answer = answers.next().expect("no more is asked");
        client.send(response(&message["id"], answer)).await;
        asked.push(message);
    }
}

#[tokio::test]
async fn one_handler_asks_in_both_eras_and_acts_once() {
    let runtime = runtime(asks());
    let first = ask(&runtime, &buy()).await;
    assert_eq!(keys(&first), ["size"]);
    let mut form = first["result"]["inputRequests"]["size"].clone();
    assert_eq!(form["method"], "elicitation/create");
    assert_eq!((form.get("id"), form.get("jsonrpc")), (None, None));
    let retry = again(&buy(), &first, json!({ "size": size(4) }));
    let second = ask(&runtime, &retry).await;
    assert_eq!(keys(&second), ["again"]);
    let retry = again(&buy(), &second, json!({ "again": size(5) }));
    assert_eq!(says(&ask(&runtime, &retry).await), "hat 4 5, bill 1");

    // The same questions, asked live; their mode came with 2025-11-25.
    for version in ["2025-11-25", "2025-06-18"] {
        let mut client = PipeClient::open(asks(), version).await;
        let (asked, answer) = live(&mut client, buy(), vec![size(4), size(5)]).await;
        assert_eq!(says(&answer), "hat 4 5, bill 1");
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0]["method"], "elicitation/create");
        if version == "2025-06-18" {
            form["params"].as_object_mut().unwrap().shift_remove("mode");
        }
        assert_eq!(asked[0]["params"], form["params"], "{version}");
    }
}

#[tokio::test]
async fn models_and_folders_are_asked_in_every_handshake_and_users_where_they_can_be() {
    let content = json!({ "type": "text", "text": "Paris" });
    let said = json!({ "role": "assistant", "content": content, "model": "m" });
    let roots = json!({ "roots": [{ "uri": "file:///home" }, { "uri": "https://example.com" }] });
    for version in HANDSHAKES {
        let mut client = PipeClient::open(everything(), version).await;
        let params = call("test_sampling", json!({ "prompt": "Capital?" }));
        let (asked, answer) = live(&mut client, params, vec![said.clone()]).await;
        assert_eq!(asked[0]["method"], "sampling/createMessage");
        assert_eq!(asked[0]["params"]["maxTokens"], 100);
        assert_eq!(says(&answer), "LLM response: Paris");
        let params = call("test_list_roots", json!({}));
        let (asked, answer) = live(&mut client, params, vec![roots.clone()]).await;
        assert_eq!(asked[0]["method"], "roots/list");
        assert_eq!(says(&answer), r#"[{"uri":"file:///home"}]"#);
        if version < "2025-06-18" {
            let params = call("test_elicitation", json!({ "message": "You?" }));
            fails(&live(&mut client, params, vec![]).await.1, "elicitation");
        }
    }
}

/// SV43
#[tokio::test]
async fn a_resource_that_asks_is_read_after_the_answer_and_not_cached() {
    let runtime = runtime(asks());
    let params = json!({ "uri": "ask://size" });
    let read = |params: &Value| modern(1, "resources/read", params.clone());
    let first = send(&runtime, "alice", &read(&params)).await;
    assert_eq!(keys(&first), ["size"]);
    let hints = ["ttlMs", "cacheScope"].map(|hint| first["result"].get(hint));
    assert_eq!(hints, [None, None]);
    let retry = again(&params, &first, json!({ "size": size(9) }));
    let answer = send(&runtime, "alice", &read(&retry)).await;
    assert_eq!(answer["result"]["contents"][0]["text"], "size 9");
    assert_eq!(answer["result"]["ttlMs"], 0);
    assert_eq!(answer["result"]["cacheScope"], "private");
    let other = again(&json!({ "uri": "ask://other" }), &first, json!({}));
    refused(&send(&runtime, "alice", &read(&other)).await);
    refused(&send(&runtime, "bob", &read(&retry)).await);
}

/// SV47
#[tokio::test]
async fn what_is_asked_together_comes_together_and_what_is_missing_is_asked_again() {
    let runtime = runtime(everything());
    let params = call("test_input_required_result_multiple_inputs", json!({}));
    let first = ask(&runtime, &params).await;
    assert_eq!(keys(&first), ["user_name", "greeting", "client_roots"]);
    let name = json!({ "action": "accept", "content": { "name": "Ann" } });
    let answers = json!({ "user_name": name, "unasked": 7 });
    let second = ask(&runtime, &again(&params, &first, answers)).await;
    assert_eq!(keys(&second), ["greeting", "client_roots"]);
    // An answer that does not fit is none.
    let unfit = json!({ "greeting": { "text": "Hi" }, "client_roots": { "roots": [] } });
    let third = ask(&runtime, &again(&params, &second, unfit)).await;
    assert_eq!(keys(&third), ["greeting"]);
    let content = json!({ "type": "text", "text": "Hi" });
    let said = json!({ "greeting": { "role": "assistant", "model": "m", "content": content } });
    let done = ask(&runtime, &again(&params, &third, said)).await;
    assert_eq!(says(&done), "Hi Ann (0 roots)");
    for malformed in [json!([]), json!("yes"), json!(7)] {
        refused(&ask(&runtime, &again(&params, &first, malformed)).await);
    }
}

/// SV47
#[tokio::test]
async fn a_form_filled_wrongly_is_asked_again_or_refused() {
    let runtime = runtime(asks());
    let first = ask(&runtime, &buy()).await;
    let empty = json!({ "action": "accept" });
    for unfit in [size("big"), size(json!(null)), empty, json!("yes")] {
        let retry = again(&buy(), &first, json!({ "size": unfit }));
        assert_eq!(keys(&ask(&runtime, &retry).await), ["size"]);
    }
    let mut client = PipeClient::open(asks(), "2025-06-18").await;
    let (_, answer) = live(&mut client, buy(), vec![size("big")]).await;
    fails(&answer, "`size`");
}

/// SV47
#[tokio::test]
async fn a_question_may_be_declined_closed_or_refused() {
    let runtime = runtime(asks());
    let mut client = PipeClient::open(asks(), "2025-11-25").await;
    for (action, words) in [("decline", "declined"), ("cancel", "closed")] {
        let answer = json!({ "action": action });
        let first = ask(&runtime, &buy()).await;
        let retry = again(&buy(), &first, json!({ "size": answer }));
        fails(&ask(&runtime, &retry).await, words);
        fails(&live(&mut client, buy(), vec![answer]).await.1, words);
    }
    client.send(request(1, "tools/call", buy())).await;
    let id = client.next().await["id"].clone();
    let error = json!({ "code": -1, "message": "User rejected" });
    client.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    fails(&client.next().await, "User rejected");
}

/// SV47
#[tokio::test]
async fn a_question_may_be_left_unanswered() {
    let mut client = PipeClient::open(asks(), "2025-11-25").await;
    client.send(request(1, "tools/call", buy())).await;
    let id = client.next().await["id"].clone();
    let cancel = notification("notifications/cancelled", json!({ "requestId": 1 }));
    client.send(cancel).await;
    // Nobody waits for this any more.
    client.send(response(&id, size(1))).await;
    let said = client.exchange(request(2, "ping", json!({}))).await;
    assert_eq!(said, [json!({ "jsonrpc": "2.0", "id": 2, "result": {} })]);
}

/// SV45
#[tokio::test]
async fn a_request_state_is_good_for_its_caller_tool_and_arguments_only() {
    let runtime = runtime(asks());
    let first = ask(&runtime, &buy()).await;
    let answers = json!({ "size": size(4) });
    let retry = again(&buy(), &first, answers.clone());
    let message = modern(1, "tools/call", retry.clone());
    refused(&send(&runtime, "bob", &message).await);
    for other in [
        call("buy", json!({ "item": "crown" })),
        call("buy", json!({ "item": "hat", "more": 1 })),
        call("gate", json!({ "item": "hat" })),
    ] {
        refused(&ask(&runtime, &again(&other, &first, answers.clone())).await);
    }
    let state = first["result"]["requestState"].as_str().unwrap();
    let swapped = |at: usize| {
        let other = if &state[at..=at] == "A" { "B" } else { "A" };
        json!(format!("{}{other}{}", &state[..at], &state[at + 1..]))
    };
    let (half, end) = (state.len() / 2, state.len() - 2);
    let cut = json!(state[..half]);
    for forged in [swapped(0), swapped(half), swapped(end), cut, json!(""), json!(7)] {
        let mut tampered = retry.clone();
        tampered["requestState"] = forged;
        refused(&ask(&runtime, &tampered).await);
    }
    // Arguments are compared by what they say, not by how they are spelled.
    assert_eq!(keys(&send(&runtime, "alice", &message).await), ["again"]);
    // Each state is for one answer that a tool acts on, so this is another.
    let first = ask(&runtime, &buy()).await;
    let message = modern(1, "tools/call", again(&buy(), &first, answers));
    let spelled = message.to_string().replace(r#":"hat""#, r#" : "h\u0061t""#);
    let frame = Frame::parse(&spelled.into()).unwrap();
    let mut extensions = Extensions::new();
    extensions.insert(Principal::new("alice"));
    let frames: Vec<_> = Mcp::new(runtime).send(frame, extensions).collect().await;
    assert!(frames[0].to_text().contains("input_required"), "{frames:?}");
}

/// SV45, SV54
#[tokio::test]
async fn states_and_handles_expire() {
    let runtime = runtime(asks().input_ttl(Duration::ZERO));
    let first = ask(&runtime, &buy()).await;
    let made = ask(&runtime, &call("make", json!({ "seconds": 0 }))).await;
    // The clock has whole seconds.
    tokio::time::sleep(Duration::from_millis(1050)).await;
    let retry = again(&buy(), &first, json!({ "size": size(4) }));
    let answer = ask(&runtime, &retry).await;
    refused(&answer);
    assert!(answer.to_string().contains("expired"), "{answer}");
    let open = call("open", json!({ "handle": says(&made) }));
    fails(&ask(&runtime, &open).await, "expired");
}

/// SV45
#[tokio::test]
async fn a_request_state_outlives_a_rotation_of_keys_but_not_their_loss() {
    let ring = KeyRing::new([1; 32]);
    let first = ask(&runtime(asks().keys(ring.clone())), &buy()).await;
    let retry = again(&buy(), &first, json!({ "size": size(4) }));
    let rotated = runtime(asks().keys(ring.rotate([2; 32])));
    assert_eq!(keys(&ask(&rotated, &retry).await), ["again"]);
    let lost = runtime(asks().keys(KeyRing::new([3; 32])));
    refused(&ask(&lost, &retry).await);
}

/// SV45
#[tokio::test]
async fn a_single_use_state_is_refused_the_second_time_on_every_replica() {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let replica = || {
        let server = asks().keys(KeyRing::new([1; 32])).single_use_answers();
        runtime(server.shared_store(store.clone()))
    };
    let (one, two) = (replica(), replica());
    let first = ask(&one, &buy()).await;
    let retry = again(&buy(), &first, json!({ "size": size(4) }));
    let second = ask(&two, &retry).await;
    refused(&ask(&one, &retry).await);
    refused(&ask(&two, &retry).await);
    let retry = again(&buy(), &second, json!({ "again": size(5) }));
    assert_eq!(says(&ask(&one, &retry).await), "hat 4 5, bill 1");
}

/// SV44
#[tokio::test]
async fn only_what_this_request_declared_is_asked() {
    let runtime = runtime(asks());
    let (any, none) = (json!({ "elicitation": {} }), json!({}));
    let form = json!({ "elicitation": { "form": {} } });
    let url = json!({ "elicitation": { "url": {} } });
    let (sampling, roots) = (json!({ "sampling": {} }), json!({ "roots": {} }));
    let tools = json!({ "sampling": { "tools": {} } });
    let context = json!({ "sampling": { "context": {} } });
    for (what, declared, required) in [
        ("form", &none, &form),
        ("form", &url, &any),
        ("form", &url, &form),
        ("visit", &any, &url),
        ("visit", &form, &url),
        ("sample", &form, &sampling),
        ("tools", &sampling, &tools),
        ("context", &tools, &context),
        ("roots", &sampling, &roots),
    ] {
        let with = |capabilities: &Value| {
            let params = call("gate", json!({ "what": what }));
            modern_as(1, "tools/call", params, capabilities.clone())
        };
        let answer = send(&runtime, "alice", &with(declared)).await;
        assert_eq!(answer["error"]["code"], -32021, "{what} {declared}");
        let named = &answer["error"]["data"]["requiredCapabilities"];
        assert_eq!(named, if required == &any { &form } else { required });
        let answer = send(&runtime, "alice", &with(required)).await;
        assert_eq!(keys(&answer), ["q"], "{what} {required}");
    }
}

/// SV44
#[tokio::test]
async fn a_choice_of_tools_needs_what_tools_need() {
    let params = call("gate", json!({ "what": "choice" }));
    let message = modern_as(1, "tools/call", params, json!({ "sampling": {} }));
    let answer = send(&runtime(asks()), "alice", &message).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let named = &answer["error"]["data"]["requiredCapabilities"];
    assert_eq!(*named, json!({ "sampling": { "tools": {} } }));
}

/// SV44
#[tokio::test]
async fn a_session_is_asked_only_what_its_handshake_declared() {
    for (version, what, declared) in [
        ("2025-06-18", "form", json!({})),
        ("2025-06-18", "visit", json!({ "elicitation": { "url": {} } })),
        ("2025-11-25", "visit", json!({ "elicitation": {} })),
        ("2025-11-25", "form", json!({ "elicitation": { "url": {} } })),
        ("2025-11-25", "tools", json!({ "sampling": {} })),
        ("2025-11-25", "context", json!({ "sampling": {} })),
        ("2024-11-05", "roots", json!({})),
    ] {
        let mut client = PipeClient::new(asks());
        let info = json!({ "name": "test", "version": "1" });
        let open =
            json!({ "protocolVersion": version, "capabilities": declared, "clientInfo": info });
        client.ask(request("open", "initialize", open)).await;
        let params = call("gate", json!({ "what": what }));
        fails(&live(&mut client, params, vec![]).await.1, "lacks");
    }
}

/// SV46
#[tokio::test]
async fn a_form_asks_for_no_secrets_and_is_flat() {
    let runtime = runtime(asks());
    let secrets = ["password", "api_key", "clientSecret", "access_token", "creditCard", "CVV"];
    for name in secrets {
        let schema = json!({ "properties": { name: { "type": "string" } } });
        fails(&ask(&runtime, &gate("form", &schema)).await, name);
    }
    let nested = json!({ "properties": { "a": { "type": "object" } } });
    fails(&ask(&runtime, &gate("form", &nested)).await, "`a`");
}

#[tokio::test]
async fn a_field_that_may_be_left_out_is_not_required() {
    let answer = ask(&runtime(asks()), &call("gate", json!({ "what": "note" }))).await;
    assert_eq!(keys(&answer), ["q"]);
    let schema = &question(&answer)["requestedSchema"];
    assert_eq!(schema["properties"]["note"]["type"], "string", "{schema}");
    assert!(schema["required"].as_array().is_none_or(Vec::is_empty), "{schema}");
}

/// SV46
#[tokio::test]
async fn a_page_is_safe_and_its_address_carries_no_secret() {
    let runtime = runtime(asks());
    let good = ["https://example.com/?state=1", "http://localhost:80/", "http://127.0.0.1/a"];
    for page in good {
        assert_eq!(keys(&ask(&runtime, &gate("visit", &json!(page))).await), ["q"]);
    }
    for page in [
        "http://example.com/",
        "javascript:alert(1)",
        "https://ann:pass@example.com/",
        "https://example.com/?access_token=abc",
        "https://example.com/?a=1&api_key=abc",
        "https://example.com/#password=abc",
    ] {
        fails(&ask(&runtime, &gate("visit", &json!(page))).await, "page");
    }
}

/// SV46
#[tokio::test]
async fn a_host_that_only_begins_like_this_machine_is_another_machine() {
    let runtime = runtime(asks());
    for page in ["http://localhost.example.com/", "http://127.0.0.1.example.com/"] {
        fails(&ask(&runtime, &gate("visit", &json!(page))).await, "https");
    }
}

/// SV46
#[tokio::test]
async fn a_page_address_signs_nobody_in() {
    let page = json!("https://example.com/connect?token=abc");
    fails(&ask(&runtime(asks()), &gate("visit", &page)).await, "secret");
}

#[tokio::test]
async fn a_question_to_the_model_arrives_whole() {
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let used = json!({ "type": "tool_use", "id": "1", "name": "look", "input": { "at": "sky" } });
    let blue = json!({ "type": "text", "text": "blue" });
    let seen = json!({ "type": "tool_result", "toolUseId": "1", "content": [blue] });
    let full = json!({
        "messages": [{ "role": "user", "content": image }, { "role": "assistant", "content": [used] },
            { "role": "user", "content": [seen] }],
        "modelPreferences": { "hints": [{ "name": "sonnet" }], "costPriority": 0.1,
            "speedPriority": 0.2, "intelligencePriority": 0.9 },
        "systemPrompt": "Be brief.", "includeContext": "thisServer", "temperature": 0.5,
        "maxTokens": 77, "stopSequences": ["\n"], "metadata": { "user": 7 },
        "tools": [{ "name": "look", "inputSchema": { "type": "object" } }],
        "toolChoice": { "mode": "required" },
    });
    let params = gate("sample", &full);
    assert_eq!(*question(&ask(&runtime(asks()), &params).await), full);
    let mut client = PipeClient::open(asks(), "2025-11-25").await;
    let content = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
    let said = json!({ "role": "assistant", "model": "m", "content": content });
    let (asked, answer) = live(&mut client, params, vec![said]).await;
    assert_eq!(asked[0]["params"], full);
    assert_eq!(says(&answer), "a\nb");
}

#[tokio::test]
async fn no_words_to_the_model_are_lost_where_a_message_is_one_block() {
    let content = json!([{ "type": "text", "text": "look:" }, { "type": "text", "text": "sky" }]);
    let sample = json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 1 });
    let mut client = PipeClient::open(asks(), "2025-06-18").await;
    let said = json!({ "role": "assistant", "model": "m", "content": content[1] });
    let (asked, _) = live(&mut client, gate("sample", &sample), vec![said]).await;
    let messages = asked[0]["params"]["messages"].as_array().unwrap();
    assert!(messages.iter().all(|message| message["content"].is_object()));
    let words = asked[0].to_string();
    assert!(words.contains("look:") && words.contains("sky"), "{words}");
}

#[tokio::test]
async fn a_page_has_an_id_in_2025_11_25_and_none_since() {
    let params = gate("visit", &json!("https://example.com/go"));
    let mut client = PipeClient::open(asks(), "2025-11-25").await;
    let consent = json!({ "action": "accept" });
    let (asked, answer) = live(&mut client, params.clone(), vec![consent]).await;
    let mut page = asked[0]["params"].clone();
    let id = page.as_object_mut().unwrap().shift_remove("elicitationId");
    assert!(id.unwrap().as_str().unwrap().len() >= 22);
    assert!(says(&answer).starts_with("Accept"), "{answer}");
    let url = "https://example.com/go";
    assert_eq!(page, json!({ "mode": "url", "message": "Go", "url": url }));
    assert_eq!(*question(&ask(&runtime(asks()), &params).await), page);
}

#[tokio::test]
async fn a_visit_that_must_come_first_is_asked_for_or_an_error() {
    let params = call("visit_first", json!({}));
    let first = ask(&runtime(asks()), &params).await;
    let visit = &first["result"]["inputRequests"][keys(&first)[0]];
    assert_eq!(visit["method"], "elicitation/create");
    assert_eq!(visit["params"]["url"], "https://example.com/connect");
    let mut client = PipeClient::open(asks(), "2025-11-25").await;
    let answer = client.ask(request(1, "tools/call", params.clone())).await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
    let elicitation = &answer["error"]["data"]["elicitations"][0];
    assert_eq!(elicitation["mode"], "url");
    assert_eq!(elicitation["url"], "https://example.com/connect");
    assert!(elicitation["elicitationId"].is_string());
    let message = modern_as(1, "tools/call", params, json!({ "elicitation": {} }));
    let answer = send(&runtime(asks()), "alice", &message).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
}

#[tokio::test]
async fn a_visit_nobody_can_be_asked_for_is_told_to_the_model() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut client = PipeClient::open(asks(), version).await;
        let params = call("visit_first", json!({}));
        let (_, answer) = live(&mut client, params, vec![]).await;
        fails(&answer, "https://example.com/connect");
    }
}

/// SV46
#[tokio::test]
async fn only_the_session_that_was_sent_to_a_page_hears_that_it_is_done() {
    let server = HttpServer::new(asks()).await;
    let (sent, other) = (server.open("2025-11-25").await, server.open("2025-11-25").await);
    let (mut hears, mut silent) = (sent.get().send().await, other.get().send().await);
    let visit = request(1, "tools/call", call("visit_first", json!({})));
    let refusal = sent.ask(&visit).await;
    let id = &refusal["error"]["data"]["elicitations"][0]["elicitationId"];
    let arrived = call("arrived", json!({ "id": id }));
    let answer = other.ask(&request(2, "tools/call", arrived)).await;
    assert_eq!(answer.get("error"), None, "{answer}");
    let told = hears.message().await.unwrap();
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"], json!({ "elicitationId": id }));
    silent.silent(Duration::from_millis(200)).await;
}

/// SV54
#[tokio::test]
async fn a_handle_opens_for_its_owner_only() {
    let runtime = runtime(asks());
    let make = call("make", json!({ "seconds": 60 }));
    let (one, two) = (ask(&runtime, &make).await, ask(&runtime, &make).await);
    let handle = says(&one);
    assert_ne!(handle, says(&two));
    let open = |handle: &str| call("open", json!({ "handle": handle }));
    assert_eq!(says(&ask(&runtime, &open(handle)).await), "treasure");
    let message = modern(1, "tools/call", open(handle));
    for who in ["bob", ""] {
        fails(&send(&runtime, who, &message).await, "no such handle");
    }
    let paused = ask(&runtime, &buy()).await;
    let state = paused["result"]["requestState"].as_str().unwrap();
    for forged in [&handle[1..], "", "treasure", state] {
        fails(&ask(&runtime, &open(forged)).await, "no such handle");
    }
}
