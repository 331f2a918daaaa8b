//! What a conversation of the handshake era remembers.

use crate::{
    auth::Principal,
    operate,
    runtime::Runtime,
    store::{self, Bound, If, Store, StoreError, StoreResult},
};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smallvec::SmallVec;
use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Frame, Frames, Id, Response, Revision, RpcError,
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
/// Answers of one session that may be on their way between processes.
const ANSWERS: Bound = Bound { entries: 16, bytes: 64 * 1024 };
const ANSWERS_KEPT: Duration = Duration::from_secs(60 * 60);
/// Resources one session may subscribe to.
pub(crate) const SUBSCRIPTIONS: usize = 1000;
/// Pages one session's user may be on the way to.
const VISITS: usize = 100;

/// One conversation's memory: small, for there may be many that do nothing. What must survive this
/// process is in its record; the rest is about requests under way here.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The session's name in the store; none for a process or a socket of its own.
    id: Option<Arc<str>>,
    // Std mutexes: never held across an await.
    memory: Mutex<Memory>,
    running: Mutex<Requests>,
    pending: Pending,
    /// What it is called without a name in the store, if anyone wants to know.
    unnamed: OnceLock<Arc<str>>,
}

/// Requests under way. Room for one: most clients wait for an answer before they ask again.
type Requests = SmallVec<[(Id, Arc<dyn Stoppable>); 1]>;

#[derive(Debug, Default)]
struct Memory {
    principal: Principal,
    handshake: Option<Arc<Handshake>>,
    level: Option<Level>,
    /// The record that was read or written last.
    record: Bytes,
    // A box: most sessions have none of these.
    wishes: Option<Box<Wishes>>,
}

#[derive(Debug, Default)]
struct Wishes {
    subscriptions: BTreeSet<String>,
    /// Pages the user was sent to, whose end the client is told of.
    visits: VecDeque<String>,
}

impl Memory {
    fn apply(&mut self, change: &Remember) {
        match change {
            Remember::Level(level) => self.level = Some(*level),
            Remember::Unsubscribe(uri) => drop(self.wishes().subscriptions.remove(uri)),
            Remember::Subscribe(uri) => drop(self.wishes().subscriptions.insert(uri.clone())),
        }
    }

    fn wishes(&mut self) -> &mut Wishes {
        self.wishes.get_or_insert_default()
    }

    fn subscriptions(&self) -> impl Iterator<Item = &String> {
        self.wishes.iter().flat_map(|wishes| &wishes.subscriptions)
    }
}

/// What both sides agreed on. Sessions of equal clients share one.
#[derive(Debug, PartialEq)]
pub(crate) struct Handshake {
    pub(crate) revision: Revision,
    /// What the client declared, as far as the revision has it.
    pub(crate) capabilities: Arc<ClientCapabilities>,
    declared: ClientCapabilities,
    pub(crate) client: Arc<Implementation>,
}

/// Handshakes that are remembered, to be shared.
const SHARED_HANDSHAKES: usize = 64;

/// The newest handshakes.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(Mutex<VecDeque<Arc<Handshake>>>);

impl Handshakes {
    fn share(
        &self,
        revision: Revision,
        declared: ClientCapabilities,
        client: Implementation,
    ) -> Arc<Handshake> {
        let mut all = lock(&self.0);
        let same = |known: &&Arc<Handshake>| {
            known.revision == revision && known.declared == declared && *known.client == client
        };
        if let Some(known) = all.iter().find(same) {
            return known.clone();
        }
        let mut capabilities = declared.clone();
        match revision.elicitation() {
            Elicitation::None => drop(capabilities.0.remove("elicitation")),
            Elicitation::Form => {
                let modes = capabilities.0.get_mut("elicitation");
                modes.and_then(Value::as_object_mut).into_iter().for_each(|modes| modes.clear());
            }
            Elicitation::FormAndUrl => (),
        }
        // What came without being declared.
        let sampling = capabilities.0.get_mut("sampling").and_then(Value::as_object_mut);
        if let Some(sampling) = sampling.filter(|_| !revision.declares_sampling_context()) {
            sampling.entry("context").or_insert_with(|| json!({}));
        }
        let capabilities = Arc::new(capabilities);
        let client = Arc::new(client);
        let shared = Arc::new(Handshake { revision, capabilities, declared, client });
        if all.len() >= SHARED_HANDSHAKES {
            all.pop_front();
        }
        all.push_back(shared.clone());
        shared
    }
}

/// What a replica needs to go on with a session, as the store holds it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    principal: String,
    version: String,
    #[serde(default)]
    capabilities: ClientCapabilities,
    #[serde(default)]
    client: Implementation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<Level>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    subscriptions: BTreeSet<String>,
}

