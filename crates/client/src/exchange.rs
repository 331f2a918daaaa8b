//! One request and its one answer: progress, questions on the way, patience.

use crate::{
    answering::Answering,
    builder::Settings,
    error::{Error, Failure, Late, Result},
    limits,
    transport::{Fate, Headers, Opening},
};
use ::http::{Extensions, HeaderMap};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use zcp_wire::{
    Frame, Id, Notification, Peer, Request, json::text, mcp::logging::LogMessage, meta,
    revision::Era,
};

/// More than anybody waits.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Deserialize)]
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

pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Without a sign of life.
    pub(crate) quiet: Duration,
    /// In all.
    pub(crate) whole: Duration,
}

/// What a request's maker wants.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) patience: Patience,
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

impl Settings {
    /// What a request says about itself in its `_meta`. Its progress is reported under its id.
    pub(crate) fn say_about(&self, params: &mut Map<String, Value>, era: Era, id: &Id) {
        let about = params.entry("_meta").or_insert_with(|| json!({}));
        let Some(about) = about.as_object_mut() else { return };
        about.insert("progressToken".into(), json!(id));
        if era == Era::Handshake {
            return;
        }
        let revision = self.stateless.as_str();
        about.insert(meta::PROTOCOL_VERSION.into(), revision.into());
        about.insert(meta::CLIENT_CAPABILITIES.into(), json!(self.capabilities()));
        if self.say_info {
            about.insert(meta::CLIENT_INFO.into(), json!(self.info));
        }
        if let Some(level) = self.level {
            about.insert(meta::LOG_LEVEL.into(), json!(level));
        }
    }
}

/// One request and its one answer.
pub(crate) struct Exchange<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) peer: &'a dyn Peer,
    pub(crate) era: Era,
    pub(crate) wish: &'a Wish,
    pub(crate) fate: &'a Fate,
}

impl Exchange<'_> {
    /// Asks, and waits for the answer. Giving up cancels the request.
    pub(crate) async fn ask(
        &self,
        id: Id,
        method: &str,
        params: Map<String, Value>,
        mut extensions: Extensions,
    ) -> Result<Map<String, Value>> {
        extensions.insert(self.fate.clone());
        let request = Request {
            id: id.clone(),
            method: method.to_owned().into(),
            params: Some(text(&params)),
        };
        let mut frames = self.peer.send(Frame::Request(request), extensions);
        let Patience { quiet, whole } = self.wish.patience;
        let last = after(whole);
        let mut late = after(quiet);
        let mut answering = Answering::default();
        loop {
            let frame = tokio::select! {
                frame = timeout_at(late.min(last), frames.next()) => frame,
                () = answering.one() => {
                    late = after(quiet);
                    continue;
                }
            };
            let Ok(frame) = frame else {
                let pauses = [self.fate.pause(), &self.settings.questions];
                let extended = pauses.iter().find_map(|pause| pause.extended(quiet));
                if let Some(extended) = extended.filter(|_| late < last) {
                    late = extended;
                    continue;
                }
                let after = if late < last { quiet } else { whole };
                return Err(Error::Late(Late { after, about: self.fate.story() }));
            };
            match frame {
                Some(Frame::Response(response)) if response.id.as_ref() == Some(&id) => {
                    let result = response.result.map_err(Error::Refused)?;
                    let result = serde_json::from_str(&result);
                    return result.map_err(|why| Error::invalid(why).told_by(self.fate));
                }
                Some(Frame::Notification(said)) => {
                    if !answering.withdraw(&said) && self.hear(&said) {
                        late = after(quiet);
                    }
                }
                // In the stateless era questions are results, and never answered like this.
                Some(Frame::Request(question)) => {
                    if self.era == Era::Handshake {
                        answering.begin(self.settings, self.peer, question);
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

    /// Takes what is said on the way; true for a sign of progress.
    fn hear(&self, said: &Notification) -> bool {
        let params = said.params.as_deref().unwrap_or("{}");
        match &*said.method {
            "notifications/progress" => {
                let Ok(progress) = serde_json::from_str::<Progress>(params) else { return false };
                if let Some(hear) =
                    self.wish.on_progress.as_ref().or(self.settings.on_progress.as_ref())
                {
                    hear(progress);
                }
                true
            }
            "notifications/message" => {
                if let (Some(hear), Ok(message)) =
                    (&self.settings.on_log, limits::read(params, limits::QUESTION_VALUES))
                {
                    let message: LogMessage = message;
                    hear(message);
                }
                false
            }
            _ => false,
        }
    }
}

/// So much later; or never, if it is too much.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// What opens a conversation.
pub(crate) fn opening(headers: HeaderMap) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Opening);
    extensions.insert(Headers(headers));
    extensions
}
