//! Clients that lose their connections and come back, over streamable HTTP and WebSocket.

use crate::{
    heard::{Chance, Count, NEWS, News},
    thousand::Stage,
};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};
use zcp_tests::{
    PATIENCE,
    http::{Answer, Session},
    initialize, notification, request,
    socket::Socket,
};

const REVISION: &str = "2025-11-25";
/// How long a session lasts, at least and at most, in milliseconds.
const LIFE: (u64, u64) = (20_000, 40_000);
/// How long a client waits until it does something.
const PAUSE: (u64, u64) = (5_000, 15_000);
/// How long it may stay away.
const AWAY: u64 = 2_000;
/// How far a call counts.
const STEPS: (u64, u64) = (2, 5);

/// One client, with one session after another.
pub(crate) struct Client {
    pub(crate) number: usize,
    chance: Chance,
    next_id: u64,
}

/// What a client does next.
enum Act {
    Call,
    /// Makes a call whose connection is lost while it is answered.
    CutCall,
    /// Loses the connection on which it listens.
    CutNews,
}

impl Client {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, chance: Chance::new(number), next_id: 1 }
    }

    /// Opens sessions until the stage is over. The odd clients are on WebSocket.
    pub(crate) async fn live(mut self, stage: &Stage) {
        // They do not begin all at once.
        self.pause((0, LIFE.0 / 2)).await;
        while !stage.over.is_cancelled() {
            match self.number % 2 {
                0 => self.over_http(stage).await,
                _ => self.over_socket(stage).await,
            }
            stage.figures.sessions.fetch_add(1, Relaxed);
        }
    }

    fn between(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(least + self.chance.below(most - least + 1))
    }

    async fn pause(&mut self, range: (u64, u64)) {
        sleep(self.between(range)).await;
    }

    fn act(&mut self) -> Act {
        match self.chance.below(4) {
            0 | 1 => Act::Call,
            2 => Act::CutCall,
            _ => Act::CutNews,
        }
    }

    fn count(&mut self) -> Count {
        let id = self.next_id;
        self.next_id += 1;
        let steps = STEPS.0 + self.chance.below(STEPS.1 - STEPS.0 + 1);
        Count::new(id, steps, self.number)
    }

    async fn over_http(&mut self, stage: &Stage) {
        let session = stage.server.open(REVISION).await;
        let subscribed = session.ask(&subscribe()).await;
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
        let mut feed = HttpFeed::open(&session, stage).await;
        let end = Instant::now() + self.between(LIFE);
        while Instant::now() < end && !stage.over.is_cancelled() {
            let next = Instant::now() + self.between(PAUSE);
            feed.listen_until(next.min(end), stage).await;
            match self.act() {
                Act::Call => self.call_over_http(&session, stage, None).await,
                Act::CutCall => {
                    let cut = 1 + self.chance.below(2);
                    self.call_over_http(&session, stage, Some(cut)).await;
                }
                Act::CutNews => {
                    let last = feed.cut();
                    stage.figures.cuts.fetch_add(1, Relaxed);
                    self.pause((0, AWAY)).await;
                    feed.resume(&session, &last).await;
                }
            }
        }
        feed.hear_all(stage).await;
        assert_eq!(session.delete().send().await.status, 204);
    }

    /// Makes a call. Its connection is cut after so many messages.
    async fn call_over_http(&mut self, session: &Session<'_>, stage: &Stage, cut: Option<u64>) {
        let mut call = self.count();
        let mut answer = session.post(&call.request()).send().await;
        let (mut last, mut heard) = (String::new(), 0);
        loop {
            let event = answer.event().await.expect("a call is answered before its stream ends");
            last = event.id.unwrap_or(last);
            if event.data.is_empty() {
                continue;
            }
            heard += 1;
            stage.figures.events.fetch_add(1, Relaxed);
            if fine(call.hear(&parse(&event.data))) {
                break;
            }
            if cut == Some(heard) {
                drop(answer);
                stage.figures.cuts.fetch_add(1, Relaxed);
                self.pause((0, AWAY)).await;
                answer = resumed(session, &last).await;
            }
        }
        assert_eq!(answer.event().await, None, "nothing follows a response");
        stage.figures.calls.fetch_add(1, Relaxed);
    }

    async fn over_socket(&mut self, stage: &Stage) {
        let mut line = Line::open(stage).await;
        let end = Instant::now() + self.between(LIFE);
        while Instant::now() < end && !stage.over.is_cancelled() {
            let next = Instant::now() + self.between(PAUSE);
            line.listen_until(next.min(end), stage).await;
            let act = self.act();
            if !matches!(act, Act::CutNews) {
                let call = self.count();
                line.socket.send(call.request()).await;
                line.call = Some(call);
            }
            if !matches!(act, Act::Call) {
                let soon = Instant::now() + self.between((0, 400));
                line.listen_until(soon, stage).await;
                stage.figures.cuts.fetch_add(1, Relaxed);
                line = line.come_back(self.between((0, AWAY)), stage).await;
            }
            while line.call.is_some() {
                line.hear(stage).await;
            }
        }
        line.hear_all(stage).await;
        line.socket.close().await;
    }
}

