//! Which revision a server speaks, and how: found out once, and again when the way to it is lost.

use crate::{
    answer::{Answer, Answers},
    call::{Exchange, Ids, OnProgress, Patience, Progress, Wish, opening, reply},
    client::Client,
    error::{Error, Failure, Result},
    listen::Change,
    transport::{Endpoint, Fate, Headers, Opened, Silence},
};
use ::http::{Extensions, HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::broadcast;
use zcp_wire::{
    Frame, Notification, Peer, Revision,
    error::{HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION},
    header,
    mcp::{
        capabilities::{ClientCapabilities, ServerCapabilities},
        elicitation::{Elicit, ElicitResult},
        lifecycle::{DiscoverResult, Implementation, InitializeResult},
        logging::{Level, LogMessage},
        roots::Root,
        sampling::{CreateMessage, CreateMessageResult},
    },
    meta,
    revision::Era,
};

/// How many changes may wait for whoever listens; later ones are told in one word.
const CHANGES: usize = 256;

pub(crate) type OnLog = Arc<dyn Fn(LogMessage) + Send + Sync>;

/// What a client is like.
pub(crate) struct Settings {
    pub(crate) info: Implementation,
    pub(crate) say_info: bool,
    pub(crate) answers: Answers,
    extensions: Map<String, Value>,
    pub(crate) patience: Patience,
    probe: Duration,
    pub(crate) rounds: usize,
    only: Option<Revision>,
    pub(crate) stateless: Revision,
    pub(crate) level: Option<Level>,
    pub(crate) on_log: Option<OnLog>,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) ids: Ids,
    pub(crate) changes: broadcast::Sender<Change>,
}

impl Settings {
    /// What the server is told this side can do.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut all = self.answers.capabilities();
        if !self.extensions.is_empty() {
            all.0.insert("extensions".into(), Value::Object(self.extensions.clone()));
        }
        all
    }

    pub(crate) fn wish(&self) -> Wish {
        Wish { patience: self.patience, on_progress: None }
    }
}

/// A client that is being described.
///
/// ```no_run
/// use zcp_client::{Client, Http, wire::mcp::elicitation::{Action, ElicitResult}};
///
/// # async fn example() -> Result<(), zcp_client::Error> {
/// let client = Client::builder("my-agent", "1.0")
///     .elicit(async |question| Ok(ElicitResult { action: Action::Decline, content: None }))
///     .connect(Http::new("http://127.0.0.1:8787/mcp")?)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a client is made by `connect`"]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let info = Implementation {
            name: name.into(),
            version: version.into(),
            ..Implementation::default()
        };
        let patience =
            Patience { quiet: Duration::from_secs(60), whole: Duration::from_secs(60 * 60) };
        Self {
            settings: Settings {
                info,
                say_info: true,
                answers: Answers::default(),
                extensions: Map::new(),
                patience,
                probe: Duration::from_secs(5),
                rounds: 16,
                only: None,
                stateless: Revision::LATEST,
                level: None,
                on_log: None,
                on_progress: None,
                ids: Ids::default(),
                changes: broadcast::Sender::new(CHANGES),
            },
        }
    }

    /// Answers questions to the user: forms, unless [`visits`](Self::visits) says more.
    pub fn elicit<F>(mut self, handle: impl Fn(Elicit) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer<ElicitResult>> + Send + 'static,
    {
        self.settings.answers.elicit(handle);
        self
    }

    /// The user can be sent to pages too. The handler of [`elicit`](Self::elicit) shows the whole
    /// address and asks before it is opened.
    pub fn visits(mut self) -> Self {
        self.settings.answers.visits();
        self
    }

    /// Answers questions to the model.
    pub fn sample<F>(mut self, handle: impl Fn(CreateMessage) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer<CreateMessageResult>> + Send + 'static,
    {
        self.settings.answers.sample(handle);
        self
    }

    /// The folders a server may know of.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.settings.answers.roots(roots.into_iter().collect());
        self
    }

    /// An extension this side supports, and its settings.
    pub fn extension(mut self, id: impl Into<String>, settings: Value) -> Self {
        self.settings.extensions.insert(id.into(), settings);
        self
    }

    /// How long a server may say nothing while it works; a minute unless said otherwise.
    pub fn timeout(mut self, quiet: Duration) -> Self {
        self.settings.patience.quiet = quiet;
        self
    }

    /// How long a request may take in all; an hour unless said otherwise.
    pub fn ceiling(mut self, whole: Duration) -> Self {
        self.settings.patience.whole = whole;
        self
    }

    /// How long a server that has to be started may take to say which era it is of.
    pub fn probe(mut self, time: Duration) -> Self {
        self.settings.probe = time;
        self
    }

    /// Speaks this revision, and finds nothing out.
    pub fn revision(mut self, revision: Revision) -> Self {
        self.settings.only = Some(revision);
        self
    }

    /// Does not say who it is.
    pub fn anonymous(mut self) -> Self {
        self.settings.say_info = false;
        self
    }

    /// Wants to hear of log messages from this level on.
    pub fn log_level(mut self, level: Level) -> Self {
        self.settings.level = Some(level);
        self
    }

    /// Hears log messages.
    pub fn on_log(mut self, hear: impl Fn(LogMessage) + Send + Sync + 'static) -> Self {
        self.settings.on_log = Some(Arc::new(hear));
        self
    }

    /// Hears of the progress of calls that do not listen themselves.
    pub fn on_progress(mut self, hear: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.settings.on_progress = Some(Arc::new(hear));
        self
    }

    /// Reaches the server, and finds out what it speaks.
    pub async fn connect(self, endpoint: impl Endpoint) -> Result<Client> {
        Client::open(self.settings, Box::new(endpoint)).await
    }
}

