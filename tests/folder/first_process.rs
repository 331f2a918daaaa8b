//! A server that is the first process of a container, which every orphan becomes a child of.

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};
use zcp_tests::{
    call,
    examples::zcp,
    folder::Folder,
    notification, request,
    script::{LAST, until, write},
    text,
};

/// Children of a process, with their states.
fn children(of: u32) -> Vec<(u32, char)> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let stat = |id: u32| {
        let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut rest = line.rsplit_once(')')?.1.split_whitespace();
        let state = rest.next()?.chars().next()?;
        (rest.next()?.parse() == Ok(of)).then_some((id, state))
    };
    all.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The command in a namespace of processes where it is the first. Nothing where that cannot be made.
fn first_process(folder: &Folder) -> Option<Child> {
    let mine = rustix::process::geteuid().is_root();
    let user: &[&str] = if mine { &[] } else { &["--user", "--map-root-user"] };
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(user).args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.stderr(Stdio::null());
        unshare
    };
    let works = unshare().arg("true").status().is_ok_and(|status| status.success());
    let mut server = unshare();
    server.arg(zcp()).arg("serve").arg(&folder.0).arg("--stdio");
    server.stdin(Stdio::piped()).stdout(Stdio::piped());
    works.then(|| server.spawn().expect("it starts"))
}

#[tokio::test]
async fn no_zombies_stay_with_the_first_process() {
    let folder = Folder::new("first-process");
    let leaves = "# Leaves processes.\nsleep 4761 & (setsid sleep 0.01 &) ; sleep 0.01 & echo done";
    write(&folder, "tools/leaves.sh", leaves);
    let Some(mut unshare) = first_process(&folder) else {
        println!("passed over: this machine allows no namespaces");
        return;
    };
    let mut stdin = unshare.stdin.take().expect("an input");
    let lines = BufReader::new(unshare.stdout.take().expect("an output")).lines();
    let mut messages = lines
        .map(|line| -> Value { serde_json::from_str(&line.expect("a line")).expect("a message") });
    let hello = json!({ "protocolVersion": LAST, "capabilities": {},
        "clientInfo": { "name": "t", "version": "1" } });
    writeln!(stdin, "{}", request(0, "initialize", hello)).expect("it reads");
    writeln!(stdin, "{}", notification("notifications/initialized", json!({}))).expect("it reads");
    for number in 1..=6 {
        let called = request(number, "tools/call", call("leaves", json!({})));
        writeln!(stdin, "{called}").expect("it reads");
        let answer = messages.find(|one| one["id"] == number).expect("an answer");
        assert_eq!(text(&answer["result"]), "done", "{answer}");
    }
    let server = children(unshare.id())[0].0;
    until("all zombies are reaped", || !children(server).iter().any(|(_, state)| *state == 'Z'))
        .await;
    assert!(unshare.try_wait().expect("a status").is_none(), "it serves on");
    drop(stdin);
    assert!(unshare.wait().expect("it ends").success());
}
