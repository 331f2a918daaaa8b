//! One line for all: what comes from the other side is given to the request it belongs to.

use super::{
    Fate, GAP, Witness,
    outbox::{Outbox, Unwritten},
};
use crate::error::Failure;
use ::http::Extensions;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use std::{
    collections::HashMap,
    future::ready,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::mpsc;
use zcp_wire::{ByteString, Frame, Frames, Id, Method, Notification, Peer, Request, sync::lock};

/// Frames that may wait for one request.
const QUEUE: usize = 512;
/// Room in it that notifications leave to what may not be lost.
const SPARE: usize = 64;
/// Bytes of notifications and questions that may wait on one line, for all requests together.
const QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// Requests under way on one line, and what answers none of them.
#[derive(Clone)]
pub(crate) struct Switchboard {
    shared: Arc<Shared>,
}

struct Shared {
    outbox: Outbox,
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
    pub(crate) fn new() -> (Self, mpsc::Receiver<Unwritten>) {
        Self::witnessed(None)
    }

    /// A line whose other side somebody can tell more of.
    pub(crate) fn witnessed(witness: Option<Witness>) -> (Self, mpsc::Receiver<Unwritten>) {
        let (outbox, unwritten) = Outbox::new();
        let queued = Arc::default();
        let shared = Arc::new(Shared { outbox, queued, table: Mutex::default(), witness });
        (Self { shared }, unwritten)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.shared.table)
    }

    /// Takes a frame of the other side.
    pub(crate) fn take(&self, frame: Frame) {
        drop(self.deliver(frame));
    }

    /// Takes a frame of the other side. Gives the request that it is about, which the other side
    /// has.
    pub(crate) fn deliver(&self, frame: Frame) -> Option<Id> {
        let mut table = self.lock();
        let call = match &frame {
            Frame::Response(response) => {
                let id = response.id.clone()?;
                // An answer that nobody waits for any more is late.
                let Some(call) = table.calls.remove(&id) else { return Some(id) };
                // Its queue has room for what may not be lost. There is one for each request.
                let _ = call.sender.try_send(self.queued(frame, 0));
                return Some(id);
            }
            Frame::Notification(notification) => belongs_to(notification),
            _ => None,
        };
        let sender = call.as_ref().and_then(|id| table.calls.get(id)).map(|call| &call.sender);
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
        call
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

    /// These requests were answered with what cannot be read. The line, and all others on it, stay.
    pub(crate) fn fail(&self, ids: &[Id], why: &Failure) {
        let mut table = self.lock();
        for call in ids.iter().filter_map(|id| table.calls.remove(id)) {
            call.fate.set(why.clone());
        }
    }

    /// Nobody knows whether the other side has these requests. Whoever waits is told so, and the
    /// other side that they wait no more.
    pub(crate) fn give_up(&self, ids: &[Id], why: &Failure) {
        for id in ids {
            let call = self.lock().calls.remove(id);
            if let Some(call) = call {
                call.fate.set(why.clone());
                let _ = self.shared.outbox.put(cancelled(id).into_text(), None);
            }
        }
    }

    /// The line is dead because of a message that is too long to be read. If one request alone was
    /// under way, that is its answer, and it would be the same again. Of several nobody knows whose
    /// it was: each that may be sent again is.
    pub(crate) fn kill_for_length(&self, why: &Failure) {
        let mut table = self.lock();
        if table.calls.len() == 1 {
            table.calls.drain().for_each(|(_, call)| call.fate.set(why.clone()));
        }
        drop(table);
        self.kill(Failure::Gone(why.to_string()));
    }

    /// The line is dead: whoever waits is told why.
    pub(crate) fn kill(&self, why: Failure) {
        self.shared.outbox.close();
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
            return match self.shared.outbox.put(frame.into_text(), None) {
                Ok(()) => Frames::None,
                Err(text) => {
                    let writing = self.shared.outbox.clone().put_in_turn(text, None);
                    Frames::stream(stream::once(writing).filter_map(|_| ready(None)))
                }
            };
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
            table.calls.insert(id.clone(), Call { sender, fate });
        }
        let unwritten = self.shared.outbox.put(frame.into_text(), Some(&id)).err();
        let open = Open { board: self.clone(), id, is_written: unwritten.is_none() };
        let waiting = (receiver, open, unwritten);
        Frames::stream(stream::unfold(waiting, async |(mut receiver, mut open, unwritten)| {
            if let Some(text) = unwritten {
                let outbox = open.board.shared.outbox.clone();
                open.is_written = outbox.put_in_turn(text, Some(&open.id)).await;
            }
            let frame = receiver.recv().await?.take()?;
            Some((frame, (receiver, open, None)))
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
            method: method.detached(),
            params: params.as_ref().map(copy),
        }),
        Frame::Notification(Notification { method, params }) => Frame::Notification(Notification {
            method: method.detached(),
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

/// A request under way; dropping it tells the other side that nobody waits any more, if there is
/// room in the outbox to say so.
struct Open {
    board: Switchboard,
    id: Id,
    /// The other side was told of the request.
    is_written: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.board.lock().calls.remove(&self.id).is_some() && self.is_written {
            let _ = self.board.shared.outbox.put(cancelled(&self.id).into_text(), None);
        }
    }
}

/// Tells the other side that nobody waits for an answer any more.
pub(crate) fn cancelled(id: &Id) -> Frame {
    let params = format!("{{\"requestId\":{}}}", id.as_json()).into();
    Frame::Notification(Notification { method: Method::Cancelled.into(), params: Some(params) })
}

#[cfg(test)]
mod tests {
    use super::{super::outbox, *};
    use zcp_wire::json;

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

    fn call(id: i64, length: usize) -> Frame {
        let params = json::text(&"x".repeat(length));
        let (id, method) = (Id::number(id), "tools/call".into());
        Frame::Request(Request { id, method, params: Some(params) })
    }

    fn answer(id: i64) -> Frame {
        let result = Ok(ByteString::from("{}").into());
        Frame::Response(zcp_wire::Response { id: Some(Id::number(id)), result })
    }

    #[tokio::test]
    async fn a_full_outbox_delays_who_finds_no_room_and_nobody_else() {
        let (board, mut unwritten) = Switchboard::new();
        let mut first = board.send(call(0, 10), Extensions::new());
        let full: Vec<_> = (1..)
            .map(|id| board.send(call(id, 10), Extensions::new()))
            .take(outbox::MOST)
            .collect();
        board.take(answer(0));
        assert!(matches!(first.next().await, Some(Frame::Response(_))));
        // The last one found no room. Its turn comes when there is some.
        let mut full = full;
        let mut last = full.pop().unwrap();
        assert!(last.at_once().is_pending());
        let writing = async {
            for _ in 0..=outbox::MOST {
                let text = unwritten.recv().await.unwrap().into_bytes();
                if text.starts_with(br#"{"jsonrpc":"2.0","id":256,"#) {
                    board.take(answer(256));
                    return;
                }
            }
            panic!("it was not written");
        };
        let (frame, ()) = tokio::join!(last.next(), writing);
        assert!(matches!(frame, Some(Frame::Response(_))));
    }

    #[tokio::test]
    async fn a_failed_request_leaves_the_others() {
        let (board, _unwritten) = Switchboard::new();
        let fates = [Fate::default(), Fate::default()];
        let mut calls: Vec<_> = (0..)
            .zip(&fates)
            .map(|(id, fate)| {
                let mut extensions = Extensions::new();
                extensions.insert(fate.clone());
                board.send(call(id, 1), extensions)
            })
            .collect();
        let why = Failure::TooLong("long".into());
        board.fail(&[Id::number(0), Id::number(9)], &why);
        assert!(calls[0].next().await.is_none());
        assert_eq!((fates[0].get(), fates[1].get()), (Some(&why), None));
        board.take(answer(1));
        assert!(matches!(calls[1].next().await, Some(Frame::Response(_))));
    }

    #[tokio::test]
    async fn a_line_that_dies_of_a_long_message_blames_who_is_alone() {
        for (count, retryable) in [(1, false), (2, true)] {
            let (board, _unwritten) = Switchboard::new();
            let fate = Fate::default();
            let mut extensions = Extensions::new();
            extensions.insert(fate.clone());
            let calls: Vec<_> =
                (0..count).map(|id| board.send(call(id, 1), extensions.clone())).collect();
            board.kill_for_length(&Failure::TooLong("long".into()));
            assert_eq!(matches!(fate.get(), Some(Failure::Gone(_))), retryable);
            drop(calls);
        }
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
