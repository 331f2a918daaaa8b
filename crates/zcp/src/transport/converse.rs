//! One conversation over a wire that carries whole messages both ways.

use super::{
    outbox::Outbox,
    weight::{NoRoom, Own, UNDER_WAY, Weight, in_memory},
};
use crate::{auth::PeerAddress, protocol::mcp::Mcp, sync::holding};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{Stream, StreamExt, stream::SelectAll};
use http::Extensions;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};
use tokio_util::task::TaskTracker;
use zcp_wire::{
    Frame, Frames, Malformed, Message, Peer, Request, Response, RpcError, params::Params,
};

/// Maximum number of messages one conversation may have under way.
const CALLS: usize = 1024;
/// Maximum number of bytes that the answers of one batch have together.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Makes a call that is not answered at once one that another process can go on with.
pub(crate) type Keeping = Box<dyn Fn(&Request, &Extensions, Frames) -> Frames + Send + Sync>;

/// One conversation: messages in, texts out into its outbox.
pub(crate) struct Conversation {
    mcp: Mcp,
    outbox: Outbox,
    under_way: UnderWay,
    /// Notifications and responses.
    unanswered: UnderWay,
    room: Own,
    keeping: Option<Keeping>,
    /// The calls that were not answered at once, and whoever tells what changes.
    pub(crate) tracker: TaskTracker,
}

impl Conversation {
    pub(crate) fn new(mcp: Mcp, outbox: Outbox) -> Self {
        let (under_way, unanswered) = (UnderWay::default(), UnderWay::default());
        let (room, tracker) = (Own::default(), TaskTracker::new());
        Self { mcp, outbox, under_way, unanswered, room, keeping: None, tracker }
    }

    /// Keeps calls that are not answered at once.
    pub(crate) fn keep_calls(&mut self, keeping: Keeping) {
        self.keeping = Some(keeping);
    }

    /// Tells of what changes from now on.
    pub(crate) async fn tell_changes(&self) {
        let position = self.mcp.runtime().changes.position().await;
        let mut events = Box::pin(self.mcp.events_after(Some(position)));
        let outbox = self.outbox.clone();
        self.tracker.spawn(self.mcp.closing().run_until_cancelled_owned(async move {
            while let Some((_, frame)) = events.next().await {
                if !outbox.send(frame.into_text()).await {
                    return;
                }
            }
        }));
    }

    /// Says a text that was to be said elsewhere.
    pub(crate) async fn pass_on(&self, text: ByteString) {
        self.outbox.send(text).await;
    }

    /// Waits until there is room for what a message is answered with.
    pub(crate) async fn room(&self) {
        self.outbox.room().await;
    }

    /// Takes one message, with what its connection or request carries. What it does to the
    /// conversation is done when this returns.
    pub(crate) fn receive(&self, bytes: Bytes, extensions: &Arc<Extensions>) {
        let text = match Message::text(bytes) {
            Ok(text) => text,
            Err(malformed) => return self.say(malformed.into()),
        };
        let mut params = Params::default();
        match Message::read(&text, &mut params) {
            Ok(Message::One(Frame::Request(request))) => {
                self.request(&request, &params, &text, extensions);
            }
            Ok(Message::One(frame)) => self.unanswered(frame, text.len(), extensions),
            Ok(Message::Batch(batch)) => {
                let frames = match self.mcp.batch(&batch) {
                    Ok(frames) => frames,
                    Err(malformed) => return self.say(malformed.into()),
                };
                let bytes = match in_memory(&text) {
                    Ok(bytes) => bytes + frames.len() * UNDER_WAY,
                    Err(error) => return self.refuse(error),
                };
                match self.weigh(bytes, extensions) {
                    Ok(weight) => self.batch(frames, &carrying(extensions, weight)),
                    Err(NoRoom) => self.refuse(RpcError::internal(NoRoom::WHY)),
                }
            }
            Err(malformed) => self.say(malformed.into()),
        }
    }

