//! One policy guards scripts, mounted tools and Rust handlers alike, on every transport.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::unix::pipe,
};
use zcp::{Args, Catalog, Live, Mcp, Pipe, Runtime, Server, Tool, Transport};
use zcp_client::{
    Client, Endpoint, Http, Process, Sse2024, Ws,
    transport::Opened,
    wire::{
        Revision,
        mcp::elicitation::{Action, ElicitResult},
    },
};
use zcp_gateway::{Gateway, Mount};
use zcp_policy::{Guard, Outcome, Policy};
use zcp_tests::{
    call,
    examples::zcp,
    folder::Folder,
    http::HttpServer,
    initialize, notification,
    pipe::PipeClient,
    request,
    script::{LAST, open, until, write},
    text,
};

const POLICY: &str = r#"
audit = "audit.jsonl"

[[rules]]
tool = "*_no"
arguments = { what = "bad*" }
action = "deny"
message = "Not that."

[[rules]]
tool = "*_ask"
action = "ask"

[[rules]]
tool = "*_few"
action = "allow"
rate = "1/hour"

[[rules]]
tool = "*_hidden"
action = "hide"
"#;

const KINDS: [&str; 4] = ["no", "ask", "few", "hidden"];

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct What {
    what: String,
}

/// Tools that count their calls.
fn counting(catalog: Catalog, prefix: &str, calls: &Arc<AtomicUsize>) -> Catalog {
    KINDS.iter().fold(catalog, |catalog, kind| {
        let calls = calls.clone();
        catalog.tool(Tool::new(format!("{prefix}{kind}"), move |Args(What { what })| {
            let calls = calls.clone();
            async move {
                calls.fetch_add(1, Ordering::SeqCst);
                format!("did {what}")
            }
        }))
    })
}

fn folder(name: &str, policy: &str) -> Folder {
    let folder = Folder::new(name);
    for kind in KINDS {
        let script =
            "# Does something.\n# @param what string\necho ran >> ran\necho \"did $ARG_WHAT\"";
        write(&folder, &format!("tools/script_{kind}.sh"), script);
    }
    write(&folder, "policy.toml", policy);
    folder
}

/// A server in this process.
struct Near(Runtime);

impl Endpoint for Near {
    fn open(&self) -> BoxFuture<'_, zcp_client::Result<Opened>> {
        let conversation = Mcp::new(self.0.clone());
        Box::pin(async move { conversation.open().await })
    }
}

/// A server in this process behind the standard streams of another: what a client of stdio starts
/// passes them on, by two named pipes.
struct Stdio {
    runtime: Runtime,
    pipes: Folder,
}

impl Stdio {
    fn new(runtime: Runtime, name: &str) -> Self {
        let pipes = Folder::new(name);
        let made = ["in", "out"].map(|pipe| pipes.0.join(pipe));
        let made = std::process::Command::new("mkfifo").args(made).status();
        assert!(made.expect("mkfifo runs").success());
        Self { runtime, pipes }
    }
}

impl Endpoint for Stdio {
    fn open(&self) -> BoxFuture<'_, zcp_client::Result<Opened>> {
        let (runtime, folder) = (self.runtime.clone(), self.pipes.0.clone());
        Box::pin(async move {
            let program = Process::new("sh").args(["-c", "cat out & cat > in; wait"]);
            let opened = program.folder(&folder).open().await?;
            opened.end.spawn(|stop| async move {
                // Opening one waits for the other end.
                let (input, output) = tokio::task::spawn_blocking(move || {
                    let output = fs::File::options().write(true).open(folder.join("out"));
                    (fs::File::open(folder.join("in")), output)
                })
                .await
                .expect("it does not panic");
                let input = pipe::Receiver::from_file(input.expect("a pipe")).expect("a pipe");
                let output = pipe::Sender::from_file(output.expect("a pipe")).expect("a pipe");
                Pipe { input, output }.serve(runtime, stop).await.expect("pipes do not fail");
            });
            Ok(opened)
        })
    }
}

