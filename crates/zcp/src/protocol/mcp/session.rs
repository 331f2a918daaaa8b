//! What a conversation of the handshake era remembers.

use crate::{
    auth::Principal,
    runtime::Runtime,
    store::{Entry, If, Store, StoreResult},
};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Frame, Frames, Id, Response, Revision,
    mcp::{
        capabilities::ClientCapabilities,
        lifecycle::{Implementation, InitializeParams},
        logging::Level,
        subscriptions::covers,
    },
    pending::{Pending, Reply},
    revision::Elicitation,
};

/// How long a session is kept that was opened and not used yet: opening costs a client nothing.
const UNUSED: Duration = Duration::from_secs(5 * 60);
/// How long a session nobody uses any more is kept.
pub(crate) const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
/// Answers that may be on their way between processes.
const ANSWERS: usize = 16;
/// Resources one session may subscribe to.
pub(crate) const SUBSCRIPTIONS: usize = 1000;
/// Pages one session's user may be on the way to.
const VISITS: usize = 100;

/// One conversation's memory. What must survive this process is in its record; the rest is about
/// requests under way here.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The session's key in the store; none for a process or a socket of its own.
    id: Option<String>,
    // Std mutexes: never held across an await.
    record: Mutex<Record>,
    /// The store's version of the record that was read last.
    seen: AtomicU64,
    handshake: Mutex<Option<Arc<Handshake>>>,
    running: Mutex<HashMap<Id, CancellationToken>>,
    /// Pages the user was sent to, whose end the client is told of.
    visits: Mutex<VecDeque<String>>,
    pending: Pending,
}

/// What both sides agreed on.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Arc<ClientCapabilities>,
}

impl Handshake {
    /// What a client declared, as far as the revision has it.
    fn new(revision: Revision, declared: &ClientCapabilities) -> Self {
        let mut capabilities = declared.clone();
        match revision.elicitation() {
            Elicitation::None => drop(capabilities.0.remove("elicitation")),
            Elicitation::Form => {
                let modes = capabilities.0.get_mut("elicitation");
                modes.and_then(Value::as_object_mut).into_iter().for_each(|modes| modes.clear());
            }
            Elicitation::FormAndUrl => (),
        }
        Self { revision, capabilities: Arc::new(capabilities) }
    }
}

/// What a replica needs to go on with a session.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Record {
    principal: String,
    version: String,
    capabilities: ClientCapabilities,
    client: Implementation,
    level: Option<Level>,
    subscriptions: BTreeSet<String>,
}

impl Record {
    fn apply(&mut self, change: &Remember) {
        match change {
            Remember::Level(level) => self.level = Some(*level),
            Remember::Unsubscribe(uri) => drop(self.subscriptions.remove(uri)),
            Remember::Subscribe(uri) => drop(self.subscriptions.insert(uri.clone())),
        }
    }
}

/// Something a client wants remembered.
#[derive(Debug)]
pub(crate) enum Remember {
    Level(Level),
    Subscribe(String),
    Unsubscribe(String),
}

impl Session {
    /// A session with a key, for a caller.
    pub(crate) fn new(id: String, principal: &Principal) -> Self {
        let record = Record { principal: principal.as_str().to_owned(), ..Record::default() };
        Self { record: Mutex::new(record), ..Self::named(id) }
    }

    /// Several processes may ask in one session, so each has ids of its own.
    fn named(id: String) -> Self {
        let mut prefix = crate::token();
        prefix.truncate(12);
        let pending = Pending::named(prefix);
        Self { id: Some(id), pending, ..Self::default() }
    }

    /// What the store holds of a session.
    pub(crate) async fn find(runtime: &Runtime, id: &str) -> StoreResult<Option<Entry>> {
        runtime.store.get(&key(id)).await
    }

    /// A session of what the store holds of it, if that can be read.
    pub(crate) fn restore(id: &str, entry: &Entry) -> Option<Self> {
        serde_json::from_slice::<Record>(&entry.value).ok()?;
        let session = Self::named(id.to_owned());
        session.refresh(entry);
        Some(session)
    }

    /// Takes over what another process has written.
    pub(crate) fn refresh(&self, entry: &Entry) {
        if self.seen.swap(entry.version, Ordering::Relaxed) == entry.version {
            return;
        }
        let Ok(record) = serde_json::from_slice::<Record>(&entry.value) else { return };
        *lock(&self.handshake) = Revision::parse(&record.version)
            .map(|revision| Arc::new(Handshake::new(revision, &record.capabilities)));
        *lock(&self.record) = record;
    }

