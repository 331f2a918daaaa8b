//! Which server a word means, and what was probably meant by one that means nothing.

use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use zcp_tests::{examples::zcp, folder::Folder};

/// Runs the command for a user whose home is the folder `home` of this one.
fn run(folder: &Path, words: &[&str]) -> Output {
    let home = folder.join("home");
    fs::create_dir_all(&home).expect("it can be made");
    let mut command = Command::new(zcp());
    command.args(words).current_dir(folder).env("HOME", home).stdin(Stdio::null());
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR"] {
        command.env_remove(variable);
    }
    command.output().expect("the command runs")
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

/// A folder with two checkouts of one kit, the second of which a client knows by its name.
fn kits(name: &str) -> Folder {
    let folder = Folder::new(name);
    for (kit, said) in [("kit", "here"), ("other/kit", "there")] {
        let tool = format!("# Says where it is.\necho {said}\n");
        write(&folder.0.join(kit).join("tools/where.sh"), &tool);
    }
    let installed = run(&folder.0, &["install", "cursor", "./other/kit"]);
    assert!(installed.status.success(), "{installed:?}");
    folder
}

#[test]
fn a_folder_that_is_here_wins_over_a_clients_entry() {
    let folder = kits("names-wins");
    let called = run(&folder.0, &["call", "kit", "where"]);
    assert_eq!(out(&called), "here\n");
    assert!(complaint(&called).1.contains("a client's configuration has a server of that name"));
    fs::remove_dir_all(folder.0.join("kit")).expect("it can be removed");
    assert_eq!(out(&run(&folder.0, &["call", "kit", "where"])), "there\n");
}

#[test]
fn a_clients_broken_file_is_mentioned_for_bare_names_only() {
    let folder = kits("names-broken");
    write(&folder.0.join("home/.claude.json"), "{,");
    for words in
        [&["call", "./kit", "where"][..], &["list", "kit"], &["run", "where", "--in", "kit"]]
    {
        let ran = run(&folder.0, words);
        assert!(!complaint(&ran).1.contains(".claude.json"), "{words:?} {ran:?}");
    }
    fs::remove_dir_all(folder.0.join("kit")).expect("it can be removed");
    let ran = run(&folder.0, &["call", "kit", "where"]);
    assert!(complaint(&ran).1.contains(".claude.json"), "{ran:?}");
}

#[test]
fn a_word_that_is_no_server_gets_a_suggestion() {
    let folder = kits("names-server");
    let (code, why) = complaint(&run(&folder.0, &["list", "kti"]));
    assert_eq!((code, why.contains("did you mean `kit`?")), (Some(2), true), "{why}");
}

#[test]
fn prompts_and_resources_get_a_suggestion_too() {
    let folder = Folder::new("names-more");
    let x = folder.0.as_path();
    write(&x.join("kit/prompts/review.md"), "Look at this closely.\n");
    write(&x.join("kit/resources/motd.md"), "Hello.\n");
    let listed = out(&run(x, &["--json", "list", "./kit", "resources"]));
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let uri = listed["resources"][0]["uri"].as_str().expect("a resource").to_owned();
    let (_, why) = complaint(&run(x, &["prompt", "./kit", "reveiw"]));
    assert!(why.contains("did you mean `review`?"), "{why}");
    let (_, why) = complaint(&run(x, &["read", "./kit", &uri.replace("motd", "modt")]));
    assert!(why.contains(&format!("did you mean `{uri}`?")), "{why}");
    let (code, why) = complaint(&run(x, &["install", "cursr", "./kit"]));
    assert_eq!((code, why.contains("did you mean cursor?")), (Some(2), true), "{why}");
    let (code, why) = complaint(&run(x, &["list", "./kit", "--jsn"]));
    assert_eq!((code, why.contains("--json")), (Some(2), true), "{why}");
}

#[test]
fn tools_and_servers_are_listed_where_none_is_named() {
    let folder = kits("names-listed");
    let listed = out(&run(&folder.0, &["call", "./kit"]));
    assert!(listed.contains("where()") && listed.contains("Says where it is."), "{listed}");
    let one = out(&run(&folder.0, &["list", "./kit", "where"]));
    assert_eq!(one, out(&run(&folder.0, &["describe", "./kit", "where"])));
    let (code, why) = complaint(&run(&folder.0, &["list", "./kit", "promts"]));
    assert_eq!((code, why.contains("did you mean `prompts`?")), (Some(2), true), "{why}");
    let servers: Value =
        serde_json::from_str(&out(&run(&folder.0, &["--json", "list"]))).expect("JSON");
    assert_eq!(servers["servers"][0]["name"], json!("kit"), "{servers}");
    assert_eq!(servers["servers"][0]["client"], json!("cursor"), "{servers}");
}
