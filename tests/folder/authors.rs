//! What authors of scripts run into: networks, interpreters, headers with slips, odd bytes, logs.

use super::sandbox_writes::logged;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, path::Path};
use zcp_scripts::Scripts;
use zcp_tests::{
    examples::zcp,
    folder::Folder,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, serve, write},
    text,
};

async fn with_env(folder: &Folder, env: &[(&str, &str)]) -> PipeClient {
    let folder = Scripts::folder(&folder.0).command(zcp());
    let folder = env.iter().fold(folder, |all, (name, value)| all.env(*name, *value));
    let scripts = folder.open().expect("it opens");
    assert_eq!(*scripts.mistakes().borrow(), Vec::<String>::new());
    PipeClient::open(scripts.server(), LAST).await
}

#[tokio::test]
async fn proxies_and_certificates_reach_every_script() {
    let folder = Folder::new("network-env");
    write(&folder, "tools/all.sh", "# Shows its environment.\nenv");
    write(&folder, "tools/two.sh", "# Shows it.\n# @env AWS_* OWN\nenv");
    write(&folder, "zcp.toml", "[defaults]\nenv = [\"GCP_*\"]\n");
    let mut client = with_env(
        &folder,
        &[
            ("https_proxy", "http://ann:pass-word-1@proxy.example:3128"),
            ("NO_PROXY", "localhost"),
            ("SSL_CERT_FILE", "/ca.pem"),
            ("NODE_EXTRA_CA_CERTS", "/node.pem"),
            ("AWS_REGION", "north"),
            ("GCP_PROJECT", "p"),
            ("OWN", "own"),
            ("OTHER", "other"),
            ("MCPBASH_REMOTE_TOKEN_FALLBACK_META_KEY", "k"),
        ],
    )
    .await;
    let all = text(&result(&mut client, "all", json!({})).await).to_owned();
    for line in ["NO_PROXY=localhost", "SSL_CERT_FILE=/ca.pem", "NODE_EXTRA_CA_CERTS=/node.pem"] {
        assert!(all.lines().any(|one| one == line), "{line}: {all}");
    }
    assert!(all.contains("https_proxy=http://[secret]@proxy.example:3128"), "{all}");
    assert!(all.contains("GCP_PROJECT=p"), "{all}");
    for name in ["AWS_REGION", "OWN", "OTHER", "pass-word-1"] {
        assert!(!all.contains(name), "{name}: {all}");
    }
    let two = text(&result(&mut client, "two", json!({})).await).to_owned();
    for line in ["AWS_REGION=north", "OWN=own", "GCP_PROJECT=p"] {
        assert!(two.lines().any(|one| one == line), "{line}: {two}");
    }
    assert!(!two.contains("OTHER"), "{two}");
}

#[tokio::test]
async fn one_odd_byte_leaves_text_a_text() {
    let folder = Folder::new("odd-byte");
    let mut client = serve(
        &folder,
        &[
            ("tools/odd.sh", "# Prints.\nprintf 'caf\\351 au lait\\n'"),
            ("tools/bytes.sh", "# Prints.\nprintf '\\001\\351\\000'"),
            ("tools/long.sh", "# Prints.\n# @limit output 1KiB\nfor n in $(seq 200); do printf 'caf\\351 au lait\\n'; done"),
        ],
    )
    .await;
    let odd = result(&mut client, "odd", json!({})).await;
    assert_eq!(text(&odd), "caf\u{fffd} au lait");
    let bytes = result(&mut client, "bytes", json!({})).await;
    assert_eq!(bytes["content"][0]["resource"]["mimeType"], "application/octet-stream");
    let long = result(&mut client, "long", json!({})).await;
    let uri = long["content"][2]["uri"].as_str().expect("a link").to_owned();
    let kept = client.ask(request(8, "resources/read", json!({ "uri": uri }))).await;
    let kept = kept["result"]["contents"][0]["text"].as_str().expect("text").to_owned();
    assert_eq!(kept.matches("caf\u{fffd}").count(), 200);
    let (log, _) = logged(&folder, "odd", "warn");
    assert!(log.contains("`odd` printed 1 bytes that are not UTF-8"), "{log}");
}

