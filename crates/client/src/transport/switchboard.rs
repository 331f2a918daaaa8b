//! One line for all: what comes from the other side is given to the request it belongs to.

use super::{Fate, GAP, Witness};
use crate::error::Failure;
use ::http::Extensions;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc::{self, error::TrySendError};
use zcp_wire::{ByteString, Frame, Frames, Id, Notification, Peer, json};

/// Frames that may wait for one request.
const QUEUE: usize = 512;
/// Room in it that notifications leave to what may not be lost.
const SPARE: usize = 64;
/// Texts that may wait to be written.
const UNWRITTEN: usize = 256;

/// Requests under way on one line, and what answers none of them.
#[derive(Clone)]
pub(crate) struct Switchboard {
    shared: Arc<Shared>,
}

struct Shared {
    outbox: mpsc::Sender<ByteString>,
    // A std mutex: never held across an await.
    table: Mutex<Table>,
    /// Who can tell more of the other side.
    witness: Option<Witness>,
}

#[derive(Default)]
struct Table {
    calls: HashMap<Id, Call>,
    /// Whoever hears what answers no request.
    events: Option<mpsc::Sender<Frame>>,
    /// What came before anybody listened.
    early: Vec<Frame>,
    /// Why the line is dead.
    dead: Option<Failure>,
}

struct Call {
    sender: mpsc::Sender<Frame>,
    fate: Fate,
}

impl Switchboard {
    /// A line, and the texts to be written to it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<ByteString>) {
        Self::witnessed(None)
    }

    /// A line whose other side somebody can tell more of.
    pub(crate) fn witnessed(witness: Option<Witness>) -> (Self, mpsc::Receiver<ByteString>) {
        let (outbox, unwritten) = mpsc::channel(UNWRITTEN);
        let shared = Arc::new(Shared { outbox, table: Mutex::default(), witness });
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
                // Its queue has room for what may not be lost.
                let _ = call.sender.try_send(frame);
                return;
            }
            Frame::Notification(notification) => belongs_to(notification),
            Frame::Request(_) => None,
        };
        let sender = call.and_then(|id| table.calls.get(&id)).map(|call| &call.sender);
        match sender.or(table.events.as_ref()) {
            Some(sender) => offer(sender, frame),
            None if table.early.len() < QUEUE => table.early.push(frame),
            None => (),
        }
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
            let frame = receiver.recv().await?;
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
        let rest = stream::unfold(receiver, async |mut receiver| {
            let frame = receiver.recv().await?;
            Some((frame, receiver))
        });
        Frames::stream(stream::iter(early).chain(rest))
    }
}

/// Notifications may be lost when nobody takes them, and that is told; questions and answers may
/// not.
fn offer(sender: &mpsc::Sender<Frame>, frame: Frame) {
    let frame = match (&frame, sender.capacity()) {
        (Frame::Notification(_), ..SPARE) => return,
        (Frame::Notification(_), SPARE) => {
            Frame::Notification(Notification { method: GAP.into(), params: None })
        }
        _ => frame,
    };
    let _ = sender.try_send(frame);
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
