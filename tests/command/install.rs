//! `zcp install` and `zcp config`: a folder's server in the files of clients, which lose nothing.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use zcp_tests::{examples::zcp, folder::Folder};

/// A client, its file below the home, the member that holds its servers, and a file as somebody
/// has it.
struct Client {
    id: &'static str,
    file: &'static str,
    project: Option<&'static str>,
    servers: &'static str,
    own: &'static str,
}

const PLAIN: &str = "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"old\": { \"command\": \
                     \"x\", \"more\": [1, 2] }\n  },\n  \"last\": true\n}\n";

const CLIENTS: [Client; 10] = [
    Client {
        id: "claude-code",
        file: ".claude.json",
        project: Some(".mcp.json"),
        servers: "mcpServers",
        own: PLAIN,
    },
    Client {
        id: "claude-desktop",
        file: "settings/Claude/claude_desktop_config.json",
        project: None,
        servers: "mcpServers",
        own: PLAIN,
    },
    Client {
        id: "cursor",
        file: ".cursor/mcp.json",
        project: Some(".cursor/mcp.json"),
        servers: "mcpServers",
        own: "{\n\t\"mcpServers\": {\n\t\t// mine\n\t\t\"old\": {\"command\": \"x\"}\n\t}\n}\n",
    },
    Client {
        id: "vscode",
        file: "settings/Code/User/mcp.json",
        project: Some(".vscode/mcp.json"),
        servers: "servers",
        own: "// mine\n{\n    \"inputs\": [], // none yet\n    \"servers\": {\n        /* old */\n        \
              \"old\": {\"type\": \"http\", \"url\": \"https://example.com\"},\n    },\n}\n",
    },
    Client {
        id: "windsurf",
        file: ".codeium/windsurf/mcp_config.json",
        project: None,
        servers: "mcpServers",
        own: "{\"mcpServers\": {\n  \"old\": {\"serverUrl\": \"https://example.com\"}\n}}",
    },
    Client {
        id: "zed",
        file: "settings/zed/settings.json",
        project: Some(".zed/settings.json"),
        servers: "context_servers",
        own: "// Zed settings\n//\n{\n  \"vim_mode\": true, // yes\n  \"theme\": {\n    \"mode\": \
              \"system\",\n  },\n}\n",
    },
    Client {
        id: "gemini",
        file: ".gemini/settings.json",
        project: Some(".gemini/settings.json"),
        servers: "mcpServers",
        own: "{\r\n  // mine\r\n  \"ui\": {},\r\n  \"mcpServers\": {\r\n    \"old\": {\r\n      \
              \"httpUrl\": \"https://example.com\"\r\n    }\r\n  }\r\n}\r\n",
    },
    Client {
        id: "codex",
        file: ".codex/config.toml",
        project: Some(".codex/config.toml"),
        servers: "mcp_servers",
        own: "model = \"x\" # mine\n\n# old\n[mcp_servers.old]\ncommand = 'y'\n\n[profiles.a]\nb = 1\n",
    },
    Client {
        id: "goose",
        file: "settings/goose/config.yaml",
        project: None,
        servers: "extensions",
        own: "GOOSE_MODEL: x # mine\nextensions:\n  # built in\n  developer:\n    type: builtin\n    \
              enabled: true\n\n# the end\nGOOSE_MODE: auto\n",
    },
    Client {
        id: "cline",
        file: ".cline/data/settings/cline_mcp_settings.json",
        project: None,
        servers: "mcpServers",
        own: "{ \"mcpServers\": {} }\n",
    },
];

/// A user with a home, and a folder of scripts in it.
struct User {
    home: Folder,
    scripts: PathBuf,
}