/// A virtual environment, as far as a script can tell: `sys.prefix` is its folder.
fn virtual_environment(at: &Path) {
    let python = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
        .map(|folder| folder.join("python3"))
        .find(|path| path.is_file())
        .expect("there is Python");
    let python = std::process::Command::new(python)
        .args(["-c", "import sys, os; print(os.path.realpath(sys.executable))"])
        .output()
        .expect("it runs")
        .stdout;
    let python = String::from_utf8(python).expect("a path");
    let python = Path::new(python.trim());
    fs::create_dir_all(at.join("bin")).expect("it can be made");
    symlink(python, at.join("bin/python")).expect("it can be made");
    let home = python.parent().expect("a folder").display();
    fs::write(at.join("pyvenv.cfg"), format!("home = {home}\n")).expect("it can be written");
}

#[tokio::test]
async fn a_virtual_environment_runs_what_is_python() {
    let folder = Folder::new("venv");
    virtual_environment(&folder.0.join(".venv"));
    let show = "import sys; print(sys.prefix)";
    for (name, head) in [
        ("tools/plain.py", "\"\"\"Shows.\"\"\""),
        ("tools/env.py", "#!/usr/bin/env python3\n# Shows."),
        ("tools/noending", "#!/usr/bin/env python3\n# Shows."),
        ("tools/boxed.py", "# Shows.\n# @sandbox"),
        ("tools/own.py", "#!/usr/bin/env -S python3 -B\n# Shows."),
    ] {
        write(&folder, name, &format!("{head}\n{show}\n"));
    }
    let scripts = open(&folder);
    assert_eq!(*scripts.mistakes().borrow(), Vec::<String>::new());
    let venv = folder.0.canonicalize().expect("it is there").join(".venv");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    for tool in ["plain", "env", "noending", "boxed"] {
        let shown = result(&mut client, tool, json!({})).await;
        assert_eq!(text(&shown), venv.to_string_lossy(), "{tool}");
    }
    let own = result(&mut client, "own", json!({})).await;
    assert!(!text(&own).contains(".venv"), "its first line decides: {own}");
}

#[tokio::test]
async fn a_project_names_interpreters_by_ending() {
    let folder = Folder::new("interpreters");
    write(&folder, "bin/mine", "#!/bin/sh\necho \"mine: $*\" | sed \"s|$PWD/||\"\n");
    let settings = "[interpreters]\npy = \"bin/mine --quick\"\n\".rb\" = [\"bin/mine\", \"a b\"]\n";
    write(&folder, "zcp.toml", settings);
    write(&folder, "tools/one.py", "#!/usr/bin/env python3\n# One.\n");
    write(&folder, "tools/two.rb", "# Two.\n");
    write(&folder, "tools/three.py", "#!/bin/sh\n# Three.\necho its own\n");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    let mut said = async |tool| text(&result(&mut client, tool, json!({})).await).to_owned();
    assert_eq!(said("one").await, "mine: --quick tools/one.py");
    assert_eq!(said("two").await, "mine: a b tools/two.rb");
    assert_eq!(said("three").await, "its own");
}

