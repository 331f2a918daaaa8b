//! One client for every wire: the same messages, wherever they travel.

use crate::{http::HttpServer, lined::Lined, socket::Socket, sse2024::OldStream, unix::UnixServer};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use zcp::{
    Mcp, Runtime,
    wire::{Message, Peer, header, sse::Decoder},
};

/// Where messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// One message a line.
    Pipe,
    /// The same, to the fixture server in a process of its own, whatever else is served.
    Process,
    /// HTTP on a port.
    Http,
    /// WebSocket.
    Socket,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// HTTP on a Unix socket.
    Unix,
    /// Calls in this process.
    Direct,
}

/// A runtime behind a wire.
#[derive(Debug)]
pub struct Stage {
    wire: Wire,
    runtime: Runtime,
    /// The server, if the wire has one on a port.
    pub http: Option<HttpServer>,
    unix: Option<UnixServer>,
}

impl Stage {
    /// Serves a runtime on a wire.
    pub async fn new(wire: Wire, runtime: Runtime) -> Self {
        let (mut http, mut unix) = (None, None);
        match wire {
            Wire::Http | Wire::Socket | Wire::Sse => {
                http = Some(HttpServer::with(runtime.clone(), |http| http).await);
            }
            Wire::Unix => unix = Some(UnixServer::new(runtime.clone()).await),
            Wire::Pipe | Wire::Process | Wire::Direct => (),
        }
        Self { wire, runtime, http, unix }
    }

    /// A client in a revision, whose answers to questions carry a mark.
    pub async fn client(&self, version: &'static str, mark: &str) -> Client {
        let link = match (self.wire, &self.http, &self.unix) {
            (Wire::Socket, Some(http), _) => {
                Link::Socket(Box::new(Socket::connect(http, "").await))
            }
            (Wire::Sse, Some(http), _) => {
                Link::Old(Box::new(OldStream::connect(&http.url("")).await))
            }
            (_, Some(http), _) => Link::Http(Post::new(reqwest::Client::new(), http.url("/mcp"))),
            (_, _, Some(unix)) => Link::Http(Post::new(unix.client(), "http://zcp/mcp".into())),
            (Wire::Direct, ..) => Link::Direct(Mcp::new(self.runtime.clone())),
            (Wire::Process, ..) => Link::Pipe(Lined::process()),
            _ => Link::Pipe(Lined::new(self.runtime.clone())),
        };
        let mut client = Client { version, link, mark: mark.to_owned(), sent: 0 };
        if version != crate::NEWEST {
            client.open().await;
        }
        client
    }

    /// Stops the server, and waits until it has ended.
    pub async fn close(self) {
        if let Some(http) = self.http {
            http.close().await;
        }
        if let Some(unix) = self.unix {
            unix.close().await;
        }
    }
}

/// A client on some wire.
#[derive(Debug)]
pub struct Client {
    version: &'static str,
    link: Link,
    mark: String,
    sent: u64,
}

#[derive(Debug)]
enum Link {
    Pipe(Lined),
    Http(Post),
    Socket(Box<Socket>),
    Old(Box<OldStream>),
    Direct(Mcp),
}

impl Client {
    async fn open(&mut self) {
        let said = self.exchange(crate::initialize("open", self.version)).await;
        assert_eq!(said[0]["result"]["protocolVersion"], self.version);
        let ready = crate::notification("notifications/initialized", json!({}));
        match &mut self.link {
            Link::Pipe(lined) => lined.send(&ready).await,
            Link::Http(post) => post.version = Some(self.version),
            Link::Socket(socket) => socket.send(ready.clone()).await,
            Link::Old(stream) => stream.send(&ready).await,
            Link::Direct(mcp) => drop(direct(mcp, &ready)),
        }
        if let Link::Http(post) = &self.link {
            assert_eq!(post.send(&ready).await.status(), 202);
        }
    }

    /// Calls a method, and answers what it asks: everything said, with the response last.
    pub async fn call(&mut self, method: &str, params: Value) -> Vec<Value> {
        let mut params = params;
        let mut said = vec![];
        loop {
            self.sent += 1;
            let message = match self.version {
                crate::NEWEST => crate::modern(self.sent, method, params.clone()),
                _ => crate::request(self.sent, method, params.clone()),
            };
            said.extend(self.exchange(message).await);
            let result = &said.last().expect("there is a response")["result"];
            if result["resultType"] != "input_required" {
                return said;
            }
            let asked = result["inputRequests"].as_object().expect("questions");
            let answers: Map<String, Value> =
                asked.iter().map(|(key, question)| (key.clone(), self.answer(question))).collect();
            params["inputResponses"] = answers.into();
            params["requestState"] = result["requestState"].clone();
        }
    }

    /// Whether the last request was answered by a stream of events; nothing where there is none.
    pub fn was_stream(&self) -> Option<bool> {
        match &self.link {
            Link::Http(post) => Some(post.was_stream),
            _ => None,
        }
    }

    /// Ends the conversation.
    pub async fn close(self) {
        match self.link {
            Link::Pipe(lined) => lined.close().await,
            Link::Http(post) => post.close().await,
            Link::Socket(socket) => socket.close().await,
            Link::Old(stream) => drop(stream),
            Link::Direct(mcp) => mcp.close(),
        }
    }