/// Who is at the other end. Names are for display only.
#[derive(Debug, Clone)]
pub struct Server {
    /// What is spoken.
    pub revision: Revision,
    /// Who it says it is.
    pub info: Option<Implementation>,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
}

impl Server {
    /// What every request shows to ways that have headers.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_static(self.revision.as_str());
        headers.insert(header::PROTOCOL_VERSION.clone(), version);
        headers
    }
}

/// An open way to a server, and what is spoken on it.
pub(crate) struct Line {
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) opened: Opened,
    pub(crate) server: Server,
    lost: AtomicBool,
}

impl Line {
    fn new(opened: Opened, server: Server) -> Self {
        Self { peer: opened.peer.clone(), opened, server, lost: AtomicBool::new(false) }
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Opens a way, and finds out what is spoken on it.
pub(crate) async fn open(settings: &Arc<Settings>, endpoint: &dyn Endpoint) -> Result<Line> {
    let opened = endpoint.open().await?;
    match settings.only.map(Revision::era) {
        Some(Era::Handshake) => handshake(settings, endpoint, opened).await,
        Some(Era::Stateless) => {
            let server = discover(settings, &*opened.peer, settings.patience.quiet).await?;
            hear_events(settings.clone(), &opened, Era::Stateless);
            Ok(Line::new(opened, server))
        }
        None => probe(settings, endpoint, opened).await,
    }
}

/// Asks the question only newer servers know.
async fn probe(settings: &Arc<Settings>, endpoint: &dyn Endpoint, opened: Opened) -> Result<Line> {
    let patience = match endpoint.silence() {
        Silence::Age => settings.probe,
        Silence::Outage => settings.patience.quiet,
    };
    let error = match discover(settings, &*opened.peer, patience).await {
        Ok(server) => {
            hear_events(settings.clone(), &opened, Era::Stateless);
            return Ok(Line::new(opened, server));
        }
        Err(error) => error,
    };
    let is_old = endpoint.silence() == Silence::Age;
    match &error {
        Error::Refused(refused) => match refused.code {
            UNSUPPORTED_PROTOCOL_VERSION | HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY => {
                Err(error)
            }
            _ => handshake(settings, endpoint, opened).await,
        },
        Error::Invalid(_) => handshake(settings, endpoint, opened).await,
        Error::Late(_) if is_old => handshake(settings, endpoint, opened).await,
        // The question was too much for it: it is started again, and not asked.
        Error::Lost(Failure::Gone(_)) if is_old => {
            opened.end.wait().await;
            handshake(settings, endpoint, endpoint.open().await?).await
        }
        // Somebody on the way, or the server's state of the day: nothing that tells its age.
        Error::Lost(Failure::Status { status: 401 | 403 | 407 | 429 | 500.., .. }) => Err(error),
        Error::Lost(Failure::Status { .. }) => handshake(settings, endpoint, opened).await,
        _ => Err(error),
    }
}

async fn discover(settings: &Settings, peer: &dyn Peer, patience: Duration) -> Result<Server> {
    let whole = settings.patience.whole.min(patience);
    let wish = Wish { patience: Patience { quiet: patience, whole }, on_progress: None };
    let revision = settings.stateless;
    // A server that names the revision we speak is asked once more.
    for last in [false, true] {
        let fate = Fate::default();
        let exchange = Exchange { settings, peer, era: Era::Stateless, wish: &wish, fate: &fate };
        let (id, mut params) = (settings.ids.next(), Map::new());
        settings.say_about(&mut params, Era::Stateless, &id);
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_static(revision.as_str());
        headers.insert(header::PROTOCOL_VERSION.clone(), version);
        headers.insert(header::METHOD.clone(), HeaderValue::from_static("server/discover"));
        match exchange.ask(id, "server/discover", params, opening(headers)).await {
            Err(Error::Refused(error)) if error.code == UNSUPPORTED_PROTOCOL_VERSION => {
                let data = error.data.clone().unwrap_or_default();
                let supported = data["supported"].as_array().cloned().unwrap_or_default();
                if last || !supported.contains(&json!(revision.as_str())) {
                    return Err(Error::Refused(error));
                }
            }
            Err(error) => return Err(error),
            Ok(result) => return discovered(revision, result),
        }
    }
    Err(Error::invalid("it refuses the revision it names"))
}

fn discovered(revision: Revision, result: Map<String, Value>) -> Result<Server> {
    let info = result.get("_meta").and_then(|about| about.get(meta::SERVER_INFO)).cloned();
    let found: DiscoverResult =
        serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
    if !found.supported_versions.iter().any(|version| version == revision.as_str()) {
        let theirs = found.supported_versions.join(", ");
        return Err(Error::Unable(format!("the server speaks {theirs}; this client {revision}")));
    }
    Ok(Server {
        revision,
        info: info.and_then(|info| serde_json::from_value(info).ok()),
        capabilities: found.capabilities,
        instructions: found.instructions,
    })
}

/// Opens a session, in the newest revision both sides speak.
async fn handshake(
    settings: &Arc<Settings>,
    endpoint: &dyn Endpoint,
    opened: Opened,
) -> Result<Line> {
    let offer = settings.only.unwrap_or(Revision::LATEST_HANDSHAKE);
    let error = match initialize(settings, opened, offer).await {
        Ok(line) => return Ok(line),
        Err(error) => error,
    };
    let is_older = matches!(&error, Error::Lost(Failure::Status { status: 400 | 404 | 405, .. }));
    match endpoint.older().filter(|_| is_older) {
        Some(older) => {
            let opened = older.open().await.map_err(|_| error)?;
            initialize(settings, opened, Revision::V2024_11_05).await
        }
        None => Err(error),
    }
}

async fn initialize(settings: &Arc<Settings>, opened: Opened, offer: Revision) -> Result<Line> {
    let (wish, fate) = (settings.wish(), Fate::default());
    let exchange =
        Exchange { settings, peer: &*opened.peer, era: Era::Handshake, wish: &wish, fate: &fate };
    let params = json!({
        "protocolVersion": offer.as_str(),
        "capabilities": settings.capabilities(),
        "clientInfo": settings.info,
    });
    let Value::Object(params) = params else { unreachable!("it is an object") };
    let mut result =
        exchange.ask(settings.ids.next(), "initialize", params, opening(HeaderMap::new())).await?;
    // Some servers leave out what they have nothing to say about.
    result.entry("capabilities").or_insert_with(|| json!({}));
    let found: InitializeResult =
        serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
    let revision = Revision::parse(&found.protocol_version)
        .filter(|revision| revision.era() == Era::Handshake)
        .ok_or_else(|| {
            Error::Unable(format!(
                "the server speaks {}, a revision unknown here",
                found.protocol_version
            ))
        })?;
    let server = Server {
        revision,
        info: Some(found.server_info),
        capabilities: found.capabilities,
        instructions: found.instructions,
    };
    notify(&*opened.peer, &server, "notifications/initialized").await;
    hear_events(settings.clone(), &opened, Era::Handshake);
    Ok(Line::new(opened, server))
}

/// Tells the server something.
pub(crate) async fn notify(peer: &dyn Peer, server: &Server, method: &'static str) {
    let mut extensions = Extensions::new();
    extensions.insert(Headers(server.headers()));
    let said = Notification { method: method.into(), params: None };
    let mut sent = peer.send(Frame::Notification(said), extensions);
    while sent.next().await.is_some() {}
}

/// Takes what answers no request, for as long as the way is open.
fn hear_events(settings: Arc<Settings>, opened: &Opened, era: Era) {
    let peer = opened.peer.clone();
    let mut events = peer.events();
    opened.end.spawn(|stop| async move {
        let hearing = async {
            while let Some(frame) = events.next().await {
                match frame {
                    Frame::Notification(said) => heard(&settings, &said),
                    Frame::Request(question) if era == Era::Handshake => {
                        reply(&settings, &*peer, question).await;
                    }
                    Frame::Request(_) | Frame::Response(_) => (),
                }
            }
        };
        stop.run_until_cancelled(hearing).await;
    });
}

fn heard(settings: &Settings, said: &Notification) {
    if let Some(change) = Change::of(said) {
        let _ = settings.changes.send(change);
        return;
    }
    let params = said.params.as_deref().unwrap_or("{}");
    if &*said.method == "notifications/message"
        && let (Some(hear), Ok(message)) = (&settings.on_log, serde_json::from_str(params))
    {
        hear(message);
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("info", &self.settings.info).finish_non_exhaustive()
    }
}
