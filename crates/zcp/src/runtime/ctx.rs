//! The call in progress, seen from inside a handler.

use super::{
    ask::{self, Answer, Visit},
    changes::Change,
    error::{CallError, Result},
    gate::Notes,
    roots::RootChanges,
};
pub(crate) use super::{
    known::{About, Room},
    stop::{Release, Stop},
};
use crate::auth::{Caller, PeerAddress, Principal};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    mcp::{
        InputRequest,
        capabilities::ClientCapabilities,
        lifecycle::Implementation,
        logging::Level,
        roots::{ListRoots, ListRootsResult, Root},
        sampling::{CreateMessage, CreateMessageResult},
    },
    meta::{CLIENT_INFO, Trace},
};

/// What a protocol does for a running call.
pub(crate) trait Reporter: Send + Sync {
    /// What is known of the call.
    fn about(&self) -> &About;
    /// How far the call is. May be dropped when the client does not keep up.
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>);
    /// Something for the client's developer.
    fn log(&self, level: Level, logger: Option<&str>, data: Value);
    /// Asks the client's side; the answer is the bare result of the question's method.
    fn ask(&self, key: &str, question: InputRequest) -> BoxFuture<'_, Result<Value>>;
    /// A value kept by `keep` in an earlier run of this call.
    fn kept(&self, key: &str) -> Option<Value>;
    /// All values that were kept by `keep` in earlier runs of this call, and in this one.
    fn all_kept(&self) -> Map<String, Value>;
    /// Keeps a value for later runs of this call.
    fn keep(&self, key: &str, value: Value) -> BoxFuture<'_, ()>;
    /// Where the handler notes something for the gate before it, if there is one.
    fn notes(&self) -> Option<&Notes> {
        None
    }
}

/// What tells the calls of one peer from those of others.
pub(crate) trait Conversation: Send + Sync {
    /// A name that no other conversation has.
    fn name(&self) -> Arc<str>;
}

/// The call in progress, seen from inside a handler. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    reporter: Arc<dyn Reporter>,
}

impl Ctx {
    /// A context that reports to `reporter`.
    pub(crate) fn new(reporter: Arc<dyn Reporter>) -> Self {
        Self { reporter }
    }

    pub(crate) fn about(&self) -> &About {
        self.reporter.about()
    }

    pub(crate) fn reporter(&self) -> &Arc<dyn Reporter> {
        &self.reporter
    }

    pub(crate) fn notes(&self) -> Option<&Notes> {
        self.reporter.notes()
    }

