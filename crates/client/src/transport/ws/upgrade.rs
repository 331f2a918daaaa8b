//! The opening handshake of a WebSocket: an HTTP request, whose connection is upgraded.

use super::Ws;
use crate::{
    error::{Error, Failure, Result},
    oauth::{self, OAuth},
    support::{http_error::explain, message_limits},
    transport::{
        Fate,
        http::{builder, send},
    },
};
use ::http::{
    HeaderMap, Method, StatusCode,
    header::{
        CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use reqwest::{Client, Upgraded, Url};
use std::time::Duration;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};
use zcp_wire::header::SESSION_ID;

/// The subprotocol of MCP.
const PROTOCOL: &str = "mcp";
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);
/// How long it may take if a user has to log in.
const LOGIN: Duration = Duration::from_secs(15 * 60);

/// The client's side of a WebSocket.
pub(super) type Socket = WebSocketStream<Upgraded>;

/// A connection that was opened.
pub(super) struct Connected {
    pub(super) socket: Socket,
    /// The conversation's name, if the server keeps it when the connection is lost.
    pub(super) session: Option<String>,
}

/// Where connections are opened.
pub(super) struct Door {
    client: Client,
    /// The socket's URL, with the scheme of HTTP.
    server: Url,
    oauth: Option<OAuth>,
    max_message: usize,
}

impl Door {
    pub(super) fn of(ws: &Ws) -> Result<Self> {
        if !ws.url.starts_with("ws:") && !ws.url.starts_with("wss:") {
            return Err(Error::Unable(format!("`{}` is not a ws or wss URL", ws.url)));
        }
        let mut server = oauth::address(&ws.url).map_err(Error::Unable)?;
        server.set_fragment(None);
        let mut client = builder(&ws.headers).http1_only();
        if server.scheme() == "http" {
            // Proxies upgrade no connection that they can read.
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| Error::Unable(explain(&error)))?;
        Ok(Self { client, server, oauth: ws.oauth.clone(), max_message: ws.max_message })
    }

    /// Opens a connection. `query` is added to that of the URL, which may say the same already.
    pub(super) async fn open(&self, query: &[(&str, &str)]) -> Result<Connected, Failure> {
        let mut url = self.server.clone();
        for (name, value) in query {
            if !self.server.query_pairs().any(|(known, _)| known == *name) {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let (key, fate) = (generate_key(), Fate::default());
        let get = || {
            let request = self.client.get(url.clone());
            request
                .header(CONNECTION, "Upgrade")
                .header(UPGRADE, "websocket")
                .header(SEC_WEBSOCKET_VERSION, "13")
                .header(SEC_WEBSOCKET_KEY, &key)
                .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        };
        let answering = send(&self.server, self.oauth.as_ref(), &Method::GET, &fate, get);
        let time = if self.oauth.is_some() { LOGIN } else { CONNECT };
        let answer = tokio::time::timeout(time, answering).await;
        let silent = |_| Failure::Gone("the server does not answer".into());
        let response = answer.map_err(silent)??;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Status { status: status.as_u16(), text: String::new() });
        }
        check(response.headers(), &key).map_err(Failure::Gone)?;
        let session = session(response.headers());
        let stream = response.upgrade().await;
        let stream = stream.map_err(|error| Failure::Gone(explain(&error)))?;
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(self.max_message);
        config.max_frame_size = Some(self.max_message);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await;
        Ok(Connected { socket, session })
    }
}

/// Whether the answer to a handshake is one, by RFC 6455 section 4.1.
fn check(headers: &HeaderMap, key: &str) -> Result<(), String> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let has = |name: &HeaderName, token: &str| {
        let tokens = text(name).unwrap_or_default().split(',');
        tokens.into_iter().any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    let is_ours = text(&SEC_WEBSOCKET_PROTOCOL).is_none_or(|protocol| protocol == PROTOCOL);
    let is_answer = has(&CONNECTION, "upgrade") && has(&UPGRADE, "websocket");
    let accept = derive_accept_key(key.as_bytes());
    match is_answer && text(&SEC_WEBSOCKET_ACCEPT) == Some(accept.as_str()) {
        true if is_ours => Ok(()),
        true => Err("the server chose a subprotocol that is not `mcp`".into()),
        false => Err("the server's answer to the WebSocket handshake is wrong".into()),
    }
}

fn session(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(&SESSION_ID)?.to_str().ok()?;
    (id.len() <= message_limits::SESSION_ID).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::HeaderValue;

    #[test]
    fn a_handshake_is_answered_by_its_own_key() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let usual = [
            (CONNECTION, "Upgrade"),
            (UPGRADE, "WebSocket"),
            (SEC_WEBSOCKET_ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            (SEC_WEBSOCKET_PROTOCOL, "mcp"),
        ];
        let usual = usual.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let usual = HeaderMap::from_iter(usual);
        assert_eq!(check(&usual, key), Ok(()));
        for (name, value) in [
            (CONNECTION, "close"),
            (UPGRADE, "h2c"),
            (SEC_WEBSOCKET_ACCEPT, "b3RoZXI="),
            (SEC_WEBSOCKET_PROTOCOL, "chat"),
        ] {
            let mut wrong = usual.clone();
            wrong.insert(&name, HeaderValue::from_static(value));
            assert!(check(&wrong, key).is_err(), "{name}");
            wrong.remove(&name);
            assert_eq!(check(&wrong, key).is_ok(), name == SEC_WEBSOCKET_PROTOCOL, "{name}");
        }
    }
}