impl Record {
    fn of(memory: &Memory) -> Self {
        let handshake = memory.handshake.as_ref();
        Self {
            principal: memory.principal.as_str().to_owned(),
            version: handshake.map_or("", |it| it.revision.as_str()).to_owned(),
            capabilities: handshake.map(|it| it.declared.clone()).unwrap_or_default(),
            client: handshake.map(|it| Implementation::clone(&it.client)).unwrap_or_default(),
            level: memory.level,
            subscriptions: memory.subscriptions().cloned().collect(),
        }
    }

    fn read(entry: &store::Entry) -> Option<Self> {
        serde_json::from_slice(&entry.value).ok()
    }

    /// Without room to grow: it is kept for long.
    fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into_boxed_slice().into()
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
    /// A session with a name, for a caller.
    pub(crate) fn new(id: Arc<str>, server: Arc<str>, principal: &Principal) -> Self {
        let memory = Memory { principal: principal.clone(), ..Memory::default() };
        Self { memory: Mutex::new(memory), ..Self::named(id, server) }
    }

    /// Several servers may ask in one session, so each has ids of its own.
    fn named(id: Arc<str>, server: Arc<str>) -> Self {
        Self { id: Some(id), pending: Pending::named(server), ..Self::default() }
    }

    /// What tells this conversation from others: what nobody in particular does in it is its own.
    pub(crate) fn conversation(&self) -> Arc<str> {
        match &self.id {
            Some(id) => id.clone(),
            None => self.unnamed.get_or_init(|| crate::token().into()).clone(),
        }
    }

    /// What the store holds of a session.
    pub(crate) async fn find(runtime: &Runtime, id: &str) -> StoreResult<Option<store::Entry>> {
        runtime.store.get(&key(id)).await
    }

    /// A session of what the store holds of it, if that can be read.
    pub(crate) fn restore(
        runtime: &Runtime,
        id: Arc<str>,
        server: Arc<str>,
        entry: &store::Entry,
    ) -> Option<Self> {
        Record::read(entry)?;
        let session = Self::named(id, server);
        session.refresh(runtime, entry);
        Some(session)
    }

    /// Takes over what another process has written.
    pub(crate) fn refresh(&self, runtime: &Runtime, entry: &store::Entry) {
        let mut memory = lock(&self.memory);
        if memory.record == entry.value {
            return;
        }
        memory.record = entry.value.clone();
        let Some(record) = Record::read(entry) else { return };
        let handshakes = runtime.shelf::<Handshakes>();
        memory.principal = match record.principal.is_empty() {
            true => Principal::ANONYMOUS,
            false => Principal::new(record.principal),
        };
        memory.handshake = Revision::parse(&record.version)
            .map(|revision| handshakes.share(revision, record.capabilities, record.client));
        memory.level = record.level;
        if memory.wishes.is_some() || !record.subscriptions.is_empty() {
            memory.wishes().subscriptions = record.subscriptions;
        }
    }