/// A server with scripts, a mounted server and functions of its own, and how often the latter two
/// were called.
async fn server(folder: &Folder) -> (Runtime, [Arc<AtomicUsize>; 2]) {
    let (far, own) = (Arc::default(), Arc::default());
    let mounted = Live::default();
    mounted.set(counting(Catalog::default(), "", &far));
    let mounted = Server::new("far").provide(mounted).build().expect("no mistakes");
    let gateway = Gateway::builder().mount("far", Mount::endpoint(Near(mounted)));
    let gateway = gateway.build().expect("no mistakes");
    let rust = Live::default();
    rust.set(counting(Catalog::default(), "rust_", &own));
    let server = open(folder).server().provide(gateway).provide(rust);
    (server.build().expect("no mistakes"), [far, own])
}

async fn client(endpoint: impl Endpoint, revision: Option<Revision>) -> Client {
    let mut builder = Client::builder("t", "1").elicit(async |question| {
        let yes = question.message.contains("\"yes\"");
        let action = if yes { Action::Accept } else { Action::Decline };
        Ok(ElicitResult { action, content: yes.then(|| json!({})) })
    });
    builder = revision.into_iter().fold(builder, |builder, one| builder.revision(one));
    builder.connect(endpoint).await.expect("it is reached")
}

async fn said(client: &Client, tool: &str, what: &str) -> (bool, String) {
    let call = client.tool(tool).args(json!({ "what": what }));
    let done = call.send().await.unwrap_or_else(|error| panic!("{tool} {what}: {error}"));
    let done = serde_json::to_value(done).expect("JSON");
    (done["isError"] == true, text(&done).to_owned())
}

