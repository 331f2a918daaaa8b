//! Questions that a server asks with requests of its own, answered concurrently.

use super::handlers::Handlers;
use crate::support::message_limits;
use ::http::Extensions;
use futures_util::{
    FutureExt, StreamExt,
    future::{AbortHandle, BoxFuture, abortable},
    stream::FuturesUnordered,
};
use serde_json::json;
use std::{collections::HashMap, future::pending};
use zcp_wire::{
    Frame, Id, Method, Notification, Peer, Request, Response, RpcError,
    json::{self, text},
};

/// Questions that are answered at the same time.
const MOST: usize = 64;
/// Answers under way, refusals among them. What is asked beyond that is not answered.
const MOST_SENT: usize = 2 * MOST;

/// Questions under way on one stream. Dropping this leaves them unanswered.
#[derive(Default)]
pub(crate) struct Answering<'a> {
    /// Each gives the question it answered, unless that was refused.
    running: FuturesUnordered<BoxFuture<'a, Option<Id>>>,
    open: HashMap<Id, Asked>,
    /// Of the open questions.
    bytes: usize,
}

/// A question that is being answered.
struct Asked {
    answer: AbortHandle,
    bytes: usize,
}

impl<'a> Answering<'a> {
    /// Begins to answer a question; one too many is refused.
    pub(crate) fn begin(&mut self, handlers: &'a Handlers, peer: &'a dyn Peer, question: Request) {
        let id = question.id.clone();
        // An id that is in use is nobody's to use again.
        if self.running.len() >= MOST_SENT || self.open.contains_key(&id) {
            return;
        }
        let bytes = question.params.as_ref().map_or(0, |params| params.len());
        let refused = if id.as_json().len() > message_limits::ID {
            return;
        } else if self.open.len() >= MOST {
            Some(format!("more than {MOST} questions are open"))
        } else if bytes > message_limits::QUESTION || self.bytes + bytes > message_limits::QUESTIONS
        {
            Some("the open questions are too long".to_owned())
        } else {
            None
        };
        if let Some(why) = refused {
            let error = RpcError::internal(why);
            self.running.push(send(peer, question.id, Err(error)).map(|()| None).boxed());
            return;
        }
        let (reply, answer) = abortable(reply(handlers, peer, question));
        self.open.insert(id.clone(), Asked { answer, bytes });
        self.bytes += bytes;
        self.running.push(reply.map(|_| Some(id)).boxed());
    }

    /// Waits until a question is answered; for ever if none is open.
    pub(crate) async fn one(&mut self) {
        match self.running.next().await {
            Some(id) => drop(id.and_then(|id| self.close(&id))),
            None => pending().await,
        }
    }

    fn close(&mut self, id: &Id) -> Option<Asked> {
        let asked = self.open.remove(id)?;
        self.bytes -= asked.bytes;
        Some(asked)
    }

    /// Gives up the question that the server wants answered no more; false if it says something
    /// else.
    pub(crate) fn withdraw(&mut self, said: &Notification) -> bool {
        if !said.method.is(Method::Cancelled) {
            return false;
        }
        let params = said.params.as_deref().unwrap_or("{}");
        let mut cancelled = None;
        let is_whole = json::members(params, |name, value| {
            if name == "requestId" {
                cancelled = Id::from_json(value);
            }
        });
        if let Some(id) = cancelled.filter(|_| is_whole)
            && let Some(asked) = self.close(&id)
        {
            asked.answer.abort();
        }
        true
    }
}

async fn reply(handlers: &Handlers, peer: &dyn Peer, question: Request) {
    let _pause = handlers.answering.hold();
    let read = |text: &str| message_limits::read(text, message_limits::QUESTION_VALUES);
    let params = question.params.as_deref().map_or(Ok(json!({})), read);
    let result = match params {
        Ok(params) => handlers.answers.answer(&question.method, &params).await,
        Err(error) => Err(RpcError::invalid_params(error)),
    };
    send(peer, question.id, result.map(|answer| text(&answer))).await;
}

async fn send(peer: &dyn Peer, id: Id, result: Result<zcp_wire::ByteString, RpcError>) {
    let response = Frame::Response(Response { id: Some(id), result: result.map(Into::into) });
    let mut sent = peer.send(response, Extensions::new());
    while sent.next().await.is_some() {}
}
