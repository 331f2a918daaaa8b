//! Folders of scripts that a test writes, and a client for each.

use crate::{call, folder::Folder, pipe::PipeClient, request};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};
use zcp_scripts::Scripts;

/// The newest revision with a handshake.
pub const LAST: &str = "2025-11-25";

/// Writes a file of a project; scripts with a first line of their own are executable.
pub fn write(folder: &Folder, name: &str, content: &str) {
    let path = folder.0.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(&path, content).expect("it can be written");
    let mode = if content.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Opens a folder.
pub fn open(folder: &Folder) -> Scripts {
    let scripts = Scripts::folder(&folder.0).command(crate::examples::zcp());
    scripts.open().expect("the folder opens")
}

/// A client of the last handshake revision on a folder with these files.
pub async fn serve(folder: &Folder, files: &[(&str, &str)]) -> PipeClient {
    files.iter().for_each(|(name, content)| write(folder, name, content));
    let scripts = open(folder);
    assert_eq!(*scripts.mistakes().borrow(), Vec::<String>::new());
    PipeClient::open(scripts.server(), LAST).await
}

/// Calls a tool: its result.
pub async fn result(client: &mut PipeClient, tool: &str, args: Value) -> Value {
    let answer = client.ask(request(7, "tools/call", call(tool, args))).await;
    assert!(answer.get("result").is_some(), "{answer}");
    answer["result"].clone()
}

/// The processes that were started with a word in their command line.
pub fn running(word: &str) -> usize {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    all.filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
            && !entry.path().ends_with(std::process::id().to_string())
    })
    .count()
}

/// Waits until something is so, for [`crate::PATIENCE`] at most.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < crate::PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
