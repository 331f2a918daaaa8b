//! A WebSocket: a message a text frame.

use super::{End, Endpoint, MAX_MESSAGE, Opened, answered::Answered, switchboard::Switchboard};
use crate::{
    error::{Error, Failure, Result},
    support::limits,
};
use ::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, future::BoxFuture};
use std::{fmt, sync::Arc, time::Duration};
use tokio_tungstenite::{
    connect_async_with_config,
    tungstenite::{
        self, Utf8Bytes,
        client::IntoClientRequest,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);

/// A server at a `ws:` or `wss:` URL.
#[derive(Clone)]
pub struct Ws {
    url: String,
    headers: HeaderMap,
    max_message: usize,
}

impl Ws {
    /// The server at a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: HeaderMap::new(), max_message: MAX_MESSAGE }
    }

    /// Maximum length of one message of the server, in bytes. Default: 64 MiB. A longer one ends the
    /// connection: requests under way fail, and those that change nothing are sent again.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// A header of the request that opens the socket.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    async fn connect(&self) -> Result<Opened> {
        let lost = |why: String| Error::Lost(Failure::Gone(why));
        let mut request = self.url.as_str().into_client_request().map_err(|error| {
            Error::Unable(format!("`{}` is no WebSocket URL: {error}", self.url))
        })?;
        request.headers_mut().extend(self.headers.clone());
        let protocol = HeaderValue::from_static("mcp");
        request.headers_mut().insert(::http::header::SEC_WEBSOCKET_PROTOCOL, protocol);
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(self.max_message);
        config.max_frame_size = Some(self.max_message);
        let connecting = connect_async_with_config(request, Some(config), false);
        let opening = tokio::time::timeout(CONNECT, connecting).await;
        let opening = opening.map_err(|_| lost("the server does not answer".into()))?;
        let (socket, _) = opening.map_err(|error| refused(&error))?;
        let (mut sink, mut stream) = socket.split();
        let (board, mut unwritten) = Switchboard::new();
        let (end, reader, max_message) = (End::default(), board.clone(), self.max_message);
        end.spawn(|stop| async move {
            let reading = async {
                while let Some(message) = stream.next().await {
                    match message {
                        Ok(message) => take(message, &reader),
                        Err(tungstenite::Error::Capacity(_)) => {
                            return limits::too_long(max_message);
                        }
                        Err(error) => return gone(format!("the connection broke: {error}")),
                    }
                }
                gone("the server closed the connection")
            };
            let writing = async {
                while let Some(text) = unwritten.recv().await {
                    let text = tungstenite::Message::Text(utf8(text.into_bytes()));
                    if let Err(error) = sink.send(text).await {
                        return gone(format!("the connection broke: {error}"));
                    }
                }
                std::future::pending().await
            };
            let why = tokio::select! {
                () = stop.cancelled() => gone("the conversation was ended"),
                why = reading => why,
                why = writing => why,
            };
            let code = match &why {
                Failure::TooLong(_) => CloseCode::Size,
                _ => CloseCode::Normal,
            };
            match why {
                Failure::TooLong(_) => reader.kill_for_length(&why),
                why => reader.kill(why),
            }
            let close = CloseFrame { code, reason: Utf8Bytes::default() };
            let closing = async {
                let _ = sink.send(tungstenite::Message::Close(Some(close))).await;
                let _ = sink.close().await;
            };
            let _ = tokio::time::timeout(Duration::from_secs(1), closing).await;
        });
        Ok(Opened { peer: Arc::new(board), end, ends_with_events: true })
    }
}

fn gone(why: impl Into<String>) -> Failure {
    Failure::Gone(why.into())
}

fn utf8(bytes: Bytes) -> Utf8Bytes {
    Utf8Bytes::try_from(bytes).unwrap_or_default()
}

fn refused(error: &tungstenite::Error) -> Error {
    Error::Lost(match error {
        tungstenite::Error::Http(response) => {
            Failure::Status { status: response.status().as_u16(), text: String::new() }
        }
        other => Failure::Gone(format!("the server cannot be reached: {other}")),
    })
}

fn take(message: tungstenite::Message, board: &Switchboard) {
    let bytes = match message {
        tungstenite::Message::Text(text) => Bytes::from(text),
        tungstenite::Message::Binary(bytes) => bytes,
        _ => return,
    };
    if let Some(why) = limits::too_many(&bytes) {
        return board.fail(&Answered::by(&bytes), &Failure::TooLong(why));
    }
    super::http::frames_of(bytes).into_iter().for_each(|frame| board.take(frame));
}

impl Endpoint for Ws {
    fn open(&self) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(self.connect())
    }

    fn name(&self) -> Option<String> {
        let mut url = reqwest::Url::parse(&self.url).ok()?;
        url.set_query(None);
        let _ = url.set_password(None);
        let _ = url.set_username("");
        Some(url.into())
    }
}

impl fmt::Debug for Ws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ws").field("url", &self.url).finish_non_exhaustive()
    }
}
