//! Every request since 2026-07-28 says all there is to know, and every answer says what it is.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Barrier;
use tower::{ServiceExt, layer::layer_fn, service_fn, util::MapRequestLayer};
use zcp::{
    CacheScope, Call, CallError, Catalog, Ctx, Fault, KeyRing, ListKind, Op, Outcome, Principal,
    Prompt, Resource, Result, Server, Service, State, Tool, Visit, tool, wire::header,
};
use zcp_tests::{
    NEWEST, all_capabilities, call, everything, http::HttpServer, initialize, modern, modern_as,
    pipe::PipeClient, request, socket::Socket, text,
};

const LISTS: &str = "tools/list prompts/list resources/list resources/templates/list";
const DAY: Duration = Duration::from_secs(86_400);

async fn post(server: &HttpServer, message: &Value) -> (StatusCode, Value) {
    let answer = server.post(message).send().await;
    (answer.status, answer.response().await)
}

/// Lines of a word and JSON.
fn table(lines: &str) -> impl Iterator<Item = (&str, Value)> {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| {
        let (word, json) = line.split_once(' ').expect("a word and JSON");
        (word, serde_json::from_str(json).expect("JSON"))
    })
}

#[track_caller]
fn assert_error(answer: &Value, id: impl Into<Value>, code: i64) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert_eq!(answer["id"], id.into(), "{answer}");
}

#[track_caller]
fn assert_cache(result: &Value, milliseconds: u64, scope: &str) {
    assert_eq!(result["ttlMs"], milliseconds, "{result}");
    assert_eq!(result["cacheScope"], scope, "{result}");
}

fn asks_the_model(capabilities: Value) -> Value {
    let params = call("test_missing_capability", json!({}));
    modern_as(1, "tools/call", params, capabilities)
}

/// What a client declares is good for its request alone, on a connection as on a pipe. SV01
#[tokio::test]
async fn capabilities_of_one_request_are_unknown_to_the_next() {
    let server = HttpServer::new(everything()).await;
    let mut pipe = PipeClient::new(everything());
    for _ in 0..2 {
        let (status, able) = post(&server, &asks_the_model(all_capabilities())).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(able["result"]["resultType"], "input_required");
        let (status, unable) = post(&server, &asks_the_model(json!({}))).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let able = pipe.ask(asks_the_model(all_capabilities())).await;
        assert_eq!(able["result"]["resultType"], "input_required");
        for unable in [unable, pipe.ask(asks_the_model(json!({}))).await] {
            assert_error(&unable, 1, -32021);
            let required = json!({ "requiredCapabilities": { "sampling": {} } });
            assert_eq!(unable["error"]["data"], required);
        }
    }
}

/// A handshake's capabilities belong to its session, not to the pipe. SV01
#[tokio::test]
async fn a_handshake_lends_nothing_to_a_stateless_request() {
    let mut client = PipeClient::open(everything(), "2025-06-18").await;
    assert_error(&client.ask(asks_the_model(json!({}))).await, 1, -32021);
}

