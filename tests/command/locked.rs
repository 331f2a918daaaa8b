//! `zcp lock` asks before it agrees.

use pty_process::{Command, Pts, Pty, Size};
use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zcp_tests::{examples::zcp, folder::Folder};

/// A folder that mounts another one as a server.
fn mounted(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir_all(folder.0.join("far/tools")).expect("it can be made");
    fs::create_dir_all(folder.0.join("own")).expect("it can be made");
    describe(&folder, "Adds two numbers, and says what comes of it.");
    let command = [zcp().display().to_string(), "serve".into(), "../far".into(), "--stdio".into()];
    let toml = format!("[mounts.far]\ncommand = {command:?}\n");
    fs::write(folder.0.join("own/zcp.toml"), toml).expect("it can be written");
    folder
}

fn describe(folder: &Folder, words: &str) {
    let tool = format!("# {words}\necho\n");
    fs::write(folder.0.join("far/tools/add.sh"), tool).expect("it can be written");
}

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(zcp());
    command.args(words).current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    command.output().expect("the command runs")
}

/// Locks in a terminal, and answers the question.
async fn answered(own: &Path, answer: &str) -> (i32, String) {
    let (mut terminal, other): (Pty, Pts) = pty_process::open().expect("a terminal");
    terminal.resize(Size::new(24, 400)).expect("it has a size");
    let mut child = Command::new(zcp())
        .args(["lock"])
        .current_dir(own)
        .env("HOME", own)
        .kill_on_drop(true)
        .spawn(other)
        .expect("it starts");
    let mut seen = String::new();
    let reading = async {
        let mut is_answered = false;
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut some).await {
            seen += &String::from_utf8_lossy(&some[..count]);
            if seen.contains("[y/N]") && !is_answered {
                is_answered = true;
                terminal.write_all(format!("{answer}\n").as_bytes()).await.expect("it is read");
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reading).await.expect("it ends");
    let code = child.wait().await.expect("it ended").code().expect("by itself");
    (code, seen)
}

#[tokio::test]
async fn what_has_changed_is_asked_about_and_shown_word_by_word() {
    let folder = mounted("locked");
    let own = folder.0.join("own");
    let alone = run(&own, &["lock"]);
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
    assert!(String::from_utf8_lossy(&alone.stderr).contains("zcp lock --yes"), "{alone:?}");
    assert!(!own.join("zcp.lock").exists());
    assert!(run(&own, &["lock", "--yes"]).status.success());
    let before = fs::read(own.join("zcp.lock")).expect("it is there");
    describe(&folder, "Adds three numbers, and says what comes of it.");
    let (code, seen) = answered(&own, "").await;
    assert_eq!((code, fs::read(own.join("zcp.lock")).expect("it is there")), (1, before), "{seen}");
    assert!(seen.contains("[-two-]") && seen.contains("{+three+}"), "{seen}");
    assert_eq!(answered(&own, "y").await.0, 0);
    assert!(run(&own, &["lock", "--check"]).status.success());
    // Nothing that is to be asked about.
    assert!(run(&own, &["lock"]).status.success());
}

/// Only who serves a folder, or asks for it, accepts what its mounts offer.
#[test]
fn looking_at_a_folder_accepts_nothing() {
    let folder = mounted("lock-looks");
    let own = folder.0.join("own");
    let listed = run(&own, &["list", "."]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("far_add"), "{listed:?}");
    assert!(run(&own, &["call", ".", "far_add"]).status.success());
    run(&own, &["lint", "."]);
    assert!(!own.join("zcp.lock").exists(), "{:?}", fs::read_to_string(own.join("zcp.lock")));
}
