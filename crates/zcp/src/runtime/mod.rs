//! Operations in, outcomes out. Knows no frame, no revision, no socket.

pub(crate) mod ask;
mod background;
pub(crate) mod call;
pub(crate) mod catalog;
pub(crate) mod changes;
pub(crate) mod complete;
mod contain;
pub(crate) mod ctx;
mod dispatch;
pub(crate) mod error;
pub(crate) mod extract;
mod failure;
pub(crate) mod gate;
pub(crate) mod handler;
pub(crate) mod input;
mod known;
pub mod layer;
mod merge;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
#[path = "without_metrics.rs"]
#[cfg(not(feature = "metrics"))]
pub(crate) mod metrics;
pub(crate) mod offer;
pub(crate) mod output;
pub(crate) mod presence;
pub(crate) mod prompt;
pub(crate) mod provider;
pub(crate) mod rate;
pub(crate) mod ready_tool;
pub(crate) mod resource;
pub(crate) mod roots;
pub(crate) mod signature;
pub(crate) mod skill;
mod stop;
pub(crate) mod tasks;
pub(crate) mod template;
pub(crate) mod tool;

use crate::{
    seal::KeyRing,
    store::{Store, noticed::Noticed},
    sync::lock,
};
use background::Background;
use call::{Call, Fault, Outcome};
use catalog::Catalog;
use changes::{Change, Changes};
use dispatch::Core;
use failure::{failed, gave_up};
use futures_util::{FutureExt, future::Either};
use gate::Gate;
use http::Extensions;
use merge::watch_catalogs;
use metrics::{Metrics, Timing};
use pin_project_lite::pin_project;
use provider::Provider;
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    convert::Infallible,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};
use tasks::{Engine, Tasks};
use tower::{ServiceExt, util::BoxCloneSyncService};
use tracing::Instrument;
use zcp_wire::mcp::{Cache, CacheScope, lifecycle::Implementation};

/// What layers wrap: operations in, outcomes out.
pub type Service = BoxCloneSyncService<Call, Outcome, Infallible>;

/// Everything that can be called, behind every layer that was added. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// What every clone of a runtime shares.
#[doc(hidden)]
pub struct Shared {
    pub(crate) info: Implementation,
    pub(crate) info_json: Arc<str>,
    pub(crate) instructions: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) changes: Changes,
    pub(crate) metrics: Metrics,
    /// The catalog can change while the server runs.
    pub(crate) is_live: bool,
    core: Core,
    layered: Option<Service>,
    /// What a protocol keeps for all of its conversations, one of a type.
    shelf: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Follows the providers, if there are any.
    watching: Option<Background>,
    /// Looks after tasks, once there is a conversation.
    keeping: OnceLock<Background>,
    /// A provider may own what its catalog comes from.
    providers: Vec<Box<dyn Provider>>,
}

/// What can be set about every call.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) page_size: usize,
    pub(crate) list_cache: Cache,
    pub(crate) handshake: bool,
    pub(crate) single_use: bool,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) input_ttl: Duration,
    pub(crate) extensions: zcp_wire::mcp::Extra,
    pub(crate) tasks: Tasks,
    /// How long a session nobody uses any more is kept.
    pub(crate) session_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            page_size: 1000,
            list_cache: Cache { ttl_ms: 0, cache_scope: CacheScope::Private },
            handshake: true,
            single_use: false,
            call_timeout: None,
            input_ttl: Duration::from_secs(15 * 60),
            extensions: zcp_wire::mcp::Extra::new(),
            tasks: Tasks::default(),
            session_ttl: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What a runtime is made of.
pub(crate) struct Parts {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) own: Catalog,
    pub(crate) providers: Vec<Box<dyn Provider>>,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) state: Extensions,
    pub(crate) store: Arc<dyn Store>,
    /// The store is not this process's own, and may go away.
    pub(crate) is_shared: bool,
    pub(crate) keys: KeyRing,
    pub(crate) layers: Vec<Box<dyn FnOnce(Service) -> Service + Send>>,
}

