//! What a session's streams said, for a client that lost some of it.

use super::{sessions::Streams, takeover::Opened, unread::Unread};
use crate::{
    runtime::Runtime,
    store::{
        Bound, Store, StoreError, StoreResult,
        counted_logs::{CountedLogs, Log},
    },
    transport::weight::NoRoom,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use zcp_wire::{Frame, Response, RpcError};

/// Frames of all its streams that are kept for one session, and the bytes of all of them.
const KEEP: Bound = Bound::entries(1024);

/// One log a session: every entry says which stream it belongs to.
pub(crate) struct Replay {
    store: Arc<dyn Store>,
    log: String,
    kept: Duration,
    counted: Arc<CountedLogs>,
    /// Whose share the log counts for.
    owner: Arc<str>,
    /// Those that are under way here.
    streams: Streams,
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
    pub(super) fn new(runtime: &Runtime, session: &str, owner: Arc<str>, streams: Streams) -> Self {
        let (store, kept) = (runtime.store.clone(), runtime.settings.session_ttl);
        let (log, counted) = (format!("replay/{session}"), runtime.shelf());
        Self { store, log, kept, counted, owner, streams }
    }

    /// What the store names a stream by.
    pub(super) fn name_of(&self, stream: u64) -> String {
        format!("{}/{stream}", self.log)
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
            let noted = Entry::parse(&entry);
            noted.is_some_and(|noted| {
                noted.stream == stream
                    && matches!(noted.mark, SAID | ANSWERED)
                    && noted.text == &*text
            })
        })
    }

    /// Notes which process answers a request on a stream: it may die before it has.
    pub(super) async fn open(&self, stream: u64, opened: &Opened) -> StoreResult<()> {
        self.note(stream, OPENED, &opened.to_text()).await.map(drop)
    }

    /// An event id before the first frame, so that there is always somewhere to go on.
    pub(super) async fn prime(&self, stream: u64) -> StoreResult<EventId> {
        self.note(stream, PRIMED, "").await
    }

    /// Nothing follows, with or without a response.
    pub(super) async fn end(&self, stream: u64) -> StoreResult<EventId> {
        self.note(stream, ENDED, "").await
    }

    /// Each entry says where the one before it on its stream is, so that a missing one is missed.
    async fn note(&self, stream: u64, mark: char, text: &str) -> StoreResult<EventId> {
        let before = self.streams.last(stream);
        let entry = Bytes::from(format!("{stream} {before} {mark}{text}"));
        let log = Log { name: &self.log, bound: KEEP, kept: self.kept, owner: &self.owner };
        let position = self.counted.append(&*self.store, log, entry).await?;
        self.streams.noted(stream, position);
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
            last: after.position,
            begins: false,
            texts: VecDeque::new(),
            opened: None,
            unread,
            ended: false,
        };
        // From its beginning: who answers may have been noted before the event.
        let first = follow.read(0).await?;
        // What was noted before the first that is held is lost, if it was of this stream.
        let is_whole = first.is_some_and(|first| first <= after.position)
            || follow.last > after.position
            || self.streams.last(after.stream) == after.position;
        if is_whole { Ok(follow) } else { Err(Lost::Unknown) }
    }
}

/// Why a stream cannot be followed.
pub(super) enum Lost {
    /// A part of it is not held any more, or its store is away.
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
    /// The position of the stream's last entry so far.
    last: u64,
    /// Its first entry is held.
    begins: bool,
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

    /// Nothing will be added: what is held is all there is. Without the stream's beginning nobody
    /// can say that.
    pub(super) async fn finish(&mut self) -> Result<(), Lost> {
        self.look().await?;
        if !self.ended && !self.begins {
            return Err(Lost::Unknown);
        }
        self.ended = true;
        Ok(())
    }

    /// Takes what was added.
    pub(super) async fn look(&mut self) -> Result<(), Lost> {
        self.read(self.at.position).await.map(drop)
    }

    /// Gives the first position that is held after another.
    async fn read(&mut self, after: u64) -> Result<Option<u64>, Lost> {
        let counted = self.counted.clone();
        // A log may be large, and only a part of it is kept.
        let _reading = counted.reading().await;
        let entries = match self.store.after(&self.log, after).await {
            // Other streams may have pushed out what came in between: the rest is still worth it.
            Err(StoreError::Gone) => self.store.after(&self.log, 0).await?,
            entries => entries?,
        };
        let (before, first) = (self.texts.len(), entries.first().map(|(position, _)| *position));
        for (position, entry) in entries {
            let Some(Entry { stream, before, mark, text }) = Entry::parse(&entry) else { continue };
            let is_new = position > self.at.position;
            self.at.position = position.max(self.at.position);
            if stream != self.at.stream {
                continue;
            }
            if is_new && before > self.last {
                return Err(Lost::Unknown);
            }
            self.last = position.max(self.last);
            self.begins |= before == 0;
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
        Ok(first)
    }
}

/// An entry of the log.
struct Entry<'a> {
    stream: u64,
    /// The position of the entry before it on its stream; 0 if there is none, or none is known.
    before: u64,
    mark: char,
    text: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(entry: &'a Bytes) -> Option<Self> {
        let (stream, rest) = std::str::from_utf8(entry).ok()?.split_once(' ')?;
        let (before, marked) = rest.split_once(' ')?;
        let (stream, before) = (stream.parse().ok()?, before.parse().ok()?);
        let mark = marked.chars().next()?;
        Some(Self { stream, before, mark, text: marked.get(1..)? })
    }
}

const OPENED: char = '@';
const PRIMED: char = '.';
const SAID: char = '-';
const ANSWERED: char = '=';
const ENDED: char = '!';
