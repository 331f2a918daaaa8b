//! What a session's streams said, for a client that lost some of it.

use super::unread::Unread;
use crate::{
    auth::{Caller, StoredCaller},
    runtime::Runtime,
    store::{Bound, If, Store, StoreError, StoreResult, counted_logs::CountedLogs},
    transport::weight::NoRoom,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use zcp_wire::{Frame, Request, Response, RpcError, json};

/// Frames of all its streams that are kept for one session, and the bytes of all of them.
const KEEP: Bound = Bound::entries(1024);
/// Bytes of parameters with which a request is made again if its process dies.
const LARGEST_REQUEST: usize = 64 * 1024;
/// How long whoever goes on with a call has to say so.
const CLAIM: Duration = Duration::from_secs(12);

/// One log a session: every entry says which stream it belongs to.
pub(crate) struct Replay {
    store: Arc<dyn Store>,
    log: String,
    kept: Duration,
    counted: Arc<CountedLogs>,
}

/// Where a stream is to go on: `3_17` is stream 3 after position 17.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) position: u64,
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, position) = text.trim().split_once('_')?;
        Some(Self { stream: stream.parse().ok()?, position: position.parse().ok()? })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.stream, self.position)
    }
}

impl Replay {
    pub(super) fn new(runtime: &Runtime, session: &str) -> Self {
        let (store, kept) = (runtime.store.clone(), runtime.settings.session_ttl);
        Self { store, log: format!("replay/{session}"), kept, counted: runtime.shelf() }
    }

    /// Notes a frame before it is sent; gives the event id it is sent with. Whoever resumes after
    /// one that is too large to be kept is told so, if it was the response.
    pub(super) async fn append(&self, stream: u64, frame: &Frame) -> StoreResult<EventId> {
        let mark = if matches!(frame, Frame::Response(_)) { ANSWERED } else { SAID };
        match (self.note(stream, mark, &frame.to_text()).await, frame) {
            (Err(StoreError::TooLarge { bytes, .. }), Frame::Response(response)) => {
                let why = format!("the result is too large to be resumed: {bytes} bytes");
                let (id, result) = (response.id.clone(), Err(RpcError::internal(why)));
                let refused = Frame::Response(Response { id, result });
                self.note(stream, mark, &refused.to_text()).await
            }
            (Err(StoreError::TooLarge { .. }), _) => self.prime(stream).await,
            (noted, _) => noted,
        }
    }

    /// Whether a frame of a stream was noted after a position.
    pub(super) async fn has(&self, stream: u64, frame: &Frame, after: u64) -> bool {
        let (held, text) = (self.store.after(&self.log, after).await, frame.to_text());
        let mut held = held.unwrap_or_default().into_iter();
        held.any(|(_, entry)| {
            let noted = parse(&entry);
            noted.is_some_and(|(of, mark, said)| {
                of == stream && matches!(mark, SAID | ANSWERED) && said == &*text
            })
        })
    }

    /// Notes which process answers a request on a stream: it may die before it has.
    pub(super) async fn open(&self, stream: u64, opened: &Opened) -> StoreResult<()> {
        let Opened { name, caller, request } = opened;
        let caller = json::text(&StoredCaller::from(caller));
        let mut request = request.clone();
        // A large one is not kept for the rare case that this process dies: it is not made again.
        request.params.take_if(|params| params.len() > LARGEST_REQUEST);
        let request = Frame::Request(request).to_text();
        // Neither is more than a line.
        self.note(stream, OPENED, &format!("{name} {caller}\n{request}")).await.map(drop)
    }

    /// Whether nobody else has begun to go on with what a process left undone.
    pub(super) async fn claim(&self, stream: u64, opened: &Opened) -> StoreResult<bool> {
        let key = format!("revived/{}/{stream}/{}", self.log, opened.name);
        self.store.put(&key, Bytes::new(), If::Absent, Some(CLAIM)).await
    }

    /// An event id before the first frame, so that there is always somewhere to go on.
    pub(super) async fn prime(&self, stream: u64) -> StoreResult<EventId> {
        self.note(stream, PRIMED, "").await
    }

    /// Nothing follows, with or without a response.
    pub(super) async fn end(&self, stream: u64) -> StoreResult<EventId> {
        self.note(stream, ENDED, "").await
    }

    async fn note(&self, stream: u64, mark: char, text: &str) -> StoreResult<EventId> {
        let entry = Bytes::from(format!("{stream} {mark}{text}"));
        let (store, log) = (&*self.store, &self.log);
        let position = self.counted.append(store, log, entry, KEEP, self.kept).await?;
        Ok(EventId { stream, position })
    }

    pub(super) async fn remove(&self) -> StoreResult<()> {
        self.counted.remove(&*self.store, &self.log).await
    }

