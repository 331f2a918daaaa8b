//! Streamable HTTP: a POST a message.

mod reading;
mod session_stream;

pub(super) use reading::{frames_of, is_events};

use super::{End, Endpoint, Fate, Headers, Opened, Opening, sse2024::Sse2024, switchboard};
use crate::{
    error::{Error, Failure, Result},
    oauth::{OAuth, Refusal},
    support::http_error::explain,
};
use ::http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream};
use reading::Reading;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, Url, redirect};
use std::{
    collections::HashMap,
    fmt,
    future::ready,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;
use zcp_wire::{
    Frame, Frames, Id, Peer,
    header::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID},
    sync::lock,
};

/// Redirects that are followed, to the same server only.
const REDIRECTS: usize = 3;
/// How long a connection may take, and a farewell.
const CONNECT: Duration = Duration::from_secs(20);
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a message may take to be taken that is not answered.
const UNANSWERED: Duration = Duration::from_secs(30);
/// How long the stream of events may take to open.
const LISTEN: Duration = Duration::from_secs(2);

/// A server at a URL, or behind a Unix socket.
///
/// ```
/// # fn main() -> Result<(), zcp_client::Error> {
/// use zcp_client::Http;
///
/// let server = Http::new("https://example.com/mcp")?.bearer("secret");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Http {
    url: Url,
    headers: HeaderMap,
    socket: Option<PathBuf>,
    oauth: Option<OAuth>,
    max_message: usize,
}

impl Http {
    /// The server at a URL.
    pub fn new(url: impl AsRef<str>) -> Result<Self> {
        let text = url.as_ref();
        let parsed = Url::parse(text);
        let url = parsed.map_err(|error| Error::Unable(format!("`{text}` is no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Unable(format!("`{url}` is not an http or https URL")));
        }
        let max_message = super::MAX_MESSAGE;
        Ok(Self { url, headers: HeaderMap::new(), socket: None, oauth: None, max_message })
    }

    /// The server behind a Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self { socket: Some(path.into()), ..Self::new("http://localhost/mcp")? })
    }

    /// A header of every request.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Whether every request has this header.
    pub fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.contains_key(name)
    }

    /// A token that every request shows.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        match HeaderValue::from_str(&format!("Bearer {token}")) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.header(AUTHORIZATION, value)
            }
            Err(_) => self,
        }
    }

    /// How to come by a token when the server asks for one.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuth) -> Self {
        self.oauth = Some(oauth);
        self
    }

    /// Maximum length of one message of the server, in bytes. Default: 64 MiB. A longer answer is an
    /// error.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    pub(super) fn longest_message(&self) -> usize {
        self.max_message
    }

    /// Where the server is.
    pub fn address(&self) -> &Url {
        &self.url
    }

    pub(super) fn way_to_tokens(&self) -> Option<&OAuth> {
        self.oauth.as_ref()
    }

    pub(super) fn client(&self) -> Result<Client> {
        let mut builder = builder(&self.headers);
        if let Some(socket) = &self.socket {
            builder = builder.unix_socket(socket.clone());
        }
        builder.build().map_err(|error| Error::Unable(explain(&error)))
    }
}

/// What all clients of one server are made with.
pub(super) fn builder(headers: &HeaderMap) -> ClientBuilder {
    Client::builder()
        .default_headers(headers.clone())
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::custom(same_server))
}

/// What a request shows is for the server it was made for.
fn same_server(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin = attempt.previous().first().map(Url::origin);
    match origin.is_some_and(|origin| origin == attempt.url().origin()) {
        true if attempt.previous().len() <= REDIRECTS => attempt.follow(),
        _ => attempt.stop(),
    }
}

