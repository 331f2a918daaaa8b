//! A WebSocket: one message in each text frame, and a lost connection that is resumed.

mod line;
mod unconfirmed;
mod upgrade;

use super::{End, Endpoint, MAX_MESSAGE, Opened};
use crate::{error::Result, oauth::OAuth};
use ::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::BoxFuture;
use line::Line;
use std::{fmt, sync::Arc, time::Duration};
use upgrade::Door;

/// How long a connection may be quiet before the server is pinged, unless said otherwise.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A server at a `ws:` or `wss:` URL.
///
/// A lost connection is opened again, and the conversation resumed, if the server supports that: see
/// [`without_resume`](Self::without_resume).
#[derive(Clone)]
pub struct Ws {
    url: String,
    headers: HeaderMap,
    oauth: Option<OAuth>,
    max_message: usize,
    keep_alive: Duration,
    resumes: bool,
}

impl Ws {
    /// The server at a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: HeaderMap::new(),
            oauth: None,
            max_message: MAX_MESSAGE,
            keep_alive: KEEP_ALIVE,
            resumes: true,
        }
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

    /// Whether the request that opens the socket has this header.
    pub fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.contains_key(name)
    }

    /// How to come by a token when the server asks for one. Its URL is that of the socket, with
    /// `https` in the place of `wss`.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuth) -> Self {
        self.oauth = Some(oauth);
        self
    }

    /// How long a connection may be quiet before the server is pinged. Default: 15 seconds. A
    /// connection that stays quiet for as long after that is lost.
    #[must_use]
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time.max(Duration::from_millis(1));
        self
    }

    /// Does not ask the server to keep the conversation while the connection is lost. Without this,
    /// the URL gets the query `resume=true`; servers that do not know it ignore it.
    #[must_use]
    pub fn without_resume(mut self) -> Self {
        self.resumes = false;
        self
    }

    async fn connect(&self) -> Result<Opened> {
        let door = Door::of(self)?;
        let end = End::default();
        let (line, socket, board) = Line::open(door, self).await?;
        end.spawn(|stop| line.run(socket, stop));
        Ok(Opened { peer: Arc::new(board), end, ends_with_events: true })
    }
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

    fn principal(&self) -> u64 {
        self.oauth.as_ref().map_or(0, OAuth::principal)
    }
}

impl fmt::Debug for Ws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ws").field("url", &self.url).finish_non_exhaustive()
    }
}