    /// `text` is the whole message: all of it is held for as long as a part of it is.
    fn request(
        &self,
        request: &Request,
        params: &Params<'_>,
        text: &str,
        extensions: &Arc<Extensions>,
    ) {
        let refuse = |error| self.say(Malformed { id: Some(request.id.clone()), error }.into());
        if self.under_way.is_full() {
            return refuse(too_many());
        }
        let bytes = match in_memory(text) {
            Ok(bytes) => bytes,
            Err(error) => return refuse(error),
        };
        let Ok(weight) = self.weigh(bytes, extensions) else {
            return refuse(RpcError::internal(NoRoom::WHY));
        };
        let frames = self.mcp.call(request, params, carrying(extensions, weight), None);
        self.go_on(request, frames, extensions);
    }

    /// Says what a request is answered with.
    pub(crate) fn go_on(&self, request: &Request, frames: Frames, extensions: &Extensions) {
        if let Err(NoRoom) = self.drive(frames, &self.under_way, extensions, Some(request)) {
            let (id, error) = (Some(request.id.clone()), RpcError::internal(NoRoom::WHY));
            self.say(Malformed { id, error }.into());
        }
    }

    /// A notification or a response. They have a count of their own: a client whose calls fill the
    /// conversation can still cancel them.
    fn unanswered(&self, frame: Frame, bytes: usize, extensions: &Arc<Extensions>) {
        let driven = || {
            if self.unanswered.is_full() {
                return Err(NoRoom);
            }
            let carried = carrying(extensions, self.weigh(bytes, extensions)?);
            let frames = self.mcp.send(frame, Extensions::clone(&carried));
            self.drive(frames, &self.unanswered, extensions, None)
        };
        if let Err(NoRoom) = driven() {
            tracing::warn!("a notification or response is dropped: too many are under way");
        }
    }

    /// The room that a large message takes: of this conversation, and of the process.
    fn weigh(&self, bytes: usize, extensions: &Extensions) -> Result<Option<Weight>, NoRoom> {
        let peer = extensions.get::<PeerAddress>().copied();
        Weight::of(bytes, self.mcp.runtime(), peer, Some(&self.room))
    }

    /// Answers what could not be read.
    pub(crate) fn refuse(&self, error: RpcError) {
        self.say(Malformed::from(error).into());
    }

    /// Whoever reads the messages sees to it that there is room.
    fn say(&self, frame: Frame) {
        self.outbox.push(frame.into_text());
    }

    /// Says what a message is answered with. Most calls are answered at once, and need no task.
    /// What is not takes room for as long as it is under way; without room for it, it is stopped.
    fn drive(
        &self,
        mut frames: Frames,
        under_way: &UnderWay,
        extensions: &Extensions,
        request: Option<&Request>,
    ) -> Result<(), NoRoom> {
        while let Poll::Ready(next) = frames.at_once() {
            let Some(frame) = next else { return Ok(()) };
            let is_last = matches!(frame, Frame::Response(_));
            self.say(frame);
            if is_last {
                return Ok(());
            }
        }
        let counted = (under_way.add(1), self.weigh(UNDER_WAY, extensions)?);
        let outbox = self.outbox.clone();
        if let (Some(keeping), Some(request)) = (&self.keeping, request) {
            frames = keeping(request, extensions, frames);
        }
        self.tracker.spawn(async move {
            let _counted = counted;
            while let Some(frame) = frames.next().await {
                if !outbox.send(frame.into_text()).await {
                    return;
                }
            }
        });
        Ok(())
    }

