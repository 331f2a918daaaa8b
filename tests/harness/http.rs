//! A server on a port, and requests to it.

use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zcp::{
    Http, Runtime, Server, Transport,
    wire::{
        header,
        sse::{Decoder, Event},
    },
};

/// A server on a port of this machine.
#[derive(Debug)]
pub struct HttpServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Cancelled to stop it.
    pub stop: CancellationToken,
    client: reqwest::Client,
    served: AbortOnDropHandle<()>,
}

impl HttpServer {
    /// Starts a server.
    pub async fn new(server: Server) -> Self {
        Self::with(server.build().expect("the server has no mistakes"), |http| http).await
    }

    /// Starts a server where another was.
    pub async fn at(server: Server, address: SocketAddr) -> Self {
        let runtime = server.build().expect("the server has no mistakes");
        Self::on(address, runtime, |http| http).await
    }

    /// Starts a runtime behind an [`Http`] that was changed.
    pub async fn with(runtime: Runtime, change: impl FnOnce(Http) -> Http) -> Self {
        Self::on(SocketAddr::from(([127, 0, 0, 1], 0)), runtime, change).await
    }

    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    async fn on(address: SocketAddr, runtime: Runtime, change: impl FnOnce(Http) -> Http) -> Self {
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let http = change(Http::on(listener).expect("it is bound"));
        let stop = CancellationToken::new();
        let serving = http.serve(runtime, stop.clone());
        let served: JoinHandle<()> = tokio::spawn(async move {
            serving.await.expect("the server does not fail");
        });
        // Less than the server waits: no request is to meet the end of its connection.
        let client = reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(20));
        let client = client.build().expect("a client");
        Self { address, stop, client, served: AbortOnDropHandle::new(served) }
    }

    /// A URL of the server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A POST of a message to `/mcp`, with the headers a stateless request needs.
    pub fn post(&self, message: &Value) -> Call<'_> {
        let mut call = self.post_text("/mcp", message.to_string());
        let params = &message["params"];
        let meta = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
        if let Some(version) = meta.as_str() {
            call = call.header(header::PROTOCOL_VERSION.as_str(), version);
            if let Some(method) = message["method"].as_str() {
                call = call.header(header::METHOD.as_str(), method);
                let name = match method {
                    "tools/call" | "prompts/get" => &params["name"],
                    "resources/read" => &params["uri"],
                    "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
                    _ => &Value::Null,
                };
                if let Some(name) = name.as_str() {
                    call = call.header(header::NAME.as_str(), &header::encode(name));
                }
            }
        }
        call
    }

    /// A POST of any text.
    pub fn post_text(&self, path: &str, body: impl Into<reqwest::Body>) -> Call<'_> {
        let call = self.call(reqwest::Method::POST, path);
        let call = call.header("content-type", "application/json");
        let call = call.header("accept", "application/json, text/event-stream");
        Call { body: Some(body.into()), ..call }
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Call<'_> {
        self.call(reqwest::Method::GET, path)
    }

    /// Any request.
    pub fn call(&self, method: reqwest::Method, path: &str) -> Call<'_> {
        Call { server: self, method, url: self.url(path), headers: HeaderMap::new(), body: None }
    }

    /// Opens a session; gives its id.
    pub async fn open(&self, version: &str) -> Session<'_> {
        let answer = self.post(&crate::initialize("open", version)).send().await;
        assert_eq!(answer.status, StatusCode::OK);
        let id = answer.headers[header::SESSION_ID.as_str()].to_str().expect("ASCII").to_owned();
        let session = Session { server: self, id, version: version.to_owned() };
        assert_eq!(answer.json().await["result"]["protocolVersion"], version);
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(&ready).send().await.status, StatusCode::ACCEPTED);
        session
    }

    /// Stops the server, and waits until it has ended.
    pub async fn close(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(15), &mut self.served);
        ended.await.expect("the server ended in time").expect("the server did not panic");
    }
}