#[tokio::test]
async fn an_interpreter_elsewhere_is_not_replaced() {
    let folder = Folder::new("no-interpreter");
    write(&folder, "tools/gone.py", "#!/nope/.venv/bin/python3\n# Gone.\nprint(1)\n");
    fs::write(folder.0.join("tools/plain.py"), "#!/nope/.venv/bin/python3\n# Gone.\nprint(1)\n")
        .expect("it can be written");
    write(&folder, "tools/usual.sh", "#!/opt/local/bin/bash\n# Usual.\necho yes\n");
    let scripts = open(&folder);
    let programs = scripts.programs().borrow().clone();
    for program in &programs[..2] {
        let why = program.by.as_ref().expect_err("it cannot be run");
        assert!(why.contains("/nope/.venv/bin/python3, which is not there"), "{why}");
    }
    let note = &programs[2].warnings[0];
    assert!(note.contains("names /opt/local/bin/bash, which is not there"), "{note}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(text(&result(&mut client, "usual", json!({})).await), "yes");
}

#[tokio::test]
async fn a_command_is_found_beside_a_script_or_in_its_project() {
    let folder = Folder::new("command-paths");
    write(&folder, "bin/run", "#!/bin/sh\necho project\n");
    write(&folder, "tools/own/run", "#!/bin/sh\necho beside\n");
    write(&folder, "tools/a.sh", "# Runs.\n# @command bin/run\n");
    write(&folder, "tools/own/tool.sh", "# Runs.\n# @command ./run\n");
    write(&folder, "tools/c.sh", "# Runs.\n# @command bin/none\n");
    let scripts = open(&folder);
    let programs = scripts.programs().borrow().clone();
    let missing = programs.iter().find(|one| one.tool == "c").expect("it is there");
    let why = missing.by.as_ref().expect_err("it is not there");
    assert!(why.contains("`bin/none` is not there") && why.contains("begins at"), "{why}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(text(&result(&mut client, "a", json!({})).await), "project");
    assert_eq!(text(&result(&mut client, "own", json!({})).await), "beside");
}

#[tokio::test]
async fn slips_in_headers_are_all_reported() {
    let folder = Folder::new("slips");
    let slips = [
        "@param name strng Who.",
        "@param e red | green colour",
        "@param twice string",
        "@param twice string",
        "@returns jsn",
        "@env",
        "@env FOO-BAR",
        "@icon none.png",
    ];
    let header = slips.map(|slip| format!("# {slip}\n")).concat();
    write(&folder, "tools/slips.sh", &format!("# Slips.\n{header}echo\n"));
    let wrong =
        "# Wrong.\n# @timeout soon\n# @limit speed 3\n# @sandobx\n# @param n strng x\necho\n";
    write(&folder, "tools/wrong.sh", wrong);
    symlink("/proc/self/mem", folder.0.join("tools/unread.sh")).expect("it can be made");
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().clone();
    let has = |words: &str| {
        assert!(mistakes.iter().any(|one| one.contains(words)), "{words}: {mistakes:#?}");
    };
    has("did you mean `string`?");
    has("such as `red|green`");
    has("`@param twice` is there twice");
    has("did you mean `json`?");
    has("names no variable");
    has("can be called `FOO-BAR`");
    has("none.png");
    has("unread.sh");
    // A header that cannot be used says everything that is wrong with it at once.
    let all = mistakes.iter().find(|one| one.contains("wrong.sh")).expect("it is left out");
    for words in ["`@timeout soon`", "`@limit speed 3`", "did you mean `@sandbox`?", "`string`"] {
        assert!(all.contains(words), "{words}: {all}");
    }
    let names: Vec<String> =
        scripts.programs().borrow().iter().map(|one| one.tool.clone()).collect();
    assert_eq!(names, ["slips"], "slips cost nobody the tool");
}

#[tokio::test]
async fn types_of_sphinx_and_defaults_without_spaces_count() {
    let folder = Folder::new("sphinx");
    let sphinx = "\"\"\"Adds.\n\n:param size: How many.\n:type size: int\n:param names: Which.\n\
                  :type names: list[str], optional\n\"\"\"\n";
    let spaced = "# Says.\n# @param x string=\"a b\" Words.\n";
    let mut client = serve(&folder, &[("tools/add.py", sphinx), ("tools/say.sh", spaced)]).await;
    let tools = client.ask(request(1, "tools/list", json!({}))).await["result"]["tools"].clone();
    let (add, say) = (&tools[0]["inputSchema"], &tools[1]["inputSchema"]);
    assert_eq!(add["properties"]["size"]["type"], "integer");
    assert_eq!(add["properties"]["names"]["items"]["type"], "string");
    assert_eq!(add["required"], json!(["size"]));
    assert_eq!(say["properties"]["x"]["default"], "a b");
}

#[test]
fn scripts_that_a_folder_hides_are_reported() {
    let folder = Folder::new("hidden-tools");
    for name in ["a.sh", "b.py", "resources/x.txt"] {
        write(&folder, name, "# Text.\n");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mistakes = runtime.block_on(async { open(&folder).mistakes().borrow().clone() });
    let hidden = "2 scripts beside `resources/` are not served: move them into `tools/`";
    assert!(mistakes.iter().any(|one| one.contains(hidden)), "{mistakes:?}");
    write(&folder, "tools/c.sh", "# Text.\n");
    let mistakes = runtime.block_on(async { open(&folder).mistakes().borrow().clone() });
    assert_eq!(mistakes, Vec::<String>::new());
}

#[tokio::test]
async fn a_limit_that_ended_a_run_is_named() {
    let folder = Folder::new("cpu");
    let mut client =
        serve(&folder, &[("tools/busy.py", "# Computes.\n# @limit cpu 1s\nwhile True: pass\n")])
            .await;
    let busy = result(&mut client, "busy", json!({})).await;
    let words = "it used more than 1 s of processor time (`@limit cpu`)";
    assert!(text(&busy).contains(words), "{busy}");
}

#[tokio::test]
async fn a_question_that_is_not_json_is_an_error() {
    let folder = Folder::new("broken-question");
    let ask = "# Asks.\necho 'ask k {broken json' >> \"$ZCP_OUT\"; read -r answer < \"$ZCP_IN\"; echo \"$answer\"";
    let mut client = serve(&folder, &[("tools/ask.sh", ask)]).await;
    let told: Value = result(&mut client, "ask", json!({})).await["structuredContent"].clone();
    assert!(told["error"].as_str().is_some_and(|why| why.starts_with("not JSON: ")), "{told}");
}

#[test]
fn the_log_names_the_script_and_its_standard_error() {
    let folder = Folder::new("log-names");
    write(
        &folder,
        "tools/dbg.sh",
        "# Says.\necho 'progess 1' >> \"$ZCP_OUT\"\necho 'debug: begun' >&2\necho done",
    );
    let (log, answer) = logged(&folder, "dbg", "debug");
    assert!(log.contains("`dbg` said `progess`, which means nothing"), "{log}");
    assert!(log.contains("did you mean `progress`?"), "{log}");
    assert!(log.contains("`dbg` on standard error: debug: begun"), "{log}");
    assert_eq!(answer["result"].get("_meta"), None, "{answer}");
}

#[tokio::test]
async fn standard_error_reaches_observers_and_results() {
    let folder = Folder::new("stderr");
    write(&folder, "tools/dbg.sh", "# Says.\necho 'debug: begun' >&2\necho done");
    let scripts =
        Scripts::folder(&folder.0).env("ZCP_REPORT_STDERR", "1").open().expect("it opens");
    let mut calls = scripts.observe();
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let done = result(&mut client, "dbg", json!({})).await;
    assert_eq!((text(&done), &done["_meta"]["stderr"]), ("done", &json!("debug: begun")));
    assert_eq!(calls.recv().await.expect("a call").stderr, "debug: begun");
}

#[tokio::test]
async fn how_much_is_shown_is_a_setting() {
    let folder = Folder::new("shown");
    write(&folder, "tools/much.sh", "# Prints.\nhead -c 300000 /dev/zero | tr '\\0' x");
    for (shown, length) in [("1MiB", 300_000), ("1KiB", 1024)] {
        let mut client = with_env(&folder, &[("ZCP_MAX_SHOWN_OUTPUT", shown)]).await;
        assert_eq!(text(&result(&mut client, "much", json!({})).await).len(), length);
    }
}

#[tokio::test]
async fn a_sandbox_says_what_it_may_read() {
    let folder = Folder::new("may-read");
    write(&folder, "elsewhere/secret.txt", "secret");
    let reads = "# Reads.\n# @sandbox read /etc/hosts\ncat \"$(dirname \"$ZCP_PROJECT\")/elsewhere/secret.txt\"";
    write(&folder, "project/tools/read.sh", reads);
    let project = folder.0.join("project");
    let scripts = Scripts::folder(&project).command(zcp()).open().expect("it opens");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let read = result(&mut client, "read", json!({})).await;
    let words = "it may read the project, its temporary folder, what programs need (`/usr`, `/etc`, \
                 `/opt`, `/proc` and the like), and /etc/hosts";
    assert!(text(&read).contains(words), "{read}");
}

#[tokio::test]
async fn a_failure_names_a_variable_the_script_does_not_see() {
    let folder = Folder::new("unseen");
    write(&folder, "tools/needs.sh", "# Needs.\nset -u\necho \"$SHOP_KEY\"");
    write(&folder, "tools/sees.sh", "# Needs.\n# @env SHOP_*\necho SHOP_KEY >&2; exit 1");
    let mut client = with_env(&folder, &[("SHOP_KEY", "k-1234")]).await;
    let failed = result(&mut client, "needs", json!({})).await;
    let hint = "`SHOP_KEY` is set for the server and not for this script";
    assert!(text(&failed).contains(hint) && text(&failed).contains("`@env SHOP_KEY`"), "{failed}");
    assert!(!failed.to_string().contains("k-1234"), "{failed}");
    let failed = result(&mut client, "sees", json!({})).await;
    assert!(!text(&failed).contains("is set for the server"), "{failed}");
}
