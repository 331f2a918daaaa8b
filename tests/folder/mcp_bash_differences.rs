//! Where projects written for mcp-bash could notice that another program serves them.

use super::sandbox_writes::logged;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};
use zcp_scripts::Scripts;
use zcp_tests::{
    call,
    folder::Folder,
    notification,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, serve, write},
    text,
};

const PROJECT: (&str, &str) = ("server.d/server.meta.json", r#"{"name":"project"}"#);

async fn with_env(folder: &Folder, env: &[(&str, &str)]) -> PipeClient {
    let folder =
        env.iter().fold(Scripts::folder(&folder.0), |all, (name, value)| all.env(*name, *value));
    PipeClient::open(folder.open().expect("it opens").server(), LAST).await
}

async fn names(client: &mut PipeClient, method: &str, member: &str) -> Vec<Value> {
    let answer = client.ask(request(3, method, json!({}))).await;
    let all = answer["result"][member].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    all.into_iter().map(|one| one["name"].clone()).collect()
}

fn mode(folder: &Folder, name: &str, mode: u32) {
    fs::set_permissions(folder.0.join(name), fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// As a checkout makes files where the umask is 002.
#[tokio::test]
async fn what_the_users_own_group_may_write_is_used() {
    let folder = Folder::new("umask");
    write(&folder, "tools/a/tool.sh", "echo a");
    write(
        &folder,
        "server.d/register.json",
        r#"{"version":1,"tools":[{"name":"only","path":"a/tool.sh"}]}"#,
    );
    write(&folder, "server.d/policy.sh", "mcp_tools_policy_check() { return 0; }\n");
    for (name, bits) in [
        ("", 0o775),
        ("server.d", 0o775),
        ("server.d/register.json", 0o664),
        ("server.d/policy.sh", 0o664),
    ] {
        mode(&folder, name, bits);
    }
    let scripts = open(&folder);
    assert_eq!(*scripts.mistakes().borrow(), Vec::<String>::new());
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(names(&mut client, "tools/list", "tools").await, ["only"]);
    assert_eq!(text(&result(&mut client, "only", json!({})).await), "a\n");
}

#[test]
fn serve_says_in_one_line_why_a_list_is_not_used() {
    let folder = Folder::new("umask-others");
    write(&folder, "tools/a/tool.sh", "echo a");
    write(&folder, "server.d/register.json", r#"{"version":1,"tools":[]}"#);
    mode(&folder, "server.d/register.json", 0o666);
    let (log, answer) = logged(&folder, "a", "warn");
    let line = log.lines().find(|line| line.contains("register.json")).expect("a line");
    assert!(line.contains("others may write it: chmod go-w"), "{log}");
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // A list that is no list closes the project as well.
    mode(&folder, "server.d/register.json", 0o644);
    write(&folder, "server.d/register.json", r#"{"version":1,"toolz":[]}"#);
    let (log, _) = logged(&folder, "a", "warn");
    assert!(log.contains("register.json: it knows no `toolz`"), "{log}");
}

#[tokio::test]
async fn a_default_timeout_holds_for_every_script() {
    let folder = Folder::new("default-timeout");
    write(&folder, "tools/slow.sh", "# Sleeps.\nsleep 4741; echo late");
    let mut client = with_env(&folder, &[("MCPBASH_DEFAULT_TOOL_TIMEOUT", "1")]).await;
    let late = result(&mut client, "slow", json!({})).await;
    assert_eq!(late["structuredContent"]["error"]["type"], "timeout", "{late}");
}

#[tokio::test]
async fn a_project_that_the_variable_names_has_the_contract() {
    let folder = Folder::new("named-project");
    // Nothing in it mentions mcp-bash.
    write(&folder, "tools/one/tool.sh", "echo \"got:$(cat)\"");
    write(&folder, "tools/one/tool.meta.json", r#"{"name":"one"}"#);
    let mut client = with_env(&folder, &[]).await;
    assert_eq!(text(&result(&mut client, "one", json!({})).await), "got:{}");
    let root = folder.0.to_string_lossy().into_owned();
    let mut client = with_env(&folder, &[("MCPBASH_PROJECT_ROOT", &root)]).await;
    assert_eq!(text(&result(&mut client, "one", json!({})).await), "got:\n");
}

#[tokio::test]
async fn a_result_links_its_page_for_those_who_show_pages() {
    let folder = Folder::new("page-linked");
    for (name, content) in [
        PROJECT,
        ("tools/one/tool.sh", "echo done"),
        ("tools/one/tool.meta.json", r#"{"name":"one"}"#),
        ("tools/one/ui/index.html", "<!doctype html><title>One</title>"),
    ] {
        write(&folder, name, content);
    }
    for (extensions, links) in
        [(json!({ "io.modelcontextprotocol/ui": {} }), true), (json!({}), false)]
    {
        let mut client = PipeClient::new(open(&folder).server());
        let params = json!({ "protocolVersion": LAST, "capabilities": { "extensions": extensions },
            "clientInfo": { "name": "t", "version": "1" } });
        client.ask(request(0, "initialize", params)).await;
        client.send(notification("notifications/initialized", json!({}))).await;
        let tools = client.ask(request(1, "tools/list", json!({}))).await;
        let page = &tools["result"]["tools"][0]["_meta"]["ui"]["resourceUri"];
        assert!(page.is_string(), "{tools}");
        let done = result(&mut client, "one", json!({})).await;
        let linked = &done["_meta"]["ui"]["resourceUri"];
        assert_eq!(linked.is_string(), links, "{done}");
        assert!(!links || linked == page, "{done}");
    }
}

#[tokio::test]
async fn roots_are_asked_for_again_when_they_changed() {
    let folder = Folder::new("roots-again");
    write(&folder, PROJECT.0, PROJECT.1);
    write(&folder, "tools/one/tool.sh", "echo \"$MCP_ROOTS_PATHS\"");
    write(&folder, "tools/one/tool.meta.json", r#"{"name":"one"}"#);
    write(&folder, "first/x", "");
    write(&folder, "second/x", "");
    let root = folder.0.canonicalize().expect("it is there");
    let mut client = PipeClient::new(open(&folder).server());
    let params = json!({ "protocolVersion": LAST,
        "capabilities": { "roots": { "listChanged": true } }, "clientInfo": { "name": "t", "version": "1" } });
    client.ask(request(0, "initialize", params)).await;
    client.send(notification("notifications/initialized", json!({}))).await;
    for (number, name) in [(1, "first"), (2, "second")] {
        client.send(request(number, "tools/call", call("one", json!({})))).await;
        let asked = client.next().await;
        assert_eq!(asked["method"], "roots/list", "{asked}");
        let path = root.join(name);
        let roots = json!({ "roots": [{ "uri": format!("file://{}", path.display()) }] });
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": roots })).await;
        let told = client.next().await;
        assert_eq!(text(&told["result"]).trim(), path.to_string_lossy(), "{told}");
        client.send(notification("notifications/roots/list_changed", json!({}))).await;
    }
}

#[tokio::test]
async fn a_subscription_may_come_before_its_resource() {
    let folder = Folder::new("subscribed-early");
    let mut client = serve(&folder, &[PROJECT, ("resources/a.txt", "a")]).await;
    let listed = client.ask(request(1, "resources/list", json!({}))).await;
    let uri =
        listed["result"]["resources"][0]["uri"].as_str().expect("a URI").replace("a.txt", "b.txt");
    let subscribed = client.ask(request(2, "resources/subscribe", json!({ "uri": uri }))).await;
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    write(&folder, "resources/b.txt", "b");
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/resources/list_changed", "{told}");
    write(&folder, "resources/b.txt", "other");
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    assert_eq!(told["params"]["uri"], uri, "{told}");
}

#[tokio::test]
async fn completions_have_no_pages_and_are_not_offered_in_vain() {
    let folder = Folder::new("completion-pages");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("prompts/p.txt", "Say {{word}}."),
            ("prompts/p.completion", "word: one\nword: two\n"),
        ],
    )
    .await;
    let ask = |reference: Value| {
        request(
            1,
            "completion/complete",
            json!({ "ref": reference, "argument": { "name": "word", "value": "" },
            "limit": 1, "cursor": "broken" }),
        )
    };
    let known = client.ask(ask(json!({ "type": "ref/prompt", "name": "p" }))).await;
    // Neither counts: the protocol has no pages here.
    assert!(known["result"]["completion"].get("nextCursor").is_none(), "{known}");
    let folder = Folder::new("completion-none");
    let mut client = serve(&folder, &[PROJECT, ("prompts/p.txt", "Say {{word}}.")]).await;
    let none = client.ask(ask(json!({ "type": "ref/prompt", "name": "p" }))).await;
    assert_eq!(none["error"]["code"], -32601, "{none}");
}

#[tokio::test]
async fn a_prompt_keeps_all_of_its_name() {
    let folder = Folder::new("prompt-names");
    let mut client = serve(&folder, &[PROJECT, ("prompts/manual.prompt.txt", "Say it.")]).await;
    assert_eq!(names(&mut client, "prompts/list", "prompts").await, ["manual.prompt"]);
    let folder = Folder::new("prompt-names-own");
    let mut client = serve(&folder, &[("prompts/manual.prompt.txt", "Say it.")]).await;
    assert_eq!(names(&mut client, "prompts/list", "prompts").await, ["manual"]);
}
