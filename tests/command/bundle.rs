//! `zcp bundle`: a folder in one file, and what a client makes of it.

use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};
use zcp_tests::{examples::zcp, folder::Folder, script::write};
use zip::ZipArchive;

const GREET: &str = "#!/bin/sh\n# Greets.\n# @param name string\n# @env GREETING\n. \"$(dirname \"$0\")/../lib/words.sh\"\necho \"${GREETING:-$(usual)}, $ARG_NAME!\"\n";

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    for (path, content) in [
        ("project/tools/greet.sh", GREET),
        ("project/lib/words.sh", "usual() { echo Hello; }\n"),
        ("project/ui/board/index.html", "<p>Board</p>"),
        (
            "project/prompts/review.md",
            "---\ndescription: Reviews.\narguments: [{ name: what }]\n---\nReview {{what}}.\n",
        ),
        ("project/skills/sing/SKILL.md", "---\nname: sing\ndescription: Sings.\n---\nLa.\n"),
        ("project/node_modules/left/index.js", "// left"),
        ("project/.env", "TOKEN=1\n"),
        ("project/.env.example", "TOKEN=\n"),
        ("project/server.pem", "-----BEGIN PRIVATE KEY-----\n"),
        ("project/roots.pem", "-----BEGIN CERTIFICATE-----\n"),
        ("project/.git/config", "[core]\n"),
        ("project/notes.log", "x"),
        ("project/.mcpbignore", "*.log\n"),
        ("project/zcp.toml", ABOUT),
    ] {
        write(&folder, path, content);
    }
    folder
}

const ABOUT: &str = "[server]\nname = \"greeter\"\nversion = \"1.2.3\"\n\n[bundle]\ndisplay_name = \"Greeter\"\ndescription = \"Greets people.\"\nauthor = \"Ann\"\nlicense = \"MIT\"\nkeywords = [\"hello\"]\n\n[bundle.env]\nGREETING = \"${user_config.greeting}\"\n\n[bundle.user_config.greeting]\ntype = \"string\"\ntitle = \"Greeting\"\n";

fn bundle(folder: &Folder, more: &[&str]) -> Output {
    let mut command = Command::new(zcp());
    let command = command.arg("bundle").arg(folder.0.join("project")).args(more);
    command.env("HOME", &folder.0).env("XDG_CACHE_HOME", &folder.0);
    command.current_dir(&folder.0).output().expect("it runs")
}

/// A small program for a system, by its first bytes: what packs only need not run.
fn program(folder: &Folder, name: &str, first: &[u8]) -> String {
    let path = folder.0.join(name);
    fs::write(&path, first).expect("it can be written");
    path.to_str().expect("text").to_owned()
}

fn elf(folder: &Folder) -> String {
    program(folder, "elf", b"\x7fELF and more")
}

fn said(done: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&done.stdout) + &text(&done.stderr)
}

fn open(file: &Path) -> ZipArchive<fs::File> {
    ZipArchive::new(fs::File::open(file).expect("a bundle")).expect("a ZIP")
}

fn names(file: &Path) -> Vec<String> {
    open(file).file_names().map(|name| name.expect("UTF-8").into_owned()).collect()
}

fn manifest(file: &Path) -> Value {
    let mut archive = open(file);
    let entry = archive.by_name("manifest.json").expect("it has one");
    serde_json::from_reader(entry).expect("JSON")
}