    /// Writes the record of a session that was just opened.
    pub(crate) async fn save(&self, runtime: &Runtime) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        let record = Record::of(&lock(&self.memory)).to_bytes();
        lock(&self.memory).record = record.clone();
        let unused = UNUSED.min(runtime.settings.session_time);
        runtime.store.put(&key(id), record, If::Always, Some(unused)).await.map(drop)
    }

    /// Keeps a session that is used. One that was ended or changed meanwhile stays as it is.
    pub(crate) async fn renew(&self, runtime: &Runtime, entry: &store::Entry) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        let unchanged = If::Version(entry.version);
        let idle = Some(runtime.settings.session_time);
        runtime.store.put(&key(id), entry.value.clone(), unchanged, idle).await.map(drop)
    }

    /// Writes a change into the record, beside whatever other processes write.
    pub(crate) async fn keep(&self, runtime: &Runtime, change: &Remember) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        loop {
            let Some(entry) = Self::find(runtime, id).await? else { return Ok(()) };
            self.refresh(runtime, &entry);
            let record = {
                let mut memory = lock(&self.memory);
                memory.apply(change);
                Record::of(&memory).to_bytes()
            };
            let unchanged = If::Version(entry.version);
            let idle = Some(runtime.settings.session_time);
            if runtime.store.put(&key(id), record.clone(), unchanged, idle).await? {
                lock(&self.memory).record = record;
                return Ok(());
            }
        }
    }

    /// Takes over what other processes have written, if they can.
    pub(crate) async fn catch_up(&self, runtime: &Runtime) {
        let Some(id) = &self.id else { return };
        if let Ok(Some(entry)) = Self::find(runtime, id).await {
            self.refresh(runtime, &entry);
        }
    }

    pub(crate) fn belongs_to(&self, principal: &Principal) -> bool {
        lock(&self.memory).principal == *principal
    }

    /// Forgets the session.
    pub(crate) async fn remove(runtime: &Runtime, id: &str) -> StoreResult<()> {
        runtime.store.remove(&format!("answers/{id}")).await?;
        runtime.store.remove(&key(id)).await
    }

    pub(crate) fn open(&self, runtime: &Runtime, revision: Revision, params: InitializeParams) {
        let handshakes = runtime.shelf::<Handshakes>();
        let shared = handshakes.share(revision, params.capabilities, params.client_info);
        lock(&self.memory).handshake = Some(shared);
    }

    pub(crate) fn handshake(&self) -> Option<Arc<Handshake>> {
        lock(&self.memory).handshake.clone()
    }

    /// The least serious log message the client wants; informational until it says.
    pub(crate) fn level(&self) -> Level {
        lock(&self.memory).level.unwrap_or(Level::Info)
    }

    /// Holds at once in this process; [`keep`](Self::keep) makes it hold everywhere.
    pub(crate) fn remember(&self, change: &Remember) {
        lock(&self.memory).apply(change);
    }

    /// Whether there is room for one more subscription.
    pub(crate) fn may_subscribe(&self) -> bool {
        lock(&self.memory).subscriptions().count() < SUBSCRIPTIONS
    }

    pub(crate) fn is_subscribed(&self, changed: &str) -> bool {
        lock(&self.memory).subscriptions().any(|uri| covers(uri, changed))
    }

    pub(crate) fn subscriptions(&self) -> Vec<String> {
        lock(&self.memory).subscriptions().cloned().collect()
    }

    pub(crate) fn sent_to(&self, visit: &str) {
        let mut memory = lock(&self.memory);
        let visits = &mut memory.wishes().visits;
        visits.push_back(visit.to_owned());
        if visits.len() > VISITS {
            visits.pop_front();
        }
    }

    pub(crate) fn was_sent_to(&self, visit: &str) -> bool {
        let memory = lock(&self.memory);
        memory.wishes.iter().flat_map(|wishes| &wishes.visits).any(|sent| sent == visit)
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Hands an answer to the question here, or to whichever process asked it.
    pub(crate) fn answered(self: &Arc<Self>, response: Response, runtime: &Runtime) -> Frames {
        let Some(response) = self.pending.close(response) else { return Frames::None };
        let Some(log) = self.answers() else { return Frames::None };
        let (store, id) = (runtime.store.clone(), response.id.clone());
        let text = Frame::Response(response).to_text();
        let forward = async move {
            let forwarded = store.append(&log, text.into_bytes(), ANSWERS, Some(ANSWERS_KEPT));
            if let Err(StoreError::TooLarge { limit, .. }) = forwarded.await {
                let why = format!("the answer is too large for another server: {limit} bytes");
                let refused = Response { id, result: Err(RpcError::internal(why)) };
                let text = Frame::Response(refused).to_text();
                let _ = store.append(&log, text.into_bytes(), ANSWERS, Some(ANSWERS_KEPT)).await;
            }
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
        work: Arc<dyn Stoppable>,
    ) -> Option<Registered> {
        let mut running = lock(&self.running);
        if running.iter().any(|(known, _)| known == id) {
            return None;
        }
        running.push((id.clone(), work));
        Some(Registered { session: self.clone(), id: id.clone() })
    }

    /// Stops a request. An unknown id is nobody's, or one that has just been answered.
    pub(crate) fn cancel(&self, id: &Id) {
        // The lock is not held while the work is stopped: that may end it.
        let running = lock(&self.running).clone();
        running.iter().filter(|(known, _)| known == id).for_each(|(_, work)| work.stop());
    }

    /// Stops everything under way.
    pub(crate) fn cancel_all(&self) {
        let running = lock(&self.running).clone();
        running.iter().for_each(|(_, work)| work.stop());
    }
}

/// What operators are shown of a session that a store holds.
pub(crate) fn shown(entry: &store::Entry) -> Option<operate::Session> {
    let record = Record::read(entry)?;
    Some(operate::Session {
        id: String::new(),
        principal: record.principal,
        revision: record.version,
        client: record.client,
        subscriptions: record.subscriptions.len(),
    })
}

fn key(id: &str) -> String {
    ["session/", id].concat()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work that can be stopped from outside.
pub(crate) trait Stoppable: fmt::Debug + Send + Sync + 'static {
    fn stop(&self);
}

impl Stoppable for CancellationToken {
    fn stop(&self) {
        self.cancel();
    }
}

/// A request under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    session: Arc<Session>,
    id: Id,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut running = lock(&self.session.running);
        let place = running.iter().position(|(known, _)| *known == self.id);
        let ended = place.map(|place| running.swap_remove(place));
        if running.is_empty() {
            running.shrink_to_fit();
        }
        drop((running, ended));
    }
}
