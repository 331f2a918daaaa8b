//! Sessions of the handshake era: which there are, and what each has under way here.

use super::{fetch::EVENTS, opened::Opened, replay::Replay};
use crate::{
    auth::{Caller, Principal},
    protocol::mcp::{Mcp, open_call::OpenCall, session::Session},
    runtime::Runtime,
    seal::random,
    shares::Shares,
    store::StoreResult,
    sync::lock,
    transport::converse::UnderWay,
};

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp_wire::{Frame, Frames};

/// How long a session that does nothing stays in memory; its record stays in the store.
const AT_HAND: Duration = Duration::from_secs(5 * 60);
/// Sessions in memory beyond which they stay there for seconds, and not for minutes.
const AT_HAND_USUALLY: usize = 16 * 1024;
/// How long a call goes on whose connection is gone.
const ADOPTED: Duration = Duration::from_secs(60 * 60);
/// Calls of one session that may go on without a connection.
const ADOPTED_AT_ONCE: usize = 64;
/// Calls of one process that may.
const ADOPTED_OF_ALL: usize = 4096;
/// How often the store is tried again while it is away.
const RETRY: Duration = Duration::from_millis(500);
/// How often the ones that do nothing are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// How often a used session's time in the store is renewed.
const RENEW: Duration = Duration::from_secs(60 * 60);

/// The sessions that have something under way here.
pub(crate) struct Sessions {
    runtime: Runtime,
    closing: CancellationToken,
    /// What tells this server's questions from those of others in the same sessions.
    name: Arc<str>,
    /// What tells its streams from theirs.
    first_stream: u64,
    // A std mutex: never held across an await.
    live: Mutex<Table>,
}

struct Table {
    by_id: HashMap<Arc<str>, Arc<Live>, foldhash::fast::RandomState>,
    opened: Opened,
    swept: Instant,
}

/// A session, and what it has under way here. Small, for there may be many that do nothing.
pub(crate) struct Live {
    pub(crate) id: Arc<str>,
    pub(crate) mcp: Mcp,
    session: Arc<Session>,
    next_stream: AtomicU64,
    streams: Streams,
    /// Messages of batches under way.
    pub(super) batched: UnderWay,
    used: Mutex<Used>,
}

/// The streams of a session that are under way here.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<BTreeMap<u64, Stream>>>);

#[derive(Default)]
struct Stream {
    /// Takes the stream away from the connection that has it.
    taken: CancellationToken,
    /// The position of what was noted of it last; 0 before anything was.
    last: u64,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Stream>> {
        lock(&self.0)
    }

    /// The position of what was noted last of a stream; 0 if that is not known here.
    pub(super) fn last(&self, stream: u64) -> u64 {
        self.lock().get(&stream).map_or(0, |stream| stream.last)
    }

    pub(super) fn noted(&self, stream: u64, position: u64) {
        if let Some(stream) = self.lock().get_mut(&stream) {
            stream.last = stream.last.max(position);
        }
    }
}

struct Used {
    last: Instant,
    /// When the store was told; not before the first use.
    renewed: Option<Instant>,
}

impl Sessions {
    pub(crate) fn new(runtime: Runtime, closing: CancellationToken, max: usize) -> Self {
        let (by_id, opened) = (HashMap::default(), Opened::new(max));
        let table = Table { by_id, opened, swept: Instant::now() };
        let name = crate::token()[..12].into();
        let first_stream = u64::from(u32::from_le_bytes(random())) << 24 | 1;
        Self { runtime, closing, name, first_stream, live: Mutex::new(table) }
    }

    /// A session with a new name, which is nobody's until it is kept.
    pub(crate) fn open(&self, caller: Caller) -> Arc<Live> {
        let id: Arc<str> = crate::token().into();
        let session = Session::new(id.clone(), self.name.clone(), caller);
        self.bring(id, session)
    }

