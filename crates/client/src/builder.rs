//! A client that is being described: who it is, what it answers, how long it waits.

use crate::{
    client::Client,
    connection::{client_profile::Settings, eras::Eras},
    error::{Error, Result},
    request::{answers::Answer, cache::Cache, round_trip::Progress},
    transport::Endpoint,
};
use serde_json::{Map, Value};
use std::{fmt, future::Future, sync::Arc, time::Duration};
use zcp_wire::{
    Revision,
    mcp::{
        elicitation::{Elicit, ElicitResult},
        lifecycle::Implementation,
        logging::{Level, LogMessage},
        roots::Root,
        sampling::{CreateMessage, CreateMessageResult},
        tasks::EXTENSION,
    },
};

impl Client {
    /// Reaches a server, and finds out what it speaks.
    pub async fn connect(endpoint: impl Endpoint) -> Result<Self> {
        Self::builder("zcp-client", env!("CARGO_PKG_VERSION")).connect(endpoint).await
    }

    /// Describes a client: who it is, and what it answers.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name, version)
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
    fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let info = Implementation {
            name: name.into(),
            version: version.into(),
            ..Implementation::default()
        };
        Self { settings: Settings::new(info) }
    }

    /// Answers questions to the user: forms, unless [`visits`](Self::visits) says more.
    pub fn elicit<F>(mut self, handle: impl Fn(Elicit) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer<ElicitResult>> + Send + 'static,
    {
        self.settings.handlers.answers.elicit(handle);
        self
    }

    /// The user can be sent to pages too. The handler of [`elicit`](Self::elicit) shows the whole
    /// address and asks before it is opened.
    pub fn visits(mut self) -> Self {
        self.settings.handlers.answers.visits();
        self
    }

    /// Answers questions to the model.
    pub fn sample<F>(mut self, handle: impl Fn(CreateMessage) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer<CreateMessageResult>> + Send + 'static,
    {
        self.settings.handlers.answers.sample(handle);
        self
    }

    /// The model that [`sample`](Self::sample) asks may use tools the server names.
    pub fn sample_tools(mut self) -> Self {
        self.settings.handlers.answers.sample_tools();
        self
    }

    /// Follows calls that go on as tasks; without this, servers are told to answer them at once.
    pub fn tasks(mut self) -> Self {
        self.settings.tasks = true;
        self.extension(EXTENSION, Value::Object(Map::new()))
    }

    /// The folders a server may know of, as `file://` URIs the user has agreed to.
    /// [`Client::set_roots`] replaces them later.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.settings.handlers.answers.roots(roots.into_iter().collect());
        self
    }

    /// An extension this side supports, and its settings.
    pub fn extension(mut self, id: impl Into<String>, settings: Value) -> Self {
        self.settings.extensions.insert(id.into(), settings);
        self
    }

    /// How long a server may say nothing while it works; a minute unless said otherwise.
    pub fn timeout(mut self, quiet: Duration) -> Self {
        self.settings.timeouts.idle = quiet;
        self.settings.timeouts.total = self.settings.timeouts.total.max(quiet);
        self
    }

    /// How long a request may take in all; an hour unless said otherwise.
    pub fn ceiling(mut self, whole: Duration) -> Self {
        self.settings.timeouts.total = whole;
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
        self.settings.handlers.on_log = Some(Arc::new(hear));
        self
    }

    /// Hears of the progress of calls that do not listen themselves.
    pub fn on_progress(mut self, hear: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.settings.handlers.on_progress = Some(Arc::new(hear));
        self
    }

    /// Reaches the server, and finds out what it speaks.
    pub async fn connect(self, endpoint: impl Endpoint) -> Result<Client> {
        self.settings.handlers.answers.check().map_err(Error::Unable)?;
        Client::open(self.settings, Box::new(endpoint)).await
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("info", &self.settings.info).finish_non_exhaustive()
    }
}