impl Endpoint for Http {
    fn open(&self) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async {
            let (end, tasks) = (End::default(), TaskTracker::new());
            let way = Arc::new(Way {
                url: self.url.clone(),
                client: self.client()?,
                session: Mutex::default(),
                version: Mutex::default(),
                waiting: Mutex::default(),
                is_listening: watch::Sender::new(true),
                tasks: tasks.clone(),
                oauth: self.oauth.clone(),
                max_message: self.max_message,
            });
            let leaving = way.clone();
            end.spawn(|stop| async move {
                stop.cancelled().await;
                let _ = tokio::time::timeout(FAREWELL, leaving.leave()).await;
                tasks.close();
                let _ = tokio::time::timeout(FAREWELL, tasks.wait()).await;
            });
            Ok(Opened { peer: Arc::new(Talk(way)), end, ends_with_events: false })
        })
    }

    fn name(&self) -> Option<String> {
        let mut url = self.url.clone();
        url.set_query(None);
        let _ = url.set_password(None);
        let _ = url.set_username("");
        Some(match &self.socket {
            Some(socket) => format!("unix:{}", socket.display()),
            None => url.into(),
        })
    }

    fn principal(&self) -> u64 {
        self.oauth.as_ref().map_or(0, OAuth::principal)
    }

    fn older(&self) -> Option<Box<dyn Endpoint>> {
        Some(Box::new(Sse2024::new(self.clone())))
    }
}

/// A conversation over HTTP.
struct Talk(Arc<Way>);

impl Peer for Talk {
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames {
        let opens = extensions.get::<Opening>().is_some();
        if opens {
            *self.0.session() = None;
        }
        let headers = extensions.get::<Headers>().cloned().unwrap_or_default();
        if let Some(version) = headers.0.get(&PROTOCOL_VERSION) {
            *self.0.version() = Some(version.clone());
        }
        let fate = extensions.get::<Fate>().cloned().unwrap_or_default();
        let id = match &frame {
            Frame::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let text = frame.into_text().into_bytes();
        let reading = Reading {
            way: self.0.clone(),
            headers: headers.0,
            opens,
            id: id.clone(),
            fate: fate.clone(),
        };
        let frames = stream::once(async move {
            if reading.id.is_some() {
                reading.way.listen_first().await;
            }
            let post = || reading.way.post(text.clone(), reading.headers.clone());
            match reading.way.send(&Method::POST, &fate, post).await {
                Ok(response) => reading.of(response).await,
                Err(failure) => {
                    fate.set(failure);
                    stream::empty().boxed()
                }
            }
        });
        let Some(id) = id else {
            // Nothing is to come back, and nobody waits for it for long.
            let sent = tokio::time::timeout(UNANSWERED, frames.flatten().for_each(|_| ready(())));
            return Frames::stream(stream::once(sent).filter_map(|_| ready(None)));
        };
        let (sender, strays) = mpsc::channel(1);
        self.0.waiting().insert(id.clone(), sender);
        let open = Open { way: self.0.clone(), id, is_answered: false };
        let state = (Box::pin(frames.flatten()), strays, open);
        Frames::stream(stream::unfold(state, async |(mut frames, mut strays, mut open)| {
            let frame = tokio::select! {
                frame = frames.next() => frame,
                Some(stray) = strays.recv() => Some(stray),
            };
            open.is_answered |= matches!(frame, Some(Frame::Response(_)) | None);
            Some((frame?, (frames, strays, open)))
        }))
    }

    /// What a session is told beside its calls; ends when the server has no such stream.
    fn events(&self) -> Frames {
        let Some(session) = self.0.session().clone() else { return Frames::None };
        let way = self.0.clone();
        // A server that lost a call's stream may answer on this one.
        Frames::stream(session_stream::of(self.0.clone(), session).filter_map(move |frame| {
            ready(match frame {
                Frame::Response(response) => way.deliver(response),
                other => Some(other),
            })
        }))
    }
}

/// Sends a request of a server's conversation, with a token if there is a way to one.
pub(super) async fn send(
    server: &Url,
    oauth: Option<&OAuth>,
    method: &Method,
    fate: &Fate,
    make: impl Fn() -> RequestBuilder,
) -> Result<Response, Failure> {
    let gone = |error: reqwest::Error| Failure::Gone(explain(&error));
    let Some(oauth) = oauth else { return make().send().await.map_err(gone) };
    oauth.send(server, method, fate.pause(), make).await.map_err(|refusal| match refusal {
        Refusal::Unsent(error) => gone(error),
        Refusal::Denied(why) => Failure::Denied(why),
    })
}

/// Where messages go, and what is remembered of the conversation.
struct Way {
    url: Url,
    client: Client,
    session: Mutex<Option<HeaderValue>>,
    /// The revision that is spoken, once it is agreed on.
    version: Mutex<Option<HeaderValue>>,
    /// Requests under way, for answers that come by another stream.
    waiting: Mutex<HashMap<Id, mpsc::Sender<Frame>>>,
    /// False while the stream of events is being opened.
    is_listening: watch::Sender<bool>,
    tasks: TaskTracker,
    oauth: Option<OAuth>,
    max_message: usize,
}

impl Way {
    fn session(&self) -> std::sync::MutexGuard<'_, Option<HeaderValue>> {
        lock(&self.session)
    }