#[test]
fn a_client_that_installs_it_can_call_its_tools() {
    let folder = folder("bundle-whole");
    let done = bundle(&folder, &["--output", "dist"]);
    assert!(done.status.success(), "{}", said(&done));
    let told = said(&done);
    for part in [
        "Made dist/greeter-1.2.3.mcpb",
        "greeter 1.2.3: 1 tool, 1 prompt, ",
        ".env         it may hold secrets",
        ".git/        tools do not need it",
        "notes.log    `*.log` in .mcpbignore",
        "server.pem   it is a private key",
    ] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let file = folder.0.join("dist/greeter-1.2.3.mcpb");
    let place = folder.0.join("somewhere else");
    open(&file).extract(&place).expect("it can be unpacked");
    // Nothing of the folder it was made of is needed.
    fs::rename(folder.0.join("project"), folder.0.join("moved")).expect("it is ours");
    let manifest = manifest(&file);
    let config = &manifest["server"]["mcp_config"];
    let here = place.to_str().expect("text");
    let filled = |value: &Value| value.as_str().expect("text").replace("${__dirname}", here);
    let words = config["args"].as_array().expect("arguments").iter().map(filled);
    let line: Vec<String> = [filled(&config["command"])].into_iter().chain(words).collect();
    let line = line.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let call = |env: &[&str]| {
        let mut command = Command::new(zcp());
        let command = command.args(["call", &line, "greet", "name=Ann"]).args(env);
        let done = command.env("XDG_CACHE_HOME", &folder.0).output().expect("it runs");
        assert!(done.status.success(), "{}", said(&done));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    assert_eq!(call(&["--env", "GREETING=Hi"]), "Hi, Ann!\n");
    // What clients hand over when the user said nothing.
    assert_eq!(call(&["--env", "GREETING=${user_config.greeting}"]), "Hello, Ann!\n");
}

#[test]
fn a_bundle_has_no_audit_log_and_no_state() {
    let folder = folder("bundle-private");
    for (path, content) in [
        ("project/policy.toml", "default = \"allow\"\naudit = \"logs/calls.jsonl\"\n"),
        ("project/logs/calls.jsonl", "{}\n"),
        ("project/logs/calls.jsonl.1", "{}\n"),
        ("project/state/zcp.sqlite", "keys"),
        ("project/state/zcp.sqlite-wal", "keys"),
        ("project/own.db-shm", "keys"),
        ("project/token.txt", "secret"),
        ("project/wanted.txt", "fine"),
        ("project/data.sqlite", "fine"),
        ("project/.mcpbignore", "!wanted.txt\n!data.sqlite\n"),
    ] {
        write(&folder, path, content);
    }
    for name in ["token.txt", "wanted.txt"] {
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.0.join("project").join(name), own).expect("it is ours");
    }
    let done = bundle(&folder, &["--binary", &elf(&folder), "--json"]);
    let made: Value = serde_json::from_slice(&done.stdout).expect("one value");
    let names = names(&folder.0.join(made["file"].as_str().expect("a file")));
    let out = made["leftOut"].as_array().expect("a list");
    for (path, why) in [
        ("logs/calls.jsonl", "it is the log of calls"),
        ("logs/calls.jsonl.1", "it is the log of calls"),
        ("state/zcp.sqlite", "it may hold secrets"),
        ("state/zcp.sqlite-wal", "it may hold secrets"),
        ("own.db-shm", "it may hold secrets"),
        ("token.txt", "only its owner may read it: `!token.txt` in .mcpbignore packs it"),
    ] {
        assert!(out.contains(&json!({ "path": path, "why": why })), "{path}: {out:?}");
        assert!(!names.contains(&format!("server/project/{path}")), "{names:?}");
    }
    for path in ["wanted.txt", "data.sqlite", "tools/greet.sh"] {
        assert!(names.contains(&format!("server/project/{path}")), "{path}: {names:?}");
    }
}

/// Where all files are private, that is somebody's habit and marks no secret.
#[test]
fn a_folder_of_private_files_is_packed_with_a_warning() {
    let folder = folder("bundle-umask");
    let done = Command::new("chmod").args(["-R", "go-rwx"]).arg(folder.0.join("project")).status();
    assert!(done.is_ok_and(|done| done.success()));
    let done = bundle(&folder, &["--binary", &elf(&folder), "--json"]);
    let made: Value = serde_json::from_slice(&done.stdout).expect("one value");
    let names = names(&folder.0.join(made["file"].as_str().expect("a file")));
    assert!(names.contains(&"server/project/tools/greet.sh".to_owned()), "{names:?}");
    assert!(made["warnings"].to_string().contains("by their owner only"), "{made}");
}

