//! Files of a project that a script may have put there: links out of it, FIFOs, endless ones.

use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path, process::Command, time::Duration};
use zcp_tests::{
    folder::Folder,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, write},
    text,
};

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// A client of a folder, which comes up whatever is in there.
async fn client(folder: &Folder) -> PipeClient {
    let path = folder.0.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let folder = Folder(path);
        let opened = open(&folder);
        // It is removed by whoever made it.
        std::mem::forget(folder);
        opened
    });
    let opened = tokio::time::timeout(Duration::from_secs(20), opened).await;
    let scripts = opened.expect("nothing blocks").expect("it opens");
    PipeClient::open(scripts.server(), LAST).await
}

#[tokio::test]
async fn links_out_of_the_project_are_not_read() {
    let (folder, elsewhere) = (Folder::new("links-out"), Folder::new("links-out-elsewhere"));
    let secret = elsewhere.0.join("secret.txt");
    fs::write(&secret, "---\nname: s\ndescription: TOP-SECRET\n---\nTOP-SECRET").expect("written");
    write(&folder, "resources/fine.txt", "fine");
    write(&folder, "shared/inside.txt", "inside");
    for name in ["prompts", "skills/s"] {
        fs::create_dir_all(folder.0.join(name)).expect("made");
    }
    let link = |to: &Path, name: &str| symlink(to, folder.0.join(name)).expect("a link");
    link(&secret, "resources/out.txt");
    link(&secret, "prompts/out.md");
    link(&secret, "skills/s/SKILL.md");
    link(&folder.0.join("shared/inside.txt"), "resources/in.txt");
    let mut client = client(&folder).await;
    let mut shown = String::new();
    for method in ["resources/list", "prompts/list"] {
        shown += &client.ask(request(1, method, json!({}))).await.to_string();
    }
    assert!(shown.contains("fine.txt") && shown.contains("in.txt"), "{shown}");
    for name in ["out.txt", "fine.txt", "in.txt"] {
        let uri = format!("file://{}", folder.0.join("resources").join(name).display());
        let read = client.ask(request(2, "resources/read", json!({ "uri": uri }))).await;
        assert_eq!(read.get("result").is_some(), name != "out.txt", "{read}");
        shown += &read.to_string();
    }
    let prompt = client.ask(request(3, "prompts/get", json!({ "name": "out" }))).await;
    shown += &prompt.to_string();
    assert!(!shown.contains("TOP-SECRET"), "{shown}");
    // One that is listed, and leads out a moment later.
    fs::remove_file(folder.0.join("resources/fine.txt")).expect("it is ours");
    link(&secret, "resources/fine.txt");
    let uri = format!("file://{}", folder.0.join("resources/fine.txt").display());
    let read = client.ask(request(4, "resources/read", json!({ "uri": uri }))).await;
    assert!(!read.to_string().contains("TOP-SECRET"), "{read}");
}

#[tokio::test]
async fn fifos_and_endless_files_block_nobody() {
    let folder = Folder::new("odd-files");
    write(&folder, "tools/plain.sh", "# Says something.\necho said");
    write(&folder, "resources/later.txt", "later");
    for name in ["prompts", "skills/s", "ui/page", "lib"] {
        fs::create_dir_all(folder.0.join(name)).expect("made");
    }
    for (number, place) in
        ["tools/x.sh", "resources/x.txt", "prompts/x.md", "skills/s/SKILL.md", "ui/page/index.html"]
            .iter()
            .enumerate()
    {
        let path = folder.0.join(place);
        fifo(&path);
        symlink("/dev/zero", path.with_file_name(format!("zero{number}.txt"))).expect("a link");
    }
    fifo(&folder.0.join("lib/shared.sh"));
    fifo(&folder.0.join("tools/plain.sh.meta.json"));
    fifo(&folder.0.join("VERSION"));
    let mut client = client(&folder).await;
    assert_eq!(text(&result(&mut client, "plain", json!({})).await).trim(), "said");
    for name in ["x.txt", "zero1.txt", "later.txt"] {
        let path = folder.0.join("resources").join(name);
        if name == "later.txt" {
            fs::remove_file(&path).expect("it is ours");
            symlink("/dev/zero", &path).expect("a link");
        }
        let params = json!({ "uri": format!("file://{}", path.display()) });
        let read = client.ask(request(5, "resources/read", params));
        let read = tokio::time::timeout(Duration::from_secs(20), read).await.expect("answered");
        assert!(read.get("error").is_some(), "{name}: {read}");
    }
}
