//! Pages of a project: made of templates, shown by clients that can.

use serde_json::{Value, json};
use std::{io::Write, path::Path, process::Stdio};
use zcp_tests::{
    folder::Folder,
    pipe::PipeClient,
    request,
    script::{LAST, open, serve, until, write},
};

async fn read(client: &mut PipeClient, uri: &str) -> Value {
    let answer = client.ask(request(3, "resources/read", json!({ "uri": uri }))).await;
    assert!(answer.get("result").is_some(), "{answer}");
    answer["result"]["contents"][0].clone()
}

/// Runs a page against a script of what its client and its user do.
fn run(page: &str, script: &Value) -> Value {
    let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages/browser.js");
    let mut node = std::process::Command::new("node")
        .arg(browser)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node is there");
    let given = json!({ "page": page, "script": script }).to_string();
    node.stdin.take().expect("it works").write_all(given.as_bytes()).expect("it works");
    let output = node.wait_with_output().expect("it works");
    assert!(output.status.success(), "the page failed");
    serde_json::from_slice(&output.stdout).expect("it works")
}

/// What a page is told when it begins.
fn begin() -> Value {
    let context = json!({ "theme": "dark" });
    let result = json!({ "protocolVersion": "2026-01-26", "hostInfo": { "name": "x", "version": "1" },
        "hostCapabilities": { "serverTools": {} }, "hostContext": context });
    json!({ "answer": "ui/initialize", "with": { "result": result } })
}

fn result(data: &Value) -> Value {
    json!({ "tell": { "jsonrpc": "2.0", "method": "ui/notifications/tool-result",
        "params": { "content": [{ "type": "text", "text": data.to_string() }] } } })
}

fn methods(ran: &Value) -> Vec<&str> {
    let said = ran["said"].as_array().expect("it works");
    said.iter().filter_map(|one| one["method"].as_str()).collect()
}

/// The page of a template, as it is served.
async fn page(name: &str, config: &Value) -> String {
    let folder = Folder::new(&format!("page-{name}"));
    let about = json!({ "template": name, "config": config }).to_string();
    let mut client =
        serve(&folder, &[("zcp.toml", "[server]\nname = \"x\""), ("ui/it/ui.meta.json", &about)])
            .await;
    read(&mut client, "ui://x/it").await["text"].as_str().expect("it works").to_owned()
}