    fn version(&self) -> std::sync::MutexGuard<'_, Option<HeaderValue>> {
        lock(&self.version)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<Id, mpsc::Sender<Frame>>> {
        lock(&self.waiting)
    }

    /// Waits until the stream of events is open: what a call makes the server say there is lost
    /// otherwise.
    async fn listen_first(&self) {
        let mut listening = self.is_listening.subscribe();
        let open = listening.wait_for(|listening| *listening);
        if tokio::time::timeout(LISTEN, open).await.is_err() {
            // Some servers say nothing before there is an event.
            self.is_listening.send_replace(true);
        }
    }

    /// Gives an answer to whoever waits for it; nothing is left over.
    fn deliver(&self, response: zcp_wire::Response) -> Option<Frame> {
        let sender = self.waiting().remove(response.id.as_ref()?)?;
        let _ = sender.try_send(Frame::Response(response));
        None
    }

    async fn send(
        &self,
        method: &Method,
        fate: &Fate,
        make: impl Fn() -> RequestBuilder,
    ) -> Result<Response, Failure> {
        send(&self.url, self.oauth.as_ref(), method, fate, make).await
    }

    /// Says something on the way out: nobody is asked for a token for that.
    async fn send_as_is(&self, method: &Method, make: impl Fn() -> RequestBuilder) {
        let _ = match &self.oauth {
            Some(oauth) => oauth.send_as_is(&self.url, method, make).await.is_ok(),
            None => make().send().await.is_ok(),
        };
    }

    fn post(&self, text: Bytes, headers: HeaderMap) -> RequestBuilder {
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .headers(headers)
            .body(text);
        self.in_session(request)
    }

    fn get(&self, headers: &HeaderMap, last: Option<&str>) -> RequestBuilder {
        let request = self
            .client
            .get(self.url.clone())
            .header(ACCEPT, "text/event-stream")
            .headers(headers.clone());
        let request = self.in_session(request);
        match last {
            Some(last) => request.header(LAST_EVENT_ID.clone(), last),
            None => request,
        }
    }

    /// What every request of a session shows.
    fn in_session(&self, request: RequestBuilder) -> RequestBuilder {
        let Some(session) = self.session().clone() else { return request };
        let mut headers = HeaderMap::from_iter([(SESSION_ID.clone(), session)]);
        if let Some(version) = self.version().clone() {
            headers.insert(PROTOCOL_VERSION.clone(), version);
        }
        request.headers(headers)
    }

    /// Ends the session, if there is one.
    async fn leave(&self) {
        if self.session().is_none() {
            return;
        }
        let delete = || self.in_session(self.client.delete(self.url.clone()));
        let _ = self.send_as_is(&Method::DELETE, delete).await;
    }
}

/// A request under way. In a session, hanging up is not enough to cancel it.
struct Open {
    way: Arc<Way>,
    id: Id,
    is_answered: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.way.waiting().remove(&self.id);
        if self.is_answered || self.way.session().is_none() {
            return;
        }
        let text = switchboard::cancelled(&self.id).into_text().into_bytes();
        let way = self.way.clone();
        self.way.tasks.spawn(async move {
            let post = || way.post(text.clone(), HeaderMap::new());
            let _ = tokio::time::timeout(FAREWELL, way.send_as_is(&Method::POST, post)).await;
        });
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}