#[test]
fn the_manifest_says_what_the_folder_says() {
    let folder = folder("bundle-manifest");
    let done = bundle(&folder, &["--binary", &elf(&folder), "--json"]);
    assert!(done.status.success(), "{}", said(&done));
    let made: Value = serde_json::from_slice(&done.stdout).expect("one value");
    assert_eq!((&made["tools"], &made["prompts"]), (&json!(1), &json!(1)));
    assert_eq!(made["warnings"], json!([]));
    let file = folder.0.join(made["file"].as_str().expect("a file"));
    assert_eq!(made["bytes"], fs::metadata(&file).expect("it is there").len());
    let all = manifest(&file);
    let expected = json!({
        "manifest_version": "0.3",
        "name": "greeter",
        "display_name": "Greeter",
        "version": "1.2.3",
        "description": "Greets people.",
        "author": { "name": "Ann" },
        "license": "MIT",
        "keywords": ["hello"],
        "user_config": { "greeting": { "type": "string", "title": "Greeting", "description": "Greeting" } },
        "server": {
            "type": "binary",
            "entry_point": "server/zcp",
            "mcp_config": {
                "command": "${__dirname}/server/zcp",
                "args": ["serve", "${__dirname}/server/project", "--stdio"],
                "env": { "GREETING": "${user_config.greeting}" },
            },
        },
        "tools": [{ "name": "greet", "description": "Greets." }],
        "prompts": [{ "name": "review", "description": "Reviews.", "arguments": ["what"], "text": "Review ${arguments.what}." }],
        "compatibility": { "platforms": ["linux"] },
    });
    assert_eq!(all, expected);
    let names = names(&file);
    for name in
        ["ui/board/index.html", "lib/words.sh", "skills/sing/SKILL.md", "zcp.toml", "roots.pem"]
    {
        assert!(names.contains(&format!("server/project/{name}")), "{name} is not in {names:?}");
    }
    assert!(names.contains(&"server/project/node_modules/left/index.js".to_owned()));
    assert!(names.contains(&"server/project/.env.example".to_owned()));
    for name in [".env", ".git/config", "notes.log", "server.pem", ".mcpbignore"] {
        assert!(!names.contains(&format!("server/project/{name}")), "{name} is in {names:?}");
    }
}

#[test]
fn two_bundles_of_one_folder_are_the_same() {
    let folder = folder("bundle-same");
    let elf = elf(&folder);
    for output in ["one", "two"] {
        let done = bundle(&folder, &["--binary", &elf, "--output", output]);
        assert!(done.status.success(), "{}", said(&done));
        // Times do not matter.
        let touched = folder.0.join("project/tools/greet.sh");
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::open(touched).and_then(|file| file.set_modified(old)).expect("it is ours");
    }
    let read =
        |output: &str| fs::read(folder.0.join(output).join("greeter-1.2.3.mcpb")).expect("made");
    assert_eq!(read("one"), read("two"));
    let mut archive = open(&folder.0.join("one/greeter-1.2.3.mcpb"));
    let mode = |archive: &mut ZipArchive<_>, name: &str| {
        archive.by_name(name).expect("it is there").unix_mode().expect("a mode") & 0o777
    };
    assert_eq!(mode(&mut archive, "server/zcp"), 0o755);
    assert_eq!(mode(&mut archive, "server/project/tools/greet.sh"), 0o755);
    assert_eq!(mode(&mut archive, "server/project/zcp.toml"), 0o644);
    let again = bundle(&folder, &["--binary", &elf, "--output", "one"]);
    assert!(said(&again).contains("Replaced one/greeter-1.2.3.mcpb"), "{}", said(&again));
}

