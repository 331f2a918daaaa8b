//! What a conversation of the handshake era remembers.

use super::{
    handshake::{Handshake, Handshakes},
    subscribed::{self, Subscribed},
    tasks::ToldTasks,
};
use crate::{
    auth::{Caller, Principal, StoredCaller},
    runtime::{Runtime, ctx::Conversation},
    store::{self, If, StoreResult},
    sync::lock,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Id, Revision,
    mcp::{
        capabilities::ClientCapabilities,
        lifecycle::{Implementation, InitializeParams},
        logging::Level,
        subscriptions::covers,
        tasks::TaskStatus,
    },
    pending::Pending,
};

/// How long a session is kept that was opened and not used yet: opening costs a client nothing.
const UNUSED: Duration = Duration::from_secs(5 * 60);
/// Resources one session may subscribe to.
pub(crate) const SUBSCRIPTIONS: usize = 1000;
/// Bytes of their URIs: the session's record is written anew with each.
pub(crate) const SUBSCRIBED_BYTES: usize = 64 * 1024;
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
    /// Whose share of what the process keeps its logs and calls count for.
    pub(super) share: OnceLock<Arc<str>>,
}

/// Requests under way. Room for one: most clients wait for an answer before they ask again.
type Requests = SmallVec<[(Id, Arc<dyn Stoppable>); 1]>;

#[derive(Debug, Default)]
struct Memory {
    /// Who opened it.
    caller: Caller,
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
    /// They count towards a total, until this is dropped where there is no record of them.
    counted: Option<subscribed::Counted>,
    /// Pages the user was sent to, whose end the client is told of.
    visits: VecDeque<String>,
    /// Which status of its tasks the client was told.
    tasks: ToldTasks,
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

/// What a replica needs to go on with a session, as the store holds it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    #[serde(default, skip_serializing_if = "StoredCaller::is_anonymous")]
    caller: StoredCaller,
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
            caller: StoredCaller::from(&memory.caller),
            version: handshake.map_or("", |it| it.revision.as_str()).to_owned(),
            capabilities: handshake.map(|it| it.declared()).unwrap_or_default(),
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
    pub(crate) fn new(id: Arc<str>, server: Arc<str>, caller: Caller) -> Self {
        let memory = Memory { caller, ..Memory::default() };
        Self { memory: Mutex::new(memory), ..Self::named(id, server) }
    }

    /// Several servers may ask in one session, so each has ids of its own.
    fn named(id: Arc<str>, server: Arc<str>) -> Self {
        Self { id: Some(id), pending: Pending::named(server), ..Self::default() }
    }

    /// The session's name in the store; none for a conversation of one process.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// What tells this conversation from others: what anonymous callers do in it is its own.
    pub(crate) fn conversation(&self) -> Arc<str> {
        match &self.id {
            Some(id) => id.clone(),
            None => self.unnamed.get_or_init(|| crate::token().into()).clone(),
        }
    }

    /// What the store holds of a session.
    pub(crate) async fn find(runtime: &Runtime, id: &str) -> StoreResult<Option<store::Entry>> {
        let found = runtime.store.get(&key(id)).await?;
        if found.is_none() {
            runtime.shelf::<Subscribed>().remove(id);
        }
        Ok(found)
    }

    /// A session of what the store holds of it, if that can be read.
    pub(crate) fn restore(
        runtime: &Runtime,
        id: Arc<str>,
        server: Arc<str>,
        entry: &store::Entry,
    ) -> Option<Self> {
        Record::read(entry)?.caller.read()?;
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
        let Some(caller) = record.caller.read() else { return };
        let handshakes = runtime.shelf::<Handshakes>();
        memory.caller = caller;
        memory.handshake = Revision::parse(&record.version)
            .map(|revision| handshakes.share(revision, record.capabilities, record.client));
        memory.level = record.level;
        if memory.wishes.is_some() || !record.subscriptions.is_empty() {
            memory.wishes().subscriptions = record.subscriptions;
            self.count(runtime, &mut memory, None);
        }
    }

