//! Resources, prompts, completion and the pages of every list.

use serde_json::{Value, json};
use std::time::Duration;
use zcp::{
    Args, CallError, Catalog, Content, Contents, Json, KeyRing, Live, Principal, Prompt,
    PromptMessage, RateLimit, Resource, ResourceContents, Result, Server, Tool, Typed, prompt,
    resource, wire::mcp::resources::Resource as Listed,
};
use zcp_tests::{HANDSHAKES, call, everything, modern, pipe::PipeClient, request};

/// A note.
#[resource("notes://{folder}/{name}{?version}")]
async fn note(folder: String, name: String, version: Option<u32>) -> String {
    format!("{folder}|{name}|{version:?}")
}

/// A file.
#[resource("files:///{+path}")]
async fn file(path: String) -> String {
    format!("read {path}")
}

/// A letter to someone.
#[prompt]
async fn letter(name: String, pages: Option<u32>) -> String {
    format!("{name} {pages:?}")
}

async fn private(caller: Principal) -> Result<String> {
    match caller.as_str() {
        "" => Err(CallError::Denied { scope: "read".into() }),
        name => Ok(format!("for {name}")),
    }
}

async fn rich() -> Vec<PromptMessage> {
    let link = Listed { uri: "files:///a".into(), name: "a".into(), ..Listed::default() };
    vec![
        PromptMessage::user(Content::image([0xfb, 0xff], "image/png")),
        PromptMessage::user(Content::audio([1, 2, 3], "audio/wav")),
        PromptMessage::assistant(Content::link(link)),
        PromptMessage::user(Content::embed(ResourceContents::blob("x:y", "a/b", [0]))),
    ]
}

/// Cities of the country that was chosen, or a great many numbers.
async fn cities(typed: Typed) -> Vec<String> {
    match typed.others.get("country").map(String::as_str) {
        Some("fr") => vec!["Paris".into()],
        _ => (0..250).map(|n| format!("{}{n}", typed.value)).collect(),
    }
}

fn shelf() -> Server {
    let trip = Prompt::new("trip", async |Args(args): Args<Trip>| args.country + &args.city);
    Server::new("shelf")
        .resource(note)
        .resource(file)
        .resource(
            Resource::new("data://json", async || Json(json!({ "a": [1, null] })))
                .mime_type("application/json"),
        )
        .resource(Resource::new("data://bytes", async || {
            Contents::Bytes(vec![0xfb, 0xff, 0x00, 0x10])
        }))
        .resource(Resource::new("data://private", private))
        .resource(Resource::new("data://gone", async || -> Result<String> {
            Err(CallError::not_found("gone"))
        }))
        .resource(
            Resource::new("tree://{id}", async || "tree").complete("id", ["oak", "Olive", "pine"]),
        )
        .prompt(letter)
        .prompt(Prompt::new("rich", rich))
        .prompt(trip.complete("city", cities))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Trip {
    country: String,
    city: String,
}

fn read(uri: &str) -> Value {
    modern(1, "resources/read", json!({ "uri": uri }))
}

fn complete(reference: &Value, name: &str, value: &str) -> Value {
    json!({ "ref": reference, "argument": { "name": name, "value": value } })
}

#[track_caller]
fn refused(answer: &Value, code: i64) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
}

