//! Questions of a server of the handshake era, answered side by side.

use crate::{builder::Settings, pause::Pause};
use ::http::Extensions;
use futures_util::{
    FutureExt, StreamExt,
    future::{AbortHandle, BoxFuture, abortable},
    stream::FuturesUnordered,
};
use serde::Deserialize;
use serde_json::json;
use std::{collections::HashMap, future::pending};
use zcp_wire::{Frame, Id, Notification, Peer, Request, Response, RpcError, json::text};

/// Questions that are answered at the same time.
const MOST: usize = 64;

/// Questions under way on one stream. Dropping this leaves them unanswered.
#[derive(Default)]
pub(crate) struct Answering<'a> {
    running: FuturesUnordered<BoxFuture<'a, Id>>,
    open: HashMap<Id, AbortHandle>,
}

impl<'a> Answering<'a> {
    /// Begins to answer a question; one too many is refused.
    pub(crate) fn begin(&mut self, settings: &'a Settings, peer: &'a dyn Peer, question: Request) {
        let id = question.id.clone();
        if self.open.len() >= MOST {
            let error = RpcError::internal(format!("more than {MOST} questions are open"));
            self.running.push(send(peer, question.id, Err(error)).map(|()| id).boxed());
            return;
        }
        let (answer, handle) = abortable(reply(settings, peer, question));
        self.open.insert(id.clone(), handle);
        self.running.push(answer.map(|_| id).boxed());
    }

    /// Waits until a question is answered; for ever if none is open.
    pub(crate) async fn one(&mut self) {
        match self.running.next().await {
            Some(id) => drop(self.open.remove(&id)),
            None => pending().await,
        }
    }

    /// Gives up the question that the server wants answered no more; false if it says something
    /// else.
    pub(crate) fn withdraw(&mut self, said: &Notification) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Id,
        }
        if &*said.method != "notifications/cancelled" {
            return false;
        }
        let params = said.params.as_deref().unwrap_or("{}");
        if let Ok(cancelled) = serde_json::from_str::<Cancelled>(params)
            && let Some(answer) = self.open.remove(&cancelled.request_id)
        {
            answer.abort();
        }
        true
    }
}

async fn reply(settings: &Settings, peer: &dyn Peer, question: Request) {
    let _open = Open::new(&settings.questions);
    let params = question.params.as_deref().map_or(Ok(json!({})), serde_json::from_str);
    let result = match params {
        Ok(params) => settings.answers.answer(&question.method, &params).await,
        Err(error) => Err(RpcError::invalid_params(error)),
    };
    send(peer, question.id, result.map(|answer| text(&answer))).await;
}

async fn send(peer: &dyn Peer, id: Id, result: Result<zcp_wire::ByteString, RpcError>) {
    let response = Frame::Response(Response { id: Some(id), result: result.map(Into::into) });
    let mut sent = peer.send(response, Extensions::new());
    while sent.next().await.is_some() {}
}

/// A question is open for as long as this is kept.
struct Open<'a>(&'a Pause);

impl<'a> Open<'a> {
    fn new(questions: &'a Pause) -> Self {
        questions.begin();
        Self(questions)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
