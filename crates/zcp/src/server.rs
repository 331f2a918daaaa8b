//! The builder: what a server offers, and where.

use crate::{
    runtime::{
        Parts, Runtime, Service, Settings,
        call::{Call, Outcome},
        catalog::Catalog,
        gate::Gate,
        layer::fault,
        offer::IntoOffer,
        prompt::Prompt,
        provider::Provider,
        resource::Resource,
        skill::Skill,
        tasks::Tasks,
        tool::Tool,
    },
    seal::KeyRing,
    store::{Memory, Store},
    transport::{DRAIN, Transport},
};
use http::Extensions;
use serde_json::Value;
use std::{
    convert::Infallible, error::Error as StdError, fmt, future::Future, io, pin::pin, sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use tower::{Layer, ServiceExt, util::BoxCloneSyncService};
use zcp_wire::mcp::{
    Cache, CacheScope,
    lifecycle::{Icon, Implementation},
};

/// A server in the making. [`build`](Self::build) finds every mistake.
///
/// ```no_run
/// use zcp::{Server, Stdio, tool};
///
/// /// Add two numbers.
/// #[tool]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), zcp::Error> {
///     Server::new("demo").tool(add).serve(Stdio).await
/// }
/// ```
#[must_use = "a server does nothing until it is served"]
pub struct Server {
    parts: Parts,
}

impl Server {
    /// Creates a server. `name` identifies it to clients.
    ///
    /// The version that clients see is that of this library: set yours with
    /// [`version`](Self::version), or use [`server!`](crate::server), which takes it from your
    /// package.
    pub fn new(name: impl Into<String>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let info = Implementation { name: name.into(), version, ..Implementation::default() };
        Self {
            parts: Parts {
                info,
                instructions: None,
                settings: Settings::default(),
                own: Catalog::default(),
                providers: vec![],
                gates: vec![],
                state: Extensions::new(),
                store: Arc::new(Memory::default()),
                is_shared: false,
                keys: KeyRing::generate(),
                layers: vec![],
            },
        }
    }

    /// Sets the version that clients see: `env!("CARGO_PKG_VERSION")`, say.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.parts.info.version = version.into();
        self
    }

    /// What a person sees.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.parts.info.title = Some(title.into());
        self
    }

    /// What it is for, in a sentence.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.parts.info.description = Some(text.into());
        self
    }

    /// Where to read more.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.parts.info.website_url = Some(url.into());
        self
    }

    /// A picture for a person.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.parts.info.icons.push(icon);
        self
    }

    /// How to use the server, for the model.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.parts.instructions = Some(text.into());
        self
    }

    /// Offers a tool.
    pub fn tool<T>(mut self, tool: impl IntoOffer<Tool, T>) -> Self {
        self.parts.own = self.parts.own.tool(tool);
        self
    }

    /// Offers a resource, or with `{variables}` in its URI a family of them.
    pub fn resource<T>(mut self, resource: impl IntoOffer<Resource, T>) -> Self {
        self.parts.own = self.parts.own.resource(resource);
        self
    }

    /// Offers a skill.
    pub fn skill(mut self, skill: impl Into<Skill>) -> Self {
        self.parts.own = self.parts.own.skill(skill);
        self
    }

    /// Offers a prompt.
    pub fn prompt<T>(mut self, prompt: impl IntoOffer<Prompt, T>) -> Self {
        self.parts.own = self.parts.own.prompt(prompt);
        self
    }

    /// Offers what a provider has now, and what it will have later.
    pub fn provide(mut self, provider: impl Provider) -> Self {
        self.parts.providers.push(Box::new(provider));
        self
    }

    /// Something every handler may take a clone of, as `State<T>`.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        self.parts.state.insert(state);
        self
    }

    /// Where sessions, replay and used nonces are kept. Memory unless said otherwise.
    pub fn store(self, store: impl Store) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// Like [`store`](Self::store), with one that others use too. The log says when it goes away and
    /// when it is back.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        (self.parts.store, self.parts.is_shared) = (store, true);
        self
    }

    /// What states, cursors and handles are sealed with. Replicas must share it; a random one is
    /// made otherwise.
    pub fn keys(mut self, keys: KeyRing) -> Self {
        self.parts.keys = keys;
        self
    }

    /// Wraps every operation in a layer: one of [`layer::from_fn`](crate::layer::from_fn), or any
    /// tower layer around a [`Service`]. The last one added runs first.
    ///
    /// An error of the layer is logged, and the client gets an internal error. A [`Fault`](crate::Fault) as the
    /// error reaches the client as it is.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Service> + Send + 'static,
        L::Service: tower::Service<Call, Response = Outcome> + Clone + Send + Sync + 'static,
        <L::Service as tower::Service<Call>>::Error: Into<Box<dyn StdError + Send + Sync>>,
        <L::Service as tower::Service<Call>>::Future: Send,
    {
        let wrap = move |inner| {
            let layered = layer.layer(inner);
            BoxCloneSyncService::new(tower::service_fn(move |call: Call| {
                let (layered, op) = (layered.clone(), call.op.label());
                async move {
                    let outcome = layered.oneshot(call).await;
                    Ok::<_, Infallible>(outcome.unwrap_or_else(|error| fault(op, error.into())))
                }
            }))
        };
        self.parts.layers.push(Box::new(wrap));
        self
    }

    /// Puts a [`Gate`] in front of every tool, whoever offers it: an access policy, say. Of
    /// several, a call passes the last one first.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.parts.gates.push(Arc::new(gate));
        self
    }

    /// Items on a page of a list; 1000 unless said otherwise.
    pub fn page_size(mut self, items: usize) -> Self {
        self.parts.settings.page_size = items.max(1);
        self
    }

    /// How long clients may keep lists, and whether others may be shown them. Not at all unless
    /// said otherwise. A list that depends on who asks must stay private.
    pub fn cache_lists(mut self, lifetime: Duration, scope: CacheScope) -> Self {
        let ttl_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        self.parts.settings.list_cache = Cache { ttl_ms, cache_scope: scope };
        self
    }

    /// Ends calls that take longer.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.parts.settings.call_timeout = Some(limit);
        self
    }

    /// Sets how long a user may take to answer a question that a stateless client was asked.
    /// Default: 15 minutes.
    pub fn input_ttl(mut self, limit: Duration) -> Self {
        self.parts.settings.input_ttl = limit;
        self
    }

    /// Accepts each sealed request state once, so that no answered question can be replayed.
    pub fn single_use_answers(mut self) -> Self {
        self.parts.settings.single_use = true;
        self
    }

    /// Sets the idle timeout of sessions. Default: a day. A session that was opened and never used
    /// is kept for five minutes at most.
    pub fn session_ttl(mut self, time: Duration) -> Self {
        self.parts.settings.session_ttl = time.max(Duration::from_secs(1));
        self
    }

    /// How calls that take long go on as tasks.
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.parts.settings.tasks = tasks;
        self
    }

    /// Speaks only revisions without a handshake: since 2026-07-28.
    pub fn stateless_only(mut self) -> Self {
        self.parts.settings.handshake = false;
        self
    }

    /// A capability outside the core protocol, declared as it is given.
    pub fn extension(mut self, id: impl Into<String>, settings: Value) -> Self {
        self.parts.settings.extensions.insert(id.into(), settings);
        self
    }

    /// Checks everything that can be known before the first call.
    ///
    /// Of two tools, prompts or resources with one name or URI, the one that was added first is
    /// used. Adding both with [`tool`](Self::tool) and the like is an error; what a
    /// [provider](Self::provide) adds is left out, and a warning is logged.
    pub fn build(self) -> Result<Runtime, Error> {
        let mut all = self.parts.own.clone();
        for provider in &self.parts.providers {
            all.merge(&provider.catalog().borrow());
        }
        let mistakes = all.mistakes(&self.parts.state);
        if !mistakes.is_empty() {
            return Err(Error::Mistakes(mistakes));
        }
        Ok(Runtime::new(self.parts))
    }

    /// Builds the server and serves it on one transport, or on a tuple of them, until the transport
    /// ends by itself. A signal ends the process at once: see
    /// [`serve_with_shutdown`](Self::serve_with_shutdown) for graceful shutdown.
    pub async fn serve(self, transport: impl Transport) -> Result<(), Error> {
        self.serve_until(transport, CancellationToken::new()).await
    }

    /// Like [`serve`](Self::serve), with graceful shutdown when the future completes: the server
    /// accepts no new work, ends event streams and subscriptions, and drains the calls under way,
    /// for ten seconds at most.
    ///
    /// ```no_run
    /// use zcp::{Server, Stdio, shutdown_signal};
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), zcp::Error> {
    ///     Server::new("demo").serve_with_shutdown(Stdio, shutdown_signal()).await
    /// }
    /// ```
    pub async fn serve_with_shutdown(
        self,
        transport: impl Transport,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let mut serving = pin!(self.serve_until(transport, stop.clone()));
        tokio::select! {
            served = &mut serving => return served,
            () = shutdown => stop.cancel(),
        }
        serving.await
    }

    /// Like [`serve_with_shutdown`](Self::serve_with_shutdown), when the token is cancelled.
    pub async fn serve_until(
        self,
        transport: impl Transport,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let runtime = self.build()?;
        let served = transport.serve(runtime.clone(), stop.clone()).await;
        // Tasks are drained only in a graceful shutdown.
        runtime.close(if stop.is_cancelled() { DRAIN } else { Duration::ZERO }).await;
        Ok(served?)
    }
}

/// Creates a [`Server`] with the version of your package, `CARGO_PKG_VERSION`. Without an argument,
/// it has the name of your package too.
///
/// ```
/// let server = zcp::server!("demo").instructions("Ask for anything.");
/// # server.build().unwrap();
/// # let _ = zcp::server!();
/// ```
#[macro_export]
macro_rules! server {
    () => {
        $crate::server!(env!("CARGO_PKG_NAME"))
    };
    ($name:expr $(,)?) => {
        $crate::Server::new($name).version(env!("CARGO_PKG_VERSION"))
    };
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.parts.info).finish_non_exhaustive()
    }
}

/// Why a server could not be built or served.
#[non_exhaustive]
pub enum Error {
    /// What is wrong with it, all at once.
    Mistakes(Vec<String>),
    /// A transport failed.
    Io(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mistakes(mistakes) => f.write_str(&mistakes.join("\n")),
            Self::Io(error) => error.fmt(f),
        }
    }
}

// What `main` prints when it returns an error: words, not a struct.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Mistakes(_) => None,
            // Its own text is this error's text.
            Self::Io(error) => error.source(),
        }
    }
}