    /// Notes a value for the [`Gate`](crate::Gate) before this call, one of a type. Without a gate
    /// nobody reads it.
    pub fn note<T: Clone + Send + Sync + 'static>(&self, value: T) {
        self.notes().into_iter().for_each(|notes| notes.insert(value.clone()));
    }

    /// What the wire or one of its layers left for this call.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.about().extensions.get()
    }

    /// Who sent the message that this call is, and what they may do.
    pub fn caller(&self) -> &Caller {
        &self.about().caller
    }

    /// Who calls.
    pub fn principal(&self) -> &Principal {
        self.caller().principal()
    }

    /// What handles of this call belong to, and whatever else a server keeps for its caller: the
    /// principal, or the session of an anonymous caller. Without either they belong to whoever has
    /// them. Do not show it: it may name a session.
    pub fn owner(&self) -> String {
        match &self.about().conversation {
            _ if !self.principal().is_anonymous() => {
                format!("principal {}", self.principal().key())
            }
            Some(conversation) => format!("session {}", conversation.name()),
            None => "anonymous".to_owned(),
        }
    }

    /// A short name for the session of this call in logs: a part of a digest of its id, so that it
    /// cannot be used to join the session. None without a session.
    pub fn session_label(&self) -> Option<String> {
        let conversation = self.about().conversation.as_ref()?;
        let digest = Sha256::digest(conversation.name().as_bytes());
        Some(digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whose limits this call counts for: those of the principal, or of the network that an anonymous
    /// caller comes from. Callers on this machine, and those whose address is not known, are told
    /// apart by their session. Do not show it: it may name a session.
    pub fn share(&self) -> String {
        let network = self.get::<PeerAddress>().and_then(|peer| peer.sharing());
        match network.filter(|_| self.principal().is_anonymous()) {
            Some(network) => format!("network {network}"),
            None => self.owner(),
        }
    }

    /// What the caller's client can do.
    pub fn client(&self) -> &ClientCapabilities {
        &self.about().client
    }

    /// Who the caller's client says it is: in its handshake, or with this request. Nothing proves
    /// it, and some do not say.
    pub fn client_info(&self) -> Option<Implementation> {
        if let Some(known) = &self.about().client_info {
            return Some(Implementation::clone(known));
        }
        let params: Value = serde_json::from_str(self.params()?).ok()?;
        serde_json::from_value(params.get("_meta")?.get(CLIENT_INFO)?.clone()).ok()
    }

    /// The trace this call is part of, to be passed on to whatever it calls.
    pub fn trace(&self) -> Option<&Trace> {
        self.about().trace.as_deref()
    }

    /// JSON text of the request's parameters as they came, with what its client says about it in
    /// `_meta`. Nothing for a task that another process goes on with.
    pub fn params(&self) -> Option<&str> {
        self.about().params.as_deref()
    }

    /// Says how far the call is: `done` of `total`. Must grow from one report to the next; what
    /// does not grow is not sent. Costs nothing when the client did not ask for progress.
    pub fn progress(&self, done: f64, total: impl Into<Option<f64>>) {
        self.reporter.progress(done, total.into(), None);
    }

    /// Like [`progress`](Self::progress), with words.
    pub fn progress_with(&self, done: f64, total: impl Into<Option<f64>>, message: &str) {
        self.reporter.progress(done, total.into(), Some(message));
    }

    /// Tells the client's developer something, if they want to hear of this level.
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as(level, None, data);
    }

    /// Like [`log`](Self::log), in the name of a part of the server.
    pub fn log_as(&self, level: Level, logger: Option<&str>, data: impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_else(|error| json!(error.to_string()));
        self.reporter.log(level, logger, data);
    }

    /// Asks the user to fill a form, whose fields are `T`'s.
    ///
    /// With an old client this waits. With a new one `?` ends the call, and the client's retry
    /// runs the handler again from the top with the answer in hand: so ask first and act after,
    /// and put what must not run twice into [`once`](Self::once). Several questions asked
    /// together (`tokio::join!`) reach the user together. `key` tells them apart.
    pub async fn ask<T>(&self, key: &str, message: &str) -> Result<Answer<T>>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.ask_with(key, message, ask::schema_of::<T>()).await
    }

    /// Like [`ask`](Self::ask), with a schema of your own: a flat object.
    pub async fn ask_with<T>(&self, key: &str, message: &str, schema: Value) -> Result<Answer<T>>
    where
        T: DeserializeOwned,
    {
        ask::read(self.reporter.ask(key, ask::form(message, schema)?).await?)
    }

    /// Asks the user to visit a page. `Accept` is consent to visit, not proof of a visit. To
    /// refuse the call until the page was visited, return [`CallError::VisitFirst`] instead.
    pub async fn visit(&self, key: &str, visit: &Visit) -> Result<Answer<Value>> {
        ask::read(self.reporter.ask(key, InputRequest::Elicit(ask::page(visit)?)).await?)
    }

    /// Tells the client that was sent there that the page is done.
    pub async fn visited(&self, visit: &str) -> Result<()> {
        self.announce(&Change::Visited(visit.to_owned())).await
    }

    /// Asks the client's model.
    pub async fn sample(&self, key: &str, question: CreateMessage) -> Result<CreateMessageResult> {
        let answer = self.reporter.ask(key, InputRequest::Sample(Box::new(question))).await?;
        serde_json::from_value(answer).map_err(|error| malformed(&error))
    }

    /// Which folders the client works in.
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>> {
        let answer = self.reporter.ask(key, InputRequest::Roots(ListRoots {})).await?;
        let mut result: ListRootsResult =
            serde_json::from_value(answer).map_err(|error| malformed(&error))?;
        result.roots.retain(|root| root.uri.starts_with("file://"));
        Ok(result.roots)
    }

    /// Follows changes of the client's roots from now on: `notifications/roots/list_changed`, by
    /// whichever server it arrives at. Until 2025-11-25; later clients say nothing of changes.
    ///
    /// ```no_run
    /// # async fn example(ctx: zcp::Ctx) -> zcp::Result<()> {
    /// let mut changes = ctx.root_changes().await;
    /// loop {
    ///     let roots = ctx.roots("roots").await?;
    ///     println!("{} folders", roots.len());
    ///     changes.changed().await;
    /// }
    /// # }
    /// ```
    pub async fn root_changes(&self) -> RootChanges {
        let about = self.about();
        let conversation = about.conversation.as_ref().map(|conversation| conversation.name());
        RootChanges::of(about.runtime.store.clone(), conversation.as_deref()).await
    }

    /// Runs a side effect once, however often questions make the handler run again, and gives
    /// its value each time. The value travels sealed with the client, or is kept with the task.
    pub async fn once<T, F>(&self, key: &str, effect: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T>,
    {
        if let Some(value) = self.reporter.kept(key) {
            return serde_json::from_value(value).map_err(|error| malformed(&error));
        }
        let value = effect().await?;
        self.reporter.keep(key, serde_json::to_value(&value)?).await;
        Ok(value)
    }

    /// A value that [`keep`](Self::keep) or [`once`](Self::once) kept in an earlier run of this call.
    pub fn kept(&self, key: &str) -> Option<Value> {
        self.reporter.kept(key)
    }

    /// Keeps a value for later runs of this call, as [`once`](Self::once) does.
    pub async fn keep(&self, key: &str, value: Value) {
        self.reporter.keep(key, value).await;
    }

    /// Waits until the call is cancelled. A handler is dropped then, so this is for the tasks
    /// and processes it started.
    pub async fn cancelled(&self) {
        self.about().stop.token().cancelled().await;
    }

    /// The token behind [`cancelled`](Self::cancelled).
    pub fn cancellation(&self) -> CancellationToken {
        self.about().stop.token().clone()
    }

    /// Lets the client go: it comes back for the rest of this call after `retry`. Spares long
    /// calls an open connection. Works on HTTP since 2025-11-25 and does nothing elsewhere.
    pub fn release(&self, retry: Duration) {
        self.about().release.iter().for_each(|release| release.now(retry));
    }

    /// Nobody needs to wait for the rest: from here on the call is a task, if its client follows
    /// tasks the server makes. What is asked before is asked of the call, what is asked after of
    /// the task. Does nothing for other clients.
    pub fn detach(&self) {
        self.about().detach.iter().for_each(|detach| detach.notify_one());
    }

    /// Tells whoever subscribed to the resource that it changed.
    pub async fn updated(&self, uri: impl Into<String>) -> Result<()> {
        self.announce(&Change::Updated(uri.into())).await
    }

    async fn announce(&self, change: &Change) -> Result<()> {
        let announced = self.about().runtime.announce(change).await;
        announced.map_err(|error| CallError::new(error.for_clients()))
    }

    /// Seals a value into a handle only this caller can open, for a while.
    pub fn handle(&self, value: &impl Serialize, lifetime: Duration) -> Result<String> {
        let expires = crate::clock::now().saturating_add(lifetime.as_secs());
        let text = serde_json::to_vec(&(expires, value))?;
        Ok(self.about().runtime.keys.seal(&text, self.handle_owner().as_bytes()))
    }

    /// Opens a handle made by [`handle`](Self::handle).
    pub fn open_handle<T: DeserializeOwned>(&self, handle: &str) -> Result<T> {
        let unknown = || CallError::new("no such handle: get a new one");
        let text = self
            .about()
            .runtime
            .keys
            .open(handle, self.handle_owner().as_bytes())
            .ok_or_else(unknown)?;
        let (expires, value): (u64, T) = serde_json::from_slice(&text).map_err(|_| unknown())?;
        if expires <= crate::clock::now() {
            return Err(CallError::new("this handle has expired: get a new one"));
        }
        Ok(value)
    }

    fn handle_owner(&self) -> String {
        format!("handle {}", self.owner())
    }
}

fn malformed(error: &serde_json::Error) -> CallError {
    CallError::new(format!("the client's answer is malformed: {error}"))
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("principal", self.principal()).finish_non_exhaustive()
    }
}
