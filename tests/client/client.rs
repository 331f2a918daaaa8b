//! The client, against our server: every way, every revision, and servers that misbehave.

use futures_util::StreamExt;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use zcp::{Mcp, Runtime, Server, Tool};
use zcp_client::{
    Change, Client, Endpoint, Error, Failure, Http, Process, Sse2024, Ws,
    wire::{
        Frame, Frames, Peer, Response, Revision, RpcError,
        mcp::{
            completion::Reference,
            elicitation::{Action, ElicitResult},
            roots::Root,
            subscriptions::Filter,
        },
    },
};
use zcp_tests::{everything, examples::examples, http::HttpServer, unix::UnixServer};

fn runtime() -> Runtime {
    everything().build().expect("the fixture has no mistakes")
}

fn process() -> Process {
    Process::new(examples().join("everything")).arg("--stdio")
}

/// Uses everything a client can do.
async fn use_all_of_it(client: &Client) {
    let tools = client.list_tools().await.expect("tools");
    assert!(tools.iter().any(|tool| tool.name == "test_simple_text"));
    assert!(!client.list_resources().await.expect("resources").is_empty());
    assert!(!client.list_templates().await.expect("templates").is_empty());
    assert!(!client.list_prompts().await.expect("prompts").is_empty());
    let said: String = client.call("test_simple_text", json!({})).await.expect("a text");
    assert_eq!(said, "This is a simple text response for testing.");
    let read = client.read("test://static-text").await.expect("a resource");
    assert_eq!(read.contents.len(), 1);
    let filled = [("arg1".to_owned(), "x".to_owned()), ("arg2".to_owned(), "y".to_owned())];
    let prompt = client.prompt("test_prompt_with_arguments", filled.into()).await;
    assert_eq!(prompt.expect("a prompt").messages.len(), 1);
    let of = Reference::Prompt { name: "test_prompt_with_arguments".into() };
    client.complete(&of, "arg1", "p", &[].into()).await.expect("a completion");
    client.ping().await.expect("a sign of life");
    let failed = client.call::<String>("test_error_handling", json!({})).await;
    assert!(matches!(failed, Err(Error::Tool(_))), "{failed:?}");
    let unknown = client.tool("no_such_tool").send().await.expect_err("there is none");
    assert_eq!(unknown.code(), Some(-32602), "{unknown}");
}

async fn found(endpoint: impl Endpoint, revision: Revision) -> Client {
    let client = Client::connect(endpoint).await.expect("it is reached");
    assert_eq!(client.server().revision, revision);
    use_all_of_it(&client).await;
    client
}

#[tokio::test]
async fn every_way_leads_to_the_newest_revision() {
    let (http, unix) = (HttpServer::new(everything()).await, UnixServer::new(runtime()).await);
    let newest = Revision::LATEST;
    found(Mcp::new(runtime()), newest).await.close().await;
    found(process(), newest).await.close().await;
    found(Http::new(http.url("/mcp")).unwrap(), newest).await.close().await;
    found(Http::unix(&unix.path).unwrap(), newest).await.close().await;
    let socket = Ws::new(http.url("/ws").replace("http", "ws"));
    found(socket, newest).await.close().await;
}

#[tokio::test]
async fn every_revision_is_spoken_on_every_way() {
    let http = HttpServer::new(everything()).await;
    for revision in Revision::ALL {
        let ways: [Box<dyn Fn() -> Way>; 3] = [
            Box::new(|| Way::new(Mcp::new(runtime()))),
            Box::new(|| Way::new(process())),
            Box::new(|| Way::new(Http::new(http.url("/mcp")).unwrap())),
        ];
        for way in ways {
            let builder = Client::builder("test", "1").revision(revision);
            let client = builder.connect(way()).await.expect("it is reached");
            assert_eq!(client.server().revision, revision);
            use_all_of_it(&client).await;
            client.close().await;
        }
    }
}

/// One of several ways.
struct Way(Box<dyn Endpoint>);

impl Way {
    fn new(endpoint: impl Endpoint) -> Self {
        Self(Box::new(endpoint))
    }
}

impl Endpoint for Way {
    fn open(
        &self,
    ) -> futures_util::future::BoxFuture<'_, zcp_client::Result<zcp_client::transport::Opened>>
    {
        self.0.open()
    }

    fn silence(&self) -> zcp_client::transport::Silence {
        self.0.silence()
    }

    fn older(&self) -> Option<Box<dyn Endpoint>> {
        self.0.older()
    }
}

#[tokio::test]
async fn a_server_of_2024_is_spoken_to_on_its_stream() {
    let http = HttpServer::new(everything()).await;
    let sse = Sse2024::new(Http::new(http.url("/sse")).unwrap());
    let builder = Client::builder("test", "1").revision(Revision::V2024_11_05);
    let client = builder.connect(sse).await.expect("it is reached");
    use_all_of_it(&client).await;
    // Whoever is given only the address finds out by itself.
    let client = Client::connect(Http::new(http.url("/sse")).unwrap()).await;
    assert_eq!(client.expect("it is reached").server().revision, Revision::V2024_11_05);
}