    /// Runs all of a batch at once; its responses leave together.
    fn batch(&self, frames: Vec<Result<Frame, Malformed>>, extensions: &Extensions) {
        let mut all = run_batch(&self.mcp, frames, extensions, &self.under_way);
        let outbox = self.outbox.clone();
        self.tracker.spawn(async move {
            let (mut responses, mut bytes) = (vec![], 0);
            // Answers count while they wait for the others.
            let mut held = vec![];
            while let Some(frame) = all.next().await {
                match frame {
                    Frame::Response(_) if bytes + size(&frame) > BATCH_BYTES => {
                        responses.push(without_room(frame));
                    }
                    Frame::Response(_) => {
                        bytes += size(&frame);
                        held.push(outbox.outside(size(&frame)));
                        responses.push(frame);
                    }
                    other => drop(outbox.send(other.into_text()).await),
                }
            }
            if !responses.is_empty() {
                let text = batch_text(&responses);
                drop((held, responses));
                let _ = outbox.send(text).await;
            }
        });
    }
}

/// A conversation that is over has no calls and no listeners.
impl Drop for Conversation {
    fn drop(&mut self) {
        self.mcp.close();
        self.mcp.cancel_all();
    }
}

/// Counts the messages that one conversation has under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Arc<AtomicUsize>);

/// Messages that are under way until this is dropped.
pub(crate) struct Counted {
    all: Arc<AtomicUsize>,
    messages: usize,
}

impl UnderWay {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.count() >= CALLS
    }

    /// Counts messages, room or not: for whoever looked before.
    fn add(&self, messages: usize) -> Counted {
        self.0.fetch_add(messages, Ordering::Relaxed);
        Counted { all: self.0.clone(), messages }
    }

    /// Counts messages if there is room for all of them.
    fn try_add(&self, messages: usize) -> Option<Counted> {
        let add = |now: usize| now.checked_add(messages).filter(|all| *all <= CALLS);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Counted { all: self.0.clone(), messages })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(self.messages, Ordering::Relaxed);
    }
}

/// Extensions with the room that their message takes.
fn carrying(extensions: &Arc<Extensions>, weight: Option<Weight>) -> Arc<Extensions> {
    let Some(weight) = weight else { return extensions.clone() };
    let mut own = Extensions::clone(extensions);
    weight.give_to(&mut own);
    Arc::new(own)
}

fn too_many() -> RpcError {
    RpcError::internal(format!("more than {CALLS} calls are under way: wait for some to end"))
}

/// The frames of every message of a batch. Its messages are under way until the last has ended;
/// where there is no room for them, its requests are answered with an error.
pub(crate) fn run_batch(
    mcp: &Mcp,
    frames: Vec<Result<Frame, Malformed>>,
    extensions: &Extensions,
    under_way: &UnderWay,
) -> impl Stream<Item = Frame> + Send + Unpin + use<> {
    let counted = under_way.try_add(frames.len());
    let failed = |id, error| Frames::One(Malformed { id: Some(id), error }.into());
    let run = |frame| match frame {
        Err(malformed) => Frames::One(Frame::from(malformed)),
        Ok(Frame::Request(request)) if counted.is_none() => failed(request.id, too_many()),
        Ok(Frame::Request(request)) if Mcp::is_alone(&request) => {
            let error = RpcError::invalid_request("a batch cannot open a conversation");
            failed(request.id, error)
        }
        Ok(frame) => mcp.send(frame, extensions.clone()),
    };
    let all: SelectAll<Frames> = frames.into_iter().map(run).collect();
    holding(all, counted)
}

/// About how many bytes a response has.
pub(crate) fn size(frame: &Frame) -> usize {
    match frame {
        Frame::Response(Response { result: Ok(text), .. }) => text.len(),
        _ => 256,
    }
}

/// A response to a batch whose result there is no room for.
pub(crate) fn without_room(frame: Frame) -> Frame {
    match frame {
        Frame::Response(Response { id, .. }) => {
            let why = "the answers of the batch are too large: make fewer requests at once";
            Frame::Response(Response { id, result: Err(RpcError::internal(why)) })
        }
        other => other,
    }
}

/// Responses as one array.
pub(crate) fn batch_text(responses: &[Frame]) -> ByteString {
    let texts: Vec<ByteString> = responses.iter().map(Frame::to_text).collect();
    let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
    format!("[{}]", texts.join(",")).into()
}