#[test]
fn mistakes_make_no_bundle() {
    let folder = folder("bundle-wrong");
    let elf = elf(&folder);
    let refused = |about: &str, why: &str| {
        write(&folder, "project/zcp.toml", about);
        let done = bundle(&folder, &["--binary", &elf]);
        assert_eq!(done.status.code(), Some(1), "{}", said(&done));
        assert!(said(&done).contains(why), "`{why}` is not in {}", said(&done));
        assert!(
            !fs::read_dir(&folder.0)
                .expect("it")
                .flatten()
                .any(|entry| { entry.path().extension().is_some_and(|ending| ending == "mcpb") })
        );
    };
    let field = "[bundle.user_config.key]\n";
    refused(&format!("{field}type = \"text\"\ntitle = \"Key\"\n"), "its `type` is none of");
    refused(&format!("{field}type = \"string\"\n"), "it needs a `title`");
    refused("[bundle.env]\nKEY = \"${user_config.key}\"\n", "`key` is not in user_config");
    refused("[bundle]\nnmae = \"x\"\n", "nmae");
    write(&folder, "outside.txt", "secret");
    symlink("../outside.txt", folder.0.join("project/link.txt")).expect("a link");
    refused(ABOUT, "link.txt leads out of the folder");
}

#[test]
fn links_inside_of_the_folder_become_files() {
    let folder = folder("bundle-links");
    symlink("lib/words.sh", folder.0.join("project/words.sh")).expect("a link");
    symlink(".env", folder.0.join("project/settings")).expect("a link");
    symlink("nowhere", folder.0.join("project/broken")).expect("a link");
    let done = bundle(&folder, &["--binary", &elf(&folder)]);
    assert!(done.status.success(), "{}", said(&done));
    let file = folder.0.join("greeter-1.2.3.mcpb");
    let mut archive = open(&file);
    let linked = archive.by_name("server/project/words.sh").expect("it is there");
    assert_eq!(std::io::read_to_string(linked).expect("text"), "usual() { echo Hello; }\n");
    let names = names(&file);
    assert!(!names.contains(&"server/project/settings".to_owned()), "a link to a secret is one");
    assert!(said(&done).contains("it leads nowhere"), "{}", said(&done));
}

#[test]
fn secrets_of_every_kind_stay_out() {
    let folder = folder("bundle-secrets");
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n";
    let secrets = [
        ("prod.env", "TOKEN=1\n"),
        (".git-credentials", "https://me:token@example.com\n"),
        ("id_ed25519_sk", "x"),
        ("deploy", key),
        ("account.json", "{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMII\"}\n"),
        ("zcp.toml.bak", "x"),
        (".mcp.json.bak-20260101T000000Z", "x"),
        (".mcp.json", "{}"),
        (".cursor/mcp.json", "{}"),
        (".vscode/mcp.json", "{}"),
        (".gemini/settings.json", "{}"),
        (".codex/config.toml", ""),
        (".zed/settings.json", "{}"),
    ];
    for (name, content) in secrets {
        write(&folder, &format!("project/{name}"), content);
    }
    write(&folder, "project/example.pub", "-----BEGIN PUBLIC KEY-----\n");
    let done = bundle(&folder, &["--binary", &elf(&folder)]);
    assert!(done.status.success(), "{}", said(&done));
    let names = names(&folder.0.join("greeter-1.2.3.mcpb"));
    for (name, _) in secrets {
        assert!(!names.contains(&format!("server/project/{name}")), "{name} is in {names:?}");
    }
    assert!(names.contains(&"server/project/example.pub".to_owned()), "{names:?}");
    // Who means it says so.
    write(&folder, "project/.mcpbignore", "\u{feff}*.log\n!deploy\n");
    let done = bundle(&folder, &["--binary", &elf(&folder)]);
    assert!(done.status.success(), "{}", said(&done));
    let names = self::names(&folder.0.join("greeter-1.2.3.mcpb"));
    assert!(names.contains(&"server/project/deploy".to_owned()), "{names:?}");
    assert!(!names.contains(&"server/project/notes.log".to_owned()), "{names:?}");
}