/// A session of the handshake era.
#[derive(Debug, Clone)]
pub struct Session<'a> {
    server: &'a HttpServer,
    /// Its name.
    pub id: String,
    version: String,
}

impl<'a> Session<'a> {
    /// A POST in the session.
    pub fn post(&self, message: &Value) -> Call<'a> {
        self.with_headers(self.server.post(message))
    }

    /// The same session, spoken to on another server.
    #[must_use]
    pub fn at<'b>(&self, server: &'b HttpServer) -> Session<'b> {
        Session { server, id: self.id.clone(), version: self.version.clone() }
    }

    /// The GET that streams what the session is told.
    pub fn get(&self) -> Call<'a> {
        self.with_headers(self.server.get("/mcp")).header("accept", "text/event-stream")
    }

    /// The end of the session.
    pub fn delete(&self) -> Call<'a> {
        self.with_headers(self.server.call(reqwest::Method::DELETE, "/mcp"))
    }

    /// Sends a request, and gives its response.
    pub async fn ask(&self, message: &Value) -> Value {
        self.post(message).send().await.response().await
    }

    fn with_headers(&self, call: Call<'a>) -> Call<'a> {
        let call = call.header(header::SESSION_ID.as_str(), &self.id);
        // The header came with 2025-06-18.
        if self.version.as_str() < "2025-06-18" {
            call
        } else {
            call.header(header::PROTOCOL_VERSION.as_str(), &self.version)
        }
    }
}

/// A request in the making.
#[derive(Debug)]
pub struct Call<'a> {
    server: &'a HttpServer,
    method: reqwest::Method,
    url: String,
    headers: HeaderMap,
    body: Option<reqwest::Body>,
}

impl Call<'_> {
    /// Sets a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        self.headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        self
    }

    /// Takes a header away.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Sends it.
    pub async fn send(self) -> Answer {
        let mut request = self.server.client.request(self.method, self.url).headers(self.headers);
        if let Some(body) = self.body {
            request = request.body(body);
        }
        let response = request.send().await.expect("the server answers");
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response,
            decoder: Decoder::default(),
            events: vec![],
        }
    }
}

/// An answer, read as it comes.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: reqwest::Response,
    decoder: Decoder,
    events: Vec<Event>,
}

impl Answer {
    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream")
    }

    /// The body as text.
    pub async fn text(self) -> String {
        self.body.text().await.expect("the body arrives")
    }

    /// The body as JSON.
    pub async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// The next event of a stream; nothing at its end. Panics after [`crate::PATIENCE`].
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if !self.events.is_empty() {
                return Some(self.events.remove(0));
            }
            let chunk = tokio::time::timeout(crate::PATIENCE, self.body.chunk());
            let chunk = chunk.await.expect("the server said something in time").ok()??;
            self.events = self.decoder.push(&chunk);
        }
    }

    /// The next message of a stream; events without data are passed over.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_str(&event.data).expect("events are JSON"));
            }
        }
    }

    /// Asserts that a stream says nothing for a while.
    pub async fn silent(&mut self, time: Duration) {
        if let Ok(message) = tokio::time::timeout(time, self.message()).await {
            panic!("expected silence, got {message:?}");
        }
    }

    /// Every message: the one of a JSON body, or all of a stream.
    pub async fn messages(mut self) -> Vec<Value> {
        if !self.is_stream() {
            return vec![self.json().await];
        }
        let mut messages = vec![];
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }

    /// The last message: the response.
    pub async fn response(self) -> Value {
        self.messages().await.pop().expect("there is a response")
    }

    /// The raw chunks of the body, as a stream of bytes.
    pub fn chunks(self) -> impl futures_util::Stream<Item = bytes::Bytes> {
        self.body.bytes_stream().filter_map(async |chunk| chunk.ok())
    }
}

/// An address of this machine that is free now.
pub fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound")
}