    /// Writes the record of a session that was just opened.
    pub(crate) async fn save(&self, runtime: &Runtime) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        let record = Record::of(&lock(&self.memory)).to_bytes();
        lock(&self.memory).record = record.clone();
        let unused = UNUSED.min(runtime.settings.session_ttl);
        runtime.store.put(&key(id), record, If::Always, Some(unused)).await.map(drop)
    }

    /// Keeps a session that is used. One that was ended or changed meanwhile stays as it is.
    pub(crate) async fn renew(&self, runtime: &Runtime, entry: &store::Entry) -> StoreResult<()> {
        let Some(id) = &self.id else { return Ok(()) };
        if lock(&self.memory).wishes.is_some() {
            runtime.shelf::<Subscribed>().extend(id, runtime.settings.session_ttl);
        }
        let unchanged = If::Version(entry.version);
        let idle = Some(runtime.settings.session_ttl);
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
                if memory.wishes.is_some() {
                    self.count(runtime, &mut memory, None);
                }
                Record::of(&memory).to_bytes()
            };
            let unchanged = If::Version(entry.version);
            let idle = Some(runtime.settings.session_ttl);
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
        lock(&self.memory).caller.principal() == principal
    }

    /// Forgets the session.
    pub(crate) async fn remove(runtime: &Runtime, id: &str) -> StoreResult<()> {
        runtime.shelf::<Subscribed>().remove(id);
        Self::forget_forwarded(runtime, id).await?;
        runtime.store.remove(&key(id)).await
    }

    /// What all subscriptions of a process count for.
    #[cfg(test)]
    pub(crate) fn subscribed(runtime: &Runtime) -> usize {
        runtime.shelf::<Subscribed>().total()
    }

    /// Another process goes on with the session alone: its subscriptions count there.
    pub(crate) fn leave(runtime: &Runtime, id: &str) {
        runtime.shelf::<Subscribed>().remove(id);
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

    /// Holds at once in this process; [`keep`](Self::keep) makes it hold everywhere. False if all
    /// sessions together, or those of one share, have no room for a subscription.
    pub(crate) fn remember(&self, runtime: &Runtime, change: &Remember, share: &str) -> bool {
        let mut memory = lock(&self.memory);
        if let Remember::Subscribe(uri) = change
            && !memory.wishes().subscriptions.contains(uri)
            && !self.count(runtime, &mut memory, Some((subscribed::weight(uri), share)))
        {
            return false;
        }
        memory.apply(change);
        if let Remember::Unsubscribe(_) = change {
            self.count(runtime, &mut memory, None);
        }
        true
    }

    /// Counts the subscriptions, and what one more takes of a share; false if there is no room for
    /// that.
    fn count(&self, runtime: &Runtime, memory: &mut Memory, more: Option<(usize, &str)>) -> bool {
        let bytes: usize = memory.subscriptions().map(|uri| subscribed::weight(uri)).sum();
        let (all, session) = (runtime.shelf::<Subscribed>(), self.conversation());
        let kept = self.id.is_some().then_some(runtime.settings.session_ttl);
        let has_room = match more {
            Some((more, share)) => all.try_set(&session, bytes + more, kept, share),
            None => {
                all.set(&session, bytes, kept);
                true
            }
        };
        if kept.is_none() {
            let counted = &mut memory.wishes().counted;
            counted.get_or_insert_with(|| subscribed::Counted { all, session });
        }
        has_room
    }

    /// Whether there is room for one more subscription.
    pub(crate) fn may_subscribe(&self, uri: &str) -> bool {
        let memory = lock(&self.memory);
        let bytes: usize = memory.subscriptions().map(String::len).sum();
        memory.subscriptions().count() < SUBSCRIPTIONS && bytes + uri.len() <= SUBSCRIBED_BYTES
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

    /// Whether the client is still to be told that a task has a status.
    pub(crate) fn is_news(&self, task: &str, status: TaskStatus) -> bool {
        lock(&self.memory).wishes().tasks.is_news(task, status)
    }

    pub(crate) fn was_sent_to(&self, visit: &str) -> bool {
        let memory = lock(&self.memory);
        memory.wishes.iter().flat_map(|wishes| &wishes.visits).any(|sent| sent == visit)
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
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

    /// Stops a request that runs here; false if none does.
    pub(super) fn stop(&self, id: &Id) -> bool {
        // The lock is not held while the work is stopped: that may end it.
        let running = lock(&self.running).clone();
        let found = running.iter().find(|(known, _)| known == id);
        found.iter().for_each(|(_, work)| work.stop());
        found.is_some()
    }

    /// Whether a request that runs here was stopped.
    pub(super) fn is_stopped(&self, id: &Id) -> bool {
        lock(&self.running).iter().any(|(known, work)| known == id && work.is_stopped())
    }

    /// Stops everything under way.
    pub(crate) fn cancel_all(&self) {
        let running = lock(&self.running).clone();
        running.iter().for_each(|(_, work)| work.stop());
    }
}

/// What a store holds of a session, for those who operate servers.
pub(crate) struct Stored {
    pub(crate) principal: String,
    pub(crate) revision: String,
    pub(crate) client: Implementation,
    pub(crate) subscriptions: usize,
}

impl Stored {
    pub(crate) fn read(entry: &store::Entry) -> Option<Self> {
        let record = Record::read(entry)?;
        Some(Self {
            principal: record.caller.read()?.principal().as_str().to_owned(),
            revision: record.version,
            client: record.client,
            subscriptions: record.subscriptions.len(),
        })
    }
}

fn key(id: &str) -> String {
    ["session/", id].concat()
}

impl Conversation for Session {
    fn name(&self) -> Arc<str> {
        self.conversation()
    }
}

/// Work that can be stopped from outside.
pub(crate) trait Stoppable: fmt::Debug + Send + Sync + 'static {
    fn stop(&self);

    fn is_stopped(&self) -> bool;
}

impl Stoppable for CancellationToken {
    fn stop(&self) {
        self.cancel();
    }

    fn is_stopped(&self) -> bool {
        self.is_cancelled()
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
