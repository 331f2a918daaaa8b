//! What a run and a call show: standard error, failures, long outputs, files, exit codes.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Output, Stdio},
};
use zcp_tests::{examples::zcp, folder::Folder};

fn run(folder: &Path, words: &[&str]) -> Output {
    Command::new(zcp())
        .args(words)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[test]
fn a_failed_run_keeps_its_output_and_says_why_beside_it() {
    let folder = Folder::new("shown-failed");
    let script = "# Fails at last.\necho before\necho the reason >&2\nexit 4\n";
    write(&folder.0.join("tools/fails.sh"), script);
    let ran = run(&folder.0, &["run", "fails"]);
    assert_eq!((ran.status.code(), text(&ran.stdout).as_str()), (Some(4), "before\n"));
    let told = text(&ran.stderr);
    assert_eq!(told.matches("the reason").count(), 1, "{told}");
    assert!(told.contains("exit code 4") && !told.contains("before"), "{told}");
}

#[test]
fn a_run_shows_standard_error_of_a_script_that_succeeds() {
    let folder = Folder::new("shown-stderr");
    let script = "# Says both.\necho 'debug: about to start' >&2\necho result\n";
    write(&folder.0.join("tools/both.sh"), script);
    let ran = run(&folder.0, &["run", "both"]);
    assert_eq!(text(&ran.stdout), "result\n", "{ran:?}");
    assert!(text(&ran.stderr).contains("debug: about to start\n"), "{ran:?}");
}

#[test]
fn dev_shows_standard_error_and_the_end_of_a_failure() {
    let folder = Folder::new("shown-dev");
    let x = folder.0.as_path();
    let lines = "for i in $(seq 30); do echo \"line $i\" >&2; done";
    write(&x.join("tools/fails.sh"), &format!("# Fails at last.\n{lines}\nexit 3\n"));
    write(&x.join("tools/both.sh"), "# Says both.\necho to-debug >&2\necho fine\n");
    let mut dev = Command::new(zcp())
        .args(["dev", "--http", "127.0.0.1:0"])
        .current_dir(x)
        .env("HOME", x)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(dev.stdout.take().expect("output")).lines();
    let mut until = |what: &str| -> Vec<String> {
        let mut seen = vec![];
        while seen.last().is_none_or(|line: &String| !line.contains(what)) {
            seen.push(lines.next().expect("a line").expect("text"));
        }
        seen
    };
    let url = until("/mcp").pop().expect("a line");
    let url = url.split_whitespace().last().expect("a URL").to_owned();
    until("Ctrl-C");
    run(x, &["call", &url, "both"]);
    assert!(until("stderr | to-debug").iter().any(|line| line.contains("fine")));
    run(x, &["call", &url, "fails"]);
    let seen = until("stderr | line 30");
    assert!(seen.iter().any(|line| line.contains("exit code 3")), "{seen:#?}");
    assert!(!seen.iter().any(|line| line.ends_with("line 11")), "{seen:#?}");
    dev.kill().expect("it ends");
    dev.wait().expect("it ended");
}

#[test]
fn a_run_prints_an_output_of_any_length() {
    let folder = Folder::new("shown-long");
    let script = "# Prints many lines.\nseq 200000\n";
    write(&folder.0.join("tools/many.sh"), script);
    for words in [&["run", "many"][..], &["call", ".", "many"]] {
        let ran = run(&folder.0, words);
        assert!(ran.status.success(), "{ran:?}");
        let out = text(&ran.stdout);
        assert_eq!(out.lines().count(), 200_000, "{words:?}");
        assert!(out.ends_with("\n200000\n") && !out.contains("output:"), "{words:?}");
    }
    let ran = run(&folder.0, &["run", "many", "--output", "many.txt"]);
    assert!(ran.status.success() && ran.stdout.is_empty(), "{ran:?}");
    let file = fs::read_to_string(folder.0.join("many.txt")).expect("it is there");
    assert_eq!(file.lines().count(), 200_000);
}

#[test]
fn a_picture_is_written_to_a_file_as_it_is() {
    let folder = Folder::new("shown-picture");
    let script = "# Draws.\nprintf '\\211PNG\\r\\n\\032\\n\\000rest'\n";
    write(&folder.0.join("tools/draws.sh"), script);
    let ran = run(&folder.0, &["run", "draws", "-o", "red.png"]);
    assert!(ran.status.success(), "{ran:?}");
    let bytes = fs::read(folder.0.join("red.png")).expect("it is there");
    assert_eq!(bytes, b"\x89PNG\r\n\x1a\n\0rest");
}

#[test]
fn exit_codes_tell_wrong_arguments_failures_and_timeouts_apart() {
    let folder = Folder::new("shown-codes");
    let x = folder.0.as_path();
    let script =
        "# Counts.\n# @param top integer  To where.\n# @timeout 1s\nsleep \"$ARG_TOP\"\nexit 1\n";
    write(&x.join("tools/counts.sh"), script);
    for (words, code) in [
        (&["run", "counts", "top=two"][..], 2),
        (&["call", ".", "counts", "top=two"], 2),
        (&["run", "counts", "top=0"], 1),
        (&["call", ".", "counts", "top=0"], 3),
        (&["run", "counts", "top=60"], 5),
        (&["call", ".", "counts", "top=60"], 5),
    ] {
        let ran = run(x, words);
        assert_eq!(ran.status.code(), Some(code), "{words:?} {ran:?}");
    }
}

#[test]
fn a_reader_that_has_gone_changes_no_exit_code() {
    let folder = Folder::new("shown-pipe");
    let x = folder.0.as_path();
    write(&x.join("tools/plain.sh"), "# Says something.\necho a\n");
    let case = "- tool: plain\n  expect: { text: b }\n";
    write(&x.join("tests/all.yaml"), &case.repeat(3));
    for words in [&["test"][..], &["--json", "test"], &["validate", "nowhere"]] {
        let expected = run(x, words).status.code();
        let mut command = Command::new(zcp());
        command.args(words).current_dir(x).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut some = [0; 1];
        let mut out = child.stdout.take().expect("output");
        let _ = out.read(&mut some);
        drop(out);
        assert_eq!(child.wait().expect("it ends").code(), expected, "{words:?}");
    }
}

#[test]
fn a_mistake_in_cases_names_its_file_once() {
    let folder = Folder::new("shown-yaml");
    write(&folder.0.join("tools/plain.sh"), "# Says something.\necho a\n");
    write(&folder.0.join("tests/all.yaml"), "- tool: plain\n  expect: { text: [ }\n");
    let ran = run(&folder.0, &["test"]);
    let told = text(&ran.stderr);
    assert_eq!(told.matches("error:").count(), 1, "{told}");
    assert!(told.contains("all.yaml") && !told.contains("<input>"), "{told}");
}

#[test]
fn a_run_shows_what_the_server_logs_without_a_time() {
    let folder = Folder::new("shown-log");
    let x = folder.0.as_path();
    let script = "# Slips.\necho 'progess 1' >\"$ZCP_OUT\"\necho done\n";
    write(&x.join("tools/slips.sh"), script);
    let ran = run(x, &["run", "slips"]);
    let told = text(&ran.stderr);
    assert!(told.contains("warning: ") && told.contains("progess"), "{told}");
    assert!(!told.contains("WARN") && !told.contains("2026-"), "{told}");
}

#[test]
fn a_dry_run_says_what_defaults_come_to() {
    let folder = Folder::new("shown-dry");
    let script = "# Counts.\n# @param top integer = 5  To where.\necho\n";
    write(&folder.0.join("tools/counts.sh"), script);
    let ran = run(&folder.0, &["run", "counts", "--dry-run"]);
    assert!(text(&ran.stdout).contains(r#"{"top":5}"#), "{ran:?}");
}

#[test]
fn arguments_of_a_tool_that_declares_none_are_not_silent() {
    let folder = Folder::new("shown-none");
    write(&folder.0.join("tools/none.sh"), "# Takes what comes.\necho \"$ARG_WIDTH\"\n");
    let ran = run(&folder.0, &["run", "none", "width=3"]);
    assert_eq!(text(&ran.stdout), "3\n", "{ran:?}");
    assert!(text(&ran.stderr).contains("`none` declares no arguments"), "{ran:?}");
}

#[test]
fn a_server_that_others_reach_says_so_and_where() {
    let folder = Folder::new("shown-exposed");
    let x = folder.0.as_path();
    write(&x.join("tools/plain.sh"), "# Says something.\necho a\n");
    for (address, json, is_exposed) in
        [("0.0.0.0:0", true, true), ("0.0.0.0:0", false, true), ("127.0.0.1:0", true, false)]
    {
        let mut command = Command::new(zcp());
        command.args(["serve", ".", "--http", address]).args(json.then_some("--json"));
        command.current_dir(x).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("output")).lines();
        let mut shown = vec![];
        while shown
            .last()
            .is_none_or(|line: &String| !line.contains(if json { "mcp" } else { "Ctrl-C" }))
        {
            shown.push(lines.next().expect("a line").expect("text"));
        }
        child.kill().expect("it ends");
        let mut told = shown.join("\n");
        child.stderr.take().expect("its log").read_to_string(&mut told).expect("text");
        child.wait().expect("it ended");
        assert!(told.contains("http://127.0.0.1:") && !told.contains("0.0.0.0"), "{told}");
        assert_eq!(told.contains("nobody has to log in"), is_exposed, "{address} {json} {told}");
    }
}
