//! `zcp test`: cases of a folder, run and recorded.

use serde_json::Value;
use std::{
    fs,
    process::{Command, Output},
};
use zcp_tests::{examples::zcp, folder::Folder, script::write};

const GREET: &str = "#!/bin/sh\n# Greets.\n# @param name string\necho \"Hello, $ARG_NAME!\"\n";
const LOOK: &str = "#!/bin/sh\n# Looks.\necho '{\"id\": 7, \"at\": \"today\", \"list\": [1, 2]}'\n";
const FAIL: &str = "#!/bin/sh\n# Fails.\necho sorry; exit 3\n";
const ASK: &str = "#!/usr/bin/env python3\n\"\"\"Asks.\"\"\"\nimport zcp\nwho = zcp.ask(\"who\", \"Who are you?\", {\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}}})\nprint(who)\n";

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    for (path, content) in [
        ("tools/greet.sh", GREET),
        ("tools/look.sh", LOOK),
        ("tools/fail.sh", FAIL),
        ("tools/ask.py", ASK),
        ("prompts/review.md", "Review {{what}}.\n"),
        ("resources/motd.txt", "Be kind.\n"),
    ] {
        write(&folder, path, content);
    }
    folder
}

fn test(folder: &Folder, more: &[&str]) -> Output {
    let mut command = Command::new(zcp());
    let command = command.arg("test").arg(&folder.0).args(more);
    command.env("HOME", &folder.0).env_remove("XDG_CACHE_HOME").output().expect("it runs")
}

fn said(done: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&done.stdout) + &text(&done.stderr)
}

const GOOD: &str = r#"
- name: greets by name
  tool: greet
  args: { name: Ann }
  expect: { text: "Hello, Ann!" }
- tool: look
  expect:
    structured: { id: 7, at: "*" }
    contains: today
- tool: fail
  expect: { error: true, contains: sorry }
- name: an unknown tool is refused
  tool: nobody
  expect: { error: true }
- name: asks who
  tool: ask
  answers:
    - { action: accept, content: { name: Bob } }
  expect: { contains: Bob }
- prompt: review
  args: { what: this }
  expect: { matches: "^Review this\\.$" }
- tool: greet
  skip: not today
"#;