/// A version said once is not remembered. SV01
#[tokio::test]
async fn a_version_must_be_said_every_time() {
    let server = HttpServer::new(everything()).await;
    let (status, _) = post(&server, &modern(1, "tools/list", json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    let silent = server.post(&request(2, "tools/list", json!({})));
    let silent = silent.header(header::PROTOCOL_VERSION.as_str(), NEWEST);
    let answer = silent.header(header::METHOD.as_str(), "tools/list").send().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_error(&answer.json().await, 2, -32602);
}

/// Tells callers apart by a header, as a gateway would.
async fn with_users(server: Server) -> HttpServer {
    let name = |mut request: Request<_>| {
        let user = request.headers().get("x-user");
        if let Some(user) = user.and_then(|user| user.to_str().ok().map(Principal::new)) {
            request.extensions_mut().insert(user);
        }
        request
    };
    let runtime = server.build().expect("the server has no mistakes");
    HttpServer::with(runtime, |http| http.layer(MapRequestLayer::new(name))).await
}

/// Who called before is not who calls now. SV01
#[tokio::test]
async fn a_caller_is_not_remembered() {
    let who = Tool::new("who", async |caller: Principal| caller.as_str().to_owned());
    let server = with_users(Server::new("test").tool(who)).await;
    let message = modern(1, "tools/call", call("who", json!({})));
    let named = server.post(&message).header("x-user", "ann").send().await;
    assert_eq!(text(&named.json().await["result"]), "ann");
    assert_eq!(text(&post(&server, &message).await.1["result"]), "");
}

/// What was called, and over which connection, shows in no list. SV02
#[tokio::test]
async fn lists_do_not_depend_on_the_connection_or_on_calls() {
    let server = HttpServer::new(everything()).await;
    let mut socket = Socket::connect(&server, "").await;
    for method in LISTS.split(' ') {
        let list = modern(1, method, json!({}));
        let first = post(&server, &list).await.1.to_string();
        for name in "test_trigger_resource_update test_logging_tool test_panic add".split(' ') {
            let call = modern(1, "tools/call", call(name, json!({ "a": 1, "b": 2 })));
            socket.ask(call.clone()).await;
            assert_eq!(post(&server, &list).await.1.to_string(), first);
            post(&server, &call).await;
            assert_eq!(socket.ask(list.clone()).await.to_string(), first);
        }
    }
}

/// Nodes that were given the same tools in another order list them in one, page by page. SV03
#[tokio::test]
async fn tools_are_listed_in_one_order_on_every_node() {
    let node = |names: &'static str| {
        let server = Server::new("test").page_size(2);
        let server = server.keys(KeyRing::new([7; 32]));
        let add = |server: Server, name| server.tool(Tool::new(name, async || "done"));
        PipeClient::new(names.split(' ').fold(server, add))
    };
    let mut nodes = [node("b a e d c"), node("c e a b d")];
    let (mut params, mut names) = (json!({}), String::new());
    for page in 0..3 {
        let list = modern(1, "tools/list", params);
        let listed = nodes[page % 2].ask(list.clone()).await;
        let elsewhere = nodes[(page + 1) % 2].ask(list).await;
        assert_eq!(elsewhere.to_string(), listed.to_string());
        for tool in listed["result"]["tools"].as_array().unwrap() {
            names += tool["name"].as_str().unwrap();
        }
        params = json!({ "cursor": listed["result"]["nextCursor"] });
    }
    assert_eq!((names.as_str(), &params["cursor"]), ("abcde", &Value::Null));
}

/// Every method that is answered at once, and what else can end a call.
const METHODS: &str = r#"
    server/discover {}
    tools/list {}
    prompts/list {}
    resources/list {}
    resources/templates/list {}
    tools/call {"name":"test_simple_text"}
    tools/call {"name":"test_error_handling"}
    tools/call {"name":"test_structured_output","arguments":{"city":"Ulm"}}
    tools/call {"name":"test_missing_capability"}
    prompts/get {"name":"test_simple_prompt"}
    prompts/get {"name":"test_input_required_result_prompt"}
    resources/read {"uri":"test://static-text"}
    completion/complete {"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"pa"}}
"#;

/// A result says whether it is the end. SV04
#[tokio::test]
async fn every_result_has_its_type() {
    let mut client = PipeClient::new(everything());
    for (method, params) in table(METHODS) {
        let asks = params["name"] == "test_missing_capability"
            || params["name"] == "test_input_required_result_prompt";
        let answer = client.ask(modern(1, method, params)).await;
        let kind = if asks { "input_required" } else { "complete" };
        assert_eq!(answer["result"]["resultType"], kind, "{answer}");
    }
    let listen = modern("l", "subscriptions/listen", json!({ "notifications": {} }));
    client.send(listen).await;
    client.next().await;
    client.stop.cancel();
    assert_eq!(client.next().await["result"]["resultType"], "complete");
}

/// A result says who answered. SV05
#[tokio::test]
async fn every_result_names_the_server() {
    let mut client = PipeClient::new(everything());
    for (method, params) in table(METHODS) {
        let answer = client.ask(modern(1, method, params)).await;
        let info = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "zcp-everything", "{answer}");
        assert!(info["version"].is_string(), "{answer}");
    }
}

/// How long the offer may be kept, and by whom. SV06
#[tokio::test]
async fn discovery_carries_cache_hints() {
    let discover = modern(1, "server/discover", json!({}));
    let mut client = PipeClient::new(everything());
    assert_cache(&client.ask(discover.clone()).await["result"], 0, "private");
    let mut client = PipeClient::new(everything().cache_lists(DAY, CacheScope::Public));
    assert_cache(&client.ask(discover).await["result"], 86_400_000, "public");
}

async fn asked(ctx: Ctx) -> Result<String> {
    let form = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let answer: Value = ctx.ask_with("name", "Who?", form).await?.accepted()?;
    Ok(answer["name"].to_string())
}

/// A question is not to be kept, nor is what was made of its answer. SV07
#[tokio::test]
async fn questions_and_their_answers_are_not_cached() {
    let resource = Resource::new("test://asked", asked).cache(DAY, CacheScope::Public);
    let server = Server::new("test").cache_lists(DAY, CacheScope::Public);
    let server = server.resource(resource).tool(Tool::new("asked", asked));
    let mut client = PipeClient::new(server.prompt(Prompt::new("asked", asked)));
    let mut state = Value::Null;
    let params = json!({ "name": "asked", "uri": "test://asked" });
    for method in ["tools/call", "prompts/get", "resources/read"] {
        let answer = client.ask(modern(1, method, params.clone())).await;
        let result = &answer["result"];
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(result.get("ttlMs").or(result.get("cacheScope")), None);
        state = result["requestState"].clone();
    }
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ann" } } });
    let again = json!({ "uri": "test://asked", "inputResponses": answers, "requestState": state });
    let answer = client.ask(modern(2, "resources/read", again)).await;
    assert_eq!(answer["result"]["contents"][0]["text"], "\"Ann\"");
    assert_cache(&answer["result"], 0, "private");
}

/// Pages of one list may be kept by the same people. SV08
#[tokio::test]
async fn all_pages_of_a_list_have_one_cache_scope() {
    let server = everything().page_size(1);
    let mut client = PipeClient::new(server.cache_lists(DAY, CacheScope::Public));
    for method in ["tools/list", "prompts/list", "resources/list"] {
        let (mut params, mut pages) = (json!({}), 0);
        while !params["cursor"].is_null() || pages == 0 {
            let answer = client.ask(modern(1, method, params)).await;
            assert_cache(&answer["result"], 86_400_000, "public");
            params = json!({ "cursor": answer["result"]["nextCursor"] });
            pages += 1;
        }
        assert!(pages >= 3, "{method} has {pages} pages");
    }
}

/// A layer that shows and runs the tool `secret` for `ann` alone.
fn for_ann_only(inner: Service) -> Service {
    let public = Arc::new(Catalog::default().tool(Tool::new("open", async || "open")));
    Service::new(service_fn(move |call: Call| {
        let (inner, public) = (inner.clone(), public.clone());
        async move {
            let ann = call.ctx.principal().as_str() == "ann";
            if matches!(&call.op, Op::CallTool { name, .. } if name == "secret") && !ann {
                return Ok::<_, Infallible>(Outcome::Fault(Fault::Unknown("secret".into())));
            }
            let mut outcome = inner.oneshot(call).await?;
            if let Outcome::Page(page) = &mut outcome
                && page.kind == ListKind::Tools
                && !ann
            {
                page.catalog = public;
            }
            Ok(outcome)
        }
    }))
}

/// What depends on who asks is private, and what is hidden is not callable either. SV09
#[tokio::test]
async fn a_filtered_list_is_private_and_guards_nothing_by_itself() {
    let server = Server::new("test").tool(Tool::new("open", async || "open"));
    let server = server.tool(Tool::new("secret", async || "secret"));
    let server = with_users(server.layer(layer_fn(for_ann_only))).await;
    let as_user = async |user, message: Value| {
        let call = server.post(&message).header("x-user", user);
        call.send().await.json().await
    };
    let list = modern(1, "tools/list", json!({}));
    let call = modern(1, "tools/call", call("secret", json!({})));
    let all = as_user("ann", list.clone()).await;
    assert_eq!(all["result"]["tools"][1]["name"], "secret");
    assert_eq!(text(&as_user("ann", call.clone()).await["result"]), "secret");
    assert_error(&as_user("bob", call).await, 1, -32602);
    let some = as_user("bob", list).await;
    assert_eq!(some["result"]["tools"].as_array().unwrap().len(), 1);
    assert_cache(&all["result"], 0, "private");
    assert_cache(&some["result"], 0, "private");
}

/// Lists are private until the server says that they are the same for all. SV09
#[tokio::test]
async fn lists_are_private_unless_said_otherwise() {
    let mut client = PipeClient::new(everything());
    for method in LISTS.split(' ') {
        let answer = client.ask(modern(1, method, json!({}))).await;
        assert_cache(&answer["result"], 0, "private");
    }
}

/// An error carries the request's id as it came, whichever layer refused. SV27
#[tokio::test]
async fn an_error_echoes_the_id_digit_for_digit() {
    let server = HttpServer::new(everything()).await;
    let ids = r#"0 -7 "" "0" "a\"b" 18446744073709551616 123456789012345678901234567890"#;
    for id in ids.split(' ') {
        for (method, params) in table(
            r#"
            ping {}
            tools/call {"name":"nobody"}
            tools/list {"cursor":"forged"}
            tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}
            resources/read {"uri":"test://nowhere"}
            "#,
        ) {
            let name = params["name"].as_str().or(params["uri"].as_str());
            let name = name.unwrap_or_default().to_owned();
            let body = modern("ID", method, params).to_string().replace("\"ID\"", id);
            let version = if body.contains("1999") { "1999-01-01" } else { NEWEST };
            let call = server.post_text("/mcp", body).header(header::METHOD.as_str(), method);
            let call = call.header(header::PROTOCOL_VERSION.as_str(), version);
            let body = call.header(header::NAME.as_str(), &name).send().await.text().await;
            let mut members = BTreeMap::new();
            assert!(zcp::wire::json::members(&body, |name, value| {
                members.insert(name.into_owned(), value.to_owned());
            }));
            assert_eq!(members["id"], id, "{body}");
            assert!(members.contains_key("error"), "{body}");
        }
    }
}

