//! A client of HTTP+SSE, the only HTTP of 2024-11-05.

use crate::http::{Answer, HttpServer};
use http::StatusCode;
use serde_json::Value;
use std::collections::VecDeque;
use zcp::wire::sse::{Decoder, Event};

/// One open GET stream, and the address its messages go to.
#[derive(Debug)]
pub struct OldClient<'a> {
    server: &'a HttpServer,
    /// Everything the server says.
    pub stream: Answer,
    /// Where messages are posted.
    pub endpoint: String,
}

impl<'a> OldClient<'a> {
    /// Opens the stream, and reads where messages go.
    pub async fn connect(server: &'a HttpServer) -> Self {
        let mut stream = server.get("/sse").send().await;
        assert_eq!(stream.status, StatusCode::OK);
        assert!(stream.is_stream());
        let first = stream.event().await.expect("the stream says something");
        assert_eq!(first.name.as_deref(), Some("endpoint"));
        Self { server, stream, endpoint: first.data }
    }

    /// Opens the stream and a session.
    pub async fn open(server: &'a HttpServer) -> Self {
        let mut client = Self::connect(server).await;
        let opened = client.ask(&crate::initialize("open", "2024-11-05")).await;
        assert_eq!(opened["result"]["protocolVersion"], "2024-11-05");
        let ready = crate::notification("notifications/initialized", serde_json::json!({}));
        assert_eq!(client.send(&ready).await, StatusCode::ACCEPTED);
        client
    }

    /// Posts a message; gives the status.
    pub async fn send(&self, message: &Value) -> StatusCode {
        let call = self.server.post_text(&self.endpoint, message.to_string());
        let answer = call.send().await;
        let status = answer.status;
        assert_eq!(answer.text().await, "", "answers are on the stream");
        status
    }

    /// The next message on the stream.
    pub async fn next(&mut self) -> Value {
        self.stream.message().await.expect("the stream goes on until it said this")
    }

    /// Posts a request, and gives its response.
    pub async fn ask(&mut self, message: &Value) -> Value {
        assert_eq!(self.send(message).await, StatusCode::ACCEPTED);
        loop {
            let said = self.next().await;
            if said["id"] == message["id"] && said.get("method").is_none() {
                return said;
            }
        }
    }
}

/// The same to a URL, for as long as it likes.
#[derive(Debug)]
pub(crate) struct OldStream {
    client: reqwest::Client,
    endpoint: String,
    body: reqwest::Response,
    decoder: Decoder,
    waiting: VecDeque<Event>,
}

impl OldStream {
    pub(crate) async fn connect(base: &str) -> Self {
        let client = reqwest::Client::new();
        let body = client.get(format!("{base}/sse")).send().await.expect("the server answers");
        let (decoder, waiting) = (Decoder::default(), VecDeque::new());
        let mut stream = Self { client, endpoint: String::new(), body, decoder, waiting };
        stream.endpoint = format!("{base}{}", stream.event().await.data);
        stream
    }

    pub(crate) async fn send(&self, message: &Value) {
        let post = self.client.post(&self.endpoint).body(message.to_string());
        let post = post.header("content-type", "application/json");
        assert_eq!(post.send().await.expect("the server answers").status(), 202);
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.event().await.data).expect("events are JSON")
    }

    /// The next event with data.
    async fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            let chunk = tokio::time::timeout(crate::PATIENCE, self.body.chunk()).await;
            let chunk = chunk.expect("in time").expect("it goes on").expect("it goes on");
            let events = self.decoder.push(&chunk).into_iter();
            self.waiting.extend(events.filter(|event| !event.data.is_empty()));
        }
    }
}