#[test]
fn credentials_and_hidden_files_stay_out_by_default() {
    let folder = folder("bundle-hidden");
    let out = [
        (".docker/config.json", "{}"),
        (".kube/config", "x"),
        (".pgpass", "x"),
        (".netrc", "x"),
        (".bash_history", "x"),
        (".config/tool/token", "x"),
        ("tools/.cache/token", "x"),
        ("_netrc", "x"),
        ("prod.tfvars", "x"),
        ("terraform.tfstate", "{}"),
        ("store.jks", "x"),
        ("store.p12", "x"),
        ("a.kdbx", "x"),
        ("secrets.toml", "x"),
        ("credentials", "x"),
        ("service-account.json", "{}"),
        ("prod.env.local", "x"),
        ("state.db", "SQLite format 3\0and more"),
        ("node_modules/left/.env", "x"),
    ];
    let kept = [
        ("node_modules/.bin/left", "x"),
        ("node_modules/left/.hidden.js", "x"),
        (".python-version", "3.12\n"),
        (".env.example", "TOKEN=\n"),
        ("words.db", "plain"),
        ("tools/credentials.sh", GREET),
    ];
    for (name, content) in out.iter().chain(&kept) {
        write(&folder, &format!("project/{name}"), content);
    }
    let packed = || {
        let done = bundle(&folder, &["--binary", &elf(&folder)]);
        assert!(done.status.success(), "{}", said(&done));
        (names(&folder.0.join("greeter-1.2.3.mcpb")), said(&done))
    };
    let (names, told) = packed();
    let is_in = |names: &[String], name: &str| names.contains(&format!("server/project/{name}"));
    for (name, _) in out {
        assert!(!is_in(&names, name), "{name} is in {names:?}");
    }
    for (name, _) in kept {
        assert!(is_in(&names, name), "{name} is not in {names:?}");
    }
    for part in ["`!NAME` in .mcpbignore", ".config/", "it is hidden", "it is a database"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    write(&folder, "project/.mcpbignore", "!.config\n!state.db\n!.pgpass\n");
    let (names, told) = packed();
    for name in [".config/tool/token", "state.db", ".pgpass"] {
        assert!(is_in(&names, name), "{name} is not in {names:?}\n{told}");
    }
}

#[test]
fn what_cannot_be_read_makes_no_bundle() {
    for name in [".mcpbignore", "mcpb.conf", "zcp.toml"] {
        let folder = folder("bundle-unreadable");
        fs::write(folder.0.join("project").join(name), [b'*', 0xff]).expect("it can be written");
        let done = bundle(&folder, &["--binary", &elf(&folder)]);
        assert_eq!(done.status.code(), Some(1), "{name}: {}", said(&done));
        assert!(said(&done).contains(name), "{}", said(&done));
    }
}

#[test]
fn links_that_cross_are_refused() {
    let folder = folder("bundle-crossing");
    symlink("../ui", folder.0.join("project/lib/one")).expect("a link");
    symlink("../lib", folder.0.join("project/ui/other")).expect("a link");
    let done = bundle(&folder, &["--binary", &elf(&folder)]);
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(said(&done).contains("leads to a folder it is in"), "{}", said(&done));
}

#[test]
fn other_systems_need_their_own_command() {
    let folder = folder("bundle-systems");
    let other = if cfg!(target_os = "macos") { "linux" } else { "darwin" };
    let done = bundle(&folder, &["--platform", other]);
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done).contains("--binary"), "{}", said(&done));
    let done = bundle(&folder, &["--platform", "win32", "--binary", &elf(&folder)]);
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done).contains("is for linux, and not for win32"), "{}", said(&done));
    assert_eq!(bundle(&folder, &["--platform", "beos"]).status.code(), Some(2));
    let exe = program(&folder, "zcp.exe", b"MZ and more");
    let done = bundle(&folder, &["--platform", "win32", "--binary", &exe]);
    assert!(done.status.success(), "{}", said(&done));
    let all = manifest(&folder.0.join("greeter-1.2.3-win32.mcpb"));
    assert_eq!(all["server"]["entry_point"], "server/zcp.exe");
    assert_eq!(all["compatibility"]["platforms"], json!(["win32"]));
}

