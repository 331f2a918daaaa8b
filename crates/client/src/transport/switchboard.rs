//! One line for all: what comes from the other side is given to the request it belongs to.

use super::{Fate, GAP, Witness};
use crate::error::Failure;
use ::http::Extensions;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use std::{
    collections::HashMap,
    future::ready,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::mpsc::{self, error::TrySendError};
use zcp_wire::{ByteString, Frame, Frames, Id, Notification, Peer, Request, json};

/// Frames that may wait for one request.
const QUEUE: usize = 512;
/// Room in it that notifications leave to what may not be lost.
const SPARE: usize = 64;
/// Bytes of notifications and questions that may wait on one line, for all requests together.
const QUEUED_BYTES: usize = 16 * 1024 * 1024;
/// Texts that may wait to be written.
const UNWRITTEN: usize = 256;

/// Requests under way on one line, and what answers none of them.
#[derive(Clone)]
pub(crate) struct Switchboard {
    shared: Arc<Shared>,
}

struct Shared {
    outbox: mpsc::Sender<ByteString>,
    /// Bytes of what waits to be taken.
    queued: Arc<AtomicUsize>,
    // A std mutex: never held across an await.
    table: Mutex<Table>,
    /// Who can tell more of the other side.
    witness: Option<Witness>,
}

#[derive(Default)]
struct Table {
    calls: HashMap<Id, Call>,
    /// Whoever hears what answers no request.
    events: Option<mpsc::Sender<Queued>>,
    /// What came before anybody listened.
    early: Vec<Queued>,
    /// Why the line is dead.
    dead: Option<Failure>,
}

struct Call {
    sender: mpsc::Sender<Queued>,
    fate: Fate,
}

/// A frame that waits to be taken, and how much it counts meanwhile.
struct Queued {
    frame: Option<Frame>,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Queued {
    fn take(mut self) -> Option<Frame> {
        self.frame.take()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Switchboard {
    /// A line, and the texts to be written to it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<ByteString>) {
        Self::witnessed(None)
    }

    /// A line whose other side somebody can tell more of.
    pub(crate) fn witnessed(witness: Option<Witness>) -> (Self, mpsc::Receiver<ByteString>) {
        let (outbox, unwritten) = mpsc::channel(UNWRITTEN);
        let queued = Arc::default();
        let shared = Arc::new(Shared { outbox, queued, table: Mutex::default(), witness });
        (Self { shared }, unwritten)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, frame: Frame, fate: &Fate) {
        match self.shared.outbox.try_send(frame.into_text()) {
            Ok(()) => (),
            Err(TrySendError::Full(_)) => {
                fate.gone("the server does not read what it is sent");
                self.kill(Failure::Gone("the server does not read what it is sent".into()));
            }
            Err(TrySendError::Closed(_)) => {
                if let Some(why) = &self.lock().dead {
                    fate.set(why.clone());
                }
            }
        }
    }

    /// Takes a frame of the other side.
    pub(crate) fn take(&self, frame: Frame) {
        let mut table = self.lock();
        let call = match &frame {
            Frame::Response(response) => {
                let Some(id) = &response.id else { return };
                // An answer that nobody waits for any more is late.
                let Some(call) = table.calls.remove(id) else { return };
                // Its queue has room for what may not be lost. There is one for each request.
                let _ = call.sender.try_send(self.queued(frame, 0));
                return;
            }
            Frame::Notification(notification) => belongs_to(notification),
            _ => None,
        };
        let sender = call.and_then(|id| table.calls.get(&id)).map(|call| &call.sender);
        let bytes = size(&frame);
        let is_full = self.shared.queued.load(Ordering::Relaxed) + bytes > QUEUED_BYTES;
        match sender.or(table.events.as_ref()) {
            Some(sender) => self.offer(sender, frame, is_full),
            None if table.early.len() < QUEUE && !is_full => {
                let frame = self.queued(compact(frame), bytes);
                table.early.push(frame);
            }
            None => (),
        }
    }

    fn queued(&self, frame: Frame, bytes: usize) -> Queued {
        let all = self.shared.queued.clone();
        all.fetch_add(bytes, Ordering::Relaxed);
        Queued { frame: Some(frame), bytes, all }
    }

    /// Notifications may be lost when nobody takes them, and that is told. Questions are lost only
    /// when the queue has no room at all.
    fn offer(&self, sender: &mpsc::Sender<Queued>, frame: Frame, is_full: bool) {
        let gap = || Frame::Notification(Notification { method: GAP.into(), params: None });
        let frame = match (&frame, sender.capacity()) {
            (Frame::Notification(_), ..SPARE) => return,
            (Frame::Notification(_), SPARE) => gap(),
            _ if is_full => gap(),
            _ => compact(frame),
        };
        let bytes = size(&frame);
        let _ = sender.try_send(self.queued(frame, bytes));
    }

    /// The line is dead: whoever waits is told why.
    pub(crate) fn kill(&self, why: Failure) {
        let mut table = self.lock();
        for (_, call) in table.calls.drain() {
            call.fate.set(why.clone());
        }
        table.events = None;
        table.dead.get_or_insert(why);
    }
}

impl Peer for Switchboard {
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames {
        let fate = extensions.get::<Fate>().cloned().unwrap_or_default();
        let id = match &frame {
            Frame::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let Some(id) = id else {
            self.write(frame, &fate);
            return Frames::None;
        };
        if let Some(witness) = &self.shared.witness {
            fate.witnessed_by(witness.clone());
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        {
            let mut table = self.lock();
            if let Some(why) = &table.dead {
                fate.set(why.clone());
                return Frames::None;
            }
            table.calls.insert(id.clone(), Call { sender, fate: fate.clone() });
        }
        let open = Open { board: self.clone(), id };
        self.write(frame, &fate);
        Frames::stream(stream::unfold((receiver, open), async |(mut receiver, open)| {
            let frame = receiver.recv().await?.take()?;
            Some((frame, (receiver, open)))
        }))
    }

    /// Only the last who asked hears them.
    fn events(&self) -> Frames {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut table = self.lock();
        let early = std::mem::take(&mut table.early);
        if table.dead.is_none() {
            table.events = Some(sender);
        }
        let rest = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Queued>| {
            let frame = receiver.recv().await?.take()?;
            Some((frame, receiver))
        });
        Frames::stream(stream::iter(early).filter_map(|one| ready(one.take())).chain(rest))
    }
}

/// Bytes a frame takes while it waits.
fn size(frame: &Frame) -> usize {
    let length = |text: &Option<ByteString>| text.as_ref().map_or(0, |text| text.len());
    match frame {
        Frame::Request(one) => one.id.as_json().len() + one.method.len() + length(&one.params),
        Frame::Notification(one) => one.method.len() + length(&one.params),
        _ => 0,
    }
}

/// The same frame without the rest of the message it came in, which may be longer.
fn compact(frame: Frame) -> Frame {
    let copy = |text: &ByteString| ByteString::from(&**text);
    match frame {
        Frame::Request(Request { id, method, params }) => Frame::Request(Request {
            id: Id::from_json(id.as_json()).unwrap_or(id),
            method: copy(&method),
            params: params.as_ref().map(copy),
        }),
        Frame::Notification(Notification { method, params }) => Frame::Notification(Notification {
            method: copy(&method),
            params: params.as_ref().map(copy),
        }),
        response => response,
    }
}

/// Which request a notification is about: requests report their progress under their ids.
fn belongs_to(notification: &Notification) -> Option<Id> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase")]
    struct About {
        progress_token: Option<Id>,
        #[serde(default, rename = "_meta")]
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        subscription: Option<Id>,
    }
    let about: About = serde_json::from_str(notification.params.as_deref()?).ok()?;
    about.progress_token.or_else(|| about.meta?.subscription)
}

/// A request under way; dropping it tells the other side that nobody waits any more.
struct Open {
    board: Switchboard,
    id: Id,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.board.lock().calls.remove(&self.id).is_some() {
            self.board.write(cancelled(&self.id), &Fate::default());
        }
    }
}

/// Tells the other side that nobody waits for an answer any more.
pub(crate) fn cancelled(id: &Id) -> Frame {
    let params = json::text(&serde_json::json!({ "requestId": id }));
    Frame::Notification(Notification {
        method: "notifications/cancelled".into(),
        params: Some(params),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Frame {
        let params = json::text(&serde_json::json!({ "data": text, "level": "info" }));
        let method = "notifications/message".into();
        Frame::Notification(Notification { method, params: Some(params) })
    }

    #[tokio::test]
    async fn what_nobody_takes_is_limited_in_bytes() {
        let long = told(&"x".repeat(2 * 1024 * 1024));
        let (board, _unwritten) = Switchboard::new();
        let queued = || board.shared.queued.load(Ordering::Relaxed);
        (0..10).for_each(|_| board.take(long.clone()));
        assert!((QUEUED_BYTES / 2..=QUEUED_BYTES).contains(&queued()), "{}", queued());
        let mut events = board.events();
        (0..10).for_each(|_| board.take(long.clone()));
        assert!(queued() <= QUEUED_BYTES + 10 * GAP.len(), "{}", queued());
        // Reports the loss; taking messages out makes room again.
        let mut frames = vec![];
        while let std::task::Poll::Ready(Some(frame)) = events.at_once() {
            frames.push(frame);
        }
        let is_gap =
            |frame: &Frame| matches!(frame, Frame::Notification(said) if said.method == GAP);
        assert!(frames.iter().any(is_gap) && !is_gap(&frames[0]));
        assert_eq!(queued(), 0);
        board.take(told("short"));
        assert!(
            matches!(events.next().await, Some(Frame::Notification(said)) if said.method != GAP)
        );
    }

    #[test]
    fn a_frame_that_waits_does_not_hold_its_message() {
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{}},"x":"{}"}}"#, "x".repeat(1000));
        let whole = ByteString::from(text);
        let frame = compact(Frame::parse(&whole).unwrap());
        let Frame::Notification(Notification { method, params: Some(params) }) = frame else {
            panic!("it is one")
        };
        let message = whole.as_bytes().as_ptr_range();
        assert!(!message.contains(&method.as_bytes().as_ptr()));
        assert!(!message.contains(&params.as_bytes().as_ptr()));
    }
}
