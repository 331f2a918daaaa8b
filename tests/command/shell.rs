//! What the command says of itself, to shells and to readers.

use std::{fs, process::Command};
use zcp_tests::{examples::zcp, folder::Folder};

const COMMANDS: [&str; 8] =
    ["serve", "bundle", "completions", "call", "doctor", "login", "tasks", "validate"];

fn printed(args: &[&str]) -> String {
    let done = Command::new(zcp()).args(args).output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let text = printed(&["completions", shell]);
        for command in COMMANDS {
            assert!(text.contains(command), "{shell} does not know {command}");
        }
    }
}

/// The names of the commands below one, as its help lists them.
fn below(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_has_an_example() {
    let mut waiting = vec![vec![]];
    let mut count = 0;
    while let Some(command) = waiting.pop() {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        words.push("--help");
        let help = printed(&words);
        let example = format!("  zcp {}", command.join(" "));
        let examples = help.split_once("Examples:").map_or("", |(_, examples)| examples);
        assert!(examples.contains(example.trim_end()), "{command:?} has no example: {help}");
        let further = below(&help).into_iter().map(|name| [&command[..], &[name]].concat());
        waiting.extend(further);
        count += 1;
    }
    assert!(count > 30, "{count}");
}

#[test]
fn texts_for_shells_and_readers_are_json_for_programs() {
    for command in [&["completions", "bash"][..], &["man"]] {
        let json = printed(&[command, &["--json"]].concat());
        let said: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(said["text"], printed(command), "{command:?}");
    }
}

#[test]
fn bash_understands_its_completions() {
    let folder = Folder::new("shell-bash");
    let file = folder.0.join("zcp.bash");
    fs::write(&file, printed(&["completions", "bash"])).expect("it can be written");
    let read = Command::new("bash").arg("-n").arg(&file).output().expect("bash runs");
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
    let complete = "source zcp.bash; COMP_WORDS=(zcp comp); COMP_CWORD=1; _zcp zcp comp zcp; echo ${COMPREPLY[@]}";
    let mut bash = Command::new("bash");
    let done = bash.args(["-c", complete]).current_dir(&folder.0).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "complete completions");
}

#[test]
fn bash_completes_tools_clients_and_servers() {
    let folder = Folder::new("shell-names");
    let path = |name: &str| folder.0.join(name);
    fs::create_dir_all(path("kit/tools")).expect("it can be made");
    fs::create_dir_all(path(".cursor")).expect("it can be made");
    fs::write(path("kit/tools/greet.sh"), "# Greets.\necho\n").expect("it can be written");
    fs::write(path("kit/tools/grow.sh"), "# Grows.\necho\n").expect("it can be written");
    // Names of others mean nothing to the shell.
    let servers = r#"{"mcpServers":{"memory":{"command":"x"},"mem$(touch ran)":{"command":"x"}}}"#;
    fs::write(path(".cursor/mcp.json"), servers).expect("it can be written");
    fs::write(path("zcp.bash"), printed(&["completions", "bash"])).expect("it can be written");
    let completed = |words: &[&str]| {
        let zcp = zcp().display().to_string();
        let list = format!("COMP_WORDS=('{zcp}' {}); COMP_CWORD={}", words.join(" "), words.len());
        let call = "_zcp_and_names zcp; printf '%s ' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("source zcp.bash; {list}; {call}")]);
        let done = bash.current_dir(&folder.0).env("HOME", &folder.0).output().expect("bash runs");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    for (words, expected) in [
        (&["run", "--in", "kit", "gr"][..], "greet grow "),
        (&["call", "./kit", "gre"], "greet "),
        (&["install", "claude-d"], "claude-desktop "),
        (&["call", "mem"], "memory "),
    ] {
        assert!(completed(words).contains(expected), "{words:?}: {}", completed(words));
        assert!(!completed(words).contains('$'), "{words:?}: {}", completed(words));
    }
    assert!(!path("ran").exists());
}

#[test]
fn the_manual_is_one_page_with_all_commands() {
    let page = printed(&["man"]);
    assert!(page.is_ascii(), "not every reader knows other letters");
    // What `zcp help` lists is in it.
    let help = printed(&["--help"]);
    let mut count = 0;
    for name in below(&help) {
        let heading = format!(".SH \"zcp {name}");
        assert!(page.contains(&heading), "{name} is not in the manual");
        count += 1;
    }
    assert!(count > 20, "{count}");
    assert!(page.contains(".SH \"zcp tasks cancel\""));
    assert!(!page.contains("become"), "what is not for people is not in it");
}

#[test]
fn the_manual_can_be_read() {
    if Command::new("groff").arg("--version").output().is_err() {
        return;
    }
    let folder = Folder::new("shell-man");
    let file = folder.0.join("zcp.1");
    fs::write(&file, printed(&["man"])).expect("it can be written");
    let read = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&file).output();
    let read = read.expect("groff runs");
    let complaints = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success() && complaints.is_empty(), "{complaints}");
    let text = String::from_utf8_lossy(&read.stdout);
    assert!(text.contains("zcp bundle ./my-tools --output dist"));
}
