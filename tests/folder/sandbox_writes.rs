//! What scripts in a sandbox may write, and what that must not lead to outside of it.

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};
use zcp_scripts::Scripts;
use zcp_tests::{
    call,
    examples::zcp,
    folder::Folder,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, serve, write},
    text,
};

/// A tool that may write `data`.
const WRITES: &str = "# Writes.\n# @sandbox write data\necho x";

/// Whether the tool `writes` is left out of a folder with a few more files, and why.
fn refused(name: &str, files: &[(&str, &str)]) -> Option<String> {
    let folder = Folder::new(name);
    write(&folder, "data/kept.txt", "1");
    write(&folder, "tools/writes.sh", WRITES);
    files.iter().for_each(|(name, content)| write(&folder, name, content));
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().join("\n");
    let is_offered = scripts.programs().borrow().iter().any(|one| one.tool == "writes");
    assert_ne!(mistakes.contains("its sandbox must not write `data`"), is_offered, "{mistakes}");
    (!is_offered).then_some(mistakes)
}

#[tokio::test]
async fn a_sandbox_writes_nothing_that_tells_a_secret() {
    let says = |value: &str| format!("# Uses.\n# @env KEY={value}\necho x");
    let sidecar = r#"{ "env": { "KEY": "secret://file/data/token" } }"#;
    for (name, file, content) in [
        ("in-header", "tools/uses.sh", says("secret://file/data/token")),
        ("in-sidecar", "tools/uses.meta.json", sidecar.to_owned()),
        ("by-program", "tools/uses.sh", says("secret://cmd/data/tell.sh")),
        ("by-script", "tools/uses.sh", says("secret://cmd/bash data/tell.sh")),
        ("by-option", "tools/uses.sh", says("secret://cmd/tell --from=data/kept.txt")),
        ("by-shell", "tools/uses.sh", says("secret://cmd/sh -c '. data/kept.txt; echo $A'")),
        ("by-folder", "tools/uses.sh", says("secret://cmd/make -C data")),
        ("by-module", "tools/uses.sh", says("secret://cmd/python3 -m data.tell")),
        (
            "of-mount",
            "zcp.toml",
            "[mounts.far]\ncommand = [\"true\"]\nenv = { K = \"secret://file/data/token\" }\n".into(),
        ),
        (
            "of-mounted-url",
            "zcp.toml",
            "[mounts.far]\nurl = \"https://a.example\"\nheaders = { K = \"secret://file/data/k\" }\n"
                .into(),
        ),
        (
            "of-provider",
            "zcp.toml",
            "[providers.https.headers]\nAuthorization = \"Bearer secret://file/data/token\"\n".into(),
        ),
        (
            "of-host",
            "zcp.toml",
            "[providers.https.headers.\"a.example\"]\nK = \"secret://cmd/cat data/token\"\n".into(),
        ),
    ] {
        let more = [("tools/uses.sh", "# Uses.\necho x"), (file, content.as_str())];
        let why = refused(&format!("secret-{name}"), &more).expect(name);
        assert!(why.contains("a secret comes from there"), "{name}: {why}");
    }
    let plain = says("secret://cmd/bash tell.sh other/data");
    assert_eq!(refused("secret-elsewhere", &[("tools/uses.sh", &plain)]), None);
}

#[tokio::test]
async fn a_sandbox_writes_nothing_that_a_mounted_program_runs() {
    for (name, words) in [
        ("folder", "command = [\"make\"]\ncwd = \"data\""),
        ("deeper", "command = [\"make\"]\ncwd = \"data/deep\""),
        ("module", "command = [\"python3\", \"-m\", \"data.server\"]"),
        ("file", "command = [\"cat\", \"data/kept.txt\"]"),
        ("new-file", "command = [\"sh\", \"data/new.sh\"]"),
        ("certificates", "url = \"https://a.example\"\n[providers.https]\nca = \"data/ca.pem\""),
    ] {
        let toml = format!("[mounts.far]\n{words}\n");
        let name = format!("mounted-{name}");
        assert!(refused(&name, &[("zcp.toml", &toml)]).is_some(), "{name}");
    }
    // Data that a mounted program is told of, and the project itself as its folder.
    let toml = "[mounts.far]\ncommand = [\"cat\", \"data\"]\ncwd = \".\"\n";
    assert_eq!(refused("mounted-data", &[("zcp.toml", toml)]), None);
}

