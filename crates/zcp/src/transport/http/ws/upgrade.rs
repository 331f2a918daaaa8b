//! The opening handshake of a WebSocket, by RFC 6455 section 4.2.

use ::http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
    request::Parts,
};
use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The subprotocol that is chosen if the client offers it.
const PROTOCOL: &str = "mcp";
/// The version of the protocol.
const VERSION: &str = "13";
/// Bytes of a key.
const KEY: usize = 16;

/// A request that asks for a WebSocket as it should.
pub(super) struct Handshake {
    /// What proves that the request was understood.
    accept: String,
    /// Whether the client offers our subprotocol.
    offered: bool,
    /// The connection, once the response is sent.
    pub(super) upgraded: OnUpgrade,
}

/// Why a request gets no WebSocket.
#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    Header(HeaderName),
    Version,
    Connection,
}

impl Handshake {
    pub(super) fn of(parts: &mut Parts) -> Result<Self, Refusal> {
        let headers = &parts.headers;
        let accept = accept(headers)?;
        let offered = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).any(|name| name == PROTOCOL);
        let upgraded = parts.extensions.remove::<OnUpgrade>().ok_or(Refusal::Connection)?;
        Ok(Self { accept, offered, upgraded })
    }

    pub(super) fn response(&self) -> Response {
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if self.offered {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        response
    }
}

/// What the key of a request is answered with, if its headers are those of a handshake.
fn accept(headers: &HeaderMap) -> Result<String, Refusal> {
    let has = |name: &HeaderName, value: &str| {
        tokens(headers, name).any(|token| token.eq_ignore_ascii_case(value))
    };
    for (name, value) in [(CONNECTION, "upgrade"), (UPGRADE, "websocket")] {
        if !has(&name, value) {
            return Err(Refusal::Header(name));
        }
    }
    if !headers.contains_key(SEC_WEBSOCKET_VERSION) {
        return Err(Refusal::Header(SEC_WEBSOCKET_VERSION));
    }
    if !has(&SEC_WEBSOCKET_VERSION, VERSION) {
        return Err(Refusal::Version);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).filter(|key| is_key(key));
    key.map(derive_accept_key).ok_or(Refusal::Header(SEC_WEBSOCKET_KEY))
}

fn is_key(key: &[u8]) -> bool {
    STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY)
}

/// The values of a header that is a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Header(name) => {
                let why = format!("the header `{name}` is missing, or not that of a WebSocket\n");
                (StatusCode::BAD_REQUEST, why).into_response()
            }
            Self::Version => {
                let version = [(SEC_WEBSOCKET_VERSION, VERSION)];
                let why = "this server speaks version 13 of WebSocket\n";
                (StatusCode::UPGRADE_REQUIRED, version, why).into_response()
            }
            Self::Connection => {
                let why = "this connection cannot become a WebSocket\n";
                (StatusCode::UPGRADE_REQUIRED, why).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(changed: HeaderName, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let usual = [
            (CONNECTION, "keep-alive, Upgrade"),
            (UPGRADE, "websocket"),
            (SEC_WEBSOCKET_VERSION, "13"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        for (name, value) in usual {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(changed, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn a_handshake_has_its_headers() {
        let usual = headers(UPGRADE, "WebSocket");
        assert_eq!(accept(&usual).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let refused = |name: HeaderName, value| accept(&headers(name, value)).unwrap_err();
        for (name, value) in [
            (CONNECTION, "keep-alive"),
            (UPGRADE, "h2c"),
            (SEC_WEBSOCKET_KEY, "c2hvcnQ="),
            (SEC_WEBSOCKET_KEY, "not base64"),
        ] {
            assert_eq!(refused(name.clone(), value), Refusal::Header(name));
        }
        assert_eq!(refused(SEC_WEBSOCKET_VERSION, "8"), Refusal::Version);
        for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION] {
            let mut missing = usual.clone();
            missing.remove(&name);
            assert_eq!(accept(&missing).unwrap_err(), Refusal::Header(name));
        }
    }

    #[test]
    fn another_version_is_told_ours() {
        let response = Refusal::Version.into_response();
        assert_eq!(response.status(), StatusCode::UPGRADE_REQUIRED);
        assert_eq!(response.headers()[SEC_WEBSOCKET_VERSION], "13");
        let response = Refusal::Header(UPGRADE).into_response();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }
}