#[test]
fn projects_for_mcp_bash_say_it_their_way() {
    let folder = Folder::new("bundle-mcp-bash");
    let conf = "# Of a shell.\nMCPB_NAME=\"basher\"\nMCPB_AUTHOR_NAME='Bob B'\nMCPB_LICENSE=MIT\nMCPB_KEYWORDS=\"a b\"\nMCPB_HOMEPAGE=\"$(curl example.com)\"\nMCPB_USER_CONFIG_FILE=\"user-config.json\"\nMCPB_USER_CONFIG_ENV_MAP=\"api_key=API_KEY\"\nMCPB_RUNTIME_NODE=\">=18\"\n";
    for (path, content) in [
        ("project/mcpb.conf", conf),
        (
            "project/user-config.json",
            "{\"api_key\": {\"type\": \"string\", \"title\": \"Key\", \"sensitive\": true}}",
        ),
        ("project/VERSION", "3.0.0\n"),
        (
            "project/server.d/server.meta.json",
            "{\"name\": \"other\", \"version\": \"2.0.0\", \"description\": \"Bashes.\"}",
        ),
        ("project/tools/hello/tool.sh", "#!/usr/bin/env bash\necho hello\n"),
        (
            "project/tools/hello/tool.meta.json",
            "{\"name\": \"hello\", \"description\": \"Says hello.\", \"inputSchema\": {\"type\": \"object\"}}",
        ),
    ] {
        write(&folder, path, content);
    }
    let done = bundle(&folder, &["--binary", &elf(&folder)]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(
        said(&done).contains("mcpb.conf, line 6: MCPB_HOMEPAGE is computed"),
        "{}",
        said(&done)
    );
    let all = manifest(&folder.0.join("basher-3.0.0.mcpb"));
    assert_eq!(all["description"], "Bashes.");
    assert_eq!(all["author"], json!({ "name": "Bob B" }));
    assert_eq!(all["keywords"], json!(["a", "b"]));
    assert_eq!(
        all["compatibility"],
        json!({ "runtimes": { "node": ">=18" }, "platforms": ["linux"] })
    );
    assert_eq!(all["user_config"]["api_key"]["sensitive"], true);
    let env = &all["server"]["mcp_config"]["env"];
    assert_eq!(env["API_KEY"], "${user_config.api_key}");
    assert_eq!(env["MCPBASH_TOOL_ENV_ALLOWLIST"], "API_KEY");
    assert_eq!(all["tools"], json!([{ "name": "hello", "description": "Says hello." }]));
    let done = bundle(&folder, &["--binary", &elf(&folder), "--name", "typed", "--version", "4"]);
    assert!(said(&done).contains("`4` is no version like 1.2.3"), "{}", said(&done));
    let file: PathBuf = folder.0.join("typed-4.mcpb");
    assert!(fs::metadata(&file).expect("made").permissions().mode() & 0o044 != 0);
}

#[test]
fn a_variable_no_script_sees_is_told() {
    let folder = folder("bundle-unseen");
    write(&folder, "project/tools/greet.sh", &GREET.replace("# @env GREETING\n", ""));
    let done = bundle(&folder, &["--binary", &elf(&folder)]);
    assert!(said(&done).contains("no script is shown GREETING"), "{}", said(&done));
}