    /// Remembers a session that a peer opened. Others go if there are too many.
    /// False if all of them are in use.
    pub(crate) async fn keep(&self, live: &Arc<Live>, peer: Option<IpAddr>) -> StoreResult<bool> {
        live.session.save(&self.runtime).await?;
        let gone = {
            let mut table = lock(&self.live);
            table.sweep(self.runtime.settings.session_ttl);
            table.by_id.insert(live.id.clone(), live.clone());
            let Table { by_id, opened, .. } = &mut *table;
            opened.add(&live.id, peer, |id| by_id.get(id).is_some_and(|live| live.is_busy()))
        };
        let kept = !gone.contains(&live.id);
        for id in gone {
            self.end(&id).await?;
        }
        Ok(kept)
    }

    /// The session of a name, from here or from the store, if it belongs to the caller.
    pub(crate) async fn find(
        &self,
        id: &str,
        principal: &Principal,
    ) -> StoreResult<Option<Arc<Live>>> {
        // The store decides: another process may have ended the session.
        let Some(entry) = Session::find(&self.runtime, id).await? else {
            let ended = lock(&self.live).by_id.remove(id);
            ended.iter().for_each(|live| live.stop());
            return Ok(None);
        };
        let known = lock(&self.live).by_id.get(id).cloned();
        let live = match known {
            Some(live) => live,
            None => {
                let id: Arc<str> = id.into();
                let name = self.name.clone();
                let restored = Session::restore(&self.runtime, id.clone(), name, &entry);
                let Some(session) = restored else { return Ok(None) };
                let mut table = lock(&self.live);
                table.sweep(self.runtime.settings.session_ttl);
                let bring = || self.bring(id.clone(), session);
                table.by_id.entry(id.clone()).or_insert_with(bring).clone()
            }
        };
        live.session.refresh(&self.runtime, &entry);
        if !live.session.belongs_to(principal) {
            return Ok(None);
        }
        let (first, renew) = live.touch();
        if first {
            lock(&self.live).opened.used(id);
        }
        if renew {
            live.session.renew(&self.runtime, &entry).await?;
        }
        Ok(Some(live))
    }

    /// Ends a session: its calls, its streams, its memory.
    pub(crate) async fn close(&self, live: &Live) -> StoreResult<()> {
        lock(&self.live).opened.remove(&live.id);
        live.stop();
        self.end(&live.id).await
    }

    async fn end(&self, id: &str) -> StoreResult<()> {
        let ended = lock(&self.live).by_id.remove(id);
        ended.iter().for_each(|live| live.stop());
        Replay::new(&self.runtime, id, Arc::default(), Streams::default()).remove().await?;
        Session::remove(&self.runtime, id).await
    }

    fn bring(&self, id: Arc<str>, session: Session) -> Arc<Live> {
        let session = Arc::new(session);
        self.runtime.metrics.sessions.inc();
        Arc::new(Live {
            id,
            mcp: Mcp::with(self.runtime.clone(), Some(session.clone()), self.closing.clone()),
            session,
            next_stream: AtomicU64::new(self.first_stream),
            streams: Streams::default(),
            batched: UnderWay::default(),
            used: Mutex::new(Used { last: Instant::now(), renewed: None }),
        })
    }
}

/// The calls of this process that go on without a connection.
struct Adopted(Shares);

impl Default for Adopted {
    fn default() -> Self {
        Self(Shares::new(ADOPTED_OF_ALL))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.mcp.runtime().metrics.sessions.dec();
    }
}

impl Table {
    fn sweep(&mut self, session_ttl: Duration) {
        let now = Instant::now();
        let (often, at_hand) = match self.by_id.len() > AT_HAND_USUALLY {
            false => (SWEEP, AT_HAND),
            true => (SWEEP / 30, AT_HAND / 30),
        };
        if now.duration_since(self.swept) < often.min(session_ttl) {
            return;
        }
        self.swept = now;
        self.by_id.retain(|_, live| {
            let idle = now.duration_since(lock(&live.used).last) > at_hand.min(session_ttl);
            // The stream of events is no call; whoever reads it holds the session.
            let calls = || live.streams.lock().keys().any(|stream| *stream != EVENTS);
            !idle || Arc::strong_count(live) > 1 || calls()
        });
    }
}