/// What was heard; panics if it must not have been.
fn fine<T>(heard: Result<T, String>) -> T {
    heard.unwrap_or_else(|why| panic!("{why}"))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("messages are JSON")
}

fn subscribe() -> Value {
    request("subscribe", "resources/subscribe", json!({ "uri": NEWS }))
}

/// What a stream says after an event.
async fn resumed(session: &Session<'_>, last: &str) -> Answer {
    let answer = session.get().header("last-event-id", last).send().await;
    assert_eq!(answer.status, 200, "resumed after {last}");
    answer
}

/// The GET stream of a session.
struct HttpFeed {
    stream: Option<Answer>,
    /// The event that was heard last.
    last: String,
    news: News,
}

impl HttpFeed {
    async fn open(session: &Session<'_>, stage: &Stage) -> Self {
        let mut stream = session.get().send().await;
        let primer = stream.event().await.expect("a stream begins with an id");
        let last = primer.id.expect("a stream begins with an id");
        let news = News { since: stage.published.load(Relaxed), last: None };
        Self { stream: Some(stream), last, news }
    }

    async fn hear(&mut self, stage: &Stage) {
        let stream = self.stream.as_mut().expect("it listens");
        let event = stream.event().await.expect("the stream goes on");
        if !event.data.is_empty() {
            fine(self.news.hear(&parse(&event.data)));
            stage.figures.events.fetch_add(1, Relaxed);
        }
        self.last = event.id.expect("every event has an id");
    }

    async fn listen_until(&mut self, end: Instant, stage: &Stage) {
        let mut late = std::pin::pin!(sleep_until(end));
        loop {
            tokio::select! {
                () = self.hear(stage) => (),
                () = &mut late => return,
            }
        }
    }

    /// Cuts the connection; gives the event to go on after.
    fn cut(&mut self) -> String {
        self.stream = None;
        self.last.clone()
    }

    async fn resume(&mut self, session: &Session<'_>, last: &str) {
        self.stream = Some(resumed(session, last).await);
    }

    /// Hears everything that is published by now.
    async fn hear_all(&mut self, stage: &Stage) {
        let published = stage.published.load(Relaxed);
        while !self.news.has(published) {
            self.hear(stage).await;
        }
    }
}

/// A conversation over WebSocket, on one connection after another.
struct Line {
    socket: Socket,
    id: String,
    /// How many messages were heard.
    received: u64,
    news: News,
    call: Option<Count>,
}

impl Line {
    async fn open(stage: &Stage) -> Self {
        let socket = Socket::connect(&stage.server, "?resume=true").await;
        let id = socket.upgrade.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
        let mut line = Self { socket, id, received: 0, news: News::default(), call: None };
        line.socket.send(initialize("open", REVISION)).await;
        let opened = line.next().await;
        assert!(opened["id"] == "open" && opened.get("result").is_some(), "{opened}");
        line.socket.send(notification("notifications/initialized", json!({}))).await;
        line.socket.send(subscribe()).await;
        // News may come before the answer.
        let mut early = vec![];
        let subscribed = loop {
            match line.next().await {
                news if news.get("method").is_some() => early.push(news),
                answer => break answer,
            }
        };
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
        line.news.since = stage.published.load(Relaxed);
        early.iter().for_each(|news| fine(line.news.hear(news)));
        line
    }

    async fn next(&mut self) -> Value {
        let message = self.socket.next().await.expect("the connection goes on");
        self.received += 1;
        message
    }

    async fn hear(&mut self, stage: &Stage) {
        let message = self.next().await;
        stage.figures.events.fetch_add(1, Relaxed);
        if message["method"] == "notifications/resources/updated" {
            return fine(self.news.hear(&message));
        }
        let call = self.call.as_mut().unwrap_or_else(|| panic!("nobody asked for {message}"));
        if fine(call.hear(&message)) {
            self.call = None;
            stage.figures.calls.fetch_add(1, Relaxed);
        }
    }

    async fn listen_until(&mut self, end: Instant, stage: &Stage) {
        let mut late = std::pin::pin!(sleep_until(end));
        loop {
            tokio::select! {
                () = self.hear(stage) => (),
                () = &mut late => return,
            }
        }
    }

    /// Cuts the connection, and goes on with another after a while.
    async fn come_back(self, away: Duration, stage: &Stage) -> Self {
        let Self { socket, id, received, news, call } = self;
        socket.cut();
        sleep(away).await;
        let query = format!("?session={id}&last_event_id={received}");
        let back = tokio::time::timeout(PATIENCE, Socket::connect(&stage.server, &query)).await;
        Self { socket: back.expect("the server answers in time"), id, received, news, call }
    }

    /// Hears everything that is published by now.
    async fn hear_all(&mut self, stage: &Stage) {
        let published = stage.published.load(Relaxed);
        while !self.news.has(published) {
            self.hear(stage).await;
        }
    }
}
