//! What a conversation has to say, on its way to its wire.

mod total;

use crate::{runtime::Runtime, sync::lock};
use bytestring::ByteString;
use futures_util::task::AtomicWaker;
use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
};
use tokio::sync::Notify;
use total::Outboxes;

/// Texts that may wait before those who can wait do.
const ROOM: usize = 256;
/// Bytes of such texts.
const ROOM_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that each outbox may hold before it counts towards the total of the process.
pub(crate) const FREE: usize = 64 * 1024;

/// Where texts go in.
pub(crate) struct Outbox(Arc<Shared>);

/// Where they come out, at one place at a time.
pub(crate) struct Inbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    // A std mutex: never held across an await.
    waiting: Mutex<Waiting>,
    reader: AtomicWaker,
    room: Notify,
    /// Places where texts can go in.
    outboxes: AtomicUsize,
    /// The total that it counts towards, if it does.
    all: Option<Arc<Outboxes>>,
    /// Whether what waits is kept when the outbox gives way: it can be sent later.
    keeps: bool,
    /// Others need the room of what waits here.
    gives_way: AtomicBool,
    gave_way: Notify,
}

#[derive(Default)]
struct Waiting {
    texts: VecDeque<ByteString>,
    /// Of all texts.
    bytes: usize,
    /// Of the text that came out last, and may not be sent yet.
    leaving: usize,
    /// Of texts that wait for room.
    outside: usize,
    /// What of all that counts towards the total.
    counted: usize,
    /// Nobody will read any more.
    closed: bool,
}

/// An outbox of a process that has only this one.
pub(crate) fn outbox() -> (Outbox, Inbox) {
    with(Shared::default())
}

/// An outbox that counts towards the total of its process. Where too much waits, the one with most
/// gives way; what waits in it is dropped, unless it `keeps` that.
pub(crate) fn counted_outbox(runtime: &Runtime, keeps: bool) -> (Outbox, Inbox) {
    with(Shared { all: Some(runtime.shelf()), keeps, ..Shared::default() })
}

fn with(shared: Shared) -> (Outbox, Inbox) {
    let shared = Arc::new(Shared { outboxes: AtomicUsize::new(1), ..shared });
    (Outbox(shared.clone()), Inbox(shared))
}

impl Clone for Outbox {
    fn clone(&self) -> Self {
        self.0.outboxes.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        if self.0.outboxes.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.reader.wake();
        }
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.texts.len() >= ROOM || self.bytes >= ROOM_BYTES
    }

    /// Bytes beyond those that are free.
    fn beyond(&self) -> usize {
        (self.bytes + self.leaving + self.outside).saturating_sub(FREE)
    }

    fn clear(&mut self) {
        self.texts.clear();
        self.bytes = 0;
        self.closed = true;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Counts what waits, if it is much. Whoever has to give way for it does.
    fn recount(self: &Arc<Self>, mut waiting: MutexGuard<'_, Waiting>) {
        let (Some(all), beyond) = (&self.all, waiting.beyond()) else { return };
        if beyond == waiting.counted {
            return;
        }
        waiting.counted = beyond;
        // Whoever gives way is locked by itself, after this one.
        let largest = all.set(self, beyond);
        drop(waiting);
        largest.iter().for_each(|one| one.give_way());
    }

    fn give_way(&self) {
        let mut waiting = self.lock();
        self.gives_way.store(true, Ordering::Relaxed);
        if !self.keeps {
            waiting.clear();
        }
        drop(waiting);
        self.reader.wake();
        self.gave_way.notify_waiters();
        self.room.notify_waiters();
    }
}

impl Outbox {
    /// Puts a text in, room or not: for whoever sees to it that there is some.
    pub(crate) fn push(&self, text: ByteString) {
        let mut waiting = self.0.lock();
        if !waiting.closed {
            waiting.bytes += text.len();
            waiting.texts.push_back(text);
            if waiting.bytes > FREE {
                self.0.recount(waiting);
            } else {
                drop(waiting);
            }
            self.0.reader.wake();
        }
    }

