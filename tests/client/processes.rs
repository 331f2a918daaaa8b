//! Child servers: a great many of them, and some that misbehave.

use futures_util::{StreamExt, stream};
use std::{fs, path::Path, process::Command, time::Duration};
use zcp_client::{Builder, Client, Process};
use zcp_tests::{examples::examples, folder::Folder};

/// How many servers are started, and how many at a time.
const SERVERS: usize = 1000;
const AT_ONCE: usize = 16;

fn client() -> Builder {
    let probe = Duration::from_millis(300);
    Client::builder("processes", "1").timeout(Duration::from_secs(1)).probe(probe)
}

/// Processes with a variable in their environment.
fn with_variable(variable: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("there is a /proc").flatten();
    let theirs = all.filter(|one| {
        let environment = fs::read(one.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    });
    theirs.map(|one| one.file_name().to_string_lossy().into_owned()).collect()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("there is a /proc").count()
}

/// Waits until nothing is left, or says what is.
async fn until_none<T: std::fmt::Debug>(what: &str, left: impl Fn() -> Vec<T>) {
    for _ in 0..200 {
        if left().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} left: {:?}", left());
}

/// One life of a server, of five kinds.
async fn live(number: usize, temporary: &Path) {
    let lives = format!("{}-{number}", std::process::id());
    let process = Process::new(examples().join("everything"))
        .arg("--stdio")
        .env("ZCP_LIFE", &lives)
        .env("ZCP_LIVES", std::process::id().to_string())
        .env("TMPDIR", temporary)
        .grace(Duration::from_millis(500));
    let connecting = Client::connect(process);
    if number % 5 == 4 {
        // Given up before it has said anything, or soon after.
        let time = Duration::from_millis(number as u64 % 20);
        let _ = tokio::time::timeout(time, connecting).await;
        return;
    }
    let client = connecting.await.expect("it is reached");
    let call = || client.tool("slow_compute").arg("label", lives.clone()).arg("seconds", 60).send();
    match number % 5 {
        0 => {
            let sum = client.tool("test_simple_text").send().await.expect("it answers");
            assert!(!sum.is_error);
            client.close().await;
        }
        1 => client.ping().await.expect("it answers"),
        2 => {
            let killing = async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                for pid in with_variable(&format!("ZCP_LIFE={lives}")) {
                    Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
                }
            };
            let (lost, ()) = tokio::join!(call(), killing);
            let error = lost.expect_err("it was killed").to_string();
            assert!(error.contains("everything"), "{error}");
            assert!(error.contains("signal: 9"), "{error}");
        }
        _ => drop(tokio::time::timeout(Duration::from_millis(10), call()).await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_thousand_servers() {
    let temporary = Folder::new("thousand");
    // Whatever this process opens once, it has opened by then.
    live(0, &temporary.0).await;
    let before = open_files();
    stream::iter(1..=SERVERS).for_each_concurrent(AT_ONCE, |one| live(one, &temporary.0)).await;
    let variable = format!("ZCP_LIVES={}", std::process::id());
    until_none("processes", || with_variable(&variable)).await;
    until_none("files", || (before..open_files()).collect()).await;
    let files: Vec<_> = fs::read_dir(&temporary.0).unwrap().flatten().collect();
    assert!(files.is_empty(), "{files:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_die_at_any_byte() {
    let folder = Folder::new("bytes");
    let first = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#;
    let second = r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[]}}"#;
    fs::write(folder.0.join("first"), format!("{first}\n")).unwrap();
    fs::write(folder.0.join("second"), format!("{second}\n")).unwrap();
    let (whole, all) = (first.len() + 1, first.len() + second.len() + 2);
    let script = format!(
        "read request; head -c $1 first; [ $1 -le {whole} ] || {{ read request; \
         head -c $(($1 - {whole})) second; }}; echo the end is near >&2; exit 7"
    );
    stream::iter(0..=all)
        .for_each_concurrent(AT_ONCE, async |bytes| {
            let process = Process::new("sh")
                .args(["-c", &script, "dying", &bytes.to_string()])
                .folder(&folder.0);
            let result = match client().connect(process).await {
                Ok(client) => client.tool("x").send().await.map(drop),
                Err(error) => Err(error),
            };
            // The last byte only ends the line.
            if bytes >= all - 1 {
                return result.expect("the whole answer was given");
            }
            let error = result.expect_err("it died").to_string();
            for part in ["sh -c", "exit status: 7", "the end is near"] {
                assert!(error.contains(part), "after {bytes} bytes: {error}");
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_server_does_it_is_named_with_its_last_words() {
    let variable = format!("ZCP_ODD={}", std::process::id());
    let change = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let odd = [
        // It hangs, and does not care to be told to stop.
        ("trap '' TERM; echo last words >&2; sleep 1000", "still runs"),
        // It writes rubbish.
        ("echo last words >&2; while read line; do echo rubbish; done", "rubbish"),
        ("echo last words >&2; while read line; do echo '{\"jsonrpc\":'; done", "no messages"),
        ("echo last words >&2; head -c 5000 /dev/urandom; sleep 1000", "still runs"),
        // It begins a message, and hangs.
        ("echo last words >&2; printf '{\"jsonrpc\":\"2.0\"'; sleep 1000", "still runs"),
        // It floods, with lines, without, with messages, and elsewhere.
        ("echo last words >&2; yes rubbish", "rubbish"),
        ("echo last words >&2; cat /dev/zero", "still runs"),
        (&format!("echo last words >&2; yes '{change}'"), "still runs"),
        ("yes last words >&2", "last words"),
        // It closes its output, and stays.
        ("echo last words >&2; exec >&-; sleep 1000", "signal: 15"),
        // It answers, and not what was asked.
        (
            r#"echo last words >&2; while read line; do echo '{"jsonrpc":"2.0","id":1,"result":7}';
               echo '{"jsonrpc":"2.0","id":2,"result":[]}'; done"#,
            "still runs",
        ),
    ];
    stream::iter(odd)
        .for_each_concurrent(2, async |(script, sign)| {
            let process = Process::new("sh")
                .args(["-c", script])
                .env("ZCP_ODD", std::process::id().to_string())
                .grace(Duration::from_millis(200));
            // One that ends is waited for, however busy the machine is.
            let time = if sign.starts_with("signal") { 30 } else { 1 };
            let client = client().timeout(Duration::from_secs(time));
            let error = match client.connect(process).await {
                Ok(client) => client.list_tools().await.map(drop),
                Err(error) => Err(error),
            };
            let error = error.expect_err("it is odd").to_string();
            for part in ["sh -c", "last words", sign] {
                assert!(error.contains(part), "`{script}`: {error}");
            }
            assert!(error.len() < 20_000, "{}", error.len());
        })
        .await;
    until_none("processes", || with_variable(&variable)).await;
}

#[tokio::test]
async fn an_error_shows_the_command_without_its_secrets() {
    let process = Process::new("sh")
        .args(["-c", "exit 3", "--token", "hunter2", "--api-key=hunter3", "PASSWORD=hunter4"])
        .args(["--verbose", "postgres://ann:hunter5@db/x"]);
    let error = client().connect(process).await.expect_err("it ended").to_string();
    assert!(!error.contains("hunter"), "{error}");
    assert!(
        error.contains("--token … --api-key=… PASSWORD=… --verbose \"postgres://…@db/x\""),
        "{error}"
    );
}
