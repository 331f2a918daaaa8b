//! What a newcomer is advised, and what following the advice does.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};
use zcp_tests::{examples::zcp, folder::Folder};

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(zcp());
    command.args(words).current_dir(folder).env("HOME", folder.join("home")).stdin(Stdio::null());
    command.output().expect("the command runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

/// The names of the tools that a folder serves.
fn tools(folder: &Path, kit: &str) -> Vec<String> {
    let listed = run(folder, &["--json", "list", kit, "tools"]);
    let listed: Value = serde_json::from_slice(&listed.stdout)
        .unwrap_or_else(|error| panic!("{error}: {listed:?}"));
    let tools = listed["tools"].as_array().expect("tools");
    tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect()
}

const SHOUTS: &str = "import argparse\np = argparse.ArgumentParser(description='Says it loudly.')\n\
                      p.add_argument('word')\nprint(p.parse_args().word.upper())\n";

#[test]
fn a_flat_folder_keeps_its_tools() {
    let folder = Folder::new("advice-flat");
    let x = folder.0.as_path();
    write(&x.join("kit/greet.sh"), "# Greets.\necho hi\n");
    write(&x.join("kit/shouts.py"), SHOUTS);
    let words = ["import", "kit/shouts.py", "--into", "kit", "--update"];
    let done = run(x, &words);
    assert!(done.status.success(), "{done:?}");
    let text = fs::read_to_string(x.join("kit/shouts.py")).expect("it is there");
    assert!(text.starts_with("# Says it loudly.\n") && text.contains("# @param word"), "{text}");
    let called = run(x, &["run", "shouts", "--in", "kit", "word=hey"]);
    assert_eq!(out(&called), "HEY\n", "{called:?}");
    let done = run(x, &["new", "kit", "--tool", "extra"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(tools(x, "./kit"), ["extra", "greet", "shouts"]);
    let (before, done) = (tools(x, "./kit"), run(x, &["new", "kit", "--prompt", "review"]));
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(err(&done).contains("a folder `prompts` would hide them"), "{done:?}");
    assert_eq!(tools(x, "./kit"), before);
}

#[test]
fn scripts_beside_the_tools_are_warned_of() {
    let folder = Folder::new("advice-beside");
    let x = folder.0.as_path();
    write(&x.join("kit/tools/a.sh"), "# Does.\necho\n");
    write(&x.join("kit/greet.sh"), "# Greets.\necho hi\n");
    write(&x.join("kit/more.py"), "print()\n");
    let told = run(x, &["validate", "kit"]);
    let words = "2 scripts beside `tools/` are not served (greet.sh, …): move them into `tools/`";
    assert!(told.status.success() && out(&told).contains(words), "{told:?}");
}

#[test]
fn a_script_without_options_is_not_run_to_import_it() {
    let folder = Folder::new("advice-consent");
    let x = folder.0.as_path();
    write(&x.join("kit/tools/marks.sh"), "# Marks a file.\necho done > \"marked-$1\"\n");
    write(&x.join("kit/tools/shouts.py"), SHOUTS);
    let told = out(&run(x, &["validate", "kit"]));
    assert!(told.contains("(runs it once with `--help`)"), "{told}");
    assert!(!told.contains("tools/marks.sh --into"), "{told}");
    let words = ["import", "kit/tools/marks.sh", "--into", "kit", "--update"];
    let refused = run(x, &words);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(err(&refused).contains("--yes"), "{refused:?}");
    assert!(!x.join("kit/tools/marked---help").exists(), "it was run");
    run(x, &[&words[..], &["--yes"]].concat());
    assert!(x.join("kit/tools/marked---help").exists(), "it was agreed to");
}

#[test]
fn advice_on_arguments_is_what_works() {
    let folder = Folder::new("advice-args");
    let x = folder.0.as_path();
    for (name, mark, body) in [
        ("greet.sh", "#", "echo \"Hello, $1\"\n"),
        ("meet.js", "//", "console.log('Hello, ' + process.argv[2])\n"),
    ] {
        let script = x.join("kit/tools").join(name);
        write(&script, &format!("{mark} Greets.\n{body}"));
        let told = out(&run(x, &["validate", "kit"]));
        let advised = "`@param name string  Who.` and `@args {name}`";
        assert!(told.contains(advised) && told.contains("in the order of"), "{told}");
        let header = format!("{mark} @param name string  Who.\n{mark} @args {{name}}\n");
        write(&script, &format!("{mark} Greets.\n{header}{body}"));
        let tool = name.split('.').next().expect("a name");
        let called = run(x, &["run", tool, "--in", "kit", "name=Ann"]);
        assert_eq!(out(&called), "Hello, Ann\n", "{called:?}");
    }
}

/// A tool with a slip, and another one.
fn slips(x: &Path) {
    let slip = "# Greets.\n# @param who strng  Who.\n# @args {woh}\necho \"Hello, $1\"\n";
    write(&x.join("kit/tools/greet.sh"), slip);
    write(&x.join("kit/tools/other.sh"), "# Does.\necho other: $(cat)\n");
}

#[test]
fn a_slip_says_that_the_tool_is_served() {
    let folder = Folder::new("advice-slip");
    let x = folder.0.as_path();
    slips(x);
    let validated = run(x, &["validate", "kit"]);
    assert_eq!(validated.status.code(), Some(1), "{validated:?}");
    let told = out(&validated);
    assert!(told.contains("It is served, with `who` as a string"), "{told}");
    assert!(told.contains("`{woh}` in `@args` is no `@param`: did you mean `who`?"), "{told}");
    assert!(!told.contains("left out"), "{told}");
    let own = err(&run(x, &["run", "greet", "--in", "kit", "who=Ann"]));
    assert!(own.contains("It is served") && !own.contains("left out"), "{own}");
    let other = run(x, &["run", "other", "--in", "kit"]);
    assert!(other.status.success() && !err(&other).contains("greet"), "{other:?}");
    let unknown = err(&run(x, &["run", "othr", "--in", "kit"]));
    assert!(unknown.contains("did you mean `other`?") && !unknown.contains("served"), "{unknown}");
    assert!(unknown.contains("zcp validate kit"), "{unknown}");
}

#[test]
fn doctor_names_what_first_lines_name() {
    let folder = Folder::new("advice-doctor");
    let x = folder.0.as_path();
    for (name, line, text) in [
        ("by_env.py", "#!/usr/bin/env python3", "# Does.\nprint(1)\n"),
        ("web.js", "#!/usr/bin/env node", "// Does.\nconsole.log(1)\n"),
        ("broken.sh", "#!/bin/bash", "# Does.\nif true; then\n"),
    ] {
        let path = x.join("kit").join(name);
        write(&path, &format!("{line}\n{text}"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let told = out(&run(x, &["doctor", "kit"]));
    assert!(told.contains("for by_env") && told.contains("for web"), "{told}");
    assert!(told.contains("broken.sh cannot be read"), "{told}");
}

#[test]
fn a_value_without_a_name_is_answered_with_its_name() {
    let folder = Folder::new("advice-names");
    let x = folder.0.as_path();
    write(&x.join("kit/greet.sh"), "# Greets.\n# @param name string  Who.\necho hi\n");
    write(&x.join("kit/plain.sh"), "# Greets.\necho \"$1\"\n");
    for words in [&["run", "greet", "Ann", "--in", "kit"][..], &["call", "./kit", "greet", "Ann"]] {
        let refused = run(x, words);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(err(&refused).contains("write `name=Ann`"), "{refused:?}");
    }
    let refused = err(&run(x, &["run", "plain", "Ann", "--in", "kit"]));
    let words = "`plain` takes no arguments yet: see `zcp validate kit`";
    assert!(refused.contains(words), "{refused}");
    let told = err(&run(x, &["run", "plain", "name=Ann", "--in", "kit"]));
    assert!(told.contains("`ARG_NAME`, not as `$1`"), "{told}");
}

#[test]
fn a_variable_that_is_not_set_is_no_missing_command() {
    let folder = Folder::new("advice-127");
    let x = folder.0.as_path();
    write(&x.join("kit/needs.sh"), "# Needs it.\necho \"${TOKEN:?set it}\"\n");
    let failed = run(x, &["run", "needs", "--in", "kit"]);
    assert!(!err(&failed).contains("a command was not found"), "{failed:?}");
}

#[test]
fn findings_of_a_folder_are_counted() {
    let folder = Folder::new("advice-counts");
    let x = folder.0.as_path();
    slips(x);
    write(&x.join("kit/tools/plain.sh"), "# Greets.\necho \"$1\"\n");
    let counts = "2 errors, 1 warning: `zcp validate kit`";
    for words in [&["list", "kit"][..], &["install", "claude-code", "kit"]] {
        let done = run(x, words);
        assert!(done.status.success() && err(&done).contains(counts), "{words:?}: {done:?}");
    }
    let mut serve = Command::new(zcp());
    serve.args(["serve", "kit", "--http", "127.0.0.1:0"]).current_dir(x).stdout(Stdio::null());
    let mut serve = serve.stderr(Stdio::piped()).spawn().expect("it starts");
    let log = BufReader::new(serve.stderr.take().expect("a pipe")).lines();
    let is_counted = log.map_while(Result::ok).any(|line| line.contains(counts));
    serve.kill().expect("it is ours");
    serve.wait().expect("it ended");
    assert!(is_counted);
}

#[test]
fn an_answer_in_advance_that_does_not_fit_is_refused() {
    let folder = Folder::new("advice-answer");
    let x = folder.0.as_path();
    let form = r#"{"type":"object","properties":{"machines":{"type":"integer","maximum":9}}}"#;
    let script = format!("# Deploys.\n. \"$ZCP_SDK/zcp.sh\"\nzcp_ask much 'How many?' '{form}'\n");
    write(&x.join("kit/tools/deploy.sh"), &script);
    let answer = |answer| run(x, &["run", "deploy", "--in", "kit", "--answer", answer]);
    let refused = answer(r#"{"machines": 30}"#);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(err(&refused).contains("--answer: `machines`"), "{refused:?}");
    assert!(answer(r#"{"machines": 3}"#).status.success());
    let refused = answer("nonsense");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!err(&refused).contains("line 1 column"), "{refused:?}");
}

#[test]
fn what_is_misspelled_is_answered_with_what_there_is() {
    let folder = Folder::new("advice-unknown");
    let x = folder.0.as_path();
    write(&x.join("kit/greet.sh"), "# Greets.\necho hi\n");
    write(&x.join("kit2/tools/greet.sh"), "# Greets.\necho hi\n");
    let told = err(&run(x, &["list", "elsewhere"]));
    assert!(told.contains("folders of scripts here: kit, kit2"), "{told}");
    let described = run(x, &["describe", "kit"]);
    assert!(described.status.success() && out(&described).contains("greet"), "{described:?}");
    let (called, ran) = (run(x, &["call", "kit", "gret"]), run(x, &["run", "gret", "--in", "kit"]));
    assert_eq!((called.status.code(), err(&called)), (Some(2), err(&ran)));
    assert!(err(&ran).contains("did you mean `greet`?"), "{ran:?}");
}