    /// Puts a text in when there is room; false when nobody will read it.
    pub(crate) async fn send(&self, text: ByteString) -> bool {
        let is_full = self.0.lock().is_full();
        let outside = is_full.then(|| Outside::new(&self.0, text.len()));
        let reads = self.room().await;
        drop(outside);
        if reads {
            self.push(text);
        }
        reads
    }

    /// Counts bytes that are about to be put in, until what this returns is dropped.
    pub(crate) fn outside(&self, bytes: usize) -> Outside {
        Outside::new(&self.0, bytes)
    }

    /// Waits for room; false when nobody reads any more.
    pub(crate) async fn room(&self) -> bool {
        loop {
            let freed = self.0.room.notified();
            match &*self.0.lock() {
                Waiting { closed: true, .. } => return false,
                waiting if !waiting.is_full() => return true,
                _ => (),
            }
            freed.await;
        }
    }
}

/// A text that waits for room, until this is dropped.
pub(crate) struct Outside {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Outside {
    fn new(shared: &Arc<Shared>, bytes: usize) -> Self {
        let mut waiting = shared.lock();
        waiting.outside += bytes;
        shared.recount(waiting);
        Self { shared: shared.clone(), bytes }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let mut waiting = self.shared.lock();
        waiting.outside -= self.bytes;
        self.shared.recount(waiting);
    }
}

impl Inbox {
    /// The next text if it is there already. It counts until the next one is asked for.
    pub(crate) fn pop(&self) -> Option<ByteString> {
        let mut waiting = self.0.lock();
        let was_full = waiting.is_full();
        let text = waiting.texts.pop_front();
        let bytes = text.as_ref().map_or(0, |text| text.len());
        waiting.bytes -= bytes;
        waiting.leaving = bytes;
        let has_room = was_full && !waiting.is_full();
        if waiting.counted > 0 {
            self.0.recount(waiting);
        } else {
            drop(waiting);
        }
        if has_room {
            self.0.room.notify_waiters();
        }
        text
    }

    /// Bytes that are about to be sent count until the next text is asked for.
    pub(crate) fn leaves(&self, bytes: usize) {
        let mut waiting = self.0.lock();
        waiting.leaving = bytes;
        self.0.recount(waiting);
    }

    /// Whether there is no room.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().is_full()
    }

    /// Waits until there is a text; false when there is nothing more to come.
    pub(crate) async fn ready(&self) -> bool {
        poll_fn(|context| {
            self.0.reader.register(context.waker());
            let over = self.0.outboxes.load(Ordering::Acquire) == 0;
            let waiting = self.0.lock();
            match waiting.texts.is_empty() {
                true if !over && !waiting.closed => Poll::Pending,
                empty => Poll::Ready(!empty),
            }
        })
        .await
    }

    /// The next text, for whoever counts it from now on; none when there is nothing more to come.
    pub(crate) async fn next(&self) -> Option<ByteString> {
        let text = if self.ready().await { self.pop() } else { None };
        if text.as_ref().is_some_and(|text| text.len() > FREE) {
            self.leaves(0);
        }
        text
    }

    /// Whoever reads is awake, and need not be woken: it looks by itself before it sleeps.
    pub(crate) fn attend(&self) {
        self.0.reader.take();
    }

    /// Waits until others need the room of what waits here.
    pub(crate) async fn gives_way(&self) {
        loop {
            let told = self.0.gave_way.notified();
            if self.0.gives_way.load(Ordering::Relaxed) {
                return;
            }
            told.await;
        }
    }

    /// Whether all that waited was sent or kept. False when it was dropped to give way.
    pub(crate) fn goes_on(&self) -> bool {
        if !self.0.gives_way.load(Ordering::Relaxed) {
            return true;
        }
        let mut waiting = self.0.lock();
        if waiting.closed {
            return false;
        }
        self.0.gives_way.store(false, Ordering::Relaxed);
        // Nothing of it counted since it was to give way.
        waiting.counted = 0;
        self.0.recount(waiting);
        true
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.clear();
        waiting.leaving = 0;
        self.0.recount(waiting);
        self.0.room.notify_waiters();
    }
}
