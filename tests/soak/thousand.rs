//! A thousand clients on real sockets, for as long as one likes.

use crate::{clients::Client, heard::NEWS, held};
use rustix::process::{Resource as Limit, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use zcp::{
    Ctx, Resource, Result, Server,
    store::{Browse, Memory},
    tool,
};
use zcp_tests::{call, http::HttpServer, modern};

const CLIENTS: usize = 1000;
/// Files that they need with their server: two a connection, and up to four connections at a time.
const FILES: u64 = 10_000;
/// How often there is news for everybody.
const EVERY: Duration = Duration::from_secs(2);
/// How long a call takes for each step.
const STEP: Duration = Duration::from_millis(200);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// What it may grow by between two quarters of the time, in KiB: a tenth of what it is.
const GROWS: u64 = 12 * 1024;
/// What may be left when all clients are gone, in KiB: mostly in the store.
const LEFT: u64 = 8 * 1024;

/// The server, and what all clients need to know.
pub(crate) struct Stage {
    pub(crate) server: HttpServer,
    store: Arc<Memory>,
    /// The number of the last news.
    pub(crate) published: AtomicU64,
    pub(crate) over: CancellationToken,
    pub(crate) figures: Figures,
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) events: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) sessions: AtomicU64,
}

/// Tells everybody of something new.
#[tool]
async fn publish(number: u64, ctx: Ctx) -> Result<&'static str> {
    ctx.updated(format!("{NEWS}/{number}")).await?;
    Ok("published")
}

/// Counts, and says so.
#[tool]
async fn count(to: u64, label: String, ctx: Ctx) -> String {
    for step in 1..=to {
        ctx.progress(step as f64, to as f64);
        tokio::time::sleep(STEP).await;
    }
    label
}

impl Stage {
    async fn new() -> Self {
        let news = Resource::new(NEWS, async || "see what is below").watched();
        let server = Server::new("soak").tool(publish).tool(count).resource(news);
        let store = Arc::new(Memory::new());
        Self {
            server: HttpServer::new(server.shared_store(store.clone())).await,
            store,
            published: AtomicU64::new(0),
            over: CancellationToken::new(),
            figures: Figures::default(),
        }
    }

    async fn publish_on_and_on(&self) {
        let mut pace = tokio::time::interval(EVERY);
        loop {
            pace.tick().await;
            let number = self.published.load(Relaxed) + 1;
            let message = modern(1, "tools/call", call("publish", json!({ "number": number })));
            let answer = self.server.post(&message).send().await.response().await;
            assert_eq!(answer["result"]["content"][0]["text"], "published", "{answer}");
            self.published.store(number, Relaxed);
        }
    }
}

fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Limit::Nofile);
    if current.is_some_and(|current| current < FILES) {
        let raised = Rlimit { current: Some(FILES), maximum };
        setrlimit(Limit::Nofile, raised).expect("this needs 10,000 open files: see `ulimit -Hn`");
    }
}

/// How long the clients go on: `./test soak --minutes N`.
fn time() -> Duration {
    let minutes = std::env::var_os("ZCP_SOAK_MINUTES").and_then(|text| text.into_string().ok());
    let minutes: f64 = minutes.map_or(2.0, |text| text.parse().expect("minutes are a number"));
    Duration::from_secs_f64(minutes * 60.0)
}

fn mean(samples: &[u64]) -> u64 {
    samples.iter().sum::<u64>() / samples.len() as u64
}

fn say(words: &str) {
    std::io::stderr().write_all(words.as_bytes()).unwrap();
}

/// Memory, second by second.
async fn look_until(end: Instant, stage: &Stage) -> Vec<u64> {
    let (mut samples, mut pace) = (vec![], tokio::time::interval(LOOK));
    while Instant::now() < end {
        pace.tick().await;
        samples.push(held());
        if samples.len() % 60 == 0 {
            say(&format!("thousand: {} s, {} KiB, {:?}\n", samples.len(), held(), stage.figures));
        }
    }
    samples
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_lose_nothing_and_repeat_nothing() {
    raise_file_limit();
    let before = held();
    let stage = Arc::new(Stage::new().await);
    let (end, mut clients) = (Instant::now() + time(), JoinSet::new());
    for number in 0..CLIENTS {
        let stage = stage.clone();
        clients.spawn(async move { Client::new(number).live(&stage).await });
    }
    let samples = tokio::select! {
        samples = look_until(end, &stage) => samples,
        () = stage.publish_on_and_on() => unreachable!("it never ends"),
        Some(failed) = clients.join_next() => panic!("a client failed: {failed:?}"),
    };
    stage.over.cancel();
    while let Some(ended) = clients.join_next().await {
        ended.expect("no client fails");
    }
    let quarter = samples.len() / 4;
    let (third, last) = (mean(&samples[2 * quarter..3 * quarter]), mean(&samples[3 * quarter..]));
    let Some(Stage { server, store, figures, published, .. }) = Arc::into_inner(stage) else {
        panic!("all clients have ended")
    };
    server.close().await;
    assert_eq!(store.keys("session/").await, Ok(vec![]), "all sessions have ended");
    let after = held();
    say(&format!(
        "thousand: {CLIENTS} clients, {} news, {figures:?}; {before} KiB held before, {third} in the \
         third quarter, {last} in the last, {after} after\n",
        published.into_inner(),
    ));
    assert!(last <= third + GROWS, "{third} KiB became {last}: {samples:?}");
    assert!(after <= before + LEFT, "{before} KiB became {after}");
}
