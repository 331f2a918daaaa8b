//! One conversation over a wire that carries whole messages both ways.

use crate::protocol::mcp::{Mcp, shared};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{StreamExt, stream::SelectAll};
use http::Extensions;
use std::{sync::Arc, task::Poll};
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    mpsc::{self, error::TrySendError},
};
use tokio_util::task::TaskTracker;
use zcp_wire::{
    Frame, Frames, Malformed, Message, Peer, Request, Response, RpcError, params::Params,
};

/// Calls one conversation may have under way.
const CALLS: usize = 1024;
/// Messages one batch may have.
pub(crate) const BATCH: usize = 100;
/// Messages that may wait to be written before the reader stops reading.
pub(crate) const OUTBOX: usize = 256;

/// One conversation: messages in, texts out into its outbox.
pub(crate) struct Conversation {
    mcp: Mcp,
    extensions: Arc<Extensions>,
    outbox: mpsc::Sender<ByteString>,
    calls: Arc<Semaphore>,
    /// The calls that were not answered at once.
    pub(crate) tracker: TaskTracker,
}

impl Conversation {
    pub(crate) fn new(mcp: Mcp, extensions: Extensions, outbox: mpsc::Sender<ByteString>) -> Self {
        let calls = Arc::new(Semaphore::new(CALLS));
        let extensions = shared(extensions);
        Self { mcp, extensions, outbox, calls, tracker: TaskTracker::new() }
    }

    /// Takes one message. What it does to the conversation is done when this returns.
    pub(crate) async fn receive(&self, bytes: Bytes) {
        let text = match Message::text(bytes) {
            Ok(text) => text,
            Err(malformed) => return self.say(Frame::from(malformed).to_text()).await,
        };
        match Message::read(&text) {
            Ok((Message::One(Frame::Request(request)), params)) => {
                self.request(&request, params).await;
            }
            Ok((Message::One(frame), _)) => {
                let frames = self.mcp.send(frame, Extensions::clone(&self.extensions));
                self.drive(frames, None).await;
            }
            Ok((Message::Batch(_), _)) if !self.mcp.has_batches() => {
                let why = "this revision has no batches: send one message at a time";
                self.refuse(RpcError::invalid_request(why)).await;
            }
            Ok((Message::Batch(frames), _)) if frames.len() > BATCH => {
                let why = format!("a batch may have {BATCH} messages at most");
                self.refuse(RpcError::invalid_request(why)).await;
            }
            Ok((Message::Batch(frames), _)) => self.batch(frames),
            Err(malformed) => self.say(Frame::from(malformed).to_text()).await,
        }
    }

    async fn request(&self, request: &Request, params: Result<Params<'_>, RpcError>) {
        let failed = |error| Malformed { id: Some(request.id.clone()), error };
        let params = match params {
            Ok(params) => params,
            Err(error) => return self.say(Frame::from(failed(error)).to_text()).await,
        };
        let Ok(permit) = self.calls.clone().try_acquire_owned() else {
            let why = format!("more than {CALLS} calls are under way: wait for some to end");
            return self.say(Frame::from(failed(RpcError::internal(why))).to_text()).await;
        };
        let frames = self.mcp.call(request, &params, self.extensions.clone(), None);
        self.drive(frames, Some(permit)).await;
    }

    /// Answers what could not be read.
    pub(crate) async fn refuse(&self, error: RpcError) {
        self.say(Frame::from(Malformed::from(error)).to_text()).await;
    }

    async fn say(&self, text: ByteString) {
        // A closed outbox is a peer that is gone: whoever reads will notice.
        if let Err(TrySendError::Full(text)) = self.outbox.try_send(text) {
            let _ = self.outbox.send(text).await;
        }
    }

    /// Says what a message is answered with. Most calls are answered at once, and need no task. A
    /// peer that does not read is not read from either.
    async fn drive(&self, mut frames: Frames, permit: Option<OwnedSemaphorePermit>) {
        while let Poll::Ready(next) = frames.at_once().await {
            match next {
                Some(frame) => self.say(frame.to_text()).await,
                None => return,
            }
        }
        let outbox = self.outbox.clone();
        self.tracker.spawn(async move {
            let _permit = permit;
            while let Some(frame) = frames.next().await {
                if outbox.send(frame.to_text()).await.is_err() {
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
                    other => drop(outbox.send(other.to_text()).await),
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
