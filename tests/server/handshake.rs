//! The handshake era, revision by revision: what each may see, say and ask.

use serde_json::{Value, json};
use std::time::Duration;
use zcp::{
    CreateMessage, Ctx, Result, Role, SamplingMessage, Server, Tool, wire::mcp::sampling::OneOrMany,
};
use zcp_tests::{
    HANDSHAKES, NEWEST, all_capabilities, call, everything,
    http::HttpServer,
    initialize, modern, notification,
    pipe::PipeClient,
    request, response,
    rich::rich,
    socket::Socket,
    talk::{Talk, code},
    text,
};

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

const OLDEST: &str = HANDSHAKES[0];
const LAST: &str = HANDSHAKES[3];

fn revisions() -> impl Iterator<Item = &'static str> {
    HANDSHAKES.into_iter().chain([NEWEST])
}

fn ping(id: u64) -> Value {
    request(id, "ping", json!({}))
}

/// What a result has, and the revisions in which it has it.
const SEEN: &str = "
    initialize      /capabilities/tools                         2024-11-05..2026-07-28
    initialize      /capabilities/logging                       2024-11-05..2026-07-28
    initialize      /capabilities/completions                   2025-03-26..2026-07-28
    initialize      /capabilities/tasks                         2025-11-25..2025-11-25
    initialize      /instructions                               2024-11-05..2026-07-28
    initialize      /serverInfo/version                         2024-11-05..2025-11-25
    initialize      /serverInfo/title                           2025-06-18..2025-11-25
    initialize      /serverInfo/description                     2025-11-25..2025-11-25
    initialize      /serverInfo/icons                           2025-11-25..2025-11-25
    initialize      /serverInfo/websiteUrl                      2025-11-25..2025-11-25
    initialize      /_meta/io.modelcontextprotocol~1serverInfo  2026-07-28..2026-07-28
    tools/list      /tools/0/inputSchema/type                   2024-11-05..2026-07-28
    tools/list      /tools/0/annotations                        2025-03-26..2026-07-28
    tools/list      /tools/0/annotations/title                  2025-03-26..2025-03-26
    tools/list      /tools/0/title                              2025-06-18..2026-07-28
    tools/list      /tools/0/outputSchema                       2025-06-18..2026-07-28
    tools/list      /tools/0/_meta                              2025-06-18..2026-07-28
    tools/list      /tools/0/icons                              2025-11-25..2026-07-28
    tools/list      /tools/0/execution                          2025-11-25..2025-11-25
    tools/list      /tools/1/outputSchema                       2026-07-28..2026-07-28
    tools/list      /resultType                                 2026-07-28..2026-07-28
    tools/list      /ttlMs                                      2026-07-28..2026-07-28
    tools/list      /cacheScope                                 2026-07-28..2026-07-28
    tools/list      /_meta                                      2026-07-28..2026-07-28
    prompts/list    /prompts/0/title                            2025-06-18..2026-07-28
    prompts/list    /prompts/0/_meta                            2025-06-18..2026-07-28
    prompts/list    /prompts/0/icons                            2025-11-25..2026-07-28
    resources/list  /resources/0/size                           2024-11-05..2026-07-28
    resources/list  /resources/0/annotations/priority           2024-11-05..2026-07-28
    resources/list  /resources/0/annotations/lastModified       2025-06-18..2026-07-28
    resources/list  /resources/0/title                          2025-06-18..2026-07-28
    resources/list  /resources/0/_meta                          2025-06-18..2026-07-28
    resources/list  /resources/0/icons                          2025-11-25..2026-07-28
    resources/templates/list  /resourceTemplates/0/annotations  2024-11-05..2026-07-28
    resources/templates/list  /resourceTemplates/0/title        2025-06-18..2026-07-28
    resources/templates/list  /resourceTemplates/0/_meta        2025-06-18..2026-07-28
    resources/templates/list  /resourceTemplates/0/icons        2025-11-25..2026-07-28
    resources/read  /contents/0/text                            2024-11-05..2026-07-28
    resources/read  /contents/0/_meta                           2025-06-18..2026-07-28
    resources/read  /ttlMs                                      2026-07-28..2026-07-28
    tools/call      /content/1/icons                            2025-11-25..2026-07-28
    tools/call      /content/2/annotations/priority             2024-11-05..2026-07-28
    tools/call      /content/2/annotations/lastModified         2025-06-18..2026-07-28
    tools/call      /content/2/_meta                            2025-06-18..2026-07-28
    tools/call      /structuredContent/n                        2025-06-18..2026-07-28
    prompts/get     /messages/2/content/annotations/priority    2024-11-05..2026-07-28
    prompts/get     /messages/2/content/_meta                   2025-06-18..2026-07-28
