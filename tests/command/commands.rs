//! The commands people work on a folder of scripts with, as they type them.

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use zcp_tests::{examples::zcp, folder::Folder, script::running};

/// Runs the command in a folder.
fn run(folder: &Path, words: &[&str]) -> Output {
    Command::new(zcp()).args(words).current_dir(folder).output().expect("the command runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn complaint(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[test]
fn a_new_folder_works_in_every_language() {
    let folder = Folder::new("new");
    for lang in ["bash", "python", "node", "ruby", "perl"] {
        let made = json_of(&run(&folder.0, &["--json", "new", lang, "--lang", lang]));
        assert_eq!(made["made"].as_array().map(Vec::len), Some(4), "{made}");
        let there = ["run", "hello", "name=Ann", "loud=true", "--in", lang];
        assert_eq!(text(&run(&folder.0, &there)), "HELLO, ANN!\n", "{lang}");
        text(&run(&folder.0, &["validate", lang, "--strict"]));
        // It says that something is left to do.
        assert_eq!(run(&folder.0, &["lint", lang, "--strict"]).status.code(), Some(1));
    }
}

/// The first of the commands builds this one, which is what is tested.
#[test]
fn the_commands_of_the_readme_end_in_a_tool_that_a_client_uses() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md"));
    let readme = readme.expect("it is there");
    let block = readme.split("```console\n").find(|block| block.starts_with("cargo install"));
    let block = block.and_then(|block| block.split("```").next()).expect("the four commands");
    let folder = Folder::new("readme");
    let home = folder.0.join("home");
    fs::create_dir_all(&home).expect("it can be made");
    let at_home = |words: &[&str]| {
        let mut command = Command::new(zcp());
        command.args(words).current_dir(&folder.0).env("HOME", &home);
        command.env_remove("XDG_CONFIG_HOME").env_remove("CLAUDE_CONFIG_DIR");
        command.output().expect("the command runs")
    };
    let lines: Vec<&str> = block.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "cargo install --locked --path crates/cli"));
    for line in &lines[1..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "zcp");
        text(&at_home(&words[1..]));
    }
    let file = fs::read_to_string(home.join(".claude.json")).expect("Claude Code's file");
    let file: Value = serde_json::from_str(&file).expect("JSON");
    assert!(file["mcpServers"]["my-tools"]["command"].is_string(), "{file}");
    assert_eq!(text(&at_home(&["call", "my-tools", "hello", "name=Ann"])), "Hello, Ann!\n");
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let folder = Folder::new("new-again");
    text(&run(&folder.0, &["new", "x", "--tool", "one"]));
    let script = folder.0.join("x/tools/one.sh");
    write(&script, "echo mine\n");
    let again = json_of(&run(&folder.0, &["--json", "new", "x", "--tool", "one", "--tool", "two"]));
    assert_eq!(again["kept"], json!(["x/tools/one.sh"]));
    assert_eq!(fs::read_to_string(&script).expect("it is there"), "echo mine\n");
    assert_eq!(text(&run(&folder.0, &["run", "two", "name=Bo", "--in", "x"])), "Hello, Bo!\n");
    let (code, why) = complaint(&run(&folder.0, &["new", "x", "--tool", "two", "--lang", "ruby"]));
    assert_eq!((code, why.contains("tools/two.sh")), (Some(2), true), "{why}");
    for bad in ["../evil", "a b", ""] {
        let (code, why) = complaint(&run(&folder.0, &["new", "x", "--tool", bad]));
        assert_eq!(code, Some(2), "{why}");
        assert!(why.contains("no name that every client takes"), "{why}");
    }
}

#[test]
fn prompts_and_resources_are_begun_too() {
    let folder = Folder::new("new-more");
    let more = ["--prompt", "review", "--completion", "review", "--resource", "motd"];
    text(&run(&folder.0, &[&["new", "x"], &more[..]].concat()));
    let completed = text(&run(&folder.0, &["complete", "./x", "review", "tone", "fr"]));
    assert_eq!(completed, "friendly\nfrank\n");
    let filled = text(&run(&folder.0, &["prompt", "./x", "review", "text=abc", "tone=kind"]));
    assert!(filled.contains("in a kind tone") && filled.contains("abc"), "{filled}");
    let listed = json_of(&run(&folder.0, &["--json", "list", "./x", "resources"]));
    let uri = listed["resources"][0]["uri"].as_str().expect("a resource").to_owned();
    assert!(text(&run(&folder.0, &["read", "./x", &uri])).starts_with("# motd"));
}