impl Runtime {
    pub(crate) fn new(mut parts: Parts) -> Self {
        let metrics = Metrics::default();
        if parts.is_shared {
            let up = metrics.store.clone();
            let tell = move |is_up: bool| _ = up.set(is_up.into());
            parts.store = Arc::new(Noticed::new(parts.store, tell));
        }
        let changes = Changes::new(parts.store.clone());
        let is_live = !parts.providers.is_empty() || !parts.gates.is_empty();
        let state = Arc::new(parts.state);
        let (catalog, watching) = watch_catalogs(
            parts.own,
            &parts.providers,
            parts.gates,
            changes.clone(),
            state.clone(),
        );
        let core = Core {
            catalog,
            state,
            page_size: parts.settings.page_size,
            call_timeout: parts.settings.call_timeout,
            engine: Arc::new(Engine::new(parts.settings.tasks.clone(), parts.store.clone())),
        };
        let layered = (!parts.layers.is_empty()).then(|| {
            let core = core.clone();
            let innermost = tower::service_fn(move |call| {
                let core = core.clone();
                async move { Ok::<_, Infallible>(core.dispatch(call).await) }
            });
            let innermost = BoxCloneSyncService::new(innermost);
            parts.layers.into_iter().fold(innermost, |service, layer| layer(service))
        });
        let shared = Shared {
            info_json: Arc::from(&*zcp_wire::json::text(&parts.info)),
            info: parts.info,
            instructions: parts.instructions,
            settings: parts.settings,
            store: parts.store,
            keys: Arc::new(parts.keys),
            changes,
            metrics,
            is_live,
            core,
            layered,
            shelf: Mutex::default(),
            watching,
            keeping: OnceLock::new(),
            providers: parts.providers,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs an operation, in a `tracing` span of the info level: `call`, with the fields `op`,
    /// `target` (the name of the tool or prompt, or the URI) and `traceparent`.
    pub fn call(&self, call: Call) -> impl Future<Output = Outcome> + Send {
        if !tracing::span_enabled!(tracing::Level::INFO) {
            return Either::Left(self.run(call));
        }
        let span = tracing::info_span!(
            "call",
            op = call.op.label(),
            target = call.op.target(),
            traceparent = call.ctx.trace().map(|trace| trace.parent.as_str()),
        );
        // In a box: calls that nobody traces have a small future.
        Either::Right(Box::pin(self.run(call).instrument(span)))
    }

    fn run(&self, call: Call) -> impl Future<Output = Outcome> + Send {
        let has_tool = |name: &str| self.core.catalog.borrow().find_tool(name).is_some();
        let timing = self.metrics.begin(&call.op, has_tool);
        let work = match &self.layered {
            None => Either::Left(self.core.dispatch(call)),
            Some(service) => {
                let layered = AssertUnwindSafe(service.clone().oneshot(call)).catch_unwind();
                Either::Right(Box::pin(layered.map(|ended| match ended {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(never)) => match never {},
                    Err(_) => Outcome::Fault(Fault::Failed("the call failed unexpectedly".into())),
                })))
            }
        };
        Timed { work, timing: Some(timing) }
    }

    /// What happened, counted: the text Prometheus reads.
    pub(crate) fn numbers(&self) -> String {
        let mounts = self.shared.providers.iter().flat_map(|provider| provider.mounts());
        mounts.for_each(|(name, is_up)| self.metrics.mounted(name, is_up));
        self.metrics.encode()
    }

    /// Whether layers decide what is done.
    pub(crate) fn is_layered(&self) -> bool {
        self.layered.is_some()
    }

    /// The catalog now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.core.catalog.borrow().clone()
    }

    /// Whether running a tool twice is the same as running it once.
    pub(crate) fn may_run_twice(&self, tool: &str) -> bool {
        self.catalog().find_tool(tool).is_some_and(|tool| tool.may_run_twice())
    }

    /// The tasks of this server.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.core.engine
    }

    /// This process among those that share its store.
    pub(crate) fn presence(&self) -> &Arc<presence::Presence> {
        &self.core.engine.presence
    }

    /// Tells the clients who want to know.
    pub async fn announce(&self, change: &Change) -> Result<(), crate::store::StoreError> {
        self.changes.announce(change).await
    }

    /// Looks after tasks from now on, for as long as this runtime is there. Not before something
    /// runs that could: a server may be put together outside.
    pub(crate) fn keep_tasks(&self) {
        if self.keeping.get().is_some() {
            return;
        }
        let Ok(handle) = tokio::runtime::Handle::try_current() else { return };
        self.keeping.get_or_init(|| {
            let keep = tasks::keep(Arc::downgrade(&self.shared), self.core.engine.clone());
            let keys = KeyRing::clone(&self.keys).follow(self.store.clone());
            let keeping = Background::new();
            keeping.spawn(&handle, keep);
            keeping.spawn(&handle, keys);
            keeping
        });
    }

    /// Ends the tasks that run here, those that end within `patience` by themselves. Other
    /// processes with the same store take over what may be run again.
    pub async fn close(&self, patience: Duration) {
        self.core.engine.close(patience).await;
        for work in self.keeping.get().into_iter().chain(&self.watching) {
            work.close().await;
        }
    }

    /// What a protocol keeps for all of its conversations.
    pub(crate) fn shelf<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shelf = lock(&self.shelf);
        let place = shelf.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        place.clone().downcast().unwrap_or_default()
    }
}

impl std::ops::Deref for Runtime {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Checks a value against a schema that is used once.
pub(crate) fn check_against(
    schema: &serde_json::Value,
    value: &serde_json::Value,
) -> Result<(), String> {
    zcp_schema::Schema::compile(schema).map_err(|error| error.to_string())?.check(value)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("info", &self.info).finish_non_exhaustive()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("info", &self.info).finish_non_exhaustive()
    }
}

pin_project! {
    /// An operation that is counted when it ends.
    struct Timed<'a, F> {
        #[pin]
        work: F,
        timing: Option<Timing<'a>>,
    }
}

impl<F: Future<Output = Outcome>> Future for Timed<'_, F> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.project();
        let outcome = ready!(this.work.poll(context));
        if let Some(timing) = this.timing.take() {
            timing.end(&outcome);
        }
        Poll::Ready(outcome)
    }
}