";

fn is_in(version: &str, range: &str) -> bool {
    let range = range.split_once("..");
    range.is_some_and(|(first, last)| (first..=last).contains(&version))
}

/// 2024-11-05 entirely, and what each later revision added.
#[tokio::test]
async fn a_revision_is_told_what_it_knows_and_nothing_else() {
    let mut wrong = vec![];
    for version in revisions() {
        let mut talk = Talk::open(rich(), version).await;
        for row in SEEN.lines().filter(|row| !row.trim().is_empty()) {
            let mut columns = row.split_whitespace();
            let (method, pointer) = (columns.next().unwrap(), columns.next().unwrap());
            let (method, params) = match method {
                "initialize" if version == NEWEST => ("server/discover", json!({})),
                "initialize" => (method, initialize(1, version)["params"].clone()),
                "tools/call" => (method, call("t", json!({}))),
                "prompts/get" => (method, json!({ "name": "p" })),
                "resources/read" => (method, json!({ "uri": "test://a" })),
                _ => (method, json!({})),
            };
            let result = talk.result(method, params).await;
            let expected = is_in(version, columns.next().unwrap());
            if result.pointer(pointer).is_some() != expected {
                wrong.push(format!("{version} {method} {pointer}: not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// 2024-11-05 entirely (audio and links in other words).
#[tokio::test]
async fn content_a_revision_lacks_is_said_in_kinds_it_has() {
    for version in revisions() {
        let mut talk = Talk::open(rich(), version).await;
        let mut kinds = ["audio", "resource_link", "text"];
        if version < "2025-03-26" {
            kinds[0] = "resource";
        }
        if version < "2025-06-18" {
            kinds[1] = "text";
        }
        let called = talk.result("tools/call", call("t", json!({}))).await;
        let got = talk.result("prompts/get", json!({ "name": "p" })).await;
        for (index, kind) in kinds.iter().enumerate() {
            assert_eq!(called["content"][index]["type"], *kind, "{version}");
            let said = &got["messages"][index]["content"];
            assert_eq!(said["type"], *kind, "{version}");
        }
        for kept in ["YmVlcA==", "test://a"] {
            assert!(called["content"].to_string().contains(kept), "{version}");
            assert!(got["messages"].to_string().contains(kept), "{version}");
        }
        // Structure that is no object came with 2026-07-28; until then it is text.
        let array = talk.result("tools/call", call("u", json!({}))).await;
        let structured = array.get("structuredContent").is_some();
        assert_eq!((text(&array), structured), ("[1]", version == NEWEST));
    }
}

/// 2024-11-05 entirely (progress without words, no elicitation).
#[tokio::test]
async fn what_a_call_says_on_the_way_fits_its_revision() {
    for version in HANDSHAKES {
        let mut client = PipeClient::open(everything(), version).await;
        let slow = json!({ "seconds": 0.2, "label": "l" });
        let mut slow = call("slow_compute", slow);
        slow["_meta"] = json!({ "progressToken": "t" });
        let said = client.exchange(request(1, "tools/call", slow)).await;
        let words = said[0]["params"].get("message").is_some();
        assert_eq!(words, version > OLDEST, "{version}");

        let ask = call("test_elicitation", json!({ "message": "Who?" }));
        client.send(request(2, "tools/call", ask)).await;
        let first = client.next().await;
        if version < "2025-06-18" {
            // The model is told that nobody could be asked.
            assert_eq!(first["result"]["isError"], true, "{first}");
            continue;
        }
        assert_eq!(first["method"], "elicitation/create");
        let mode = first["params"].get("mode").is_some();
        assert_eq!(mode, version == LAST, "{first}");
        let declined = response(&first["id"], json!({ "action": "decline" }));
        client.send(declined).await;
        let answer = client.next().await;
        assert_eq!(text(&answer["result"]), "User response: action=decline");
    }
}

/// Version counter-offer.
#[tokio::test]
async fn an_unknown_offer_is_answered_with_the_newest_handshake() {
    let server = HttpServer::new(everything()).await;
    for offer in ["1999-01-01", NEWEST, "draft", ""] {
        let mut client = PipeClient::new(everything());
        let answer = client.ask(initialize(1, offer)).await;
        assert_eq!(answer["result"]["protocolVersion"], LAST, "{offer}");
        let list = client.ask(request(2, "tools/list", json!({}))).await;
        assert!(list["result"].get("resultType").is_none(), "{list}");
        let answer = server.post(&initialize(1, offer)).send().await;
        assert!(answer.headers.contains_key("mcp-session-id"));
        let answer = answer.json().await;
        assert_eq!(answer["result"]["protocolVersion"], LAST, "{offer}");
    }
}

/// Missing-header default (the session tells what was agreed).
#[tokio::test]
async fn a_missing_version_header_is_taken_from_the_session() {
    let server = HttpServer::new(everything()).await;
    let weather = call("test_structured_output", json!({ "city": "B" }));
    let weather = request(1, "tools/call", weather);
    for version in HANDSHAKES {
        let session = server.open(version).await;
        let headless = session.post(&weather).without("mcp-protocol-version");
        let answer = headless.send().await.response().await;
        let structured = answer["result"].get("structuredContent");
        assert_eq!(structured.is_some(), version >= "2025-06-18", "{answer}");
    }
}

/// Unsupported version header.
#[tokio::test]
async fn an_unsupported_version_header_is_a_bad_request() {
    let server = HttpServer::new(everything()).await;
    let session = server.open(LAST).await;
    for bad in ["1999-01-01", "latest", ""] {
        for call in [session.post(&ping(1)), session.get(), session.delete()] {
            let answer = call.header("mcp-protocol-version", bad).send().await;
            assert_eq!(answer.status, 400, "{bad}");
        }
    }
    assert_eq!(session.ask(&ping(1)).await["result"], json!({}));
    // A newer header is no session's: such a request must say everything itself.
    let newer = session.post(&ping(1)).header("mcp-protocol-version", NEWEST);
    let answer = newer.send().await;
    assert_eq!(answer.status, 400);
    assert_eq!(code(&answer.json().await), INVALID_PARAMS);
}

/// Methods per revision.
#[tokio::test]
async fn a_method_of_another_revision_is_not_found() {
    let uri = json!({ "uri": "test://watched-resource" });
    let complete = json!({ "argument": { "name": "arg1", "value": "" },
        "ref": { "type": "ref/prompt", "name": "test_prompt_with_arguments" } });
    let (all, sessions, modern) = ((OLDEST, NEWEST), (OLDEST, LAST), (NEWEST, NEWEST));
    let never = ("never", "never");
    let table = [
        ("ping", json!({}), sessions),
        ("logging/setLevel", json!({ "level": "info" }), sessions),
        ("resources/subscribe", uri.clone(), sessions),
        ("resources/unsubscribe", uri.clone(), sessions),
        ("tools/list", json!({}), all),
        ("tools/call", call("test_simple_text", json!({})), all),
        ("prompts/list", json!({}), all),
        ("prompts/get", json!({ "name": "test_simple_prompt" }), all),
        ("resources/list", json!({}), all),
        ("resources/templates/list", json!({}), all),
        ("resources/read", uri, all),
        ("completion/complete", complete, all),
        ("server/discover", json!({}), modern),
        ("tasks/list", json!({}), (LAST, LAST)),
        ("sampling/createMessage", json!({}), never),
        ("elicitation/create", json!({}), never),
        ("roots/list", json!({}), never),
        ("nonsense", json!({}), never),
    ];
    for version in revisions() {
        let mut talk = Talk::open(everything(), version).await;
        for (method, params, (first, last)) in &table {
            let has = (*first..=*last).contains(&version);
            let expected = if has { 0 } else { METHOD_NOT_FOUND };
            let code = talk.code(method, params.clone()).await;
            assert_eq!(code, expected, "{version} {method}");
        }
        let other = match version {
            NEWEST => "initialize",
            _ => "subscriptions/listen",
        };
        let code = talk.code(other, json!({ "notifications": {} })).await;
        assert_eq!(code, METHOD_NOT_FOUND, "{version} {other}");
    }
}

/// Traffic before the handshake.
#[tokio::test]
async fn only_ping_is_answered_before_the_handshake() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    let mut client = PipeClient::new(everything());
    let list = request(2, "tools/list", json!({}));
    for _ in 0..2 {
        assert_eq!(client.ask(ping(1)).await["result"], json!({}));
        assert_eq!(socket.ask(ping(1)).await["result"], json!({}));
    }
    assert_eq!(code(&client.ask(list.clone()).await), INVALID_REQUEST);
    assert_eq!(code(&socket.ask(list.clone()).await), INVALID_REQUEST);
    assert_eq!(code(&client.ask(initialize(3, OLDEST)).await), 0);
    // Before the client says that it is ready, it is served all the same.
    assert!(client.ask(list).await["result"]["tools"].is_array());
    assert_eq!(client.ask(ping(4)).await["result"], json!({}));
}

/// 2025-03-26 batches, on a pipe.
#[tokio::test]
async fn a_batch_is_answered_by_one_array() {
    let mut client = PipeClient::open(everything(), "2025-03-26").await;
    let batch = json!([
        ping(1),
        notification("notifications/roots/list_changed", json!({})),
        request(2, "tools/call", call("test_simple_text", json!({}))),
        response(&json!(99), json!({})),
        initialize(3, "2025-03-26"),
        request(4, "nonsense", json!({})),
        modern(5, "tools/list", json!({})),
        { "jsonrpc": "2.0", "id": 6, "method": 7 },
    ]);
    client.send(batch).await;
    let mut answers = client.next().await.as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    let codes: Vec<_> = answers.iter().map(code).collect();
    assert_eq!(codes, [0, 0, -32600, -32601, -32600, -32600]);

    let quiet = json!([notification("notifications/x", json!({}))]);
    client.send(quiet).await;
    client.silent(Duration::from_millis(50)).await;
    client.send(json!([])).await;
    assert_eq!(code(&client.next().await), INVALID_REQUEST);
    assert_eq!(client.ask(ping(9)).await["result"], json!({}));
}

/// 2025-03-26 batches, over HTTP.
#[tokio::test]
async fn a_posted_batch_is_answered_by_an_array_or_a_stream() {
    let server = HttpServer::new(everything()).await;
    let session = server.open("2025-03-26").await;
    let batch = json!([ping(1), initialize(2, "2025-03-26"), ping(3)]);
    let answer = session.post(&batch).send().await;
    assert!(!answer.is_stream() && !answer.headers.contains_key("mcp-session-id"));
    let mut answers = answer.json().await.as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let codes: Vec<_> = answers.iter().map(code).collect();
    assert_eq!(codes, [0, INVALID_REQUEST, 0]);

    let mut progress = call("test_tool_with_progress", json!({}));
    progress["_meta"] = json!({ "progressToken": 7 });
    let both = json!([ping(1), request(2, "tools/call", progress)]);
    let mut said = vec![];
    for message in session.post(&both).send().await.messages().await {
        match message {
            Value::Array(responses) => said.extend(responses),
            one => said.push(one),
        }
    }
    let responses = said.iter().filter(|said| said.get("result").is_some());
    assert_eq!((responses.count(), said.len()), (2, 5), "{said:?}");

    let noted = notification("notifications/x", json!({}));
    let quiet = json!([noted, response(&json!(1), json!({}))]);
    assert_eq!(session.post(&quiet).send().await.status, 202);
    assert_eq!(session.post(&json!([])).send().await.status, 400);
    assert_eq!(server.post(&json!([ping(1)])).send().await.status, 400);
    assert_eq!(session.ask(&ping(4)).await["result"], json!({}));
}

/// Batches in 2025-03-26 only.
#[tokio::test]
async fn a_batch_is_refused_in_every_other_revision() {
    let server = HttpServer::new(everything()).await;
    let batch = json!([ping(1)]);
    for version in [HANDSHAKES[0], HANDSHAKES[2], HANDSHAKES[3]] {
        let mut client = PipeClient::open(everything(), version).await;
        client.send(batch.clone()).await;
        assert_eq!(code(&client.next().await), INVALID_REQUEST, "{version}");
        let answer = server.open(version).await.post(&batch).send().await;
        assert_eq!(answer.status, 400, "{version}");
        assert_eq!(code(&answer.json().await), INVALID_REQUEST);
    }
    let batch = server.post(&json!([modern(1, "tools/list", json!({}))]));
    let answer = batch.header("mcp-protocol-version", NEWEST).send().await;
    assert_eq!(answer.status, 400);
    assert_eq!(code(&answer.json().await), INVALID_REQUEST);
    let mut client = PipeClient::new(everything());
    client.send(json!([initialize(1, "2025-03-26")])).await;
    assert_eq!(code(&client.next().await), INVALID_REQUEST);
}

/// Asks the model, and tells what is known of the client and its answer.
async fn tell(ctx: Ctx) -> Result<String> {
    let message =
        SamplingMessage { role: Role::User, content: OneOrMany::One("?".into()), meta: None };
    let question = CreateMessage { messages: vec![message], ..CreateMessage::default() };
    let answer = ctx.sample("k", question).await?;
    Ok(json!({ "client": ctx.client().0, "answer": answer.extra }).to_string())
}

/// Unknown members are kept.
#[tokio::test]
async fn members_nobody_knows_reach_the_handler() {
    let mut capabilities = all_capabilities();
    capabilities["tomorrow"] = json!({ "deep": [1, { "x": null }] });
    let answer = json!({ "role": "assistant", "model": "m", "mood": { "glad": true },
        "content": { "type": "text", "text": "!" } });
    for version in HANDSHAKES {
        let server = Server::new("s").tool(Tool::new("tell", tell));
        let mut client = PipeClient::new(server);
        let mut open = initialize(1, version);
        open["params"]["capabilities"] = capabilities.clone();
        open["params"]["tomorrow"] = json!([1]);
        open["tomorrow"] = json!(true);
        assert_eq!(code(&client.ask(open).await), 0);
        let asked = request(2, "tools/call", call("tell", json!({})));
        client.send(asked).await;
        let question = client.next().await;
        client.send(response(&question["id"], answer.clone())).await;
        let seen = client.next().await;
        let seen: Value = serde_json::from_str(text(&seen["result"])).unwrap();
        let tomorrow = &seen["client"]["tomorrow"];
        assert_eq!(*tomorrow, capabilities["tomorrow"], "{version}");
        assert_eq!(seen["answer"]["mood"]["glad"], true, "{version}");
    }
}

/// Error codes per revision.
#[tokio::test]
async fn errors_have_the_code_of_their_revision() {
    let nowhere = json!({ "uri": "test://nowhere", "name": "nowhere", "cursor": "nowhere" });
    for version in revisions() {
        let mut talk = Talk::open(everything(), version).await;
        let read = talk.ask("resources/read", nowhere.clone()).await;
        let expected = if version == NEWEST { -32602 } else { -32002 };
        assert_eq!(code(&read), expected, "{version}");
        assert_eq!(read["error"]["data"]["uri"], nowhere["uri"]);
        if version != NEWEST {
            let code = talk.code("resources/subscribe", nowhere.clone()).await;
            assert_eq!(code, -32002, "{version}");
        }
        for method in ["tools/call", "prompts/get", "tools/list"] {
            let code = talk.code(method, nowhere.clone()).await;
            assert_eq!(code, INVALID_PARAMS, "{version} {method}");
        }
        if version >= LAST {
            let wrong = call("add", json!({ "a": "x" }));
            let answer = talk.result("tools/call", wrong).await;
            assert_eq!(answer["isError"], true, "{version}");
        }
    }
}

#[tokio::test]
async fn initialized_may_be_told_by_its_short_name() {
    for version in HANDSHAKES {
        let mut client = PipeClient::new(everything());
        client.ask(initialize("open", version)).await;
        client.send(notification("initialized", json!({}))).await;
        // It is no request, by no name.
        for name in ["initialized", "notifications/initialized"] {
            let answer = client.ask(request(name, name, json!({}))).await;
            assert_eq!(answer["error"]["code"], -32601, "{version}: {answer}");
        }
        let tools = client.ask(request("tools", "tools/list", json!({}))).await;
        assert!(tools["result"]["tools"].is_array(), "{version}: {tools}");
    }
}