#[test]
fn a_page_is_begun_of_each_template() {
    let folder = Folder::new("new-pages");
    let known = ["form", "data-table", "progress", "diff-viewer", "tree-view", "kanban"];
    for template in known {
        text(&run(&folder.0, &["new", "x", "--page", template, "--template", template]));
    }
    let listed = json_of(&run(&folder.0, &["--json", "list", "./x", "resources"]));
    let uris = listed["resources"].as_array().expect("resources");
    assert_eq!(uris.len(), known.len(), "{listed}");
    let uri = uris[0]["uri"].as_str().expect("a page");
    assert!(text(&run(&folder.0, &["read", "./x", uri])).contains("<html"));
    let (code, why) =
        complaint(&run(&folder.0, &["new", "x", "--page", "y", "--template", "kanbn"]));
    assert_eq!((code, why.contains("did you mean `kanban`?")), (Some(2), true), "{why}");
}

#[test]
fn a_run_has_the_exit_code_of_its_tool_and_says_what_was_meant() {
    let folder = Folder::new("run");
    let x = folder.0.as_path();
    write(
        &x.join("tools/fails.sh"),
        "# Fails always, for good.\necho before; echo why >&2; exit 41\n",
    );
    write(
        &x.join("tools/takes.sh"),
        "# Takes numbers and adds one.\n# @param n integer  A number.\necho $((ARG_N + 1))\n",
    );
    let (code, why) = complaint(&run(x, &["run", "fails"]));
    assert_eq!(code, Some(41), "{why}");
    assert!(why.contains("why"), "{why}");
    assert_eq!(text(&run(x, &["run", "takes", "n=4"])), "5\n");
    write(&x.join("args.json"), r#"{"n": 7}"#);
    assert_eq!(text(&run(x, &["run", "takes", "--args", "@args.json"])), "8\n");
    let (code, why) = complaint(&run(x, &["run", "taks", "n=4"]));
    assert_eq!((code, why.contains("did you mean `takes`?")), (Some(2), true), "{why}");
    let (code, why) = complaint(&run(x, &["run", "takes", "n=4", "m=4"]));
    assert_eq!(
        (code, why.contains("no argument `m`: did you mean `n`?")),
        (Some(2), true),
        "{why}"
    );
    let (code, why) = complaint(&run(x, &["list", "./nowhere"]));
    assert_eq!((code, why.contains("./nowhere is not there")), (Some(2), true), "{why}");
    let (code, why) = complaint(&run(x, &["run", "takes", "n=four", "--dry-run"]));
    assert_eq!((code, why.contains("`n`")), (Some(2), true), "{why}");
    let dry = json_of(&run(x, &["--json", "run", "takes", "n=4", "--dry-run"]));
    assert_eq!(dry, json!({ "tool": "takes", "arguments": { "n": 4 } }));
    let (code, why) = complaint(&run(x, &["run", "takes", "--in", "nowhere"]));
    assert_eq!((code, why.contains("--in FOLDER")), (Some(2), true), "{why}");
}

#[test]
fn a_run_that_is_stopped_takes_its_tool_along() {
    let folder = Folder::new("run-stopped");
    let script = "# Takes its time.\necho begun > begun\nsleep 6.25\necho done > done\n";
    write(&folder.0.join("tools/slow.sh"), script);
    let mut command = Command::new(zcp())
        .args(["run", "slow"])
        .current_dir(&folder.0)
        .spawn()
        .expect("the command runs");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !folder.0.join("begun").exists() {
        assert!(Instant::now() < deadline, "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = command.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("it runs").success());
    let stopped = Instant::now();
    assert_eq!(command.wait().expect("it ends").code(), Some(130));
    // It ends with what it began, and not when it is out of patience.
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    // Whoever is told that it has ended can rely on it.
    assert_eq!(running("sleep\x006.25"), 0, "its tool goes on");
    assert!(!folder.0.join("done").exists());
}

#[test]
fn a_run_tells_its_tool_where_the_client_works() {
    let folder = Folder::new("run-roots");
    let script = "# Says where the client works.\n. \"$ZCP_SDK/zcp.sh\"\nzcp_roots\n";
    write(&folder.0.join("tools/where.sh"), script);
    fs::create_dir_all(folder.0.join("work")).expect("it can be made");
    let told = text(&run(&folder.0, &["run", "where", "--roots", "work"]));
    assert!(told.contains("/work"), "{told}");
}

#[test]
fn validate_names_what_is_wrong_and_mends_what_it_can() {
    let folder = Folder::new("validate");
    let x = folder.0.as_path();
    write(
        &x.join("tools/good.sh"),
        "#!/usr/bin/env bash\n# Does good, whenever asked.\necho good\n",
    );
    text(&run(x, &["validate"]));
    let (code, _) = complaint(&run(x, &["validate", "--strict"]));
    assert_eq!(code, Some(1));
    text(&run(x, &["validate", "--fix"]));
    text(&run(x, &["validate", "--strict"]));
    let mounts =
        "[mounts.far]\nfolder = \"../nowhere\"\n[mounts.odd]\ncommand = \"no-such-server\"\n";
    let toml = format!("[defaults]\ntimout = \"1m\"\n[tools.gone]\ntimeout = 3\n{mounts}");
    write(&x.join("zcp.toml"), &toml);
    write(&x.join("tools/bad.meta.json"), "{");
    write(&x.join("tools/bad.sh"), "echo\n");
    write(&x.join("tools/odd.sh"), "#!/usr/bin/env no-such-language\n# Cannot be run at all.\n");
    let found = run(x, &["--json", "validate"]);
    assert_eq!(found.status.code(), Some(1));
    let found = json_of(&found)["findings"].to_string();
    let parts = ["`defaults.timout`", "`gone`", "bad.meta.json", "no-such-language", "../nowhere"];
    for part in parts.into_iter().chain(["`no-such-server` is not in PATH"]) {
        assert!(found.contains(part), "{part}: {found}");
    }
}

#[test]
fn lint_finds_what_models_stumble_over_and_counts_tokens() {
    let folder = Folder::new("lint");
    let x = folder.0.as_path();
    write(&x.join("tools/silent.sh"), "echo\n");
    write(&x.join("tools/odd.sh"), "# Does something odd with a list.\necho\n");
    let schema = json!({ "inputSchema": { "type": "object", "properties": {
        "list": { "type": "array", "description": "What." },
        "any": { "type": ["string", "null"] },
    } } });
    write(&x.join("tools/odd.meta.json"), &schema.to_string());
    let found = run(x, &["--json", "lint", "."]);
    assert!(found.status.success(), "{found:?}");
    let found = json_of(&found);
    let costs = found["cost"]["tools"].as_array().expect("costs");
    assert!(costs.iter().all(|cost| cost["tokens"].as_u64() > Some(5)), "{found}");
    let total: u64 = costs.iter().filter_map(|cost| cost["tokens"].as_u64()).sum();
    assert_eq!(found["cost"]["total"], total);
    let said = found["findings"].to_string();
    for part in ["no description", "the array list", "several types in any", "nothing of `any`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(run(x, &["lint", ".", "--strict"]).status.code(), Some(1));
}

#[test]
fn lint_and_validate_name_texts_after_flags() {
    let folder = Folder::new("flags");
    let tool = "# Shows the log of a branch.\n# @param ref string  The branch.\n# @args -p {ref}\n";
    write(&folder.0.join("tools/log.sh"), &format!("{tool}echo\n"));
    for command in ["lint", "validate"] {
        let found = json_of(&run(&folder.0, &["--json", command, "."]));
        let said = found["findings"].to_string();
        assert!(said.contains("`-p {ref}` in `args`"), "{command}: {said}");
    }
}

#[test]
fn validate_warns_of_a_log_that_a_sandbox_reads() {
    let folder = Folder::new("readable-log");
    write(&folder.0.join("tools/plain.sh"), "# Does something.\n# @sandbox\necho\n");
    for (path, is_warned) in [("audit.jsonl", true), ("../audit.jsonl", false)] {
        write(&folder.0.join("policy.toml"), &format!("audit = \"{path}\"\n"));
        let found = json_of(&run(&folder.0, &["--json", "validate", "."]));
        let said = found["findings"].to_string();
        assert_eq!(said.contains("its sandbox can read the audit log"), is_warned, "{said}");
    }
}

#[test]
fn tools_are_shown_with_their_arguments() {
    let folder = Folder::new("signatures");
    let tool = "# Copies files.\n# @param to string  Where to.\n# @param files integer = 5  How many.\n# @read-only\necho\n";
    write(&folder.0.join("x/tools/backup.sh"), tool);
    let listed = text(&run(&folder.0, &["list", "./x"]));
    assert!(listed.contains("backup(to: string, files: integer = 5)"), "{listed}");
    let described = text(&run(&folder.0, &["describe", "./x", "backup"]));
    for part in ["Copies files.", "string, required. Where to.", "default 5", "read-only"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let whole = json_of(&run(&folder.0, &["--json", "describe", "./x", "backup"]));
    assert_eq!(whole["inputSchema"]["required"], json!(["to"]), "{whole}");
    for (command, code) in [("describe", 2), ("call", 2)] {
        let wrong = run(&folder.0, &[command, "./x", "bakcup"]);
        let why = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(why.contains("did you mean `backup`?"), "{command}: {why}");
        assert_eq!(wrong.status.code(), Some(code), "{command}: {why}");
    }
}

#[test]
fn validate_reports_mounts_that_serve_refuses() {
    for (name, toml, lock, why) in [
        ("secret", "env = { K = \"secret://env/NO_SUCH_SECRET\" }", None, "NO_SUCH_SECRET"),
        ("lock", "", Some("<<<<<<< ours\n"), "zcp.lock"),
    ] {
        let folder = Folder::new(&format!("refused-{name}"));
        let x = folder.0.as_path();
        write(&x.join("tools/plain.sh"), "# Does something.\necho\n");
        write(&x.join("zcp.toml"), &format!("[mounts.far]\ncommand = [\"true\"]\n{toml}\n"));
        lock.into_iter().for_each(|lock| write(&x.join("zcp.lock"), lock));
        let served = run(x, &["serve", "--stdio"]);
        let told = String::from_utf8_lossy(&served.stderr).into_owned();
        assert!(!served.status.success() && told.contains(why), "{name}: {told}");
        let found = run(x, &["--json", "validate", "."]);
        let said = json_of(&found)["findings"].to_string();
        assert!(!found.status.success() && said.contains(why), "{name}: {said}");
    }
}

#[test]
fn validate_reports_every_mount_that_serve_refuses() {
    let folder = Folder::new("refused-all");
    let x = folder.0.as_path();
    write(&x.join("tools/plain.sh"), "# Does something.\necho\n");
    let mounts = r#"
[mounts.gone]
folder = "nowhere"
[mounts.missing]
command = ["no-such-program-here"]
[mounts.secret]
command = ["true"]
env = { K = "secret://env/NO_SUCH_SECRET" }
unlocked = ["tols"]
[mounts.two]
command = ["true"]
url = "http://127.0.0.1:1/mcp"
[mounts.url]
url = "gopher://x"
"#;
    write(&x.join("zcp.toml"), mounts);
    write(&x.join("zcp.lock"), "<<<<<<< ours\n");
    let refused = [
        ("gone", "nowhere"),
        ("secret", "NO_SUCH_SECRET"),
        ("secret", "unknown value `tols`"),
        ("two", "one of folder, command and url"),
        ("url", "gopher"),
        ("", "zcp.lock"),
    ];
    let served = run(x, &["serve", "--stdio"]);
    let told = String::from_utf8_lossy(&served.stderr).into_owned();
    let found = json_of(&run(x, &["--json", "validate", "."]));
    let found: Vec<String> = found["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(ToString::to_string)
        .filter(|finding| finding.contains("not mounted"))
        .collect();
    for (mount, why) in refused {
        let names = |text: &str| text.contains(mount) && text.contains(why);
        assert!(told.lines().any(names), "{mount} {why}: {told}");
        assert_eq!(found.iter().filter(|one| names(one)).count(), 1, "{mount} {why}: {found:#?}");
    }
    assert!(found.iter().any(|one| one.contains("no-such-program-here")), "{found:#?}");
    assert_eq!(found.len(), refused.len() + 1, "{found:#?}");
}

#[test]
fn validate_refuses_a_sandbox_that_writes_programs() {
    let folder = Folder::new("writes-programs");
    for (path, is_refused) in [("tools", true), (".", true), ("/tmp", true), ("data", false)] {
        let tool = format!("# Does something.\n# @sandbox write {path}\necho\n");
        write(&folder.0.join("tools/plain.sh"), &tool);
        let output = run(&folder.0, &["--json", "validate", "."]);
        let said = json_of(&output)["findings"].to_string();
        assert_eq!(said.contains("its sandbox must not write"), is_refused, "{path}: {said}");
        assert_eq!(output.status.success(), !is_refused, "{path}: {said}");
    }
}

#[test]
fn doctor_says_what_is_there_and_what_is_missing() {
    let folder = Folder::new("doctor");
    let x = folder.0.as_path();
    write(&x.join("tools/fine.py"), "\"\"\"Does well, whenever asked.\"\"\"\nprint('fine')\n");
    let found = run(x, &["--json", "doctor", "."]);
    assert!(found.status.success(), "{found:?}");
    let said = json_of(&found)["findings"].to_string();
    for part in ["python3", "sandbox", "reading can be forbidden", "0.1.0"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    write(&x.join("tools/odd/tool.sh"), "#!/usr/bin/env no-such-language\n");
    write(
        &x.join("server.d/requirements.json"),
        r#"{"dependencies":[{"or":["sh","x"]},{"name":"no-such-program"}]}"#,
    );
    let found = run(x, &["--json", "doctor", "."]);
    assert_eq!(found.status.code(), Some(1));
    let said = json_of(&found)["findings"].to_string();
    for part in ["no-such-language", "no-such-program is not in PATH", "sh or x"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    text(&run(x, &["doctor"]));
}

#[test]
fn health_says_in_one_line_whether_a_folder_can_be_served() {
    let folder = Folder::new("health");
    let x = folder.0.as_path();
    write(&x.join("tools/fine.sh"), "# Does well, whenever asked.\necho fine\n");
    let fine = run(x, &["health"]);
    assert_eq!(fine.status.code(), Some(0));
    assert_eq!((&json_of(&fine)["status"], &json_of(&fine)["tools"]), (&json!("ok"), &json!(1)));
    write(&x.join("tools/bad.meta.json"), "{");
    write(&x.join("tools/bad.sh"), "echo\n");
    let half = run(x, &["health"]);
    assert_eq!((half.status.code(), &json_of(&half)["status"]), (Some(1), &json!("degraded")));
    let (code, why) = complaint(&run(x, &["health", "nowhere"]));
    assert_eq!((code, why.contains("`zcp new nowhere` makes one")), (Some(2), true), "{why}");
}

#[test]
fn a_tool_is_added_to_a_project_of_mcp_bash_as_its_others_are() {
    let folder = Folder::new("new-in-mcp-bash");
    write(&folder.0.join("server.d/server.meta.json"), r#"{"name":"project"}"#);
    text(&run(&folder.0, &["new", ".", "--tool", "greet"]));
    assert!(folder.0.join("tools/greet/tool.sh").is_file());
    assert_eq!(text(&run(&folder.0, &["run", "greet", "name=Ann"])), "Hello, Ann!\n");
}

#[test]
fn health_makes_the_checks_of_the_project() {
    let folder = Folder::new("health-checks");
    let x = folder.0.as_path();
    let checks = |text: &str| {
        write(&x.join("server.d/health-checks.sh"), text);
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(x.join("server.d/health-checks.sh"), mode).expect("it is ours");
        let found = run(x, &["health"]);
        (found.status.code(), json_of(&found), complaint(&found).1)
    };
    let (code, said, _) = checks("echo noise\nmcp_health_check_command sh\n");
    assert_eq!((code, &said["projectChecks"]), (Some(0), &json!("ok")), "{said}");
    assert_eq!((&said["mode"], &said["jsonTool"]), (&json!("full"), &json!("jq")));
    let missing = "mcp_health_check_env NO_SUCH_THING 'the key of the shop'\n";
    let (code, said, why) = checks(missing);
    assert_eq!((code, &said["projectChecks"]), (Some(1), &json!("failed")), "{said}");
    assert!(said["status"] == "degraded" && why.contains("the key of the shop"), "{why}");
    // What others could write is not run.
    let mode = fs::Permissions::from_mode(0o666);
    fs::set_permissions(x.join("server.d/health-checks.sh"), mode).expect("it is ours");
    assert_eq!(json_of(&run(x, &["health"]))["projectChecks"], "skipped");
}

#[test]
fn dev_shows_what_becomes_of_tools() {
    let folder = Folder::new("dev");
    let tool = folder.0.join("tools/first.sh");
    write(&tool, "# The first of them all.\necho 1\n");
    let mut dev = Command::new(zcp())
        .args(["--json", "dev", "--http", "127.0.0.1:0", "--record", "tests/today.yaml"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(dev.stdout.take().expect("output")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    let serving = next();
    assert_eq!(serving["event"], "serving");
    write(&folder.0.join("tools/second.sh"), "# The second of them all.\necho 2\n");
    assert_eq!(next(), json!({ "event": "changed", "tool": "second", "what": "is new" }));
    fs::remove_file(&tool).expect("it can be removed");
    assert_eq!(next(), json!({ "event": "changed", "tool": "first", "what": "is gone" }));
    let url = serving["mcp"].as_str().expect("a URL").to_owned();
    text(&run(&folder.0, &["call", &url, "second"]));
    let called = next();
    assert_eq!(
        (&called["event"], &called["outcome"]),
        (&json!("called"), &json!("ok")),
        "{called}"
    );
    assert_eq!((&called["tool"], &called["client"]), (&json!("second"), &json!("zcp")), "{called}");
    dev.kill().expect("it ends");
    dev.wait().expect("it ended");
    // What was called is a case that holds.
    text(&run(&folder.0, &["test"]));
    write(&folder.0.join("tools/second.sh"), "# The second of them all.\necho 3\n");
    assert_eq!(run(&folder.0, &["test"]).status.code(), Some(1));
}