impl Live {
    /// What the session's streams said.
    pub(super) fn replay(&self) -> Replay {
        Replay::new(self.mcp.runtime(), &self.id, self.session.share(), self.streams.clone())
    }

    /// Whether a call or a stream is under way.
    fn is_busy(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || !self.streams.lock().is_empty()
    }

    /// Notes that the session is used: whether for the first time here, and whether the store
    /// should know too.
    fn touch(&self) -> (bool, bool) {
        let now = Instant::now();
        let mut used = lock(&self.used);
        used.last = now;
        // Well before it would end.
        let often = RENEW.min(self.mcp.runtime().settings.session_ttl / 4);
        let first = used.renewed.is_none();
        let renew = used.renewed.is_none_or(|renewed| now.duration_since(renewed) > often);
        if renew {
            used.renewed = Some(now);
        }
        (first, renew)
    }

    /// Ends what is under way.
    fn stop(&self) {
        self.mcp.cancel_all();
        self.streams.lock().values().for_each(|stream| stream.taken.cancel());
    }

    /// A name for a new stream, unique in the session.
    pub(super) fn new_stream(&self) -> u64 {
        self.next_stream.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives a stream to a connection, and takes it from the one that had it.
    pub(super) fn attach(&self, stream: u64) -> CancellationToken {
        let token = CancellationToken::new();
        let mut streams = self.streams.lock();
        let stream = streams.entry(stream).or_default();
        std::mem::replace(&mut stream.taken, token.clone()).cancel();
        token
    }

    /// Takes a stream that is under way from whoever has it.
    pub(super) fn take_over(&self, stream: u64) -> Option<CancellationToken> {
        let token = CancellationToken::new();
        let mut streams = self.streams.lock();
        std::mem::replace(&mut streams.get_mut(&stream)?.taken, token.clone()).cancel();
        Some(token)
    }

    /// The stream has ended.
    pub(super) fn detach(&self, stream: u64) {
        self.streams.lock().remove(&stream);
    }

    /// Goes on with a call whose connection is gone: its frames wait to be fetched. `held` is a frame
    /// that may have been noted after a position.
    pub(super) fn adopt(
        self: &Arc<Self>,
        stream: u64,
        held: Option<(Frame, u64)>,
        mut frames: Frames,
        open: Option<OpenCall>,
        tracker: &TaskTracker,
    ) {
        // Hanging up must not be a way to have any number of calls.
        let has_room = {
            let mut streams = self.streams.lock();
            streams.entry(stream).or_default();
            streams.len() + self.batched.count() <= ADOPTED_AT_ONCE
        };
        // Nor must opening sessions.
        let place = self.mcp.runtime().shelf::<Adopted>().0.take(&self.session.share(), 1);
        let place = place.filter(|_| has_room);
        let (live, replay) = (self.clone(), self.replay());
        tracker.spawn(async move {
            let rest = async {
                if place.is_none() {
                    return;
                }
                if let Some((frame, after)) = &held
                    && !replay.has(stream, frame, *after).await
                {
                    append(&replay, stream, frame).await;
                }
                while let Some(frame) = frames.next().await {
                    append(&replay, stream, &frame).await;
                }
            };
            // Nobody may ever come back to answer what the call asks.
            let _ = tokio::time::timeout(ADOPTED, rest).await;
            drop(frames);
            end(&replay, stream).await;
            live.detach(stream);
            if let Some(open) = open {
                open.close().await;
            }
        });
    }
}

/// Notes that a stream has ended, however long the store is away.
pub(super) async fn end(replay: &Replay, stream: u64) {
    while let Err(error) = replay.end(stream).await {
        tracing::warn!("the end of a stream waits to be written: {error}");
        tokio::time::sleep(RETRY).await;
    }
}

/// Notes what nobody waits for just now, however long the store is away.
pub(super) async fn append(replay: &Replay, stream: u64, frame: &Frame) {
    while let Err(error) = replay.append(stream, frame).await {
        tracing::warn!("a message waits to be written: {error}");
        tokio::time::sleep(RETRY).await;
    }
}