#[test]
fn cases_pass_when_all_is_as_expected() {
    let folder = folder("cases-pass");
    write(&folder, "tests/good.yaml", GOOD);
    let done = test(&folder, &[]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(said(&done).contains("6 passed, 1 skipped in "), "{}", said(&done));
    let one = test(&folder, &["--only", "asks"]);
    assert!(said(&one).contains("\n1 passed in "), "{}", said(&one));
    let none = test(&folder, &["--only", "nothing like it"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn what_differs_is_shown_and_fails() {
    let folder = folder("cases-fail");
    write(
        &folder,
        "tests/a.yml",
        "- { tool: greet, args: { name: Ann }, expect: { text: Bye } }\n",
    );
    write(
        &folder,
        "tests/b.yaml",
        "- { tool: look, expect: { json: { id: 8 } } }\n- tool: fail\n- tool: ask\n- { tool: greet, args: { name: B }, answers: [{ action: accept }] }\n- { tool: greet, args: { name: C } }\n",
    );
    let done = test(&folder, &[]);
    assert_eq!(done.status.code(), Some(1));
    let text = said(&done);
    for part in [
        "expected  Bye\n",
        "got       Hello, Ann!\n",
        ".id: expected 8, got 7\n",
        "expected no failure, but it failed:\n",
        "it asked `Who are you?`",
        "it did not ask for 1 of the `answers`",
        "1 passed, 5 failed in ",
        "5 of 6 cases failed",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let done = test(&folder, &["--json"]);
    assert_eq!(done.status.code(), Some(1));
    let all: Value = serde_json::from_slice(&done.stdout).expect("one value");
    assert_eq!(all.as_array().map(Vec::len), Some(6));
    assert_eq!(all[0]["name"], "greet name=Ann");
    assert_eq!((&all[0]["ok"], &all[5]["ok"]), (&false.into(), &true.into()));
    assert!(all[0]["file"].as_str().expect("a file").ends_with("a.yml"));
    assert!(all[0]["seconds"].as_f64().expect("a time") > 0.0);
    assert_eq!(all[0]["difference"], "expected  Bye\ngot       Hello, Ann!");
    assert_eq!(all[5]["difference"], Value::Null);
}

#[test]
fn recorded_cases_pass_until_a_tool_changes() {
    let folder = folder("cases-record");
    let cases = "# What greet says.\n- tool: greet # politely\n  args:\n    name: Ann\n\n# Stays.\n- { tool: look, expect: { json: { id: 7 } } }\n- tool: look\n";
    write(&folder, "tests/all.yaml", cases);
    let done = test(&folder, &["--record"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(said(&done).contains("1 passed, 2 recorded"), "{}", said(&done));
    let file = folder.0.join("tests/all.yaml");
    let text = fs::read_to_string(&file).expect("it is there");
    let begins = "# What greet says.\n- tool: greet # politely\n  args:\n    name: Ann\n  expect:\n    text: Hello, Ann!\n\n# Stays.\n- { tool: look, expect: { json: { id: 7 } } }\n- tool: look\n  expect:\n    structured:\n";
    assert!(text.starts_with(begins), "{text}");
    let told = said(&done);
    let backup = told.split_whitespace().find(|word| word.contains("all.yaml.bak-"));
    let backup = backup.expect("it is named").trim_end_matches('.');
    assert_eq!(fs::read_to_string(backup).expect("kept"), cases);
    let done = test(&folder, &[]);
    assert!(said(&done).contains("3 passed in "), "{}", said(&done));

    write(&folder, "tools/greet.sh", &GREET.replace("Hello", "Bye"));
    let done = test(&folder, &[]);
    assert_eq!(done.status.code(), Some(1));
    let told = said(&done);
    assert!(told.contains("Hello, Ann!") && told.contains("Bye, Ann!"), "{told}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), text, "only --record writes");

    assert_eq!(test(&folder, &["--record"]).status.code(), Some(0));
    let now = fs::read_to_string(&file).expect("it is there");
    assert_eq!(now, text.replace("text: Hello, Ann!", "text: Bye, Ann!"));
}

#[test]
fn a_failure_that_is_recorded_is_marked() {
    let folder = folder("cases-failure");
    write(&folder, "tests/all.yaml", "- tool: fail\n");
    let done = test(&folder, &["--record"]);
    assert!(said(&done).contains("it fails, and is expected to from now on"), "{}", said(&done));
}

#[test]
fn recording_keeps_links_and_files_of_that_name() {
    let folder = folder("cases-links");
    write(&folder, "shared/all.yaml", "- { tool: greet, args: { name: Ann } }\n");
    write(&folder, "tests/all.yaml.bak", "mine");
    write(&folder, "shared/all.yaml.bak", "mine, too");
    let link = folder.0.join("tests/all.yaml");
    std::os::unix::fs::symlink("../shared/all.yaml", &link).expect("a link");
    let done = test(&folder, &["--record"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(link.is_symlink(), "the link is a file now");
    let read = |path: &str| fs::read_to_string(folder.0.join(path)).expect("it is there");
    assert!(read("shared/all.yaml").contains("Hello, Ann!"));
    assert_eq!(
        (read("tests/all.yaml.bak"), read("shared/all.yaml.bak")),
        ("mine".into(), "mine, too".into())
    );
}

#[test]
fn roots_are_told_to_tools() {
    let folder = folder("cases-roots");
    write(
        &folder,
        "tools/where.py",
        "#!/usr/bin/env python3\n\"\"\"Where.\"\"\"\nimport zcp\nprint(zcp.roots())\n",
    );
    write(
        &folder,
        "tests/roots.yaml",
        "- tool: where\n  roots: [data]\n  expect: { contains: /data }\n- tool: where\n  roots: [other]\n  expect: { contains: /other }\n",
    );
    let done = test(&folder, &[]);
    assert!(said(&done).contains("2 passed in "), "{}", said(&done));
}

#[test]
fn without_cases_it_says_how_to_write_one() {
    let folder = folder("cases-none");
    let done = test(&folder, &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("- name: greets by name"), "{}", said(&done));
    write(&folder, "tests/wrong.yaml", "- tol: greet\n");
    let done = test(&folder, &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("wrong.yaml") && said(&done).contains("tol"), "{}", said(&done));
}
