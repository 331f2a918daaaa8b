//! A client that is being described: who it is, what it answers, how long it waits.

use crate::{
    client::Client,
    client::pagination::Tools,
    connection::eras::Eras,
    connection::listen::Change,
    error::{Error, Result},
    request::answers::{Answer, Answers},
    request::cache::Cache,
    request::round_trip::{Ids, OnProgress, Patience, Progress, Wish},
    support::deadline::Pause,
    transport::Endpoint,
};
use serde_json::{Map, Value};
use std::{fmt, future::Future, sync::Arc, time::Duration};
use tokio::sync::broadcast;
use zcp_wire::{
    Revision,
    mcp::{
        capabilities::ClientCapabilities,
        elicitation::{Elicit, ElicitResult},
        lifecycle::Implementation,
        logging::{Level, LogMessage},
        roots::Root,
        sampling::{CreateMessage, CreateMessageResult},
        tasks::EXTENSION,
    },
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
    pub(crate) probe: Duration,
    pub(crate) rounds: usize,
    pub(crate) only: Option<Revision>,
    pub(crate) stateless: Revision,
    pub(crate) level: Option<Level>,
    pub(crate) on_log: Option<OnLog>,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) ids: Ids,
    pub(crate) changes: broadcast::Sender<Change>,
    /// Questions of the server that are being answered.
    pub(crate) questions: Pause,
    pub(crate) tasks: bool,
    pub(crate) eras: Eras,
    pub(crate) cache: Cache,
    pub(crate) tools: Tools,
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

    /// Something changed at the server: what was kept of it is forgotten, and whoever listens is
    /// told.
    pub(crate) fn changed(&self, change: Change) {
        self.forget(&change);
        let _ = self.changes.send(change);
    }

    /// Forgets what may no longer be so.
    pub(crate) fn forget(&self, change: &Change) {
        self.cache.forget(change);
        if matches!(change, Change::Tools | Change::All) {
            self.tools.doubt();
        }
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
                questions: Pause::default(),
                tasks: false,
                eras: Eras::default(),
                cache: Cache::default(),
                tools: Tools::default(),
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

    /// The model that [`sample`](Self::sample) asks may use tools the server names.
    pub fn sample_tools(mut self) -> Self {
        self.settings.answers.sample_tools();
        self
    }

    /// Follows calls that go on as tasks; without this, servers are told to answer them at once.
    pub fn tasks(mut self) -> Self {
        self.settings.tasks = true;
        self.extension(EXTENSION, Value::Object(Map::new()))
    }

    /// The folders a server may know of, as `file://` URIs the user has agreed to.
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
        self.settings.patience.whole = self.settings.patience.whole.max(quiet);
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

    /// Remembers what servers are like, together with other clients.
    pub fn eras(mut self, eras: Eras) -> Self {
        self.settings.eras = eras;
        self
    }

    /// Keeps what may be kept, together with other clients of the same server.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.settings.cache = cache;
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
        self.settings.answers.check().map_err(Error::Unable)?;
        Client::open(self.settings, Box::new(endpoint)).await
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("info", &self.settings.info).finish_non_exhaustive()
    }
}