/// A server that answers the newest question in a way of its own.
#[derive(Clone)]
struct Odd {
    mcp: Mcp,
    answer: Result<Value, RpcError>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Odd {
    fn new(answer: Result<Value, RpcError>) -> Self {
        Self { mcp: Mcp::new(runtime()), answer, asked: Arc::default() }
    }
}

impl Peer for Odd {
    fn send(&self, frame: Frame, extensions: http::Extensions) -> Frames {
        if let Frame::Request(request) = &frame {
            self.asked.lock().expect("no panic").push(request.method.to_string());
            if &*request.method == "server/discover" {
                let result = self.answer.clone().map(|it| it.to_string());
                let result = result.map(|it| zcp::wire::ByteString::from(it).into());
                let id = Some(request.id.clone());
                return Frames::One(Frame::Response(Response { id, result }));
            }
        }
        self.mcp.send(frame, extensions)
    }

    fn events(&self) -> Frames {
        self.mcp.events()
    }
}

#[tokio::test]
async fn an_old_server_is_known_by_any_error() {
    for code in [-32601, -32602, -32600, -32000, -32001, 0, 1] {
        let odd = Odd::new(Err(RpcError::new(code, "what?")));
        let client = Client::connect(odd.clone()).await.expect("it is reached");
        assert_eq!(client.server().revision, Revision::V2025_11_25, "{code}");
        assert_eq!(odd.asked.lock().unwrap()[..], ["server/discover", "initialize"]);
    }
}

#[tokio::test]
async fn a_new_server_of_other_revisions_is_not_shaken_hands_with() {
    let odd = Odd::new(Err(RpcError::unsupported_version("2026-07-28", &["2027-01-01"])));
    let error = Client::connect(odd.clone()).await.expect_err("nothing in common");
    assert_eq!(error.code(), Some(-32022));
    assert_eq!(odd.asked.lock().unwrap()[..], ["server/discover"]);
}

fn answering() -> zcp_client::Builder {
    let root = Root { uri: "file:///work".into(), ..Root::default() };
    Client::builder("test", "1")
        .elicit(async |_| Ok(ElicitResult { action: Action::Accept, content: Some(json!({})) }))
        .roots([root])
}

#[tokio::test]
async fn questions_are_answered_in_both_eras() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let http = HttpServer::new(everything()).await;
        for way in [
            Way::new(Mcp::new(runtime())),
            Way::new(process()),
            Way::new(Http::new(http.url("/mcp")).unwrap()),
        ] {
            let client = answering().revision(revision).connect(way).await.expect("it is reached");
            let tool = "test_elicitation_sep1034_defaults";
            let said: String = client.call(tool, json!({})).await.expect("an answer");
            if revision > Revision::V2025_06_18 {
                assert!(said.contains("John Doe"), "{revision}: {said}");
            }
            let roots: Value = client.call("test_list_roots", json!({})).await.expect("roots");
            assert!(roots.to_string().contains("file:///work"), "{roots}");
        }
    }
}

#[tokio::test]
async fn a_question_nobody_answers_ends_the_call() {
    let client = Client::connect(Mcp::new(runtime())).await.expect("it is reached");
    let error = client.tool("test_elicitation").arg("message", "?").send().await;
    assert!(matches!(error, Err(Error::Refused(_) | Error::Unable(_))), "{error:?}");
}

#[tokio::test]
async fn progress_is_heard_and_begins_the_time_anew() {
    let http = HttpServer::new(everything()).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for way in [Way::new(process()), Way::new(Http::new(http.url("/mcp")).unwrap())] {
            let client = Client::builder("test", "1").revision(revision).connect(way).await;
            let heard = Arc::new(AtomicUsize::new(0));
            let counting = heard.clone();
            let client = client.expect("it is reached");
            let call = client.tool("test_tool_with_progress").on_progress(move |_| {
                counting.fetch_add(1, Ordering::Relaxed);
            });
            call.send().await.expect("a result");
            assert!(heard.load(Ordering::Relaxed) >= 3, "{revision}");
        }
    }
}

fn stuck() -> Server {
    Server::new("stuck").tool(Tool::new("wait", async || {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        "late"
    }))
}

#[tokio::test]
async fn a_call_has_an_end() {
    let client = Client::connect(Mcp::new(stuck().build().unwrap())).await.expect("it is reached");
    let call = client.tool("wait").timeout(Duration::from_millis(50));
    assert!(matches!(call.send().await, Err(Error::Late(_))));
}