impl User {
    fn new(name: &str) -> Self {
        let home = Folder::new(&format!("install-{name}"));
        let scripts = home.0.canonicalize().unwrap().join("My tools' v1");
        fs::create_dir_all(scripts.join("tools")).unwrap();
        fs::write(scripts.join("tools/greet.sh"), "# Greets.\necho \"Hello, $KEY!\"\n").unwrap();
        Self { home, scripts }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(zcp());
        command.args(args).current_dir(&self.home.0).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &self.home.0);
        for (name, folder) in [
            ("XDG_CONFIG_HOME", "settings"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CACHE_HOME", "cache"),
            ("APPDATA", "settings"),
        ] {
            command.env(name, self.home.0.join(folder));
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn install(&self, client: &str, more: &[&str]) -> Output {
        let folder = self.scripts.to_str().unwrap();
        self.run(&[&["install", client, folder], more].concat())
    }

    fn file(&self, client: &Client) -> PathBuf {
        self.home.0.join(client.file)
    }

    /// Puts a client's file there, with permissions nobody has by default.
    fn own(&self, client: &Client, text: &str) -> PathBuf {
        let file = self.file(client);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        file
    }

    fn entry_words(&self) -> Value {
        json!(["serve", self.scripts, "--stdio"])
    }
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&done(output)).unwrap()
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// How many files are where this one is.
fn beside(file: &Path) -> usize {
    let all = fs::read_dir(file.parent().unwrap()).unwrap();
    all.filter(|one| one.as_ref().unwrap().path().is_file()).count()
}

/// What a file without comments says.
fn read(client: &Client, text: &str) -> Value {
    match client.id {
        "codex" => toml::from_str(text).unwrap(),
        "goose" => serde_saphyr::from_str(text).unwrap(),
        _ => serde_json::from_str(text).unwrap(),
    }
}

#[test]
fn every_client_gets_a_server_it_had_no_file_for() {
    let user = User::new("nothing");
    for client in &CLIENTS {
        let said = json_of(&user.install(client.id, &["--env", "KEY=a b", "--json"]));
        let file = user.file(client);
        assert_eq!(said["file"], json!(file), "{}", client.id);
        assert_eq!(said["changed"], true);
        assert_eq!(said["backup"], Value::Null);
        assert_eq!(said["client"], client.id);
        let name = if client.id == "goose" { "my_tools__v1" } else { "My_tools__v1" };
        assert_eq!(said["name"], name);
        let all = read(client, &fs::read_to_string(&file).unwrap());
        let entry = &all[client.servers][name];
        assert_eq!(*entry, said["entry"], "{}", client.id);
        assert_eq!(entry["args"], user.entry_words(), "{}", client.id);
        let (command, env) = match client.id {
            "goose" => ("cmd", "envs"),
            _ => ("command", "env"),
        };
        assert_eq!(entry[command], json!(zcp()), "{}", client.id);
        assert_eq!(entry[env]["KEY"], "a b", "{}", client.id);
        let typed = ["claude-code", "vscode", "goose"].contains(&client.id);
        assert_eq!(entry.get("type").is_some(), typed, "{}", client.id);
        assert_eq!(mode(&file), 0o600, "{}", client.id);
        assert_eq!(beside(&file), 1, "{}: something temporary was left", client.id);
    }
}

#[test]
fn what_is_in_a_file_stays() {
    let user = User::new("stays");
    for client in &CLIENTS {
        let file = user.own(client, client.own);
        let now = || fs::read_to_string(&file).unwrap();

        let output = user.install(client.id, &["--dry-run"]);
        let shown = done(&output);
        assert!(shown.lines().any(|line| line.starts_with("+ ")), "{shown}");
        assert!(shown.contains("My tools' v1"), "{shown}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(client.file), "{output:?}");
        assert_eq!((now().as_str(), beside(&file)), (client.own, 1), "{}", client.id);

        let said = done(&user.install(client.id, &[]));
        assert!(said.contains("1 tool") && said.contains("Next: "), "{said}");
        let plain = |line: &str| line.trim_end_matches(['\r', ',', '}', ' ', '{']).to_owned();
        let written = now();
        let mut lines = written.lines().map(plain);
        for line in client.own.lines().map(plain) {
            assert!(lines.any(|one| one == line), "{}: {line:?} in {written}", client.id);
        }
        assert_eq!(written.contains("\r\n"), client.own.contains("\r\n"));
        assert_eq!(mode(&file), 0o640, "{}", client.id);
        let backup = said.split_whitespace().find(|word| word.contains(".bak-")).unwrap();
        assert_eq!(fs::read_to_string(backup).unwrap(), client.own);
        assert_eq!((mode(Path::new(backup)), beside(&file)), (0o640, 2), "{}", client.id);

        let again = json_of(&user.install(client.id, &["--json"]));
        assert_eq!((&again["changed"], &again["backup"]), (&json!(false), &Value::Null));
        assert!(done(&user.install(client.id, &[])).contains("already"));
        assert_eq!((now(), beside(&file)), (written, 2), "{}", client.id);

        let name = again["name"].as_str().unwrap();
        let removed = json_of(&user.run(&["install", client.id, "--remove", name, "--json"]));
        assert_eq!(removed["changed"], true);
        let left = now();
        assert!(!left.contains("--stdio"), "{}: {left}", client.id);
        let had_table = client.own.contains(client.servers);
        let is_one_line = client.id == "windsurf" || client.id == "cline";
        if had_table && !is_one_line {
            assert_eq!(left, client.own, "{}", client.id);
        }
        let why = refused(&user.run(&["install", client.id, "--remove", name]), 1);
        assert!(why.contains("has no server called"), "{why}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let user = User::new("invalid");
    for client in &CLIENTS {
        let text = match client.id {
            "codex" => "a = 1\nb = = 2\n",
            "goose" => "a: 1\nb: [1\n",
            _ => "{\n  \"a\": 1\n  \"b\": 2\n}\n",
        };
        let file = user.own(client, text);
        let why = refused(&user.install(client.id, &[]), 1);
        assert!(why.contains("line ") && why.contains(client.file), "{why}");
        assert!(why.contains("mend the file"), "{why}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(beside(&file), 1, "{}", client.id);
    }
    let file = user.home.0.join(".cursor/mcp.json");
    fs::write(&file, [b'{', 0xff, b'}']).unwrap();
    assert!(refused(&user.install("cursor", &[]), 1).contains("UTF-8"));
}

#[test]
fn the_file_a_link_leads_to_is_written() {
    let user = User::new("links");
    let dots = user.home.0.join("dotfiles");
    fs::create_dir(&dots).unwrap();
    for client in &CLIENTS {
        let file = user.file(client);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let real = dots.join(client.id);
        fs::write(&real, client.own).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o604)).unwrap();
        symlink(&real, &file).unwrap();
        let said = json_of(&user.install(client.id, &["--json"]));
        assert!(file.is_symlink(), "{}", client.id);
        assert_eq!(said["file"], json!(real));
        assert!(fs::read_to_string(&real).unwrap().contains("--stdio"), "{}", client.id);
        assert_eq!(mode(&real), 0o604, "{}", client.id);
        assert!(said["backup"].as_str().unwrap().starts_with(dots.to_str().unwrap()));
    }
    let (link, real) = (user.home.0.join(".claude.json"), dots.join("later.json"));
    fs::remove_file(&link).unwrap();
    symlink("dotfiles/later.json", &link).unwrap();
    done(&user.install("claude-code", &[]));
    assert!(link.is_symlink() && real.is_file());
    fs::remove_file(&link).unwrap();
    symlink(&link, &link).unwrap();
    assert!(refused(&user.install("claude-code", &[]), 1).contains("link to itself"));
}

#[test]
fn a_file_stays_its_owners() {
    let user = User::new("owner");
    let file = user.own(&CLIENTS[0], PLAIN);
    // Only an administrator can give files away, and only then there is something to keep.
    let owner = chown(&file, Some(1234), Some(4321)).map_or_else(|_| None, |()| Some((1234, 4321)));
    let said = json_of(&user.install("claude-code", &["--json"]));
    for file in [file.as_path(), Path::new(said["backup"].as_str().unwrap())] {
        let now = fs::metadata(file).unwrap();
        assert_eq!((now.uid(), now.gid()), owner.unwrap_or((now.uid(), now.gid())));
    }
}

#[test]
fn projects_have_files_of_their_own() {
    let user = User::new("projects");
    let project = user.home.0.join("project");
    fs::create_dir(&project).unwrap();
    for client in &CLIENTS {
        let output = user.install(client.id, &["--project", "project"]);
        match client.project {
            Some(file) => {
                done(&output);
                let text = fs::read_to_string(project.join(file)).unwrap();
                assert!(text.contains("--stdio"), "{text}");
            }
            None => assert!(refused(&output, 2).contains("leave --project out")),
        }
        assert!(!user.file(client).exists(), "{}", client.id);
    }
    refused(&user.install("cursor", &["--project", "nowhere"]), 1);
}

#[test]
fn a_server_of_somebody_elses_is_not_replaced() {
    let user = User::new("names");
    for client in &CLIENTS {
        let file = user.own(client, "");
        done(&user.install(client.id, &["--name", "mine", "--env", "A=1"]));
        let ours = fs::read_to_string(&file).unwrap();
        // Elsewhere zcp is another file, and somebody has added a variable.
        let moved = ours.replace(zcp().to_str().unwrap(), "/elsewhere/zcp");
        fs::write(&file, moved).unwrap();
        let said = json_of(&user.install(client.id, &["--name", "mine", "--env", "B=2", "--json"]));
        assert_eq!(said["changed"], true);
        let all = read(client, &fs::read_to_string(&file).unwrap());
        let env = if client.id == "goose" { "envs" } else { "env" };
        let env = &all[client.servers]["mine"][env];
        assert_eq!(*env, json!({ "A": "1", "B": "2" }), "{}", client.id);

        let theirs = ours.replace(zcp().to_str().unwrap(), "/usr/bin/npx");
        fs::write(&file, &theirs).unwrap();
        let why = refused(&user.install(client.id, &["--name", "mine"]), 1);
        assert!(why.contains("/usr/bin/npx") && why.contains("--name"), "{why}");
        let why = refused(&user.run(&["install", client.id, "--remove", "mine"]), 1);
        assert!(why.contains("take it out yourself"), "{why}");
        assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
        done(&user.install(client.id, &["--name", "mine-2"]));
    }
}

#[test]
fn what_clients_add_to_an_entry_stays() {
    let user = User::new("added");
    let cline = &CLIENTS[9];
    done(&user.install("cline", &["--name", "mine"]));
    let file = user.file(cline);
    let text = fs::read_to_string(&file).unwrap();
    let added = text.replace("\"args\"", "\"disabled\": true, // for now\n      \"args\"");
    fs::write(&file, added.replace("My tools' v1", "elsewhere")).unwrap();
    done(&user.install("cline", &["--name", "mine"]));
    assert_eq!(fs::read_to_string(&file).unwrap(), added);
}

#[test]
fn a_second_folder_of_the_same_name_is_not_mixed_with_the_first() {
    let user = User::new("second");
    let other = user.home.0.canonicalize().unwrap().join("other/My tools' v1");
    fs::create_dir_all(other.join("tools")).unwrap();
    fs::write(other.join("tools/part.sh"), "# Parts.\necho Bye\n").unwrap();
    let other = other.to_str().unwrap();
    for client in &CLIENTS {
        done(&user.install(client.id, &["--env", "KEY=secret"]));
        let file = user.file(client);
        // The first may be started with more words, which stay.
        let text = fs::read_to_string(&file).unwrap().replace("--stdio", "--quiet");
        fs::write(&file, &text).unwrap();
        assert_eq!(json_of(&user.install(client.id, &["--json"]))["changed"], false);
        let why = refused(&user.run(&["install", client.id, other]), 1);
        assert!(why.contains("--name") && why.contains("My tools' v1"), "{why}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "{}", client.id);
        done(&user.run(&["install", client.id, other, "--name", "second"]));
        let all = read(client, &fs::read_to_string(&file).unwrap());
        let second = &all[client.servers]["second"];
        assert_eq!(second["args"][1], other, "{}", client.id);
        assert!(!second.to_string().contains("secret"), "{second}");
    }
}

#[test]
fn many_at_once_lose_nothing() {
    let user = User::new("at-once");
    let file = user.own(&CLIENTS[2], CLIENTS[2].own);
    let folder = user.scripts.to_str().unwrap();
    let names: Vec<String> = (0..6).map(|number| format!("mine-{number}")).collect();
    let start = |name: &String| {
        let mut command = user.command(&["install", "cursor", folder, "--name", name]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = names.iter().map(start).collect();
    for child in started {
        done(&child.wait_with_output().unwrap());
    }
    let text = fs::read_to_string(&file).unwrap();
    for name in names.iter().map(String::as_str).chain(["old"]) {
        assert!(text.contains(&format!("\"{name}\"")), "{name} in {text}");
    }
}

#[test]
fn links_out_of_a_project_are_not_followed() {
    let user = User::new("out");
    let (project, outside) = (user.home.0.join("project"), user.home.0.join("outside.json"));
    fs::create_dir(&project).unwrap();
    fs::write(&outside, "{}").unwrap();
    symlink("../outside.json", project.join(".mcp.json")).unwrap();
    let why = refused(&user.install("claude-code", &["--project", "project"]), 1);
    assert!(why.contains("leads out of"), "{why}");
    symlink("..", project.join(".cursor")).unwrap();
    let why = refused(&user.install("cursor", &["--project", "project"]), 1);
    assert!(why.contains("leads out of"), "{why}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "{}");
    assert!(!user.home.0.join("mcp.json").exists());
    fs::create_dir(project.join("inside")).unwrap();
    symlink("inside", project.join(".vscode")).unwrap();
    done(&user.install("vscode", &["--project", "project"]));
    assert!(project.join("inside/mcp.json").is_file());
}

#[test]
fn nothing_of_an_entry_changes_when_it_is_installed_again() {
    let user = User::new("again");
    let goose = &CLIENTS[8];
    done(&user.install("goose", &["--name", "mine"]));
    let file = user.file(goose);
    let more = "envs: # by hand\n      FLAG: no\n      MODE: 0755\n      VERSION: 1.10 # newest\n";
    let text = fs::read_to_string(&file).unwrap().replace("envs: {}\n", more);
    fs::write(&file, &text).unwrap();
    assert_eq!(json_of(&user.install("goose", &["--name", "mine", "--json"]))["changed"], false);
    assert_eq!((fs::read_to_string(&file).unwrap(), beside(&file)), (text.clone(), 1));
    done(&user.install("goose", &["--name", "mine", "--env", "NEW=yes"]));
    let new = text.replace("# newest\n", "# newest\n      NEW: \"yes\"\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), new);
}

#[test]
fn mistakes_say_what_to_do() {
    let user = User::new("mistakes");
    let why = refused(&user.install("vscod", &[]), 2);
    assert!(why.contains("did you mean vscode?") && why.contains("windsurf"), "{why}");
    let why = refused(&user.run(&["install", "cursor", "nowhere"]), 2);
    assert!(why.contains("nowhere"), "{why}");
    let why = refused(&user.install("cursor", &["--name", "a b"]), 2);
    assert!(why.contains("`a_b`"), "{why}");
    let why = refused(&user.install("cursor", &["--env", "A"]), 2);
    assert!(why.contains("NAME=VALUE"), "{why}");
    assert!(!user.home.0.join(".cursor").exists());
}

#[test]
fn cline_is_served_where_it_was_before() {
    let user = User::new("cline");
    let old = user.home.0.join(
        "settings/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    );
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    done(&user.install("cline", &[]));
    assert!(old.is_file());
}

#[test]
fn an_installed_server_works() {
    let user = User::new("works");
    for client in &CLIENTS {
        let name = format!("by-{}", client.id);
        done(&user.install(client.id, &["--name", &name, "--env", "KEY=Ann"]));
        let listed = json_of(&user.run(&["list", &name, "tools", "--json"]));
        assert_eq!(listed["tools"][0]["name"], "greet", "{}", client.id);
    }
    let text = fs::read_to_string(user.home.0.join(".claude.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let entry = &all["mcpServers"]["by-claude-code"];
    let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    assert_eq!(entry["command"].as_str().map(PathBuf::from), Some(zcp()));
    let mut list = user.command(&["list", "by-claude-code", "tools"]);
    assert!(done(&list.output().unwrap()).contains("Greets."));
    assert_eq!(words.collect::<Vec<_>>()[0], "serve");
}

#[test]
fn config_shows_what_settings_come_to() {
    let user = User::new("config");
    let folder = user.scripts.to_str().unwrap();
    let text = "[server]\nname = \"mine\"\n[defaults]\ntimeout = \"30s\"\n";
    fs::write(user.scripts.join("zcp.toml"), text).unwrap();
    let shown = done(&user.run(&["config", folder]));
    for part in ["mine", "1 tool", folder, "30s", "zcp.toml", "256KiB", "default"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let shown = json_of(&user.run(&["config", folder, "--json"]));
    assert_eq!((&shown["offers"]["tools"], &shown["kind"]), (&json!(1), &json!("a project")));
    let timeout = json!({ "name": "timeout", "value": "30s", "from": "zcp.toml" });
    assert!(shown["settings"].as_array().unwrap().contains(&timeout), "{shown}");
    refused(&user.run(&["config", "nowhere"]), 1);
    refused(&user.run(&["config", folder, "--client", "nobody"]), 2);
}

#[test]
fn config_shows_exactly_what_install_writes() {
    let user = User::new("snippets");
    let folder = user.scripts.to_str().unwrap();
    for client in &CLIENTS {
        let output = user.run(&["config", folder, "--client", client.id]);
        let shown = done(&output);
        assert!(String::from_utf8_lossy(&output.stderr).contains(client.file), "{output:?}");
        assert!(!user.file(client).exists(), "{}", client.id);
        done(&user.install(client.id, &[]));
        assert_eq!(shown, fs::read_to_string(user.file(client)).unwrap(), "{}", client.id);
    }
}

#[test]
fn the_wrapper_is_a_server() {
    let user = User::new("wrapper");
    let text = done(&user.run(&["config", user.scripts.to_str().unwrap(), "--wrapper"]));
    let file = user.home.0.join("server.sh");
    fs::write(&file, text).unwrap();
    let line = format!("sh {}", file.display());
    let listed = json_of(&user.run(&["list", &line, "tools", "--json"]));
    assert_eq!(listed["tools"][0]["name"], "greet");
}