/// SV49
#[tokio::test]
async fn text_json_and_bytes_are_read_as_what_they_are() {
    let mut client = PipeClient::new(shelf());
    for (uri, contents) in [
        ("files:///a.txt", json!({ "mimeType": "text/plain", "text": "read a.txt" })),
        ("data://json", json!({ "mimeType": "application/json", "text": r#"{"a":[1,null]}"# })),
        // Base64 of the usual alphabet, padded.
        ("data://bytes", json!({ "mimeType": "application/octet-stream", "blob": "+/8AEA==" })),
    ] {
        let mut answer = client.ask(read(uri)).await;
        let mut contents = contents;
        contents["uri"] = uri.into();
        assert_eq!(answer["result"]["contents"].take(), json!([contents]));
    }
}

/// SV49
#[tokio::test]
async fn a_template_is_matched_backwards() {
    let mut client = PipeClient::new(shelf());
    for (uri, said) in [
        ("notes://work/todo", "work|todo|None"),
        ("notes://a%20b/%C3%BC?version=7", "a b|ü|Some(7)"),
        ("notes://a%2Fb/%25", "a/b|%|None"),
        ("files:///a/b/c.txt", "read a/b/c.txt"),
        ("files:///a..b/...", "read a..b/..."),
        ("files:///%252e%252e/a", "read %2e%2e/a"),
    ] {
        let answer = client.ask(read(uri)).await;
        assert_eq!(answer["result"]["contents"][0]["text"], said, "{answer}");
        assert_eq!(answer["result"]["contents"][0]["uri"], uri);
    }
    for uri in ["notes://a", "notes://a/b/c", "notes://a/b?size=1", "notes:///b", "other://a/b"] {
        refused(&client.ask(read(uri)).await, -32602);
    }
}

/// SV49
#[tokio::test]
async fn a_path_that_climbs_is_not_found() {
    let mut client = PipeClient::new(shelf());
    for uri in [
        "files:///../etc/passwd",
        "files:///a/../../etc/passwd",
        "files:///..",
        "files:////etc/passwd",
        "files:///%2e%2e/etc/passwd",
        "files:///..%2Fetc%2Fpasswd",
        "files:///%2Fetc/passwd",
        "files:///a%5C..%5Cb",
        "files:///a%00b",
        "files:///a%ff",
        "notes://../b",
        "notes://a/..",
        "notes://a/..%2Fb",
    ] {
        let answer = client.ask(read(uri)).await;
        refused(&answer, -32602);
        assert_eq!(answer["error"]["data"]["uri"], uri);
    }
}

/// SV49
#[tokio::test]
async fn who_may_not_read_is_refused() {
    refused(&PipeClient::new(shelf()).ask(read("data://private")).await, 403);
}

/// SV49: never empty contents.
#[tokio::test]
async fn what_is_not_there_has_the_code_of_its_revision() {
    for uri in ["data://none", "data://gone"] {
        for version in HANDSHAKES {
            let mut client = PipeClient::open(shelf(), version).await;
            let answer = client.ask(request(1, "resources/read", json!({ "uri": uri }))).await;
            refused(&answer, -32002);
            assert_eq!(answer["error"]["data"]["uri"], uri);
        }
        let answer = PipeClient::new(shelf()).ask(read(uri)).await;
        refused(&answer, -32602);
        assert_eq!(answer["error"]["data"]["uri"], uri);
    }
}

#[tokio::test]
async fn a_session_hears_of_a_resource_from_subscribe_to_unsubscribe() {
    let watched = json!({ "uri": "test://watched-resource" });
    let change = || request(2, "tools/call", call("test_trigger_resource_update", json!({})));
    for version in HANDSHAKES {
        let mut client = PipeClient::open(everything(), version).await;
        assert_eq!(client.exchange(change()).await.len(), 1);
        let unknown = json!({ "uri": "test://none" });
        refused(&client.ask(request(1, "resources/subscribe", unknown)).await, -32002);
        let answer = client.ask(request(1, "resources/subscribe", watched.clone())).await;
        assert_eq!(answer["result"], json!({}), "{version}");
        client.send(change()).await;
        let said = [client.next().await, client.next().await];
        let told = said.iter().find(|message| message.get("method").is_some()).unwrap();
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"], watched);
        let answer = client.ask(request(3, "resources/unsubscribe", watched.clone())).await;
        assert_eq!(answer["result"], json!({}));
        assert_eq!(client.exchange(change()).await.len(), 1);
        client.silent(Duration::from_millis(50)).await;
    }
    let mut client = PipeClient::new(everything());
    refused(&client.ask(modern(1, "resources/subscribe", watched)).await, -32601);
}

/// SV30
#[tokio::test]
async fn a_prompt_without_what_it_needs_is_refused() {
    let mut client = PipeClient::new(shelf());
    for params in [
        json!({ "name": "none" }),
        json!({ "name": "letter" }),
        json!({ "name": "letter", "arguments": { "pages": "1" } }),
        json!({ "name": "letter", "arguments": { "name": 7 } }),
        json!({ "name": "letter", "arguments": ["Ann"] }),
        json!({ "arguments": { "name": "Ann" } }),
    ] {
        refused(&client.ask(modern(1, "prompts/get", params)).await, -32602);
    }
    let arguments = json!({ "name": "Ann", "pages": "3" });
    let answer = client.ask(modern(1, "prompts/get", call("letter", arguments))).await;
    let message = json!({ "role": "user", "content": { "type": "text", "text": "Ann Some(3)" } });
    assert_eq!(answer["result"]["messages"], json!([message]));
    let list = client.ask(modern(1, "prompts/list", json!({}))).await;
    let arguments = json!([{ "name": "name", "required": true }, { "name": "pages" }]);
    assert_eq!(list["result"]["prompts"][0]["arguments"], arguments, "{list}");
}

#[tokio::test]
async fn a_value_that_is_no_number_is_the_callers_mistake() {
    let mut client = PipeClient::new(shelf());
    let arguments = json!({ "name": "Ann", "pages": "many" });
    let get = modern(1, "prompts/get", call("letter", arguments));
    for message in [get, read("notes://a/b?version=x")] {
        refused(&client.ask(message).await, -32602);
    }
}

#[tokio::test]
async fn a_prompt_shows_each_revision_the_content_it_knows() {
    let image = json!({ "type": "image", "data": "+/8=", "mimeType": "image/png" });
    let blob = json!({ "type": "resource", "resource": { "uri": "x:y", "mimeType": "a/b", "blob": "AA==" } });
    for (version, audio, link) in [
        ("2024-11-05", "resource", "text"),
        ("2025-03-26", "audio", "text"),
        ("2025-06-18", "audio", "resource_link"),
        ("2025-11-25", "audio", "resource_link"),
    ] {
        let mut client = PipeClient::open(shelf(), version).await;
        let answer = client.ask(request(1, "prompts/get", json!({ "name": "rich" }))).await;
        let messages = &answer["result"]["messages"];
        assert_eq!(messages[0]["content"], image);
        assert_eq!(messages[1]["content"]["type"], audio, "{version}");
        assert_eq!(messages[2]["content"]["type"], link, "{version}");
        assert_eq!(messages[2]["role"], "assistant");
        assert!(messages[2].to_string().contains("files:///a"));
        assert_eq!(messages[3]["content"], blob);
    }
}

/// SV50
#[tokio::test]
async fn a_completion_has_at_most_a_hundred_values_and_says_how_many_there_are() {
    let mut client = PipeClient::new(shelf());
    let trip = json!({ "type": "ref/prompt", "name": "trip" });
    let params = complete(&trip, "city", "x");
    for method in ["completion/complete", "completions/complete"] {
        let answer = client.ask(modern(1, method, params.clone())).await;
        let completion = &answer["result"]["completion"];
        assert_eq!(completion["values"].as_array().map(Vec::len), Some(100), "{method}");
        assert_eq!(completion["values"][99], "x99");
        assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(250), &json!(true)));
    }
    let mut context = params.clone();
    context["context"] = json!({ "arguments": { "country": "fr" } });
    let answer = client.ask(modern(1, "completion/complete", context)).await;
    let completion = json!({ "values": ["Paris"], "total": 1, "hasMore": false });
    assert_eq!(answer["result"]["completion"], completion);
}

/// SV50
#[tokio::test]
async fn a_completion_is_of_a_known_template_or_prompt_and_of_what_was_typed() {
    let mut client = PipeClient::open(shelf(), "2024-11-05").await;
    let tree = json!({ "type": "ref/resource", "uri": "tree://{id}" });
    for (argument, value, values) in
        [("id", "o", json!(["oak", "Olive"])), ("id", "x", json!([])), ("none", "o", json!([]))]
    {
        let params = complete(&tree, argument, value);
        let answer = client.ask(request(1, "completion/complete", params)).await;
        assert_eq!(answer["result"]["completion"]["values"], values);
    }
    for unknown in [
        json!({ "type": "ref/prompt", "name": "none" }),
        json!({ "type": "ref/resource", "uri": "none://{id}" }),
        json!({ "type": "ref/other", "name": "trip" }),
        json!("trip"),
    ] {
        let params = complete(&unknown, "id", "");
        refused(&client.ask(request(1, "completion/complete", params)).await, -32602);
    }
}

/// SV50
#[tokio::test]
async fn completion_is_rate_limited_with_the_rest() {
    let mut client = PipeClient::new(shelf().layer(RateLimit::per_second(0.001).burst(2.0)));
    let tree = json!({ "type": "ref/resource", "uri": "tree://{id}" });
    let mut asked = vec![];
    for id in 0..3 {
        let params = complete(&tree, "id", "o");
        asked.push(client.ask(modern(id, "completion/complete", params)).await);
    }
    assert!(asked[..2].iter().all(|answer| answer.get("error").is_none()), "{asked:?}");
    refused(&asked[2], 429);
}

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

fn offers(names: &[&str]) -> Catalog {
    names.iter().fold(Catalog::default(), |all, name| {
        all.tool(Tool::new(*name, async || "x"))
            .prompt(Prompt::new(*name, async || "x"))
            .resource(Resource::new(format!("x:{name}"), async || "x"))
            .resource(Resource::new(format!("x:{name}/{{v}}"), async || "x"))
    })
}

fn library(names: &[&str]) -> (Server, Live) {
    let live = Live::default();
    live.set(offers(names));
    let server = Server::new("library").keys(KeyRing::new([7; 32]));
    (server.page_size(2).provide(live.clone()), live)
}

/// The names on the page of a cursor, and the next cursor: the same in and out of a session.
async fn page(client: &mut PipeClient, list: usize, cursor: &Value) -> (String, Value) {
    let (method, member, key) = LISTS[list];
    let params = match cursor {
        Value::Null => json!({}),
        cursor => json!({ "cursor": cursor }),
    };
    let mut pages = vec![];
    for message in [request(1, method, params.clone()), modern(1, method, params)] {
        let answer = client.ask(message).await;
        let items = answer["result"][member].as_array().expect("a list");
        let names = items.iter().filter_map(|item| item[key].as_str());
        let names = names.map(|name| name.replace("x:", "").replace("/{v}", ""));
        pages.push((names.collect(), answer["result"]["nextCursor"].clone()));
    }
    assert_eq!(pages[0], pages[1]);
    pages.swap_remove(0)
}

/// SV30
#[tokio::test]
async fn every_list_comes_in_pages_whose_cursors_nobody_can_make() {
    let end = ("e".to_owned(), Value::Null);
    for version in HANDSHAKES {
        let (server, _live) = library(&["a", "b", "c", "d", "e"]);
        let mut client = PipeClient::open(server, version).await;
        let mut cursors = vec![];
        for list in 0..LISTS.len() {
            let (names, first) = page(&mut client, list, &Value::Null).await;
            assert_eq!(names, "ab", "{version}");
            let (names, second) = page(&mut client, list, &first).await;
            assert_eq!(names, "cd");
            assert_eq!(page(&mut client, list, &second).await, end);
            cursors.push(first);
        }
        for (list, (method, ..)) in LISTS.into_iter().enumerate() {
            let cursor = cursors[list].as_str().unwrap();
            let forged = json!(cursor.chars().rev().collect::<String>());
            let cut = json!(cursor[..cursor.len() - 2]);
            let other = cursors[(list + 1) % LISTS.len()].clone();
            for bad in [forged, cut, other, json!("b"), json!(""), json!(2)] {
                let params = json!({ "cursor": bad });
                refused(&client.ask(request(1, method, params.clone())).await, -32602);
                refused(&client.ask(modern(1, method, params)).await, -32602);
            }
        }
    }
}

#[tokio::test]
async fn a_list_may_change_between_its_pages() {
    for list in 0..LISTS.len() {
        let (server, live) = library(&["b", "d", "f", "h"]);
        let mut client = PipeClient::open(server, "2025-11-25").await;
        let (names, cursor) = page(&mut client, list, &Value::Null).await;
        assert_eq!(names, "bd");
        // The item the cursor names goes; others come before and after it.
        live.set(offers(&["a", "b", "e", "f", "h"]));
        for kind in ["tools", "prompts", "resources"] {
            let method = format!("notifications/{kind}/list_changed");
            assert_eq!(client.next().await["method"], method);
        }
        let (names, cursor) = page(&mut client, list, &cursor).await;
        assert_eq!(names, "ef");
        let rest = page(&mut client, list, &cursor).await;
        assert_eq!(rest, ("h".into(), Value::Null));
    }
}

/// SV03
#[tokio::test]
async fn a_list_is_the_same_bytes_each_time_and_on_each_node() {
    let nodes = || [library(&["a", "b", "c"]).0, library(&["c", "b", "a"]).0];
    for [one, two] in [nodes(), [everything(), everything()]] {
        let (mut one, mut two) = (PipeClient::new(one), PipeClient::new(two));
        for (method, ..) in LISTS {
            let list = || modern(1, method, json!({}));
            let first = one.ask(list()).await.to_string();
            let call = call("test_simple_text", json!({}));
            one.ask(modern(2, "tools/call", call)).await;
            assert_eq!(one.ask(list()).await.to_string(), first);
            assert_eq!(two.ask(list()).await.to_string(), first);
        }
    }
}
