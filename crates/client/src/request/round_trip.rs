//! One request and its one answer, with the progress and the questions that come before it.

use super::{
    answering::Answering,
    handlers::{Handlers, OnProgress},
};
use crate::{
    error::{Error, Failure, Late, Result},
    support::deadline::{Timeouts, after},
    transport::Fate,
};
use ::http::Extensions;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::{Instant, timeout_at};
use zcp_wire::{
    Frame, Id, Method, MethodName, Notification, Peer, Request, json::text, revision::Questions,
};

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// So far.
    pub progress: f64,
    /// Of so much.
    #[serde(default)]
    pub total: Option<f64>,
    /// In words.
    #[serde(default)]
    pub message: Option<String>,
}

/// What whoever makes a request wants of it.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) timeouts: Timeouts,
    pub(crate) on_progress: Option<OnProgress>,
}

/// The ids of one client's requests; none comes twice.
#[derive(Debug, Default)]
pub(crate) struct Ids(AtomicI64);

impl Ids {
    pub(crate) fn next(&self) -> Id {
        Id::number(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// One request and its one answer.
pub(crate) struct RoundTrip<'a> {
    pub(crate) handlers: &'a Handlers,
    pub(crate) peer: &'a dyn Peer,
    pub(crate) questions: Questions,
    pub(crate) options: &'a Options,
    pub(crate) fate: &'a Fate,
}

impl RoundTrip<'_> {
    /// Sends a request, and waits for its answer. Dropping the future cancels the request.
    pub(crate) async fn send(
        &self,
        id: Id,
        method: MethodName,
        params: &Map<String, Value>,
        mut extensions: Extensions,
    ) -> Result<Map<String, Value>> {
        extensions.insert(self.fate.clone());
        let request = Request { id: id.clone(), method, params: Some(text(params)) };
        let mut frames = self.peer.send(Frame::Request(request), extensions);
        let Timeouts { idle, total } = self.options.timeouts;
        let last = after(total);
        let mut deadline = after(idle);
        let mut answering = Answering::default();
        loop {
            let frame = tokio::select! {
                frame = timeout_at(deadline.min(last), frames.next()) => frame,
                () = answering.one() => {
                    deadline = after(idle);
                    continue;
                }
            };
            let Ok(frame) = frame else {
                deadline = self.extended(deadline, last)?;
                continue;
            };
            match frame {
                Some(Frame::Response(response)) if response.id.as_ref() == Some(&id) => {
                    let result = response.result.map_err(Error::Refused)?;
                    let result = serde_json::from_str(&result);
                    return result.map_err(|why| self.fate.annotate(Error::invalid(why)));
                }
                Some(Frame::Notification(said)) => {
                    if !answering.withdraw(&said) && self.hear(&said) {
                        deadline = after(idle);
                    }
                }
                Some(Frame::Request(question)) => {
                    if self.questions == Questions::AsRequests {
                        answering.begin(self.handlers, self.peer, question);
                    }
                }
                Some(_) => (),
                None => {
                    let unknown = || Failure::Gone("the server did not answer".into());
                    return Err(Error::Lost(self.fate.get().cloned().unwrap_or_else(unknown)));
                }
            }
        }
    }

    /// The deadline after one that has passed, if the server waited for the user meanwhile.
    fn extended(&self, passed: Instant, last: Instant) -> Result<Instant> {
        let Timeouts { idle, total } = self.options.timeouts;
        let late = |after| Error::Late(Late { after, about: self.fate.story() });
        if passed >= last {
            return Err(late(total));
        }
        let pauses = [self.fate.pause(), &self.handlers.answering];
        let extended = pauses.iter().find_map(|pause| pause.extended(idle));
        extended.ok_or_else(|| late(idle))
    }

    /// Takes what is said on the way; true for a sign of progress.
    fn hear(&self, said: &Notification) -> bool {
        if !said.method.is(Method::Progress) {
            self.handlers.log(said);
            return false;
        }
        let params = said.params.as_deref().unwrap_or("{}");
        let Ok(progress) = serde_json::from_str::<Progress>(params) else { return false };
        let handler = self.options.on_progress.as_ref().or(self.handlers.on_progress.as_ref());
        if let Some(hear) = handler {
            hear(progress);
        }
        true
    }
}
