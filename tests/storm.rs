//! Ten thousand calls of scripts, many of which are cancelled, cut off, killed, too slow or too
//! greedy: nothing of them is left, and the others never notice. Slow, so it has a part of its own:
//! `./test scripts`.

use futures_util::{StreamExt, stream};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};
use zcp_client::{Client, Http, Process};
use zcp_scripts::Scripts;
use zcp_tests::{examples::zcp, folder::Folder, http::HttpServer};

const CALLS: usize = 10_000;
const AT_ONCE: usize = 24;
/// How much more memory is held at the end than after a fifth of the calls, in KiB.
const GROWN: u64 = 24 * 1024;
/// How many outputs a server keeps that are too long to be shown.
const KEPT: usize = 100;

const TOOLS: [(&str, &str); 8] = [
    ("echo", "# Echoes.\n# @param word string\n# @args env\necho \"$ARG_WORD\""),
    ("fails", "echo broken >&2; exit 7"),
    ("waits", "sleep 4730 & sleep 4730"),
    ("late", "# Late.\n# @timeout 1s\nsleep 4731 & sleep 4731"),
    ("dies", "sleep 4732 & kill -9 $$"),
    ("leaves", "sleep 4733 & setsid sleep 4733 & echo left"),
    ("bombs", "# Forks.\n# @limit processes 20\nbomb() { sleep 4734 & bomb; }; bomb"),
    ("writes", "# Writes.\n# @limit output 1k\nhead -c 100000 /dev/zero | tr '\\0' x"),
];

/// What a call is, by its number: nobody can foresee it, and every run is the same.
fn kind(number: usize) -> &'static str {
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    match mixed % 1000 {
        0..20 => "bombs",
        20..50 => "late",
        50..150 => "waits",
        150..200 => "dies",
        200..260 => "leaves",
        260..320 => "fails",
        320..340 => "writes",
        _ => "echo",
    }
}

fn held() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is told");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("it is told").count()
}

/// Processes that came of this storm's scripts, which all know where they came from.
fn running(folder: &Folder) -> Vec<String> {
    let home = format!("ZCP_PROJECT={}\0", folder.0.display());
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let own = all.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&home)
    });
    let lines = own.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

/// How many files the servers' folders below this one have of a kind.
fn files_of(temporary: &Folder, kind: &str) -> usize {
    let servers = fs::read_dir(&temporary.0).expect("the folder").flatten();
    let files = servers.filter_map(|server| fs::read_dir(server.path().join(kind)).ok());
    files.map(Iterator::count).sum()
}

/// Who calls: over TCP, where hanging up is what ends a call, and over a pipe, where a notification
/// does.
struct Clients {
    http: Client,
    stdio: Client,
}

impl Clients {
    fn of(&self, number: usize) -> (&'static str, &Client) {
        if number % 4 == 3 { ("stdio", &self.stdio) } else { ("http", &self.http) }
    }
}

async fn call((transport, client): (&str, &Client), number: usize, odd: &AtomicUsize) {
    let kind = kind(number);
    let which = format!("call {number}, `{kind}` over {transport}");
    let called = client.tool(kind).args(json!({ "word": number.to_string() })).send();
    if kind == "waits" {
        // Whoever hangs up ends it.
        let cut = Duration::from_millis(20 + (number as u64 % 7) * 30);
        let cut = timeout(cut, called).await;
        assert!(cut.is_err(), "{which} waits for ever, but: {cut:?}");
        odd.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // The client's own timeout is shorter than two minutes: an answer that is late says so itself.
    let begun = Instant::now();
    let Ok(called) = timeout(Duration::from_secs(120), called).await else {
        panic!("{which} has no end after {:?}", begun.elapsed());
    };
    let result = called.unwrap_or_else(|error| {
        panic!("{which} failed after {:?}: {error:?}", begun.elapsed());
    });
    match kind {
        "echo" => {
            let word = result.content[0].as_text();
            assert_eq!(word, Some(number.to_string().as_str()), "{which}: {result:?}");
        }
        "leaves" => {}
        "writes" => assert_eq!(result.content.len(), 3, "{which}: {result:?}"),
        _ => {
            odd.fetch_add(1, Ordering::Relaxed);
            assert!(result.is_error, "{which}: {result:?}");
            let failed = format!("{result:?}");
            let why = match kind {
                "fails" => "exit code 7",
                "late" => "timed out",
                "dies" => "signal 9",
                _ => "more than 20 processes",
            };
            assert!(failed.contains(why), "{which}: {failed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_leave_nothing_behind() {
    let (folder, temporary) = (Folder::new("storm"), Folder::new("storm-temporary"));
    for (name, text) in TOOLS {
        let path = folder.0.join(format!("{name}.sh"));
        fs::write(&path, text).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    }
    let scripts = Scripts::folder(&folder.0).temporary(&temporary.0).open().expect("it opens");
    let processes = scripts.processes();
    let server =
        HttpServer::with(scripts.server().build().expect("no mistakes"), |http| http).await;
    let http = Client::connect(Http::new(server.url("/mcp")).expect("an address")).await;
    let process = Process::new(zcp()).args(["serve".as_ref(), folder.0.as_os_str()]);
    let process = process.arg("--stdio").env("TMPDIR", temporary.0.as_os_str());
    let stdio = Client::connect(process).await.expect("it is started");
    let clients = Clients { http: http.expect("it is reached"), stdio };
    let (begun, odd) = (Instant::now(), AtomicUsize::new(0));
    let (mut memory, mut files) = (0, 0);
    for part in 0..5 {
        let numbers = part * CALLS / 5..(part + 1) * CALLS / 5;
        stream::iter(numbers)
            .for_each_concurrent(AT_ONCE, |number| call(clients.of(number), number, &odd))
            .await;
        if part == 0 {
            sleep(Duration::from_secs(1)).await;
            (memory, files) = (held(), open_files());
        }
    }
    let odd = odd.load(Ordering::Relaxed);
    println!("{CALLS} calls in {:.0?}, {odd} of them cut off or failed", begun.elapsed());
    assert!(odd > CALLS / 5, "{odd}");
    let waiting = Instant::now();
    loop {
        let (left, open) = (running(&folder), open_files());
        let (calls, outputs) = (files_of(&temporary, "calls"), files_of(&temporary, "outputs"));
        // Each server keeps some of what was too long to be shown.
        if left.is_empty() && open <= files + 8 && calls == 0 && outputs <= 2 * KEPT {
            assert!(outputs > 0, "something was too long");
            break;
        }
        assert!(
            waiting.elapsed() < Duration::from_secs(10),
            "{left:?}, {open} of {files} files, {calls} calls, {outputs} outputs"
        );
        sleep(Duration::from_millis(50)).await;
    }
    println!("memory: {memory} KiB after a fifth, {} KiB at the end", held());
    assert!(held() < memory + GROWN);
    clients.http.close().await;
    clients.stdio.close().await;
    server.close().await;
    processes.end().await;
    drop(processes);
    // What was too long to be shown goes with the server.
    let left: Vec<_> = fs::read_dir(&temporary.0)
        .expect("the folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