/// What a policy must do, with tools of these prefixes. Clients of old revisions cannot be asked. Of
/// the tools that share a limit, the first prefix's is called first and so the only one that runs.
async fn is_guarded(wire: &str, client: &Client, prefixes: &[&str], can_ask: bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let names = loop {
        let tools = client.list_tools().await.expect("tools");
        let names: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
        if names.len() >= prefixes.len() * 3 || std::time::Instant::now() > deadline {
            break names;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(names.len(), prefixes.len() * 3, "{wire}: {names:?}");
    assert!(!names.iter().any(|name| name.ends_with("_hidden")), "{wire}: {names:?}");
    for prefix in prefixes {
        let tool = |kind: &str| format!("{prefix}_{kind}");
        let hidden = client.tool(tool("hidden")).args(json!({ "what": "x" })).send().await;
        hidden.expect_err("it is not there");
        let (failed, why) = said(client, &tool("no"), "bad thing").await;
        assert!(failed && why.contains("Not that"), "{wire} {prefix}: {why}");
        assert_eq!(said(client, &tool("no"), "good").await, (false, "did good".into()), "{wire}");
        let asked = said(client, &tool("ask"), "yes").await;
        let refused = said(client, &tool("ask"), "never").await;
        match can_ask {
            true => {
                assert_eq!(asked, (false, "did yes".into()), "{wire} {prefix}");
                assert!(refused.0 && refused.1.contains("the user said no"), "{refused:?}");
            }
            false => assert!(asked.0 && asked.1.contains("cannot ask"), "{wire}: {asked:?}"),
        }
    }
    // All of them count for one rule.
    let mut limited = vec![];
    for prefix in prefixes {
        let (failed, why) = said(client, &format!("{prefix}_few"), "it").await;
        assert!(!failed || why.contains("called too often"), "{wire} {prefix}: {why}");
        limited.push(failed);
    }
    let expected: Vec<bool> = (0..prefixes.len()).map(|place| place > 0).collect();
    assert_eq!(limited, expected, "{wire} {prefixes:?}");
}

/// What the audit log must say after [`is_guarded`].
async fn is_audited(wire: &str, folder: &Folder, prefixes: &[&str], can_ask: bool) {
    for (place, prefix) in prefixes.iter().enumerate() {
        let tool = |kind: &str| written(folder, &format!("{prefix}_{kind}"));
        until("every call is written down", || {
            tool("no").len() == 2 && tool("ask").len() == 2 && tool("few").len() == 1
        })
        .await;
        let both = [("denied".into(), Value::Null), ("allowed".into(), json!("ok"))];
        assert_eq!(tool("no"), both, "{wire} {prefix}");
        let limited = if place == 0 { "allowed" } else { "limited" };
        assert_eq!(tool("few")[0].0, limited, "{wire} {prefix}");
        let decided: Vec<_> = tool("ask").into_iter().map(|(decision, _)| decision).collect();
        let first = if can_ask { "asked-yes" } else { "asked-no" };
        assert_eq!(decided, [first, "asked-no"], "{wire} {prefix}");
    }
}

/// What the audit log says of a tool: each decision, with its outcome.
fn written(folder: &Folder, tool: &str) -> Vec<(String, Value)> {
    let text = fs::read_to_string(folder.0.join("audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines
        .filter(|line: &Value| line["tool"] == tool)
        // Paused calls are made again with the answer.
        .filter(|line| line["outcome"] != "paused")
        .map(|line| (line["decision"].as_str().unwrap_or_default().into(), line["outcome"].clone()))
        .collect()
}

#[tokio::test]
async fn one_policy_guards_scripts_mounts_and_handlers_on_every_transport() {
    let wires: [(&str, Option<Revision>, bool); 9] = [
        ("direct", None, true),
        ("stdio", Some(Revision::V2026_07_28), true),
        ("stdio", Some(Revision::V2025_11_25), true),
        ("stdio", Some(Revision::V2025_03_26), false),
        ("http", Some(Revision::V2026_07_28), true),
        ("http", Some(Revision::V2025_11_25), true),
        ("http", Some(Revision::V2025_03_26), false),
        ("ws", None, true),
        ("sse", Some(Revision::V2024_11_05), false),
    ];
    for number in 0..3 * wires.len() {
        let (wire, revision, can_ask) = wires[number / 3];
        let folder = folder(&format!("guard-{number}"), POLICY);
        let (runtime, counts) = server(&folder).await;
        let http = HttpServer::with(runtime.clone(), |http| http).await;
        let client = match wire {
            "http" => client(Http::new(http.url("/mcp")).expect("a URL"), revision).await,
            "ws" => client(Ws::new(http.url("/ws").replace("http:", "ws:")), revision).await,
            "sse" => {
                client(Sse2024::new(Http::new(http.url("/sse")).expect("a URL")), revision).await
            }
            "stdio" => {
                client(Stdio::new(runtime, &format!("guard-pipes-{number}")), revision).await
            }
            _ => client(Near(runtime), revision).await,
        };
        let mut prefixes = ["script", "far", "rust"];
        // Whichever is called first, the other two are limited.
        prefixes.rotate_left(number % 3);
        is_guarded(wire, &client, &prefixes, can_ask).await;
        // Two rules let each be called once, and only one of the three for the limit.
        let runs = fs::read_to_string(folder.0.join("ran")).unwrap_or_default().lines().count();
        let all = counts.iter().map(|count| count.load(Ordering::SeqCst)).sum::<usize>() + runs;
        assert_eq!(all, if can_ask { 7 } else { 4 }, "{wire}");
        is_audited(wire, &folder, &prefixes, can_ask).await;
        client.close().await;
        http.close().await;
    }
}

#[tokio::test]
async fn one_policy_guards_scripts_and_mounts_of_the_command() {
    let folder = folder("guard-stdio", POLICY);
    let far = Folder::new("guard-stdio-far");
    for kind in KINDS {
        let script = "# Does something.\n# @param what string\necho \"did $ARG_WHAT\"";
        write(&far, &format!("tools/{kind}.sh"), script);
    }
    let command = json!([zcp().display().to_string(), "serve", far.0, "--stdio"]);
    write(&folder, "zcp.toml", &format!("[mounts.far]\ncommand = {command}\n"));
    let served = Process::new(zcp()).args(["serve", &folder.0.display().to_string(), "--stdio"]);
    let client = client(served, None).await;
    let prefixes = ["far", "script"];
    is_guarded("stdio", &client, &prefixes, true).await;
    is_audited("stdio", &folder, &prefixes, true).await;
    client.close().await;
}

#[tokio::test]
async fn a_policy_that_changes_changes_what_mounts_offer() {
    let folder = folder("guard-later", "default = 'allow'");
    let (runtime, _) = server(&folder).await;
    let client = client(Near(runtime), None).await;
    let names = async || {
        let tools = client.list_tools().await.expect("tools");
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    for (policy, count) in [("read_only = true", 0), (POLICY, 9), ("[[rules]", 0)] {
        write(&folder, "policy.toml", policy);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while names().await.len() != count {
            assert!(std::time::Instant::now() < deadline, "{policy}: {:?}", names().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_folder_beside_others_keeps_its_own_policy() {
    let folder = folder("guard-own", POLICY);
    // Not `Scripts::server`: the folder is one provider of a server that has no policy.
    let server = Server::new("all").provide(open(&folder)).build().expect("no mistakes");
    let client = client(Near(server), None).await;
    is_guarded("beside", &client, &["script"], true).await;
}

#[tokio::test]
async fn each_of_two_policies_asks_for_itself() {
    let folder = folder("guard-both", "default = 'ask'");
    write(&folder, "outer.toml", "default = 'ask'");
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let guard = Guard::new(Policy::file(folder.0.join("outer.toml")).expect("it is right"));
        let server = Server::new("all").provide(open(&folder)).gate(guard);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        // Yes to the first question, and no to the second, though both read the same.
        let client = Client::builder("t", "1").revision(revision).elicit(move |_| {
            let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
            let action = if is_first { Action::Accept } else { Action::Decline };
            async move { Ok(ElicitResult { action, content: is_first.then(|| json!({})) }) }
        });
        let client = client.connect(Near(server.build().expect("no mistakes"))).await;
        let (failed, why) = said(&client.expect("it is reached"), "script_no", "it").await;
        assert!(failed && why.contains("the user said no"), "{revision:?}: {why}");
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{revision:?}");
    }
    assert!(!folder.0.join("ran").exists());
}

#[tokio::test]
async fn calls_of_tools_that_nobody_may_call_are_logged() {
    let policy = "audit = 'audit.jsonl'\n[[rules]]\ntool = '*_no'\naction = 'deny'\n\
        message = 'There is no cake left.'\n[[rules]]\ntool = '*_hidden'\naction = 'hide'\n";
    let folder = folder("guard-unlisted", policy);
    let (runtime, counts) = server(&folder).await;
    let client = client(Near(runtime), None).await;
    is_listed(&client, "far_ask").await;
    for prefix in ["script", "far", "rust"] {
        let tools = client.list_tools().await.expect("tools");
        let [denied, hidden] = ["no", "hidden"].map(|kind| format!("{prefix}_{kind}"));
        assert!(tools.iter().all(|tool| tool.name != denied && tool.name != hidden));
        let (failed, why) = said(&client, &denied, "it").await;
        assert!(failed && why.contains("There is no cake left"), "{why}");
        // Whatever it is given, a hidden tool is told from none by nobody.
        for args in [json!({ "what": "it" }), json!({ "what": 5, "WHAT": 6 })] {
            let why = async |name: &str| {
                let call = client.tool(name).args(args.clone()).send().await;
                format!("{:?}", call.expect_err("it is not there")).replace(name, "NAME")
            };
            assert_eq!(why(&hidden).await, why("never_there").await);
        }
        until("every call is written down", || written(&folder, &hidden).len() == 2).await;
        assert_eq!(written(&folder, &denied), [("denied".into(), Value::Null)]);
        assert_eq!(written(&folder, &hidden)[0], ("denied".into(), Value::Null));
    }
    assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [0, 0]);
    assert!(!folder.0.join("ran").exists());
}

#[tokio::test]
async fn a_name_that_is_given_twice_never_reaches_a_guarded_tool() {
    let folder = folder("guard-twice", POLICY);
    let (runtime, counts) = server(&folder).await;
    let mut client = PipeClient::serving(runtime);
    client.ask(initialize(1, LAST)).await;
    client.send(notification("notifications/initialized", json!({}))).await;
    let mut asked = request(2, "tools/call", call("rust_no", json!({}))).to_string();
    asked = asked.replace(r#""arguments":{}"#, r#""arguments":{"what":"bad","what":"good"}"#);
    assert!(asked.contains("good"), "{asked}");
    client.write(asked.as_bytes()).await;
    let answer = client.next().await;
    assert!(text(&answer["result"]).contains("`what` is given twice"), "{answer}");
    assert_eq!(counts[1].load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn another_spelling_of_an_argument_opens_no_guarded_tool() {
    let policy = "default = 'deny'\n[[rules]]\narguments = { what = 'safe*' }\naction = 'allow'\n";
    let folder = folder("guard-spelling", policy);
    let (runtime, counts) = server(&folder).await;
    let client = client(Near(runtime), None).await;
    is_listed(&client, "far_no").await;
    for tool in ["script_no", "far_no", "rust_no"] {
        assert_eq!(said(&client, tool, "safe one").await, (false, "did safe one".into()));
        for args in [json!({ "what": "secret", "WHAT": "safe" }), json!({ "What": "safe" })] {
            let done = client.tool(tool).args(args.clone()).send().await.expect("an answer");
            assert!(done.is_error, "{tool} {args}");
        }
    }
    let runs = fs::read_to_string(folder.0.join("ran")).unwrap_or_default().lines().count();
    assert_eq!((counts.map(|count| count.load(Ordering::SeqCst)), runs), ([1, 1], 1));
}

/// Waits until a tool is listed.
async fn is_listed(client: &Client, tool: &str) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !client.list_tools().await.expect("tools").iter().any(|one| one.name == tool) {
        assert!(std::time::Instant::now() < deadline, "{tool} is not listed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_program_of_its_own_has_a_policy_and_observers() {
    let folder = Folder::new("guard-program");
    write(&folder, "policy.toml", "[[rules]]\ntool = 'few'\naction = 'allow'\nconcurrency = 1\n");
    let guard = Guard::new(Policy::file(folder.0.join("policy.toml")).expect("it is right"));
    let (hold, held) = tokio::sync::watch::channel(false);
    let tool = Tool::new("few", move || {
        let mut held = held.clone();
        async move { held.wait_for(|let_go| *let_go).await.map(|_| "done").unwrap_or("lost") }
    });
    let server = Server::new("own").tool(tool).gate(guard.clone()).build().expect("no mistakes");
    let mut calls = guard.observe();
    let client = Arc::new(client(Near(server), None).await);
    let first = client.tool("few").send();
    let second = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let second = client.tool("few").send().await.expect("an answer");
        hold.send_replace(true);
        text(&serde_json::to_value(second).expect("JSON")).to_owned()
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(text(&serde_json::to_value(first.expect("an answer")).expect("JSON")), "done");
    assert!(second.contains("run at the same time"), "{second}");
    let seen = [calls.recv().await.expect("a call"), calls.recv().await.expect("a call")];
    assert_eq!(seen.map(|call| call.outcome), [Outcome::Denied, Outcome::Ok]);
    // The next one finds the place free again.
    client.tool("few").send().await.expect("an answer");
    guard.set(Policy::closed());
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !client.list_tools().await.expect("tools").is_empty() {
        assert!(std::time::Instant::now() < deadline, "it is still listed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = client.tool("few").send().await.expect("an answer");
    assert!(refused.is_error, "{refused:?}");
    for wrong in ["default = 'alow'", "[[rules]\n"] {
        write(&folder, "wrong.toml", wrong);
        let why = Policy::file(folder.0.join("wrong.toml")).expect_err("it is wrong").to_string();
        assert!(why.contains("wrong.toml"), "{why}");
    }
    guard.close().await;
}

#[tokio::test]
async fn a_server_on_http_logs_one_line_for_each_call() {
    let folder = folder("guard-log", "default = 'allow'");
    for (words, is_json) in [(&[][..], false), (&["--log-format", "json"][..], true)] {
        let log = folder.0.join("log");
        let mut served = tokio::process::Command::new(zcp())
            .args(["serve", &folder.0.display().to_string(), "--http", "127.0.0.1:0", "--json"])
            .args(if is_json { words } else { &["--log-format", "text"] })
            .stdout(std::process::Stdio::piped())
            .stderr(fs::File::create(&log).expect("it can be written"))
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(served.stdout.take().expect("output")).lines();
        let first = lines.next_line().await.expect("a line").expect("a line");
        let said: Value = serde_json::from_str(&first).expect("JSON");
        let url = said["mcp"].as_str().expect("where it is").to_owned();
        let client = client(Http::new(url).expect("a URL"), Some(Revision::V2025_11_25)).await;
        said_by(&client, "script_no").await;
        client.tool("script_no").args(json!({ "what": 5 })).send().await.expect("an answer");
        until("both calls are logged", || {
            fs::read_to_string(&log).unwrap_or_default().matches("script_no").count() == 2
        })
        .await;
        let text = fs::read_to_string(&log).expect("a log");
        for (line, outcome) in text.lines().zip(["ok", "invalid"]) {
            let parts = ["script_no", outcome, "127.0.0.1", "session", "milliseconds", "client"];
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
            assert_eq!(serde_json::from_str::<Value>(line).is_ok(), is_json, "{line}");
        }
        client.close().await;
    }
}

async fn said_by(client: &Client, tool: &str) {
    assert_eq!(said(client, tool, "it").await, (false, "did it".into()));
}
