//! `zcp install` for several clients at once, and of servers that are no folders.

use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use zcp_tests::{examples::zcp, folder::Folder};

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(zcp());
    command.args(words).current_dir(folder).env("HOME", folder.join("home")).stdin(Stdio::null());
    for variable in ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
        command.env_remove(variable);
    }
    command.output().expect("the command runs")
}

fn user(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir_all(folder.0.join("kit/tools")).expect("it can be made");
    fs::write(folder.0.join("kit/tools/a.sh"), "# Says a.\necho a\n").expect("it can be written");
    fs::create_dir_all(folder.0.join("home/.cursor")).expect("it can be made");
    fs::create_dir_all(folder.0.join("home/.codex")).expect("it can be made");
    folder
}

fn cursor(folder: &Folder) -> Value {
    let text = fs::read_to_string(folder.0.join("home/.cursor/mcp.json")).expect("it is there");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn several_clients_get_a_server_at_once() {
    for (name, clients) in [("named", &["cursor", "codex"][..]), ("all", &["all"])] {
        let folder = user(&format!("many-{name}"));
        let words = [&["install"], clients, &["./kit", "--json"]].concat();
        let done = run(&folder.0, &words);
        assert!(done.status.success(), "{done:?}");
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let clients: Vec<_> =
            told.as_array().expect("one for each").iter().map(|one| &one["client"]).collect();
        assert_eq!(clients, ["cursor", "codex"], "{told}");
        assert!(cursor(&folder)["mcpServers"]["kit"]["command"].is_string());
        let codex = fs::read_to_string(folder.0.join("home/.codex/config.toml"));
        assert!(codex.expect("it is there").contains("[mcp_servers.kit]"));
    }
}

#[test]
fn a_client_that_fails_does_not_keep_others_from_theirs() {
    let folder = user("many-failing");
    fs::write(folder.0.join("home/.codex/config.toml"), "a = = 1\n").expect("it can be written");
    let done = run(&folder.0, &["install", "codex", "cursor", "kit"]);
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{why}");
    assert!(why.contains("nothing was written for codex"), "{why}");
    assert!(cursor(&folder)["mcpServers"]["kit"].is_object());
}

#[test]
fn urls_and_commands_are_installed_as_each_client_writes_them() {
    let folder = user("many-kinds");
    let x = folder.0.as_path();
    let url = "https://mcp.example.com/mcp";
    for (client, member) in
        [("claude-code", "url"), ("gemini", "httpUrl"), ("windsurf", "serverUrl"), ("goose", "uri")]
    {
        let done = run(x, &["install", client, url, "--json"]);
        assert!(done.status.success(), "{done:?}");
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(told["entry"][member], url, "{told}");
        let again = run(x, &["install", client, url, "--json"]);
        let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
        assert_eq!(again["changed"], json!(false), "{client}");
    }
    let done = run(x, &["install", "claude-desktop", url]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("connector"), "{done:?}");
    let done = run(x, &["install", "cursor", "npx -y @modelcontextprotocol/server-memory"]);
    assert!(done.status.success(), "{done:?}");
    let entry = &cursor(&folder)["mcpServers"]["server-memory"];
    assert_eq!(entry["command"], "npx");
    assert_eq!(entry["args"], json!(["-y", "@modelcontextprotocol/server-memory"]));
    // Another server of that name stays.
    let done = run(x, &["install", "cursor", "uvx other", "--name", "server-memory"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
}

#[test]
fn a_word_that_is_nothing_is_refused_with_what_was_meant() {
    let folder = user("many-nothing");
    for words in [&["install", "cursor", "vscod"][..], &["install", "vscod", "./kit"]] {
        let done = run(&folder.0, words);
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(
            (done.status.code(), why.contains("did you mean vscode?")),
            (Some(2), true),
            "{why}"
        );
    }
}