#[tokio::test]
async fn a_secret_that_a_sandbox_may_have_written_is_not_told() {
    let folder = Folder::new("written-secret");
    write(&folder, "tools/writes.sh", WRITES);
    write(&folder, "data/token", "planted");
    write(&folder, "data/tell.sh", "#!/bin/sh\necho planted\n");
    write(&folder, "other/token", "genuine");
    std::os::unix::fs::symlink("../other/token", folder.0.join("data/link")).expect("a link");
    std::os::unix::fs::symlink("data/token", folder.0.join("over")).expect("a link");
    let scripts = open(&folder);
    for reference in [
        "secret://file/data/token",
        "secret://file/data/link",
        "secret://file/over",
        "secret://cmd/data/tell.sh",
        "secret://cmd/sh data/tell.sh",
        "secret://cmd/cat other/token data/token",
    ] {
        let told = scripts.revealed(reference).await;
        let why = told.expect_err(reference);
        assert!(why.contains("a script in a sandbox may have written"), "{reference}: {why}");
    }
    for reference in ["secret://file/other/token", "secret://cmd/cat other/token"] {
        assert_eq!(scripts.revealed(reference).await.as_deref(), Ok("genuine"), "{reference}");
    }
}

#[tokio::test]
async fn a_tool_does_not_run_where_a_sandbox_may_write() {
    let folder = Folder::new("written-folder");
    write(&folder, "data/deep/kept.txt", "1");
    write(&folder, "z/kept.txt", "1");
    // Before and after the one that may write.
    let runs = |rules: &str| format!("# Runs.\n{rules}# @cwd data/deep\npwd");
    write(&folder, "tools/a.sh", &runs(""));
    write(&folder, "tools/b.sh", &runs("# @sandbox no-network\n"));
    write(&folder, "tools/confined.sh", &runs("# @sandbox read-only\n"));
    write(&folder, "tools/elsewhere.sh", "# Runs.\n# @cwd z\npwd");
    write(&folder, "tools/writes.sh", WRITES);
    write(&folder, "tools/y.sh", &runs(""));
    let scripts = open(&folder);
    let tools: Vec<String> =
        scripts.programs().borrow().iter().map(|one| one.tool.clone()).collect();
    assert_eq!(tools, ["confined", "elsewhere", "writes"]);
    let mistakes = scripts.mistakes().borrow().join("\n");
    assert_eq!(mistakes.matches("it must not run in `").count(), 3, "{mistakes}");
}

/// Two folders of one process: the second is opened beside the first.
fn beside(first: &Folder, second: &Folder) -> (Scripts, Scripts) {
    let first = open(first);
    let second = Scripts::folder(&second.0).command(zcp()).beside(&first);
    let second = second.open().expect("it opens");
    (first, second)
}

#[tokio::test]
async fn a_link_widens_no_sandbox_of_a_folder_beside() {
    for plants_first in [true, false] {
        let name = format!("beside-link-{plants_first}");
        let [first, second, shared, elsewhere] = ["first", "second", "shared", "elsewhere"]
            .map(|part| Folder::new(&format!("{name}-{part}")));
        fs::write(elsewhere.0.join("outside.txt"), "TOP-SECRET").expect("written");
        write(&shared, "in/own.txt", "own");
        let (place, outside) = (shared.0.display(), elsewhere.0.display());
        let plants = format!(
            "# Plants.\n# @sandbox\n# @sandbox write {place}\n\
             rm -r {place}/in; ln -s {outside} {place}/in; echo done"
        );
        let reads = format!("# Reads.\n# @sandbox\n# @sandbox read {place}/in\ncat {place}/in/*");
        let (planting, reading) = if plants_first { (&first, &second) } else { (&second, &first) };
        write(planting, "tools/plants.sh", &plants);
        write(reading, "tools/reads.sh", &reads);
        let (first, second) = beside(&first, &second);
        let mut one = PipeClient::open(first.server(), LAST).await;
        let mut two = PipeClient::open(second.server(), LAST).await;
        let (planting, reading) =
            if plants_first { (&mut one, &mut two) } else { (&mut two, &mut one) };
        assert_eq!(text(&result(reading, "reads", json!({})).await), "own");
        assert_eq!(text(&result(planting, "plants", json!({})).await), "done");
        let read = result(reading, "reads", json!({})).await;
        assert!(!read.to_string().contains("TOP-SECRET"), "{plants_first}: {read}");
    }
}

#[tokio::test]
async fn a_sandbox_writes_nothing_that_a_folder_beside_runs() {
    let (first, second) = (Folder::new("beside-first"), Folder::new("beside-second"));
    let secrets = Folder::new("beside-secrets");
    write(&secrets, "token", "x");
    let (path, token) = (first.0.display(), secrets.0.display());
    write(&first, "data/kept.txt", "1");
    write(&first, "tools/own.sh", WRITES);
    let uses = format!("# Uses.\n# @env KEY=secret://file/{token}/token\necho x");
    write(&first, "tools/uses.sh", &uses);
    let places = [
        (format!("{path}"), false),
        (format!("{path}/tools"), false),
        (format!("{path}/zcp.toml"), false),
        (format!("{path}/.git"), false),
        (token.to_string(), false),
        (format!("{path}/data"), true),
        ("data".to_owned(), true),
    ];
    write(&first, "zcp.toml", "[server]\nname = \"first\"\n");
    for (number, (place, _)) in places.iter().enumerate() {
        let tool = format!("# Writes.\n# @sandbox write {place}\necho x");
        write(&second, &format!("tools/t{number}.sh"), &tool);
    }
    let (first, second) = beside(&first, &second);
    let mistakes = second.mistakes().borrow().join("\n");
    let programs = second.programs();
    for (number, (place, is_offered)) in places.iter().enumerate() {
        let name = format!("t{number}");
        let is_there = programs.borrow().iter().any(|one| one.tool == name);
        assert_eq!(is_there, *is_offered, "{place}: {mistakes}");
    }
    assert_eq!(first.programs().borrow().len(), 2, "{:?}", first.mistakes().borrow());
}

