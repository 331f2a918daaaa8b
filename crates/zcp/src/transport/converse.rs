//! One conversation over a wire that carries whole messages both ways.

use super::outbox::Outbox;
use crate::protocol::mcp::{Mcp, shared};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{StreamExt, stream::SelectAll};
use http::Extensions;
use std::{sync::Arc, task::Poll};
use tokio_util::task::TaskTracker;
use zcp_wire::{
    Frame, Frames, Malformed, Message, Peer, Request, Response, RpcError, params::Params,
};

/// Calls one conversation may have under way.
const CALLS: usize = 1024;
/// Messages one batch may have.
pub(crate) const BATCH: usize = 100;

/// One conversation: messages in, texts out into its outbox.
pub(crate) struct Conversation {
    mcp: Mcp,
    extensions: Arc<Extensions>,
    outbox: Outbox,
    /// The calls that were not answered at once, and whoever tells what changes.
    pub(crate) tracker: TaskTracker,
}

impl Conversation {
    pub(crate) fn new(mcp: Mcp, extensions: Extensions, outbox: Outbox) -> Self {
        let extensions = shared(extensions);
        Self { mcp, extensions, outbox, tracker: TaskTracker::new() }
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

    /// Takes one message. What it does to the conversation is done when this returns.
    pub(crate) fn receive(&self, bytes: Bytes) {
        let text = match Message::text(bytes) {
            Ok(text) => text,
            Err(malformed) => return self.say(malformed.into()),
        };
        let mut params = Params::default();
        match Message::read(&text, &mut params) {
            Ok(Message::One(Frame::Request(request))) => {
                self.request(&request, &params);
            }
            Ok(Message::One(frame)) => {
                let frames = self.mcp.send(frame, Extensions::clone(&self.extensions));
                self.drive(frames);
            }
            Ok(Message::Batch(_)) if !self.mcp.has_batches() => {
                let why = "this revision has no batches: send one message at a time";
                self.refuse(RpcError::invalid_request(why));
            }
            Ok(Message::Batch(frames)) if frames.len() > BATCH => {
                let why = format!("a batch may have {BATCH} messages at most");
                self.refuse(RpcError::invalid_request(why));
            }
            Ok(Message::Batch(frames)) => self.batch(frames),
            Err(malformed) => self.say(malformed.into()),
        }
    }

    fn request(&self, request: &Request, params: &Params<'_>) {
        if self.tracker.len() > CALLS {
            let why = format!("more than {CALLS} calls are under way: wait for some to end");
            let error = RpcError::internal(why);
            return self.say(Malformed { id: Some(request.id.clone()), error }.into());
        }
        let frames = self.mcp.call(request, params, self.extensions.clone(), None);
        self.drive(frames);
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
    fn drive(&self, mut frames: Frames) {
        while let Poll::Ready(next) = frames.at_once() {
            let Some(frame) = next else { return };
            let is_last = matches!(frame, Frame::Response(_));
            self.say(frame);
            if is_last {
                return;
            }
        }
        let outbox = self.outbox.clone();
        self.tracker.spawn(async move {
            while let Some(frame) = frames.next().await {
                if !outbox.send(frame.into_text()).await {
                    return;
                }
            }
        });
    }

    /// Runs all of a batch at once; its responses leave together.
    fn batch(&self, frames: Vec<Result<Frame, Malformed>>) {
        let mut all = run_batch(&self.mcp, frames, &self.extensions);
        let outbox = self.outbox.clone();
        self.tracker.spawn(async move {
            let mut responses = vec![];
            while let Some(frame) = all.next().await {
                match frame {
                    Frame::Response(_) => responses.push(frame),
                    other => drop(outbox.send(other.into_text()).await),
                }
            }
            if !responses.is_empty() {
                let _ = outbox.send(batch_text(&responses)).await;
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

/// The frames of every message of a batch.
pub(crate) fn run_batch(
    mcp: &Mcp,
    frames: Vec<Result<Frame, Malformed>>,
    extensions: &Extensions,
) -> SelectAll<Frames> {
    let run = |frame| match frame {
        Err(malformed) => Frames::One(Frame::from(malformed)),
        Ok(Frame::Request(request)) if Mcp::is_alone(&request) => {
            let error = RpcError::invalid_request("a batch cannot open a conversation");
            Frames::One(Frame::Response(Response { id: Some(request.id), result: Err(error) }))
        }
        Ok(frame) => mcp.send(frame, extensions.clone()),
    };
    frames.into_iter().map(run).collect()
}

/// Responses as one array.
pub(crate) fn batch_text(responses: &[Frame]) -> ByteString {
    let texts: Vec<ByteString> = responses.iter().map(Frame::to_text).collect();
    let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
    format!("[{}]", texts.join(",")).into()
}