/// An id that is none cannot be echoed, and is left out. SV27
#[tokio::test]
async fn an_unreadable_id_is_absent() {
    let server = HttpServer::new(everything()).await;
    let mut pipe = PipeClient::new(everything());
    for (body, code) in [
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"x""#, -32700),
    ] {
        let answer = server.post_text("/mcp", body).send().await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        pipe.write(body.as_bytes()).await;
        for answer in [answer.json().await, pipe.next().await] {
            assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
            assert_eq!(answer.get("id"), None, "{body}: {answer}");
        }
    }
}

/// A request of no session and no revision is refused by its id too. SV27
#[tokio::test]
async fn a_request_that_belongs_nowhere_is_refused_by_its_id() {
    let server = HttpServer::new(everything()).await;
    let (status, answer) = post(&server, &request(7, "tools/list", json!({}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_error(&answer, 7, -32600);
}

/// Sends its user to a page first.
#[tool]
async fn visit_first() -> Result<String> {
    let page = Visit::new("Sign in", "https://example.com/");
    Err(CallError::VisitFirst(page))
}

/// Of the codes that are the specification's, only those it has defined. SV28
#[tokio::test]
async fn no_error_has_a_code_of_another_era() {
    let mut client = PipeClient::new(everything().tool(visit_first));
    let methods = "server/discover tools/call prompts/get resources/read completion/complete \
        subscriptions/listen initialize ping logging/setLevel resources/subscribe roots/list x";
    let mut seen = BTreeSet::new();
    for method in methods.split(' ').chain(LISTS.split(' ')) {
        for (_, params) in table(
            r#"
            params {}
            params {"name":1,"uri":1,"ref":1,"cursor":1,"notifications":1}
            params {"name":"nobody","uri":"test://nowhere","cursor":"forged"}
            params {"name":"visit_first","uri":"../../etc/passwd"}
            params {"name":"visit_first","uri":"test://static-text","requestState":"forged"}
            params {"name":"test_missing_capability","inputResponses":[]}
            params {"name":"test_missing_capability"}
            params {"name":"test_simple_text","arguments":[]}
            params {"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}
            params {"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}
            params {"_meta":{"io.modelcontextprotocol/protocolVersion":5}}
            "#,
        ) {
            let answer = client.ask(modern_as(1, method, params, json!({}))).await;
            seen.extend(answer["error"]["code"].as_i64());
        }
    }
    assert_eq!(seen, BTreeSet::from([-32602, -32601, -32022, -32021]));
}

/// A method is not there when its capability is not. SV29
#[tokio::test]
async fn a_method_behind_an_unadvertised_capability_is_not_found() {
    let families = r#"
        tools ["tools/list", "tools/call"]
        prompts ["prompts/list", "prompts/get"]
        resources ["resources/list", "resources/templates/list", "resources/read"]
        completions ["completion/complete"]
    "#;
    let own = ["none", "tools", "prompts", "resources"].map(Server::new);
    let [none, tools, prompts, resources] = own;
    let tools = tools.tool(Tool::new("x", async || "done"));
    let prompts = prompts.prompt(Prompt::new("x", async || "done"));
    let resources = resources.resource(Resource::new("test://x", async || "done"));
    for server in [none, tools, prompts, resources] {
        let server = HttpServer::new(server).await;
        let offer = post(&server, &modern(1, "server/discover", json!({}))).await.1;
        let own = &offer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
        for (family, methods) in table(families) {
            let offered = offer["result"]["capabilities"].get(family).is_some();
            assert_eq!(offered, own == family);
            for method in methods.as_array().unwrap() {
                let params = json!({ "name": "x", "uri": "test://x" });
                let message = modern("7", method.as_str().unwrap(), params);
                let (status, answer) = post(&server, &message).await;
                if offered {
                    assert_eq!(status, StatusCode::OK, "{answer}");
                } else {
                    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
                    assert_error(&answer, "7", -32601);
                }
            }
        }
    }
}

/// Methods of the handshake era are not there for a stateless request. SV29
#[tokio::test]
async fn a_removed_method_is_not_found() {
    let server = HttpServer::new(everything()).await;
    let removed = "initialize ping logging/setLevel resources/subscribe resources/unsubscribe";
    for method in removed.split(' ') {
        let params = json!({ "uri": "test://watched-resource", "level": "info" });
        let (status, answer) = post(&server, &modern(3, method, params)).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{method}");
        assert_error(&answer, 3, -32601);
    }
}

/// What is not there by that name is a wrong parameter. SV30
#[tokio::test]
async fn unknown_names_and_cursors_are_invalid_params() {
    let mut client = PipeClient::new(everything().page_size(1));
    for (method, params) in table(
        r#"
        tools/call {"name":"nobody"}
        prompts/get {"name":"nobody"}
        prompts/get {"name":"test_prompt_with_arguments"}
        prompts/get {"name":"test_prompt_with_arguments","arguments":{"arg1":"a"}}
        tools/list {"cursor":"forged"}
        prompts/list {"cursor":""}
        resources/list {"cursor":"AAAA"}
        resources/templates/list {"cursor":1}
        "#,
    ) {
        assert_error(&client.ask(modern(1, method, params)).await, 1, -32602);
    }
    let prompts = client.ask(modern(1, "prompts/list", json!({}))).await;
    let cursor = json!({ "cursor": prompts["result"]["nextCursor"] });
    let answer = client.ask(modern(1, "prompts/list", cursor.clone())).await;
    assert!(answer["result"]["prompts"].is_array());
    assert_error(&client.ask(modern(1, "tools/list", cursor)).await, 1, -32602);
}

/// A handshake is answered with the versions that can be spoken instead. SV51
#[tokio::test]
async fn a_modern_only_server_names_its_versions() {
    let server = HttpServer::new(everything().stateless_only()).await;
    let mut pipe = PipeClient::new(everything().stateless_only());
    let answer = server.post(&initialize(9, "2025-11-25")).send().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.headers.get(header::SESSION_ID.as_str()), None);
    for answer in [answer.json().await, pipe.ask(initialize(9, "2025-11-25")).await] {
        assert_error(&answer, 9, -32022);
        let versions = json!({ "supported": [NEWEST], "requested": "2025-11-25" });
        assert_eq!(answer["error"]["data"], versions);
    }
    let offer = pipe.ask(modern(1, "server/discover", json!({}))).await;
    assert_eq!(offer["result"]["supportedVersions"], json!([NEWEST]));
}

/// Where there is no handshake, what says nothing of itself lacks its `_meta`. SV51
#[tokio::test]
async fn a_modern_only_server_wants_meta_and_no_handshake() {
    let server = HttpServer::new(everything().stateless_only()).await;
    let mut pipe = PipeClient::new(everything().stateless_only());
    for method in ["tools/list", "ping"] {
        let bare = request(9, method, json!({}));
        let (status, answer) = post(&server, &bare).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_error(&answer, 9, -32602);
        assert_error(&pipe.ask(bare).await, 9, -32602);
    }
}

/// Returns when everybody is here, and says what its own client can do.
#[tool]
async fn meet(label: u64, all: State<Arc<Barrier>>, ctx: Ctx) -> String {
    all.wait().await;
    format!("{label} {}", ctx.client().sampling())
}

/// One pipe carries many conversations at once, each answered by what it said itself. SV53
#[tokio::test]
async fn conversations_may_interleave_on_one_pipe() {
    let all = Arc::new(Barrier::new(60));
    let mut client = PipeClient::new(Server::new("test").state(all).tool(meet));
    let (even, odd) = (json!({ "sampling": {} }), json!({}));
    for label in 0..30 {
        let params = call("meet", json!({ "label": label }));
        let even = modern_as(label, "tools/call", params.clone(), even.clone());
        client.send(even).await;
        let id = label.to_string();
        client.send(modern_as(id, "tools/call", params, odd.clone())).await;
    }
    for _ in 0..60 {
        let answer = client.next().await;
        let label = answer["id"].to_string();
        let expected = format!("{} {}", label.trim_matches('"'), answer["id"].is_number());
        assert_eq!(text(&answer["result"]), expected);
    }
}