#[tokio::test]
async fn a_sandbox_that_was_there_first_writes_nothing_of_a_later_folder() {
    let (first, second) = (Folder::new("earlier-first"), Folder::new("earlier-second"));
    let secrets = Folder::new("earlier-secrets");
    write(&secrets, "token", "genuine");
    let place = secrets.0.display();
    let writes = format!("# Writes.\n# @sandbox write {place}\necho planted > {place}/token");
    write(&first, "tools/writes.sh", &writes);
    let uses = format!("# Uses.\n# @env KEY=secret://file/{place}/token\necho \"$KEY\"");
    write(&second, "tools/uses.sh", &uses);
    let (first, _second) = beside(&first, &second);
    let mut client = PipeClient::open(first.server(), LAST).await;
    let answer = result(&mut client, "writes", json!({})).await;
    assert!(text(&answer).contains("its sandbox must not write"), "{answer}");
    assert_eq!(fs::read_to_string(secrets.0.join("token")).expect("it is there"), "genuine");
}

#[tokio::test]
async fn a_file_of_a_sandbox_has_a_limited_size() {
    let folder = Folder::new("file-size");
    let writes = |rules: &str| {
        format!(
            "# Writes.\n{rules}ulimit -f\n\
             (truncate -s 1024M \"$TMPDIR/fits\") 2>&1 && echo fits\n\
             (truncate -s 1025M \"$TMPDIR/large\") 2>/dev/null || echo refused"
        )
    };
    write(&folder, "tools/confined.sh", &writes("# @sandbox read-only\n"));
    let mut client = serve(&folder, &[]).await;
    let said = result(&mut client, "confined", json!({})).await;
    assert_eq!(text(&said), "1048576\nfits\nrefused", "{said}");
}

/// The log of the command while a tool of a folder is called, and the answer.
pub(super) fn logged(folder: &Folder, tool: &str, level: &str) -> (String, Value) {
    let log = folder.0.join("log.txt");
    let mut command = Command::new(zcp());
    command.args(["serve", "--log", level]).arg(&folder.0).arg("--stdio");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(fs::File::create(&log).expect("it can be written"));
    let mut server = command.spawn().expect("the command starts");
    let mut stdin = server.stdin.take().expect("an input");
    let hello = json!({ "protocolVersion": LAST, "capabilities": {},
        "clientInfo": { "name": "log", "version": "1" } });
    writeln!(stdin, "{}", request(1, "initialize", hello)).expect("it reads");
    writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .expect("it reads");
    writeln!(stdin, "{}", request(2, "tools/call", call(tool, json!({})))).expect("it reads");
    let lines = BufReader::new(server.stdout.take().expect("an output")).lines();
    let mut messages = lines
        .map(|line| -> Value { serde_json::from_str(&line.expect("a line")).expect("a message") });
    let answer = messages.find(|message| message["id"] == 2).expect("an answer");
    drop(stdin);
    server.wait().expect("it ends");
    (fs::read_to_string(log).expect("a log"), answer)
}

#[test]
fn a_script_cannot_fill_the_log() {
    let folder = Folder::new("log-filled");
    let says = "# Says.\n# @sandbox\nword=$(head -c 100000 /dev/zero | tr '\\0' Q)\n\
                printf 'a\\033[2Jb\\n' >> \"$ZCP_OUT\"\n\
                for n in $(seq 60); do echo \"$word$n\" >> \"$ZCP_OUT\"; done\n\
                head -c 3000000 /dev/zero | tr '\\0' R >> \"$ZCP_OUT\"; echo >> \"$ZCP_OUT\"\necho done";
    write(&folder, "tools/says.sh", says);
    let (log, answer) = logged(&folder, "says", "warn");
    assert_eq!(text(&answer["result"]), "done", "{answer}");
    assert!(log.len() < 20_000, "{} bytes: {log:.2000}", log.len());
    assert_eq!(log.matches("which means nothing").count(), 20, "{log}");
    assert!(log.contains("`says` said 42 more lines that mean nothing"), "{log}");
    assert!(!log.contains("\u{1b}[2J"), "{log}");
    assert!(!log.contains(&"Q".repeat(101)) && log.contains(&"Q".repeat(100)), "{log}");
}
