//! What mcp-bash gets wrong is right here, one test for each; and what it promises is kept.
//! `docs/mcp-bash.md` has the list.

use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};
use zcp_scripts::Scripts;
use zcp_tests::{
    all_capabilities, call,
    folder::Folder,
    initialize, notification,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, running, serve, until, write},
    text,
};

/// What makes a folder a project of mcp-bash.
const PROJECT: (&str, &str) =
    ("server.d/server.meta.json", r#"{"name":"project","title":"A Project"}"#);

fn tool<'a>(script: &'a str, meta: &'a str) -> [(&'a str, &'a str); 3] {
    [PROJECT, ("tools/one/tool.sh", script), ("tools/one/tool.meta.json", meta)]
}

async fn list(client: &mut PipeClient, method: &str, member: &str) -> Vec<Value> {
    let answer = client.ask(request(3, method, json!({}))).await;
    answer["result"][member].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

async fn read(client: &mut PipeClient, uri: &str) -> Value {
    client.ask(request(4, "resources/read", json!({ "uri": uri }))).await
}

/// A client with a folder's variables of its own.
async fn with_env(folder: &Folder, env: &[(&str, &str)]) -> PipeClient {
    let scripts =
        env.iter().fold(Scripts::folder(&folder.0), |all, (name, value)| all.env(*name, *value));
    let mut client = PipeClient::new(scripts.open().expect("it opens").server());
    let mut open = initialize(0, LAST);
    let secret = env.iter().find(|(name, _)| *name == "MCPBASH_REMOTE_TOKEN");
    open["params"]["_meta"] = json!({ "remoteToken": secret.map(|(_, secret)| secret) });
    let opened = client.ask(open).await;
    assert_eq!(opened["result"]["protocolVersion"], LAST, "{opened}");
    client
}

#[tokio::test]
async fn d1_a_failure_reaches_the_model() {
    let folder = Folder::new("d1");
    let mut client = serve(&folder, &tool("echo no >&2; exit 2", r#"{"name":"one"}"#)).await;
    let failed = result(&mut client, "one", json!({})).await;
    assert_eq!((&failed["isError"], &failed["_meta"]["exitCode"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn d2_progress_and_logs_come_before_the_answer_each_once() {
    let folder = Folder::new("d2");
    let script = "source \"$MCP_SDK/tool-sdk.sh\"\nmcp_progress 10 begun\nmcp_log_info here hello\nsleep 0.3\nmcp_progress 90 nearly\nmcp_emit_text done";
    let mut client = serve(&folder, &tool(script, r#"{"name":"one"}"#)).await;
    let mut params = call("one", json!({}));
    params["_meta"] = json!({ "progressToken": "1" });
    let said = client.exchange(request(1, "tools/call", params)).await;
    let methods: Vec<_> =
        said.iter().map(|one| one["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(
        methods,
        ["notifications/progress", "notifications/message", "notifications/progress", "answer"]
    );
    // A token stays what it was, and a total that is not known is not there.
    assert_eq!(said[0]["params"]["progressToken"], "1");
    assert_eq!(said[0]["params"].get("total"), None);
}

#[tokio::test]
async fn d3_a_call_does_not_last_for_ever() {
    let folder = Folder::new("d3");
    tool("sleep 4740", r#"{"name":"one"}"#)
        .iter()
        .for_each(|(name, text)| write(&folder, name, text));
    let mut client = with_env(&folder, &[("MCPBASH_DEFAULT_TOOL_TIMEOUT", "1")]).await;
    let late = result(&mut client, "one", json!({})).await;
    assert_eq!(late["structuredContent"]["error"]["type"], "timeout");
}

#[tokio::test]
async fn d4_a_tool_reads_nothing_of_the_client() {
    let folder = Folder::new("d4");
    let mut client =
        serve(&folder, &tool("read -r line; echo \"got:$line\"", r#"{"name":"one"}"#)).await;
    client.send(request(1, "tools/call", call("one", json!({})))).await;
    client.send(request(2, "ping", json!({}))).await;
    let answers = [client.next().await, client.next().await];
    assert!(answers.iter().any(|answer| answer["id"] == 2 && answer["result"] == json!({})));
    let called = answers.iter().find(|answer| answer["id"] == 1).expect("an answer");
    assert_eq!(text(&called["result"]), "got:\n");
}

#[tokio::test]
async fn d5_subscriptions_are_by_address() {
    let folder = Folder::new("d5");
    let mut client = serve(&folder, &[PROJECT, ("resources/a.txt", "a")]).await;
    let uri = list(&mut client, "resources/list", "resources").await[0]["uri"].clone();
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(
            client.ask(request(1, method, json!({ "uri": uri }))).await["result"],
            json!({})
        );
    }
}

#[tokio::test]
async fn d6_unknown_revisions_are_answered_and_pings_always() {
    let folder = Folder::new("d6");
    tool("true", r#"{"name":"one"}"#).iter().for_each(|(name, text)| write(&folder, name, text));
    let mut client = PipeClient::new(open(&folder).server());
    assert_eq!(client.ask(request(0, "ping", json!({}))).await["result"], json!({}));
    assert_eq!(client.ask(initialize(1, "1999-01-01")).await["result"]["protocolVersion"], LAST);
}

#[tokio::test]
async fn d7_files_are_read_as_they_are() {
    let folder = Folder::new("d7");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("resources/a b.md", "# A\n\n"),
            ("resources/c.txt", "{}\n"),
            ("resources/c.meta.json", r#"{"mimeType":"application/x-own"}"#),
        ],
    )
    .await;
    for one in list(&mut client, "resources/list", "resources").await {
        let answer = read(&mut client, one["uri"].as_str().expect("a uri")).await;
        let content = &answer["result"]["contents"][0];
        let (wanted, mime) = match one["name"].as_str() {
            Some("a b") => ("# A\n\n", "text/markdown"),
            _ => ("{}\n", "application/x-own"),
        };
        assert_eq!((&content["text"], &content["mimeType"]), (&json!(wanted), &json!(mime)));
    }
}

#[tokio::test]
async fn d8_templates_of_own_schemes_are_read_by_their_providers() {
    let folder = Folder::new("d8");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("providers/my.sh", "#!/bin/sh\necho \"read $1\""),
            ("providers/other.sh", "#!/bin/sh\necho \"other $1\""),
            ("resources/t.meta.json", r#"{"name":"t","uriTemplate":"my://t/{id}"}"#),
            (
                "resources/u.meta.json",
                r#"{"name":"u","uriTemplate":"your://u/{id}","provider":"other"}"#,
            ),
        ],
    )
    .await;
    let answer = read(&mut client, "my://t/5").await;
    assert_eq!(answer["result"]["contents"][0]["text"], "read my://t/5\n");
    let answer = read(&mut client, "your://u/6").await;
    assert_eq!(answer["result"]["contents"][0]["text"], "other your://u/6\n", "{answer}");
}

#[tokio::test]
async fn d9_one_name_twice_leaves_the_rest_and_notes_are_no_resources() {
    let folder = Folder::new("d9");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("resources/x/same.txt", "1"),
            ("resources/y/same.txt", "2"),
            ("resources/x/README.md", "note"),
            ("resources/y/README.md", "note"),
            ("prompts/README.md", "note"),
            ("prompts/p.txt", "Hi"),
        ],
    )
    .await;
    assert_eq!(list(&mut client, "resources/list", "resources").await.len(), 2);
    assert_eq!(list(&mut client, "prompts/list", "prompts").await.len(), 1);
}

#[tokio::test]
async fn d10_names_are_told_apart_and_helpers_are_no_tools() {
    let folder = Folder::new("d10");
    for (name, script) in [("a", "echo a"), ("b", "echo b")] {
        write(&folder, &format!("tools/{name}/tool.sh"), script);
        write(&folder, &format!("tools/{name}/tool.meta.json"), r#"{"name":"same"}"#);
    }
    write(&folder, "tools/a/helper.sh", "#!/bin/sh\necho no tool");
    write(&folder, PROJECT.0, PROJECT.1);
    let scripts = open(&folder);
    assert!(scripts.mistakes().borrow().iter().any(|mistake| mistake.contains("`same`")));
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(list(&mut client, "tools/list", "tools").await.len(), 1);
}

#[tokio::test]
async fn d11_and_d12_lists_say_what_the_protocol_says_and_titles_stay() {
    let folder = Folder::new("d11");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("tools/one/tool.sh", "source \"$MCP_SDK/tool-sdk.sh\"; mcp_emit_text hi"),
            ("tools/one/tool.meta.json", r#"{"name":"one","title":"One","description":"x","timeoutSecs":5,"annotations":{"readOnlyHint":true}}"#),
            ("resources/r.txt", "r"),
            ("resources/r.meta.json", r#"{"name":"r","title":"R","uri":"r://r","provider":"file"}"#),
            ("prompts/p.txt", "Hello {{who}}"),
            ("prompts/p.meta.json", r#"{"name":"p","title":"P","role":"user","metadata":null,"arguments":{"type":"object","properties":{"who":{"type":"string"}}}}"#),
        ],
    )
    .await;
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let tool = &list(&mut client, "tools/list", "tools").await[0];
    assert_eq!(keys(tool), ["name", "title", "description", "inputSchema", "annotations"]);
    let resource = &list(&mut client, "resources/list", "resources").await[0];
    assert_eq!(keys(resource), ["uri", "name", "title", "mimeType", "size"]);
    let prompt = &list(&mut client, "prompts/list", "prompts").await[0];
    assert_eq!(keys(prompt), ["name", "title", "arguments"]);
    assert_eq!(
        (&tool["title"], &resource["title"], &prompt["title"]),
        (&json!("One"), &json!("R"), &json!("P"))
    );
    assert_eq!(keys(&result(&mut client, "one", json!({})).await), ["content", "_meta"]);
    let got = client
        .ask(request(5, "prompts/get", json!({ "name": "p", "arguments": { "who": "you" } })))
        .await;
    assert_eq!(keys(&got["result"]), ["messages"]);
}

#[tokio::test]
async fn d13_output_schemas_are_for_success_and_are_held_to() {
    let folder = Folder::new("d13");
    let meta = r#"{"name":"one","outputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}}"#;
    let script = "source \"$MCP_SDK/tool-sdk.sh\"\ncase \"$(mcp_args_get '.how')\" in bad) echo '{\"n\":0}' ;; fail) mcp_error not_found 'No such thing' ;; list) echo '[1]' ;; *) echo '{\"n\":1}' ;; esac";
    let mut client = serve(&folder, &tool(script, meta)).await;
    let mut how = async |how: &str| result(&mut client, "one", json!({ "how": how })).await;
    assert_eq!(how("good").await["structuredContent"], json!({ "n": 1 }));
    let failed = how("fail").await;
    assert!(failed["isError"] == true && failed.to_string().contains("No such thing"), "{failed}");
    let bad = how("bad").await;
    assert!(bad["isError"] == true && text(&bad).contains("schema"), "{bad}");
    assert_eq!(how("list").await["isError"], true);
}

#[tokio::test]
async fn d14_prompts_want_what_they_need_and_take_lines() {
    let folder = Folder::new("d14");
    let meta = r#"{"name":"p","arguments":{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}}"#;
    let mut client = serve(
        &folder,
        &[PROJECT, ("prompts/p.txt", "See {{code}}"), ("prompts/p.meta.json", meta)],
    )
    .await;
    let missing = client.ask(request(1, "prompts/get", json!({ "name": "p" }))).await;
    assert_eq!(missing["error"]["code"], -32602);
    let got = client
        .ask(request(2, "prompts/get", json!({ "name": "p", "arguments": { "code": "a\nb" } })))
        .await;
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "See a\nb");
}

#[tokio::test]
async fn d15_nothing_is_made_up_as_a_completion() {
    let folder = Folder::new("d15");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("prompts/p.txt", "{{a}}"),
            ("prompts/q.txt", "{{a}}"),
            ("prompts/q.completion.sh", "#!/bin/sh\necho '[\"x\"]'"),
        ],
    )
    .await;
    let mut complete = async |name: &str| {
        let params = json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": "a", "value": "q" } });
        client.ask(request(1, "completion/complete", params)).await
    };
    assert_eq!(complete("p").await["result"]["completion"]["values"], json!([]));
    assert_eq!(complete("q").await["result"]["completion"]["values"], json!(["x"]));
    assert_eq!(complete("nobody").await["error"]["code"], -32602);
}

#[tokio::test]
async fn d16_the_secret_stays_with_the_server() {
    let folder = Folder::new("d16");
    tool("env", r#"{"name":"one"}"#).iter().for_each(|(name, text)| write(&folder, name, text));
    let secret = "s".repeat(40);
    let mut client = with_env(
        &folder,
        &[("MCPBASH_REMOTE_TOKEN", &secret), ("MCPBASH_OTHER", "seen"), ("OTHER", "unseen")],
    )
    .await;
    let mut params = call("one", json!({}));
    params["_meta"] = json!({ "mcpbash/remoteToken": secret });
    let shown = client.ask(request(1, "tools/call", params)).await["result"].to_string();
    assert!(
        shown.contains("MCPBASH_OTHER=seen")
            && !shown.contains(&secret)
            && !shown.contains("unseen"),
        "{shown}"
    );
}

#[tokio::test]
async fn d17_tools_know_whether_pages_are_shown() {
    let folder = Folder::new("d17");
    let script = "source \"$MCP_SDK/tool-sdk.sh\"; mcp_client_supports_ui && mcp_emit_text yes || mcp_emit_text no";
    tool(script, r#"{"name":"one"}"#).iter().for_each(|(name, text)| write(&folder, name, text));
    for (extensions, said) in
        [(json!({}), "no"), (json!({ "io.modelcontextprotocol/ui": {} }), "yes")]
    {
        let mut client = PipeClient::new(open(&folder).server());
        let params = json!({ "protocolVersion": LAST, "capabilities": { "extensions": extensions }, "clientInfo": { "name": "t", "version": "1" } });
        client.ask(request(0, "initialize", params)).await;
        assert_eq!(text(&result(&mut client, "one", json!({})).await).trim(), said);
    }
}

#[tokio::test]
async fn d18_a_script_is_run_by_what_its_first_line_says() {
    let folder = Folder::new("d18");
    write(&folder, PROJECT.0, PROJECT.1);
    fs::create_dir_all(folder.0.join("tools/snake")).expect("a folder");
    // Without the permission to be executed.
    fs::write(folder.0.join("tools/snake/tool.py"), "#!/usr/bin/env python3\nprint('python')")
        .expect("written");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    assert_eq!(text(&result(&mut client, "snake", json!({})).await), "python\n");
}

#[tokio::test]
async fn d19_the_projects_variables_are_set_and_a_tool_is_told_before_it_is_killed() {
    let folder = Folder::new("d19");
    let script = "trap 'echo told > told' TERM\necho \"$CITY $MCP_TOOL_NAME\"\n[ -z \"$WAIT\" ] || { sleep 30 & wait; }";
    let meta = r#"{"name":"one","timeoutSecs":1}"#;
    tool(script, meta).iter().for_each(|(name, text)| write(&folder, name, text));
    write(&folder, "server.d/env.sh", "CITY=Oslo\necho noise\n");
    // Its programs run before anybody calls them only where that is allowed.
    let mut client = with_env(&folder, &[]).await;
    assert_eq!(text(&result(&mut client, "one", json!({})).await), " one\n");
    let allowed = ("MCPBASH_ALLOW_PROJECT_HOOKS", "true");
    let mut client = with_env(&folder, &[allowed]).await;
    assert_eq!(text(&result(&mut client, "one", json!({})).await), "Oslo one\n");
    write(&folder, "server.d/env.sh", "CITY=Oslo\nWAIT=1\n");
    let mut client = with_env(&folder, &[allowed]).await;
    let late = result(&mut client, "one", json!({})).await;
    assert_eq!(late["isError"], true, "{late}");
    assert_eq!(fs::read_to_string(folder.0.join("told")).expect("it was told"), "told\n");
}

#[tokio::test]
async fn d19_scripts_see_which_terminal_there_is() {
    let folder = Folder::new("d19-term");
    let script = "printf '%s' \"$TERM\"";
    tool(script, r#"{"name":"one"}"#).iter().for_each(|(name, text)| write(&folder, name, text));
    let mut client = with_env(&folder, &[("TERM", "xterm-256color")]).await;
    assert_eq!(text(&result(&mut client, "one", json!({})).await), "xterm-256color");
}

#[tokio::test]
async fn d20_questions_have_the_shape_of_the_protocol() {
    let folder = Folder::new("d20");
    let script = "source \"$MCP_SDK/tool-sdk.sh\"\nmcp_elicit_titled_multi_choice 'Which?' 'a:Apple' 'b:Bean' >/dev/null\nmcp_elicit_url 'Go there' https://example.com/x >/dev/null\nmcp_emit_text done";
    tool(script, r#"{"name":"one"}"#).iter().for_each(|(name, text)| write(&folder, name, text));
    let mut client = PipeClient::new(open(&folder).server());
    let params = json!({ "protocolVersion": LAST, "capabilities": all_capabilities(), "clientInfo": { "name": "t", "version": "1" } });
    client.ask(request(0, "initialize", params)).await;
    client.send(notification("notifications/initialized", json!({}))).await;
    client.send(request(1, "tools/call", call("one", json!({})))).await;
    let asked = client.next().await;
    let choices = &asked["params"]["requestedSchema"]["properties"]["choices"]["items"]["anyOf"];
    assert_eq!(choices[0], json!({ "const": "a", "title": "Apple" }), "{asked}");
    let answer = json!({ "action": "accept", "content": { "choices": ["a"] } });
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    let visit = client.next().await;
    assert_eq!(
        (&visit["params"]["mode"], &visit["params"]["url"]),
        (&json!("url"), &json!("https://example.com/x"))
    );
    assert!(visit["params"]["elicitationId"].is_string(), "{visit}");
    client
        .send(json!({ "jsonrpc": "2.0", "id": visit["id"], "result": { "action": "accept" } }))
        .await;
    assert_eq!(text(&client.next().await["result"]).trim(), "done");
}

#[tokio::test]
async fn d21_batches_are_answered_as_one_and_neither_calls_nor_cancelling_hold_anybody_up() {
    let folder = Folder::new("d21");
    tool("sleep 4741", r#"{"name":"one"}"#)
        .iter()
        .for_each(|(name, text)| write(&folder, name, text));
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_MAX_CONCURRENT_REQUESTS", "4");
    let mut client =
        PipeClient::open(scripts.open().expect("it opens").server(), "2025-03-26").await;
    client.send(json!([request(1, "ping", json!({})), request(2, "ping", json!({}))])).await;
    assert_eq!(client.next().await.as_array().map(Vec::len), Some(2));
    let pinged = async |client: &mut PipeClient, id: u64| {
        let answer = client.ask(request(id, "ping", json!({})));
        let answer = tokio::time::timeout(Duration::from_millis(900), answer).await;
        assert_eq!(answer.expect("at once")["result"], json!({}));
    };
    // Far more than there are places for.
    for id in 10..40 {
        client.send(request(id, "tools/call", call("one", json!({})))).await;
    }
    until("as many run as may", || running("sleep\x004741") == 4).await;
    pinged(&mut client, 50).await;
    // Who waits is cancelled as quickly as who runs.
    for id in 10..40 {
        client.send(notification("notifications/cancelled", json!({ "requestId": id }))).await;
    }
    pinged(&mut client, 51).await;
    until("they are gone", || running("sleep\x004741") == 0).await;
}

#[tokio::test]
async fn d22_changes_are_told_at_once_and_only_then() {
    let folder = Folder::new("d22");
    let mut client = serve(&folder, &tool("true", r#"{"name":"one"}"#)).await;
    client.silent(Duration::from_millis(700)).await;
    write(&folder, "tools/two/tool.sh", "echo two");
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(text(&result(&mut client, "two", json!({})).await), "two\n");
}

#[tokio::test]
async fn long_arguments_come_in_a_file() {
    let folder = Folder::new("long-arguments");
    let script = "echo \"${#MCP_TOOL_ARGS_JSON} $(wc -c < \"${MCP_TOOL_ARGS_FILE:-/dev/null}\")\"\n# MCP_TOOL_";
    let mut client = serve(&folder, &tool(script, r#"{"name":"one"}"#)).await;
    assert_eq!(text(&result(&mut client, "one", json!({ "a": "x" })).await).trim(), "9 0");
    let long = result(&mut client, "one", json!({ "a": "x".repeat(70_000) })).await;
    assert_eq!(text(&long).trim(), "0 70008");
}

#[tokio::test]
async fn a_list_of_what_is_registered_is_taken_at_its_word() {
    let folder = Folder::new("registered");
    write(&folder, "tools/a/tool.sh", "echo a");
    write(&folder, "tools/b.sh", "echo b");
    write(&folder, "resources/r.txt", "r");
    let register = |text: &str| {
        write(&folder, "server.d/register.json", text);
        let scripts = open(&folder);
        let mistakes = scripts.mistakes().borrow().join("; ");
        (PipeClient::open(scripts.server(), LAST), mistakes)
    };
    // What is not named is found; an empty list is empty.
    let (client, mistakes) = register(
        r#"{"version":1,"tools":[{"name":"only","path":"b.sh"}],"resources":null,"prompts":[]}"#,
    );
    assert_eq!(mistakes, "");
    let mut client = client.await;
    let tools = list(&mut client, "tools/list", "tools").await;
    assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("only")));
    assert_eq!(list(&mut client, "resources/list", "resources").await.len(), 1);
    let (client, _) = register(r#"{"version":1,"tools":[]}"#);
    assert_eq!(list(&mut client.await, "tools/list", "tools").await.len(), 0);
    for (wrong, why) in [
        (r#"{"version":2}"#, "version"),
        (r#"{"version":1,"toolz":[]}"#, "toolz"),
        (r#"{"version":1,"tools":{}}"#, "list"),
        ("\u{feff}{\"version\":1}", "byte order mark"),
        ("{", "register.json"),
    ] {
        let (client, mistakes) = register(wrong);
        assert!(mistakes.contains(why), "{wrong}: {mistakes}");
        // Nothing appears that the list would have hidden.
        assert_eq!(list(&mut client.await, "tools/list", "tools").await.len(), 0);
    }
    let path = folder.0.join("server.d/register.json");
    write(&folder, "server.d/register.json", r#"{"version":1}"#);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .expect("it is ours");
    assert!(open(&folder).mistakes().borrow().join("; ").contains("chmod go-w"));
}

#[tokio::test]
async fn a_list_that_is_too_long_or_a_link_registers_nothing_and_nobody_stands_in_for_it() {
    let folder = Folder::new("registered-not");
    write(&folder, "tools/a/tool.sh", "echo a");
    let hook = "#!/bin/bash\nmcp_register_tool '{\"name\":\"hooked\",\"path\":\"a/tool.sh\"}'\n";
    write(&folder, "server.d/register.sh", hook);
    let hooks = ("MCPBASH_ALLOW_PROJECT_HOOKS", "true");
    let refused = async |env: &[(&str, &str)], why: &str| {
        let scripts = env.iter().chain([&hooks]);
        let scripts =
            scripts.fold(Scripts::folder(&folder.0), |all, (name, value)| all.env(*name, *value));
        let scripts = scripts.open().expect("it opens");
        let mistakes = scripts.mistakes().borrow().join("; ");
        assert!(mistakes.contains(why), "{why}: {mistakes}");
        let mut client = PipeClient::open(scripts.server(), LAST).await;
        assert_eq!(list(&mut client, "tools/list", "tools").await.len(), 0, "{why}");
    };
    let long = |length: usize| {
        let space = " ".repeat(length - r#"{"version":1}"#.len());
        write(&folder, "server.d/register.json", &format!(r#"{{"version":1{space}}}"#));
    };
    long(1024 * 1024 + 1);
    refused(&[], "bytes, and may have 1048576").await;
    long(1024 * 1024);
    refused(&[("MCPBASH_MAX_MANUAL_REGISTRY_BYTES", "1000")], "may have 1000").await;
    let mut client = with_env(&folder, &[hooks]).await;
    assert_eq!(list(&mut client, "tools/list", "tools").await[0]["name"], "a");
    let path = folder.0.join("server.d/register.json");
    fs::rename(&path, folder.0.join("elsewhere.json")).expect("it is ours");
    std::os::unix::fs::symlink(folder.0.join("elsewhere.json"), &path).expect("a link");
    refused(&[], "it is a link").await;
    fs::remove_file(&path).expect("it is ours");
    fs::write(&path, r#"{"version":1}"#).expect("it is ours");
    // Whoever may be anybody can give a file away.
    if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
        refused(&[], "it belongs to somebody else").await;
    }
}

#[tokio::test]
async fn templates_that_are_registered_stand_beside_those_that_are_found_and_go_before_them() {
    let folder = Folder::new("registered-templates");
    let template = |name: &str, uri: &str| format!(r#"{{"name":"{name}","uriTemplate":"{uri}"}}"#);
    let register = format!(
        r#"{{"version":1,"resourceTemplates":[{},{}]}}"#,
        template("both", "registered://both/{id}"),
        template("new", "registered://new/{id}")
    );
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("server.d/register.json", &register),
            ("resources/both.meta.json", &template("both", "found://both/{id}")),
            ("resources/old.meta.json", &template("old", "found://old/{id}")),
        ],
    )
    .await;
    let all = list(&mut client, "resources/templates/list", "resourceTemplates").await;
    let mut uris: Vec<_> = all.iter().filter_map(|one| one["uriTemplate"].as_str()).collect();
    uris.sort_unstable();
    assert_eq!(uris, ["found://old/{id}", "registered://both/{id}", "registered://new/{id}"]);
}

#[tokio::test]
async fn a_confined_tool_keeps_its_contract() {
    let folder = Folder::new("confined");
    let script = "source \"$MCP_SDK/tool-sdk.sh\"\necho x > new.txt 2>/dev/null && mcp_fail -32000 'it wrote'\nmcp_fail -32055 \"$(mcp_args_get '.why')\"";
    let mut client = serve(&folder, &tool(script, r#"{"name":"one","sandbox":true}"#)).await;
    let failed = client.ask(request(1, "tools/call", call("one", json!({ "why": "told" })))).await;
    assert_eq!(failed["error"], json!({ "code": -32055, "message": "told" }));
}

const POLICY: &str = "mcp_tools_policy_check() {\n  echo checked\n  case \"$1\" in\n  odd) mcp_tools_error -32011 'Not on odd days' '{\"day\":3}'; return 1 ;;\n  plain) return 1 ;;\n  torn) exit 0 ;;\n  slow) sleep 4742 ;;\n  meta) [ \"$(printf '%s' \"$2\" | \"$MCPBASH_JSON_TOOL_BIN\" -r .annotations.readOnlyHint)\" = true ] ;;\n  esac\n}\n";

fn many(folder: &Folder, names: &[&str]) {
    write(folder, PROJECT.0, PROJECT.1);
    for name in names {
        write(folder, &format!("tools/{name}/tool.sh"), "echo ran >> ran; echo ran");
        let meta = r#"{"annotations":{"readOnlyHint":true}}"#;
        write(folder, &format!("tools/{name}/tool.meta.json"), meta);
    }
}

#[tokio::test]
async fn a_program_of_the_project_decides_what_may_be_called() {
    let folder = Folder::new("policy-sh");
    many(&folder, &["fine", "odd", "plain", "torn", "meta"]);
    write(&folder, "server.d/policy.sh", POLICY);
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    for name in ["fine", "meta"] {
        assert_eq!(text(&result(&mut client, name, json!({})).await), "ran\n", "{name}");
    }
    let odd = client.ask(request(1, "tools/call", call("odd", json!({})))).await;
    let error = json!({ "code": -32011, "message": "Not on odd days", "data": { "day": 3 } });
    assert_eq!(odd["error"], error);
    // Without an error of its own, the model is told.
    let plain = result(&mut client, "plain", json!({})).await;
    assert!(plain["isError"] == true && text(&plain).contains("blocked by policy"), "{plain}");
    // One that ends before it has decided has allowed nothing.
    let torn = client.ask(request(2, "tools/call", call("torn", json!({})))).await;
    assert!(torn.get("error").is_some(), "{torn}");
    let runs = fs::read_to_string(folder.0.join("ran")).expect("some ran");
    assert_eq!(runs.lines().count(), 2);
}

#[tokio::test]
async fn a_program_that_takes_too_long_to_decide_allows_nothing() {
    let folder = Folder::new("policy-slow");
    many(&folder, &["slow"]);
    write(&folder, "server.d/policy.sh", POLICY);
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    client.send(request(1, "tools/call", call("slow", json!({})))).await;
    let answer = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            // A client waits ten seconds for a message, which is as long as the program has.
            client.send(request(2, "ping", json!({}))).await;
            let message = client.next().await;
            if message["id"] == 1 {
                return message;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let answer = answer.await.expect("it is decided in time");
    assert!(text(&answer["result"]).contains("did not decide"), "{answer}");
    assert!(!folder.0.join("ran").exists());
    until("the program has ended", || running("sleep\x004742") == 0).await;
}

#[tokio::test]
async fn a_program_others_could_write_closes_the_project() {
    let folder = Folder::new("policy-unsafe");
    many(&folder, &["fine"]);
    write(&folder, "server.d/policy.sh", POLICY);
    let path = folder.0.join("server.d/policy.sh");
    let closed = async |why: &str| {
        let scripts = open(&folder);
        let mistakes = scripts.mistakes().borrow().join("; ");
        assert!(mistakes.contains(why) && mistakes.contains("no tool can be called"), "{mistakes}");
        let mut client = PipeClient::open(scripts.server(), LAST).await;
        assert_eq!(list(&mut client, "tools/list", "tools").await.len(), 0);
        let refused = client.ask(request(1, "tools/call", call("fine", json!({})))).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    };
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o646))
        .expect("it is ours");
    closed("chmod go-w").await;
    fs::rename(&path, folder.0.join("elsewhere.sh")).expect("it is ours");
    std::os::unix::fs::symlink(folder.0.join("elsewhere.sh"), &path).expect("a link");
    closed("it is a link").await;
}

#[tokio::test]
async fn d16_a_program_does_not_remove_the_list_of_what_is_allowed() {
    let folder = Folder::new("allowlist");
    many(&folder, &["one", "two", "odd"]);
    write(&folder, "server.d/policy.sh", POLICY);
    for (env, tools) in [
        (vec![("MCPBASH_TOOL_ALLOWLIST", "one,odd")], vec!["odd", "one"]),
        (vec![("MCPBASH_TOOL_ALLOWLIST", "*")], vec!["odd", "one", "two"]),
        (vec![("MCPBASH_TOOL_ALLOW_DEFAULT", "deny")], vec![]),
        (
            vec![("MCPBASH_TOOL_ALLOWLIST", "one"), ("MCPBASH_TOOL_ALLOW_DEFAULT", "allow")],
            vec!["odd", "one", "two"],
        ),
        (vec![], vec!["odd", "one", "two"]),
    ] {
        let mut client = with_env(&folder, &env).await;
        let listed = list(&mut client, "tools/list", "tools").await;
        let names: Vec<_> = listed.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, tools, "{env:?}");
        for name in ["one", "two", "odd"] {
            let answer = client.ask(request(1, "tools/call", call(name, json!({})))).await;
            let is_run = text(&answer["result"]) == "ran\n";
            assert_eq!(is_run, name != "odd" && tools.contains(&name), "{env:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_secret_that_is_set_must_be_shown() {
    let folder = Folder::new("remote-token");
    many(&folder, &["one"]);
    let secret = "t".repeat(32);
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_REMOTE_TOKEN", &secret).open();
    let mut stranger = PipeClient::new(scripts.expect("it opens").server());
    let refused = stranger.ask(initialize(0, LAST)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let mut client = with_env(&folder, &[("MCPBASH_REMOTE_TOKEN", &secret)]).await;
    for (meta, is_right) in [
        (json!({}), false),
        (json!({ "mcpbash/remoteToken": "t".repeat(31) }), false),
        (json!({ "mcpbash/remoteToken": secret }), true),
        (json!({ "remoteToken": secret }), true),
    ] {
        for (method, mut params) in
            [("tools/call", call("one", json!({}))), ("tools/list", json!({}))]
        {
            params["_meta"] = meta.clone();
            let answer = client.ask(request(1, method, params)).await;
            let code = (!is_right).then_some(-32602);
            assert_eq!(answer["error"]["code"].as_i64(), code, "{meta}: {answer}");
        }
    }
    let weak = Scripts::folder(&folder.0).env("MCPBASH_REMOTE_TOKEN", "short").open();
    assert!(weak.expect_err("it is weak").to_string().contains("32 characters"));
}

#[tokio::test]
async fn registering_does_not_take_for_ever() {
    let folder = Folder::new("register-slow");
    many(&folder, &["one"]);
    write(&folder, "server.d/register.sh", "#!/bin/bash\nsleep 4743 & sleep 4743\n");
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_ALLOW_PROJECT_HOOKS", "true");
    let scripts = scripts.open().expect("it opens");
    let mistakes = scripts.mistakes().borrow().join("; ");
    assert!(mistakes.contains("longer than 10 s"), "{mistakes}");
    until("it has ended", || running("sleep\x004743") == 0).await;
    // And one that is quick is heard.
    let hook = "#!/bin/bash\nmcp_register_tool '{\"name\":\"quick\",\"path\":\"one/tool.sh\"}'\n";
    write(&folder, "server.d/register.sh", hook);
    let mut client = with_env(&folder, &[("MCPBASH_ALLOW_PROJECT_HOOKS", "true")]).await;
    assert_eq!(list(&mut client, "tools/list", "tools").await[0]["name"], "quick");
}

#[tokio::test]
async fn limits_and_totals_of_lists_are_tolerated() {
    let folder = Folder::new("limit");
    many(&folder, &["one", "two"]);
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    let answer = client.ask(request(1, "tools/list", json!({ "limit": 1 }))).await;
    assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(2), "{answer}");
}

/// Starts the command as a client would, and says hello: what it answers and complains of.
async fn hello(words: &[&str], folder: &Path, env: &[(&str, &str)]) -> (Value, String) {
    let mut server = tokio::process::Command::new(zcp_tests::examples::zcp())
        .args(["serve", "--stdio"])
        .args(words)
        .current_dir(folder)
        .env_remove("MCPBASH_PROJECT_ROOT")
        .envs(env.iter().copied())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let mut input = server.stdin.take().expect("an input");
    let asked = format!("{}\n", zcp_tests::initialize(1, LAST));
    // One that does not start does not read either.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut input, asked.as_bytes()).await;
    drop(input);
    let said = tokio::time::timeout(Duration::from_secs(10), server.wait_with_output());
    let said = said.await.expect("it ends").expect("it ran");
    let answer = serde_json::from_slice(&said.stdout).unwrap_or_default();
    (answer, String::from_utf8_lossy(&said.stderr).into_owned())
}

#[tokio::test]
async fn an_empty_folder_is_served_and_says_how_to_begin() {
    let folder = Folder::new("empty");
    let (answer, warned) = hello(&["."], &folder.0, &[]).await;
    assert_eq!(answer["result"]["protocolVersion"], LAST);
    assert!(warned.contains("nothing to offer yet") && warned.contains("zcp new"), "{warned}");
}

#[tokio::test]
async fn a_project_is_found_by_its_variable_or_from_below() {
    let folder = Folder::new("root-detection");
    write(&folder, "mine/server.d/server.meta.json", r#"{"name":"mine"}"#);
    write(&folder, "mine/lib/deep/x.sh", "");
    write(&folder, "other/zcp.toml", "[server]\nname = \"other\"\n");
    write(&folder, "plain/tools/one.sh", "#!/bin/sh\necho one");
    let other = folder.0.join("other");
    let named = ("MCPBASH_PROJECT_ROOT", other.to_str().expect("text"));
    for (words, here, env, name) in [
        (vec![], "mine", vec![], "mine"),
        (vec![], "mine/lib/deep", vec![], "mine"),
        (vec![], "other", vec![], "other"),
        (vec![], "plain", vec![], "plain"),
        // The variable goes before where one stands, and a folder that is named before both.
        (vec![], "mine", vec![named], "other"),
        (vec!["."], "mine", vec![named], "mine"),
        (vec![], "", vec![], "zcp-demo"),
    ] {
        let (answer, complaints) = hello(&words, &folder.0.join(here), &env).await;
        let served = &answer["result"]["serverInfo"]["name"];
        assert_eq!(served, name, "{words:?} in `{here}`: {complaints}");
    }
    let nowhere = ("MCPBASH_PROJECT_ROOT", "/nowhere/at/all");
    let (answer, complaints) = hello(&[], &folder.0, &[nowhere]).await;
    assert!(answer.is_null() && complaints.contains("there is no such folder"), "{complaints}");
}

#[tokio::test]
async fn variables_move_folders_and_what_is_moved_is_followed() {
    let (folder, away) = (Folder::new("moved"), Folder::new("moved-away"));
    write(&folder, "parts/server/server.meta.json", r#"{"name":"moved","version":"7"}"#);
    write(&folder, "parts/server/server.instructions.md", "Be kind.");
    write(&folder, "parts/server/env.sh", "CITY=Oslo\n");
    write(&folder, "parts/prompts/p.txt", "Hi");
    write(&away, "one/tool.sh", "echo \"$CITY\"");
    let scripts = [
        ("MCPBASH_SERVER_DIR", "parts/server"),
        ("MCPBASH_PROMPTS_DIR", "parts/prompts"),
        ("MCPBASH_TOOLS_DIR", away.0.to_str().expect("text")),
        ("MCPBASH_ALLOW_PROJECT_HOOKS", "true"),
    ];
    let scripts = scripts
        .into_iter()
        .fold(Scripts::folder(&folder.0), |all, (name, value)| all.env(name, value));
    let scripts = scripts.open().expect("it opens");
    assert_eq!(scripts.kind(), "a project written for mcp-bash");
    let mut client = PipeClient::new(scripts.server());
    let said = client.ask(initialize(0, LAST)).await["result"].clone();
    assert_eq!(said["serverInfo"]["name"], "moved");
    assert_eq!(
        (&said["serverInfo"]["version"], &said["instructions"]),
        (&json!("7"), &json!("Be kind."))
    );
    client.send(notification("notifications/initialized", json!({}))).await;
    assert_eq!(list(&mut client, "prompts/list", "prompts").await[0]["name"], "p");
    assert_eq!(text(&result(&mut client, "one", json!({})).await), "Oslo\n");
    write(&away, "two/tool.sh", "echo two");
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(text(&result(&mut client, "two", json!({})).await), "two\n");
}

#[tokio::test]
async fn tools_are_in_folders_whatever_those_are_called() {
    let folder = Folder::new("which-tools");
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("tools/common.sh", "# for the others"),
            ("tools/runs.sh", "#!/bin/sh\necho no tool either"),
            ("tools/named.sh", "#!/bin/sh\necho named"),
            ("tools/named.meta.json", r#"{"name":"named"}"#),
            ("tools/test/tool.sh", "echo test"),
            ("tools/ui/tool.sh", "echo ui"),
            ("tools/target/tool.sh", "echo target"),
            ("tools/venv/tool.sh", "echo venv"),
            ("tools/one/one.sh", "echo one"),
            ("tools/one/test/run.sh", "#!/bin/sh\necho no tool"),
            ("tools/env/pyvenv.cfg", "home = /usr/bin"),
            ("tools/env/bin/python.sh", "#!/bin/sh\necho no tool"),
            ("tools/node_modules/x/cli.sh", "#!/bin/sh\necho no tool"),
            ("tools/.git/hooks/commit.sh", "#!/bin/sh\necho no tool"),
            ("resources/test/a.txt", "a"),
            ("skills/s/SKILL.md", "---\nname: s\ndescription: x\n---\nText"),
            ("skills/s/test/case.txt", "case"),
        ],
    )
    .await;
    let tools = list(&mut client, "tools/list", "tools").await;
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["named", "one", "target", "test", "ui", "venv"]);
    let resources = json!(list(&mut client, "resources/list", "resources").await).to_string();
    assert!(resources.contains("resources/test/a.txt"), "{resources}");
    let case = read(&mut client, "skill://s/test/case.txt").await;
    assert_eq!(case["result"]["contents"][0]["text"], "case", "{case}");
}

#[tokio::test]
async fn a_tool_has_every_variable_of_the_contract() {
    let folder = Folder::new("variables");
    let meta = r#"{"name":"one","title":"One","description":"First","timeoutSecs":9,"timeoutHint":"less",
        "progressExtendsTimeout":true,"maxTimeoutSecs":20,"inputSchema":{"type":"object","properties":{"a":{}}},
        "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"https://x.example/i.png"}],
        "_meta":{"own":1}}"#;
    tool("jq -n '{env: env}'", meta).iter().for_each(|(name, text)| write(&folder, name, text));
    let about = r#"{"name":"project","title":"A Project","version":"2","description":"d","websiteUrl":"https://x.example","icons":[{"src":"i.svg"}]}"#;
    write(&folder, PROJECT.0, about);
    write(&folder, "i.svg", "<svg/>");
    write(&folder, "server.d/server.instructions.md", "Be kind.");
    let mut client = with_env(&folder, &[("PATH_OF_OTHERS", "unseen"), ("TERM", "dumb")]).await;
    let answer = result(&mut client, "one", json!({ "a": 1 })).await;
    let env = &answer["structuredContent"]["env"];
    for name in CONTRACT {
        assert!(env.get(name).is_some(), "{name} is missing");
    }
    let json = |name: &str| -> Value {
        serde_json::from_str(env[name].as_str().unwrap_or_default()).unwrap_or_default()
    };
    let mut entry: Value = serde_json::from_str(meta).expect("JSON");
    entry["path"] = json!("one/tool.sh");
    assert_eq!(json("MCP_TOOL_METADATA_JSON"), entry);
    assert_eq!(json("MCP_TOOL_ARGS_JSON"), json!({ "a": 1 }));
    assert_eq!(json("MCPBASH_SERVER_ICONS"), json!([{ "src": "i.svg" }]));
    let root = folder.0.canonicalize().expect("it is there");
    let name = root.file_name().expect("a name").to_string_lossy();
    let wanted =
        json!([{ "uri": format!("file://{}", root.display()), "name": name, "path": root }]);
    assert_eq!(json("MCP_ROOTS_JSON"), wanted);
    assert_eq!((&env["MCP_ROOTS_COUNT"], &env["TERM"]), (&json!("1"), &json!("dumb")));
    assert_eq!(env.get("PATH_OF_OTHERS"), None);
}

/// What a tool is given, whatever it is.
const CONTRACT: [&str; 41] = [
    "PATH",
    "HOME",
    "MCP_SDK",
    "MCP_TOOL_NAME",
    "MCP_TOOL_PATH",
    "MCP_TOOL_ARGS_JSON",
    "MCP_TOOL_ARGS_FILE",
    "MCP_TOOL_METADATA_JSON",
    "MCP_TOOL_METADATA_FILE",
    "MCP_TOOL_META_JSON",
    "MCP_TOOL_META_FILE",
    "MCP_TOOL_ERROR_FILE",
    "MCP_TOOL_RESOURCES_FILE",
    "MCP_PROGRESS_STREAM",
    "MCP_PROGRESS_TOKEN",
    "MCP_LOG_STREAM",
    "MCP_CANCEL_FILE",
    "MCP_ELICIT_SUPPORTED",
    "MCP_ELICIT_REQUEST_FILE",
    "MCP_ELICIT_RESPONSE_FILE",
    "MCP_ROOTS_JSON",
    "MCP_ROOTS_PATHS",
    "MCP_ROOTS_COUNT",
    "MCPBASH_PROJECT_ROOT",
    "MCPBASH_MODE",
    "MCPBASH_JSON_TOOL",
    "MCPBASH_JSON_TOOL_BIN",
    "MCPBASH_FRAMEWORK_VERSION",
    "MCPBASH_SERVER_NAME",
    "MCPBASH_SERVER_TITLE",
    "MCPBASH_SERVER_VERSION",
    "MCPBASH_SERVER_DESCRIPTION",
    "MCPBASH_SERVER_WEBSITE_URL",
    "MCPBASH_SERVER_ICONS",
    "MCPBASH_SERVER_INSTRUCTIONS",
    "MCPBASH_WORKER_KEY",
    "MCPBASH_TRANSPORT",
    "MCPBASH_TOOL_ALLOWLIST",
    "MCPBASH_DEBUG_LOG",
    "MCPBASH_CLIENT_SUPPORTS_UI",
    "TERM",
];

#[tokio::test]
async fn a_client_that_does_not_say_where_it_works_holds_nobody_up() {
    let folder = Folder::new("roots");
    // What wants to know it is far from where the script begins.
    let script = format!("{}\necho \"$MCP_ROOTS_PATHS\"", "# a long story\n".repeat(1000));
    tool(&script, r#"{"name":"one"}"#).iter().for_each(|(name, text)| write(&folder, name, text));
    write(&folder, "work/x", "");
    let root = folder.0.canonicalize().expect("it is there");
    let open = async |wait: &str| {
        let scripts = Scripts::folder(&folder.0).env("MCPBASH_ROOTS_REQUEST_TIMEOUT", wait);
        let mut client = PipeClient::new(scripts.open().expect("it opens").server());
        let params = json!({ "protocolVersion": LAST, "capabilities": { "roots": {} }, "clientInfo": { "name": "t", "version": "1" } });
        client.ask(request(0, "initialize", params)).await;
        client.send(notification("notifications/initialized", json!({}))).await;
        client.send(request(1, "tools/call", call("one", json!({})))).await;
        let asked = client.next().await;
        assert_eq!(asked["method"], "roots/list");
        (client, asked["id"].clone())
    };
    let told = |answer: &Value| text(&answer["result"]).trim().to_owned();
    let (mut client, id) = open("5").await;
    let work = root.join("work");
    let roots = json!({ "roots": [{ "uri": format!("file://{}", work.display()) }] });
    client.send(json!({ "jsonrpc": "2.0", "id": id, "result": roots })).await;
    assert_eq!(told(&client.next().await), work.to_string_lossy());
    let (mut client, id) = open("5").await;
    let error = json!({ "code": -32603, "message": "no idea" });
    client.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    assert_eq!(told(&client.next().await), root.to_string_lossy());
    // And one that never answers.
    let (mut client, _) = open("1").await;
    assert_eq!(told(&client.next().await), root.to_string_lossy());
}

#[tokio::test]
async fn a_completion_knows_what_it_completes_and_says_whether_there_is_more() {
    let folder = Folder::new("completions");
    let shown = r#"{suggestions: [env | to_entries[] | select(.key | test("^MCP_(COMPLETION|PROMPT|RESOURCE)_")) | "\(.key)=\(.value)"]}"#;
    let script = format!(
        "#!/bin/bash\n\"$MCPBASH_JSON_TOOL_BIN\" -n '{shown} + $more' --argjson more \"$(cat more.json)\"\n"
    );
    let mut client = serve(
        &folder,
        &[
            PROJECT,
            ("more.json", "{}"),
            (
                "server.d/register.json",
                r#"{"version":1,"completions":[{"name":"r","path":"c.sh"}]}"#,
            ),
            ("c.sh", &script),
            ("prompts/deep/p.txt", "{{a}}"),
            ("prompts/deep/p.meta.json", r#"{"name":"p","description":"Pi"}"#),
            ("prompts/deep/p.completion.sh", &script),
            ("resources/deep/r.txt", "r"),
            ("resources/deep/r.meta.json", r#"{"name":"r","uri":"file:///r"}"#),
        ],
    )
    .await;
    let mut complete = async |reference: Value| {
        let params = json!({ "ref": reference, "argument": { "name": "a", "value": "q" } });
        let answer = client.ask(request(1, "completion/complete", params)).await;
        let done = answer["result"]["completion"].clone();
        let lines = done["values"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        let all = lines.iter().filter_map(|line| line.as_str()?.split_once('='));
        let all = all.map(|(name, value)| (name.to_owned(), json!(value)));
        (Value::Object(all.collect()), done)
    };
    let prompt = json!({ "type": "ref/prompt", "name": "p" });
    let (env, done) = complete(prompt.clone()).await;
    assert_eq!(done["hasMore"], false);
    assert_eq!(env["MCP_PROMPT_REL_PATH"], "deep/p.txt", "{env}");
    assert_eq!(env["MCP_COMPLETION_ARGS_HASH"].as_str().map(str::len), Some(64));
    assert!(env["MCP_PROMPT_METADATA"].to_string().contains("Pi"), "{env}");
    let (env, _) = complete(json!({ "type": "ref/resource", "uri": "file:///r" })).await;
    assert!(env["MCP_COMPLETION_ARGS_JSON"].to_string().contains("ref/resource"), "{env}");
    for (name, value) in [
        ("MCP_RESOURCE_URI", "file:///r"),
        ("MCP_RESOURCE_REL_PATH", "deep/r.txt"),
        ("MCP_RESOURCE_PROVIDER", "file"),
    ] {
        assert_eq!(env[name], value, "{env}");
    }
    assert!(env["MCP_RESOURCE_METADATA"].is_string(), "{env}");
    for more in [r#"{"hasMore":true}"#, r#"{"next":5}"#, r#"{"cursor":"x"}"#] {
        write(&folder, "more.json", more);
        let (_, done) = complete(prompt.clone()).await;
        assert_eq!((&done["hasMore"], done.get("total")), (&json!(true), None), "{more}");
    }
}

#[tokio::test]
async fn a_provider_sees_what_it_needs_to_get_elsewhere_and_what_it_is_allowed() {
    let folder = Folder::new("provider-env");
    write(&folder, PROJECT.0, PROJECT.1);
    write(&folder, "providers/my.sh", "#!/bin/bash\nenv");
    write(&folder, "resources/r.meta.json", r#"{"name":"r","uri":"my://r"}"#);
    let secret = "s".repeat(40);
    let seen = [
        ("https_proxy", "http://proxy:1"),
        ("NO_PROXY", "here"),
        ("SSH_AUTH_SOCK", "/agent"),
        ("GIT_SSH_COMMAND", "ssh -v"),
        ("SSL_CERT_FILE", "/ca.pem"),
        ("MCP_OWN", "1"),
        ("MCPBASH_GIT_TIMEOUT", "9"),
    ];
    let (list, inherit) = ("MCPBASH_PROVIDER_ENV_ALLOWLIST", "MCPBASH_PROVIDER_ENV_INHERIT_ALLOW");
    for (mode, also, a, b) in [
        ("isolate", (list, "A"), false, false),
        ("allowlist", (list, "A,C"), true, false),
        ("inherit", (inherit, "false"), false, false),
        ("inherit", (inherit, "true"), true, true),
    ] {
        let mut env = seen.to_vec();
        env.extend([("A", "seen"), ("B", "seen"), ("MCPBASH_REMOTE_TOKEN", &secret), also]);
        env.push(("MCPBASH_PROVIDER_ENV_MODE", mode));
        let mut client = with_env(&folder, &env).await;
        let params = json!({ "uri": "my://r", "_meta": { "remoteToken": secret } });
        let answer = client.ask(request(1, "resources/read", params)).await;
        let text = answer["result"]["contents"][0]["text"].as_str().unwrap_or_default().to_owned();
        let has = |line: String| text.lines().any(|one| one == line);
        for (name, value) in seen {
            assert!(has(format!("{name}={value}")), "{mode}, {name}: {answer}");
        }
        assert!(text.contains("MCPBASH_HOME=/") && !text.contains(&secret), "{text}");
        assert_eq!((has("A=seen".into()), has("B=seen".into())), (a, b), "{mode}");
    }
}

#[tokio::test]
async fn the_largest_resource_is_as_large_as_the_variable_says() {
    let folder = Folder::new("largest");
    write(&folder, PROJECT.0, PROJECT.1);
    write(&folder, "resources/a.txt", "12345678");
    write(&folder, "providers/my.sh", "#!/bin/bash\nprintf 12345678");
    write(&folder, "resources/r.meta.json", r#"{"name":"r","uri":"my://r"}"#);
    for (most, is_read) in [("8", true), ("7", false)] {
        let mut client = with_env(&folder, &[("MCPBASH_MAX_RESOURCE_BYTES", most)]).await;
        for one in list(&mut client, "resources/list", "resources").await {
            let answer = read(&mut client, one["uri"].as_str().expect("a uri")).await;
            assert_eq!(answer.get("result").is_some(), is_read, "{answer}");
        }
    }
}