#[tokio::test]
async fn a_page_made_of_a_template_is_served_as_any_other() {
    let folder = Folder::new("pages");
    let nasty = "</script><script>alert(1)</script>";
    let form = json!({ "template": "form", "description": "Asks.",
        "config": { "title": nasty, "fields": [{ "name": "who" }], "submitTool": "greet" },
        "meta": { "prefersBorder": true, "sandboxDomain": "a.example", "csp": { "connectDomains": [] } } });
    let mut client = serve(
        &folder,
        &[
            ("zcp.toml", "[server]\nname = \"pages\""),
            ("tools/greet/tool.sh", "# Greets.\n# @param who string\necho \"Hello, $ARG_WHO\""),
            ("tools/greet/ui/ui.meta.json", &form.to_string()),
            ("ui/own/ui.meta.json", r#"{"template": "kanban"}"#),
            ("ui/own/index.html", "<p>my own"),
        ],
    )
    .await;
    let list = client.ask(request(1, "resources/list", json!({}))).await;
    let listed = list["result"]["resources"].as_array().unwrap();
    let greet = listed.iter().find(|one| one["uri"] == "ui://pages/greet").expect("it is listed");
    assert_eq!(greet["mimeType"], "text/html;profile=mcp-app");
    assert_eq!(greet["description"], "Asks.");
    let meta =
        json!({ "csp": { "connectDomains": [] }, "prefersBorder": true, "domain": "a.example" });
    assert_eq!(greet["_meta"]["ui"], meta);
    let tools = client.ask(request(2, "tools/list", json!({}))).await;
    assert_eq!(tools["result"]["tools"][0]["_meta"]["ui"]["resourceUri"], "ui://pages/greet");
    let page = read(&mut client, "ui://pages/greet").await;
    assert_eq!(page["mimeType"], "text/html;profile=mcp-app");
    assert_eq!(page["_meta"]["ui"], meta);
    let text = page["text"].as_str().unwrap();
    assert!(text.starts_with("<!doctype html>") && text.contains("submitTool"), "{text}");
    assert!(!text.contains(nasty) && text.contains(r"\u003c/script\u003e"), "it is escaped");
    // A page of one's own goes before one that is made.
    assert_eq!(read(&mut client, "ui://pages/own").await["text"], "<p>my own");
    // A change of what it is made of is told.
    client.ask(request(4, "resources/subscribe", json!({ "uri": "ui://pages/greet" }))).await;
    let changed = form.to_string().replace("alert(1)", "changed");
    write(&folder, "tools/greet/ui/ui.meta.json", &changed);
    while client.next().await["params"]["uri"] != "ui://pages/greet" {}
    assert!(
        read(&mut client, "ui://pages/greet").await["text"].as_str().unwrap().contains("changed")
    );
}

#[tokio::test]
async fn an_unknown_template_is_a_mistake_that_names_the_known() {
    let folder = Folder::new("unknown-template");
    write(&folder, "ui/it/ui.meta.json", r#"{"template": "chart"}"#);
    write(&folder, "ui/good/ui.meta.json", r#"{"template": "progress"}"#);
    let scripts = open(&folder);
    let mistakes = scripts.mistakes();
    let said = mistakes.borrow().join("\n");
    assert!(
        said.contains(
            "`chart`: it is one of form, data-table, progress, diff-viewer, tree-view, kanban"
        ),
        "{said}"
    );
    write(&folder, "ui/it/ui.meta.json", r#"{"template": "tree-view"}"#);
    until("the mistake goes away", || mistakes.borrow().is_empty()).await;
    let _client = PipeClient::open(scripts.server(), LAST).await;
}

#[tokio::test]
async fn every_sample_is_a_page_that_runs() {
    for (name, sample) in zcp_scripts::page_templates() {
        let sample: Value = serde_json::from_str(sample).unwrap();
        let page = page(name, &sample["config"]).await;
        let title = sample["config"]["title"].as_str().unwrap();
        let ran = run(&page, &json!([begin(), result(&json!([]))]));
        assert_eq!(
            methods(&ran)[..3],
            ["ui/initialize", "ui/notifications/initialized", "ui/notifications/size-changed"],
            "{name}"
        );
        assert_eq!(ran["said"][0]["params"]["protocolVersion"], "2026-01-26");
        assert_eq!(ran["said"][0]["params"]["appInfo"]["name"], title);
        assert_eq!(ran["theme"], "dark");
        assert!(ran["shows"].as_str().unwrap().starts_with(title), "{name}: {ran}");
    }
}

#[tokio::test]
async fn a_form_calls_its_tool_with_what_was_filled_in() {
    let config = json!({ "fields": [
        { "name": "who", "required": true }, { "name": "age", "type": "number" },
        { "name": "loud", "type": "checkbox", "default": "true" }, { "name": "empty" },
        { "name": "kind", "type": "select", "options": ["a", "b"] },
    ], "submitTool": "greet", "submitArgs": { "from": "page" } });
    let page = page("form", &config).await;
    let ran = run(
        &page,
        &json!([
            begin(),
            // Only the client is listened to.
            { "stranger": { "jsonrpc": "2.0", "method": "ui/notifications/tool-input", "params": { "arguments": { "who": "Eve" } } } },
            { "tell": { "jsonrpc": "2.0", "method": "ui/notifications/tool-input", "params": { "arguments": { "who": "Ann" } } } },
            { "fill": "age", "value": "7" },
            { "fire": "submit", "on": { "name": "form" } },
            { "answer": "tools/call", "with": { "result": { "content": [{ "type": "text", "text": "Hello!" }] } } },
            { "tell": { "jsonrpc": "2.0", "id": 99, "method": "ui/resource-teardown", "params": {} } },
        ]),
    );
    let said = ran["said"].as_array().unwrap();
    let call = said.iter().find(|one| one["method"] == "tools/call").expect("it calls");
    let args = json!({ "from": "page", "who": "Ann", "age": 7, "loud": true });
    assert_eq!(call["params"], json!({ "name": "greet", "arguments": args }));
    assert!(ran["shows"].as_str().unwrap().contains("Hello!"), "{ran}");
    assert_eq!(said.last().unwrap(), &json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
    // What goes wrong is shown.
    let refused = json!({ "error": { "code": -32000, "message": "not today" } });
    let script = json!([begin(), { "fire": "submit", "on": { "name": "form" } }, { "answer": "tools/call", "with": refused }]);
    assert!(run(&page, &script)["shows"].as_str().unwrap().contains("not today"));
}

#[tokio::test]
async fn pages_show_what_tools_answer() {
    let table =
        page("data-table", &json!({ "columns": [{ "key": "name", "sortable": true }] })).await;
    let rows =
        result(&json!({ "rows": [{ "name": "b<i>" }, { "name": "a10" }, { "name": "a9" }] }));
    let sort = json!({ "fire": "click", "on": { "name": "button", "label": "name" } });
    let shows = run(&table, &json!([begin(), rows, sort]))["shows"].clone();
    assert!(shows.as_str().unwrap().ends_with("name ▲a9a10b<i>3 rows"), "{shows}");

    let differs =
        page("diff-viewer", &json!({ "viewMode": "unified", "showLineNumbers": false })).await;
    let texts = result(&json!({ "left": "a\nb\nc\n", "right": "a\nx\nc\n" }));
    let shows = run(&differs, &json!([begin(), texts]))["shows"].clone();
    assert!(shows.as_str().unwrap().contains("+1 −1  a- b+ x  c"), "{shows}");

    let tree = page("tree-view", &json!({ "onSelectTool": "look", "showIcons": false })).await;
    let nodes = result(
        &json!([{ "id": "s", "label": "src", "children": [{ "id": "s/m", "label": "main" }] }]),
    );
    let click = json!({ "fire": "click", "on": { "name": "span", "label": "main" } });
    let ran = run(&tree, &json!([begin(), nodes, click]));
    let call = ran["said"].as_array().unwrap().last().unwrap();
    assert_eq!(
        call["params"],
        json!({ "name": "look", "arguments": { "id": "s/m", "label": "main" } })
    );

    let board = page("kanban", &json!({ "onMoveTool": "move" })).await;
    let cards = result(&json!([{ "id": 1, "title": "Write", "status": "todo" }]));
    let right =
        json!({ "fire": "keydown", "on": { "name": "article" }, "event": { "key": "ArrowRight" } });
    let refused =
        json!({ "answer": "tools/call", "with": { "error": { "code": 1, "message": "no" } } });
    let ran = run(&board, &json!([begin(), cards, right]));
    assert!(ran["shows"].as_str().unwrap().contains("In progress (1)Write"), "{ran}");
    assert_eq!(
        ran["said"].as_array().unwrap().last().unwrap()["params"]["arguments"]["toColumn"],
        "in-progress"
    );
    // A move that was refused did not happen.
    let ran = run(&board, &json!([begin(), cards, right, refused]));
    assert!(ran["shows"].as_str().unwrap().contains("To do (1)Write"), "{ran}");

    let progress = page("progress", &json!({})).await;
    let half = result(&json!({ "progress": 3, "total": 6, "message": "Half" }));
    let shows = run(&progress, &json!([begin(), half]))["shows"].clone();
    assert!(shows.as_str().unwrap().contains("50 %Half"), "{shows}");
}