    /// A stream after an event: what is held, and what is added, up to its response.
    pub(super) async fn follow(&self, after: EventId, unread: Unread) -> Result<Follow, Lost> {
        // Watched before it is read, so that nothing falls between.
        let grown = self.store.watch(&self.log);
        let mut follow = Follow {
            store: self.store.clone(),
            counted: self.counted.clone(),
            log: self.log.clone(),
            grown,
            at: after,
            texts: VecDeque::new(),
            opened: None,
            unread,
            ended: false,
        };
        // From its beginning: who answers may have been noted before the event.
        follow.read(0).await?;
        Ok(follow)
    }
}

/// A request, who made it, and the process that answers it.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) caller: Caller,
    pub(super) request: Request,
}

impl Opened {
    /// None if it cannot be read: nobody goes on with that.
    fn read(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(' ')?;
        let (caller, request) = rest.split_once('\n')?;
        let caller = serde_json::from_str::<StoredCaller>(caller).ok()?.read()?;
        let Ok(Frame::Request(request)) = Frame::parse(&request.into()) else { return None };
        Some(Self { name: name.to_owned(), caller, request })
    }
}

/// Why a stream cannot be followed.
pub(super) enum Lost {
    /// It is not held any more, or its store is away.
    Unknown,
    /// There is no room for what it said: it can be followed later.
    NoRoom,
}

impl From<StoreError> for Lost {
    fn from(_: StoreError) -> Self {
        Self::Unknown
    }
}

impl From<NoRoom> for Lost {
    fn from(NoRoom: NoRoom) -> Self {
        Self::NoRoom
    }
}

/// A stream being followed.
pub(super) struct Follow {
    store: Arc<dyn Store>,
    counted: Arc<CountedLogs>,
    log: String,
    grown: BoxStream<'static, ()>,
    at: EventId,
    /// Parts of the log's own entries: what one client missed may be the whole log. Each takes
    /// room until it is sent.
    texts: VecDeque<(EventId, Bytes)>,
    /// Who answers what, until it is answered.
    opened: Option<Bytes>,
    unread: Unread,
    /// Nothing will follow what is held.
    pub(super) ended: bool,
}

impl Follow {
    /// The next text and its event id; none after the response, and when there is no room for what
    /// was added.
    pub(super) async fn next(&mut self) -> Option<(EventId, Bytes)> {
        loop {
            if let Some(text) = self.texts.pop_front() {
                return Some(text);
            }
            if self.ended {
                return None;
            }
            self.grown.next().await?;
            self.look().await.ok()?;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Which process answers what on the stream, if that is still known.
    pub(super) fn opened(&self) -> Option<Opened> {
        Opened::read(std::str::from_utf8(self.opened.as_ref()?).ok()?)
    }

    /// Nothing will be added: what is held is all there is.
    pub(super) async fn finish(&mut self) -> Result<(), Lost> {
        self.look().await?;
        self.ended = true;
        Ok(())
    }

    /// Takes what was added.
    pub(super) async fn look(&mut self) -> Result<(), Lost> {
        self.read(self.at.position).await
    }

    async fn read(&mut self, after: u64) -> Result<(), Lost> {
        let counted = self.counted.clone();
        // A log may be large, and only a part of it is kept.
        let _reading = counted.reading().await;
        let entries = match self.store.after(&self.log, after).await {
            // Other streams may have pushed out what came in between: the rest is still worth it.
            Err(StoreError::Gone) => self.store.after(&self.log, 0).await?,
            entries => entries?,
        };
        let before = self.texts.len();
        for (position, entry) in entries {
            let Some((stream, mark, text)) = parse(&entry) else { continue };
            let is_new = position > self.at.position;
            self.at.position = position.max(self.at.position);
            if stream != self.at.stream {
                continue;
            }
            match mark {
                OPENED => self.opened = Some(entry.slice_ref(text.as_bytes())),
                ANSWERED | ENDED => self.opened = None,
                _ => (),
            }
            if is_new && matches!(mark, SAID | ANSWERED) {
                self.texts.push_back((self.at, entry.slice_ref(text.as_bytes())));
            }
            self.ended |= is_new && matches!(mark, ANSWERED | ENDED);
        }
        self.unread.hold_all(self.texts.range_mut(before..).map(|(_, text)| text))?;
        Ok(())
    }
}

/// An entry is its stream, a mark, and the text.
fn parse(entry: &Bytes) -> Option<(u64, char, &str)> {
    let (stream, marked) = std::str::from_utf8(entry).ok()?.split_once(' ')?;
    let mark = marked.chars().next()?;
    Some((stream.parse().ok()?, mark, marked.get(1..)?))
}

const OPENED: char = '@';
const PRIMED: char = '.';
const SAID: char = '-';
const ANSWERED: char = '=';
const ENDED: char = '!';