#[tokio::test]
async fn giving_up_tells_the_server() {
    let http = HttpServer::new(everything()).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for way in [Way::new(process()), Way::new(Http::new(http.url("/mcp")).unwrap())] {
            let client = Client::builder("test", "1").revision(revision).connect(way).await;
            let client = client.expect("it is reached");
            let label = format!("{revision}-{}", std::process::id());
            let call = client.tool("slow_compute").arg("label", label.clone()).arg("seconds", 60);
            let gone = tokio::time::timeout(Duration::from_millis(300), call.send()).await;
            assert!(gone.is_err(), "{gone:?}");
            let mut known = false;
            for _ in 0..100 {
                let labels: Vec<String> =
                    client.call("test_cancelled_labels", json!({})).await.expect("labels");
                known = labels.contains(&label);
                if known {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(known, "{revision}: the server goes on");
        }
    }
}

#[tokio::test]
async fn changes_are_heard_in_both_eras() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let http = HttpServer::new(everything()).await;
        for way in [Way::new(process()), Way::new(Http::new(http.url("/mcp")).unwrap())] {
            let client = Client::builder("test", "1").revision(revision).connect(way).await;
            let client = client.expect("it is reached");
            let filter = Filter { tools_list_changed: true, ..Filter::default() };
            let mut changes = client.listen(filter).await.expect("it tells of changes");
            let heard = tokio::time::timeout(Duration::from_secs(10), async {
                let mut tick = tokio::time::interval(Duration::from_millis(100));
                loop {
                    tokio::select! {
                        change = changes.next() => return change,
                        _ = tick.tick() => {
                            client.tool("test_trigger_tool_change").send().await.expect("a change");
                        }
                    }
                }
            });
            assert_eq!(heard.await.expect("in time"), Some(Change::Tools), "{revision}");
        }
    }
}

#[tokio::test]
async fn a_lost_session_is_opened_again() {
    let http = HttpServer::new(everything()).await;
    let endpoint = Http::new(http.url("/mcp")).unwrap();
    let builder = Client::builder("test", "1").revision(Revision::V2025_11_25);
    let client = builder.connect(endpoint).await.expect("it is reached");
    client.ping().await.expect("a sign of life");
    // A server that was restarted knows no session.
    let address = http.address;
    http.close().await;
    let again = HttpServer::at(everything(), address).await;
    let said: String = client.call("test_simple_text", json!({})).await.expect("a text");
    assert!(said.starts_with("This is"));
    drop(again);
}

#[tokio::test]
async fn a_process_that_dies_says_why() {
    let dying =
        Process::new("sh").args(["-c", "echo first >&2; echo the disk is full >&2; exit 3"]);
    let error = Client::connect(dying).await.expect_err("it is dead").to_string();
    assert!(error.contains("sh -c"), "{error}");
    assert!(error.contains("exit status: 3"), "{error}");
    assert!(error.contains("the disk is full"), "{error}");
    let missing = Client::connect(Process::new("no-such-program-here")).await;
    let error = missing.expect_err("it is not there").to_string();
    assert!(error.contains("`no-such-program-here` cannot be started"), "{error}");
}

#[tokio::test]
async fn what_is_no_message_is_passed_over() {
    let everything = examples().join("everything");
    let noisy = format!("echo hello; echo '{{'; exec {} --stdio", everything.display());
    found(Process::new("sh").args(["-c", &noisy]), Revision::LATEST).await;
}

#[tokio::test]
async fn a_silent_process_is_old_and_then_late() {
    let silent = Process::new("sleep").arg("1000").grace(Duration::from_millis(100));
    let builder = Client::builder("test", "1")
        .probe(Duration::from_millis(100))
        .timeout(Duration::from_millis(200));
    let error = builder.connect(silent).await.expect_err("it says nothing");
    assert!(matches!(error, Error::Late(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named() {
    let error = Client::connect(Http::new("http://127.0.0.1:9/mcp").unwrap()).await;
    let error = error.expect_err("nobody is there");
    assert!(matches!(error, Error::Lost(Failure::Gone(_))), "{error:?}");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn nothing_is_left_of_processes_that_were_used() {
    let everything = examples().join("everything");
    let marker = format!("marker-{}", std::process::id());
    // A shell with a child that would outlive it, and does not listen.
    let script = format!("trap '' TERM; sleep 1000 & {} --stdio; : {marker}", everything.display());
    for round in 0..20 {
        let process = Process::new("sh").args(["-c", &script]).grace(Duration::from_millis(100));
        let client = Client::connect(process).await.expect("it is reached");
        match round % 3 {
            0 => client.close().await,
            1 => {
                let call = client.tool("slow_compute").arg("label", "x").arg("seconds", 60);
                let _ = tokio::time::timeout(Duration::from_millis(20), call.send()).await;
            }
            _ => drop(client),
        }
    }
    for _ in 0..200 {
        if left(&marker) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} processes are left", left(&marker));
}

/// Processes whose command line has the marker.
fn left(marker: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("there is a /proc");
    let lines = all.flatten().filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}