    fn answer(&self, question: &Value) -> Value {
        let mark = &self.mark;
        match question["method"].as_str() {
            Some("roots/list") => {
                json!({ "roots": [{ "uri": format!("file:///{mark}"), "name": mark }] })
            }
            Some("sampling/createMessage") => {
                let content = json!({ "type": "text", "text": mark });
                json!({ "role": "assistant", "model": "m", "content": content })
            }
            _ => {
                let fields = question["params"]["requestedSchema"]["properties"].as_object();
                let fields = fields.expect("a form").keys();
                let content: Map<_, _> = fields.map(|name| (name.clone(), json!(mark))).collect();
                json!({ "action": "accept", "content": content })
            }
        }
    }

    async fn exchange(&mut self, message: Value) -> Vec<Value> {
        let id = message["id"].clone();
        let mut said = vec![];
        if let Link::Http(post) = &mut self.link {
            let response = post.send(&message).await;
            post.note(&response);
            let mut bodies = response.bytes_stream();
            let (mut decoder, mut json, was_stream) = (Decoder::default(), vec![], post.was_stream);
            while let Some(chunk) = bodies.next().await {
                let chunk = chunk.expect("the body arrives");
                if !was_stream {
                    json.extend_from_slice(&chunk);
                    continue;
                }
                for event in decoder.push(&chunk).into_iter().filter(|event| !event.data.is_empty())
                {
                    said.push(serde_json::from_str(&event.data).expect("events are JSON"));
                    self.reply(&said[said.len() - 1]).await;
                }
            }
            if !was_stream {
                said.push(serde_json::from_slice(&json).expect("the body is JSON"));
            }
            return said;
        }
        let mut frames = None;
        match &mut self.link {
            Link::Pipe(lined) => lined.send(&message).await,
            Link::Socket(socket) => socket.send(message).await,
            Link::Old(stream) => stream.send(&message).await,
            Link::Direct(mcp) => frames = Some(direct(mcp, &message)),
            Link::Http(_) => (),
        }
        loop {
            let next = match (&mut self.link, &mut frames) {
                (Link::Pipe(lined), _) => lined.next().await,
                (Link::Socket(socket), _) => socket.next().await.expect("the socket is open"),
                (Link::Old(stream), _) => stream.next().await,
                (_, frames) => {
                    let frame = frames.as_mut().expect("sent").next().await;
                    let frame = frame.expect("the response is last");
                    serde_json::from_str(&frame.to_text()).expect("frames are JSON")
                }
            };
            self.reply(&next).await;
            let last = next["id"] == id && next.get("method").is_none();
            said.push(next);
            if last {
                return said;
            }
        }
    }

    /// Answers a question of the server's.
    async fn reply(&mut self, question: &Value) {
        if question.get("method").is_none() || question.get("id").is_none() {
            return;
        }
        let answer = crate::response(&question["id"], self.answer(question));
        match &mut self.link {
            Link::Pipe(lined) => lined.send(&answer).await,
            Link::Socket(socket) => socket.send(answer).await,
            Link::Old(stream) => stream.send(&answer).await,
            Link::Direct(mcp) => drop(direct(mcp, &answer)),
            Link::Http(post) => assert_eq!(post.send(&answer).await.status(), 202),
        }
    }
}

fn direct(mcp: &Mcp, message: &Value) -> zcp::wire::Frames {
    match Message::parse(message.to_string().into()) {
        Ok(Message::One(frame)) => mcp.send(frame, http::Extensions::new()),
        other => panic!("not a message: {other:?}"),
    }
}

/// POST to an endpoint, in a session if there is one.
#[derive(Debug)]
struct Post {
    client: reqwest::Client,
    url: String,
    session: Option<String>,
    version: Option<&'static str>,
    was_stream: bool,
}

impl Post {
    fn new(client: reqwest::Client, url: String) -> Self {
        Self { client, url, session: None, version: None, was_stream: false }
    }

    async fn send(&self, message: &Value) -> reqwest::Response {
        let params = &message["params"];
        let mut post = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let stated = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        if let (Some(version), Some(method)) = (stated, message["method"].as_str()) {
            post = post
                .header(header::PROTOCOL_VERSION.as_str(), version)
                .header(header::METHOD.as_str(), method);
            let name = params["name"].as_str().or_else(|| params["uri"].as_str());
            if let Some(name) = name {
                post = post.header(header::NAME.as_str(), header::encode(name).to_string());
            }
        }
        if let Some(session) = &self.session {
            post = post.header(header::SESSION_ID.as_str(), session);
        }
        // The header came with 2025-06-18.
        if let Some(version) = self.version.filter(|version| *version >= "2025-06-18") {
            post = post.header(header::PROTOCOL_VERSION.as_str(), version);
        }
        let sent = post.body(message.to_string()).send().await;
        sent.expect("the server answers")
    }

    fn note(&mut self, response: &reqwest::Response) {
        let header = |name| response.headers().get(name)?.to_str().ok();
        self.was_stream = header("content-type") == Some("text/event-stream");
        if let Some(session) = header(header::SESSION_ID.as_str()) {
            self.session = Some(session.to_owned());
        }
    }

    async fn close(self) {
        if let Some(session) = self.session {
            let delete = self.client.delete(&self.url);
            let ended = delete.header(header::SESSION_ID.as_str(), session).send().await;
            assert_eq!(ended.expect("the server answers").status(), 204);
        }
    }
}
