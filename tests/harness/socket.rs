//! A WebSocket client.

use crate::http::HttpServer;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::io;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest, handshake::client::Response},
};

/// One connection.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// What the server answered the upgrade with.
    pub upgrade: Response,
}

impl Socket {
    /// Connects to `/ws` with a query such as `?resume=true`.
    pub async fn connect(server: &HttpServer, query: &str) -> Self {
        Self::try_connect(server, query, &[]).await.expect("the server upgrades")
    }

    /// The same with headers, or the status of a server that does not upgrade.
    pub async fn try_connect(
        server: &HttpServer,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        Self::to(&server.address, query, headers).await
    }

    /// The same to a server at an address, such as one in a process of its own.
    pub async fn to(
        address: impl std::fmt::Display,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let url = format!("ws://{address}/ws{query}");
        let mut request = url.into_client_request().expect("a URL");
        request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().expect("a token"));
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header value"));
        }
        match connect_async(request).await {
            Ok((stream, upgrade)) => Ok(Self { stream, upgrade }),
            Err(Error::Http(refused)) => Err(refused.status().as_u16()),
            Err(other) => panic!("the server answers: {other}"),
        }
    }

    /// Writes bytes that may be no frame.
    pub async fn write_raw(&mut self, bytes: &[u8]) {
        self.try_write_raw(bytes).await.expect("the server reads");
    }

    /// The same to a server that may have ended the connection.
    pub async fn try_write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        let message = Message::text(message.to_string());
        self.stream.send(message).await.expect("the server reads");
    }

    /// The next message; panics after [`crate::PATIENCE`].
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(crate::PATIENCE, self.stream.next());
            match next.await.expect("the server said something in time")?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).expect("JSON")),
                Message::Close(_) => return None,
                _ => (),
            }
        }
    }

    /// The next frame, a ping too; none at the end. Panics after [`crate::PATIENCE`].
    pub async fn frame(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(crate::PATIENCE, self.stream.next());
        next.await.expect("the server said something in time")?.ok()
    }

    /// Sends a request, and gives everything said up to its response, which is last.
    pub async fn exchange(&mut self, message: Value) -> Vec<Value> {
        let id = message["id"].clone();
        self.send(message).await;
        let mut said = vec![];
        while let Some(message) = self.next().await {
            let last = message["id"] == id && message.get("method").is_none();
            said.push(message);
            if last {
                break;
            }
        }
        said
    }

    /// Sends a request, and gives its response.
    pub async fn ask(&mut self, message: Value) -> Value {
        self.exchange(message).await.pop().expect("there is a response")
    }

    /// Closes the connection as one should.
    pub async fn close(mut self) {
        let _ = self.stream.close(None).await;
    }

    /// Cuts the connection without a word.
    pub fn cut(self) {
        drop(self.stream.into_inner());
    }
}