    /// Writes the record of a session that was just opened.
    pub(crate) async fn save(&self, runtime: &Runtime) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        let record = serde_json::to_vec(&*lock(&self.record)).unwrap_or_default();
        runtime.store.put(&key(id), Bytes::from(record), If::Always, Some(UNUSED)).await.map(drop)
    }

    /// Keeps a session that is used. One that was ended or changed meanwhile stays as it is.
    pub(crate) async fn renew(&self, runtime: &Runtime, entry: &Entry) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        let unchanged = If::Version(entry.version);
        runtime.store.put(&key(id), entry.value.clone(), unchanged, Some(IDLE)).await.map(drop)
    }

    /// Writes a change into the record, beside whatever other processes write.
    pub(crate) async fn keep(&self, runtime: &Runtime, change: &Remember) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        loop {
            let Some(entry) = Self::find(runtime, id).await? else { return Ok(()) };
            let Ok(mut record) = serde_json::from_slice::<Record>(&entry.value) else {
                return Ok(());
            };
            record.apply(change);
            let bytes = Bytes::from(serde_json::to_vec(&record).unwrap_or_default());
            let unchanged = If::Version(entry.version);
            if runtime.store.put(&key(id), bytes, unchanged, Some(IDLE)).await? {
                *lock(&self.record) = record;
                return Ok(());
            }
        }
    }

    pub(crate) fn belongs_to(&self, principal: &Principal) -> bool {
        lock(&self.record).principal == principal.as_str()
    }

    /// Forgets the session.
    pub(crate) async fn remove(runtime: &Runtime, id: &str) -> StoreResult<()> {
        runtime.store.remove(&format!("answers/{id}")).await?;
        runtime.store.remove(&key(id)).await
    }

    pub(crate) fn open(&self, revision: Revision, params: InitializeParams) {
        let handshake = Handshake::new(revision, &params.capabilities);
        let mut record = lock(&self.record);
        record.version = revision.as_str().to_owned();
        record.capabilities = params.capabilities;
        record.client = params.client_info;
        *lock(&self.handshake) = Some(Arc::new(handshake));
    }

    pub(crate) fn handshake(&self) -> Option<Arc<Handshake>> {
        lock(&self.handshake).clone()
    }

    /// The least serious log message the client wants; informational until it says.
    pub(crate) fn level(&self) -> Level {
        lock(&self.record).level.unwrap_or(Level::Info)
    }

    /// Holds at once in this process; [`keep`](Self::keep) makes it hold everywhere.
    pub(crate) fn remember(&self, change: &Remember) {
        lock(&self.record).apply(change);
    }

    /// Whether there is room for one more subscription.
    pub(crate) fn may_subscribe(&self) -> bool {
        lock(&self.record).subscriptions.len() < SUBSCRIPTIONS
    }

    pub(crate) fn is_subscribed(&self, changed: &str) -> bool {
        lock(&self.record).subscriptions.iter().any(|uri| covers(uri, changed))
    }

    pub(crate) fn subscriptions(&self) -> Vec<String> {
        lock(&self.record).subscriptions.iter().cloned().collect()
    }

    pub(crate) fn sent_to(&self, visit: &str) {
        let mut visits = lock(&self.visits);
        visits.push_back(visit.to_owned());
        if visits.len() > VISITS {
            visits.pop_front();
        }
    }

    pub(crate) fn was_sent_to(&self, visit: &str) -> bool {
        lock(&self.visits).iter().any(|sent| sent == visit)
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Hands an answer to the question here, or to whichever process asked it.
    pub(crate) fn answered(self: &Arc<Self>, response: Response, store: &Arc<dyn Store>) -> Frames {
        let Some(response) = self.pending.close(response) else { return Frames::None };
        let Some(log) = self.answers() else { return Frames::None };
        let (store, text) = (store.clone(), Frame::Response(response).to_text());
        let forward = async move {
            let _ = store.append(&log, text.into_bytes(), ANSWERS, Some(IDLE)).await;
            None::<Frame>
        };
        Frames::stream(stream::once(forward).filter_map(std::future::ready))
    }

    /// The answer to a question of this process that another process was given.
    pub(crate) async fn answered_elsewhere(&self, id: &Id, store: &Arc<dyn Store>) -> Reply {
        let Some(log) = self.answers() else { return std::future::pending().await };
        let mut grown = store.watch(&log);
        loop {
            for (_, text) in store.after(&log, 0).await.unwrap_or_default() {
                let frame =
                    ByteString::try_from(text).ok().and_then(|text| Frame::parse(&text).ok());
                if let Some(Frame::Response(response)) = frame
                    && response.id.as_ref() == Some(id)
                {
                    return response.result;
                }
            }
            if grown.next().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    fn answers(&self) -> Option<String> {
        self.id.as_ref().map(|id| format!("answers/{id}"))
    }

    /// Notes a request under way; nothing when its id is in use.
    pub(crate) fn register(
        self: &Arc<Self>,
        id: &Id,
        cancel: &CancellationToken,
    ) -> Option<Registered> {
        let mut running = lock(&self.running);
        if running.contains_key(id) {
            return None;
        }
        running.insert(id.clone(), cancel.clone());
        Some(Registered { session: self.clone(), id: id.clone() })
    }

    /// Stops a request. An unknown id is nobody's, or one that has just been answered.
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(cancel) = lock(&self.running).get(id) {
            cancel.cancel();
        }
    }

    /// Stops everything under way.
    pub(crate) fn cancel_all(&self) {
        lock(&self.running).values().for_each(CancellationToken::cancel);
    }
}

fn key(id: &str) -> String {
    format!("session/{id}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    session: Arc<Session>,
    id: Id,
}

impl Registered {
    /// The request's frames: none after it was cancelled, and forgotten when they end.
    pub(crate) fn keep(
        self,
        frames: impl Stream<Item = Frame> + Send + 'static,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Frame> + Send + 'static {
        let mut registered = Some(self);
        frames.take_until(cancel.cancelled_owned()).inspect(move |frame| {
            // Its client may use the id again as soon as it has read the response.
            if let Frame::Response(_) = frame {
                drop(registered.take());
            }
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.session.running).remove(&self.id);
    }
}
