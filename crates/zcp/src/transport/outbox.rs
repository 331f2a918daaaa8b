//! What a conversation has to say, on its way to its wire.

use bytestring::ByteString;
use futures_util::task::AtomicWaker;
use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};
use tokio::sync::Notify;

/// Texts that may wait before those who can wait do.
const ROOM: usize = 256;
/// Bytes of such texts.
const ROOM_BYTES: usize = 4 * 1024 * 1024;

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
}

#[derive(Default)]
struct Waiting {
    texts: VecDeque<ByteString>,
    /// Of all texts.
    bytes: usize,
    /// Nobody will read any more.
    closed: bool,
}

pub(crate) fn outbox() -> (Outbox, Inbox) {
    let shared = Arc::new(Shared { outboxes: AtomicUsize::new(1), ..Shared::default() });
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
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox {
    /// Puts a text in, room or not: for whoever sees to it that there is some.
    pub(crate) fn push(&self, text: ByteString) {
        let mut waiting = self.0.lock();
        if !waiting.closed {
            waiting.bytes += text.len();
            waiting.texts.push_back(text);
            drop(waiting);
            self.0.reader.wake();
        }
    }

    /// Puts a text in when there is room; false when nobody will read it.
    pub(crate) async fn send(&self, text: ByteString) -> bool {
        let reads = self.room().await;
        if reads {
            self.push(text);
        }
        reads
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

impl Inbox {
    /// The next text if it is there already.
    pub(crate) fn pop(&self) -> Option<ByteString> {
        let mut waiting = self.0.lock();
        let was_full = waiting.is_full();
        let text = waiting.texts.pop_front();
        waiting.bytes -= text.as_ref().map_or(0, |text| text.len());
        if was_full && !waiting.is_full() {
            drop(waiting);
            self.0.room.notify_waiters();
        }
        text
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
            match self.0.lock().texts.is_empty() {
                true if !over => Poll::Pending,
                empty => Poll::Ready(!empty),
            }
        })
        .await
    }

    /// The next text; none when there is nothing more to come.
    pub(crate) async fn next(&self) -> Option<ByteString> {
        if self.ready().await { self.pop() } else { None }
    }

    /// Whoever reads is awake, and need not be woken: it looks by itself before it sleeps.
    pub(crate) fn attend(&self) {
        self.0.reader.take();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        waiting.texts.clear();
        drop(waiting);
        self.0.room.notify_waiters();
    }
}
