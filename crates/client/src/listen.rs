//! What changes at the server, as it changes.

use crate::{
    client::Shared,
    connect::Line,
    error::{Failure, Result},
    transport::{Fate, Headers},
};
use ::http::Extensions;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::broadcast;
use zcp_wire::{
    Frame, Frames, Notification, Request,
    json::text,
    mcp::subscriptions::{Filter, covers},
    revision::Era,
};

/// How long to wait before a lost subscription is made again, at first and at most.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// A resource.
    Resource(String),
    /// Anything may have: for a while nobody listened.
    All,
}

impl Change {
    pub(crate) fn of(said: &Notification) -> Option<Self> {
        #[derive(Deserialize)]
        struct Updated {
            uri: String,
        }
        Some(match &*said.method {
            "notifications/tools/list_changed" => Self::Tools,
            "notifications/prompts/list_changed" => Self::Prompts,
            "notifications/resources/list_changed" => Self::Resources,
            "notifications/resources/updated" => {
                let updated: Updated = serde_json::from_str(said.params.as_deref()?).ok()?;
                Self::Resource(updated.uri)
            }
            _ => return None,
        })
    }

    fn is_wanted(&self, filter: &Filter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed,
            Self::Prompts => filter.prompts_list_changed,
            Self::Resources => filter.resources_list_changed,
            Self::Resource(changed) => {
                filter.resource_subscriptions.iter().any(|wanted| covers(wanted, changed))
            }
            Self::All => true,
        }
    }
}

/// Changes as they come. Dropping it ends the subscription.
pub struct Changes {
    stream: BoxStream<'static, Change>,
}

impl Changes {
    pub(crate) async fn open(shared: Arc<Shared>, filter: Filter) -> Result<Self> {
        let line = shared.line().await?;
        let stream = match line.server.revision.era() {
            Era::Handshake => subscribed(shared, filter).await?,
            Era::Stateless => listening(shared, filter),
        };
        Ok(Self { stream })
    }
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.stream.poll_next_unpin(context)
    }
}

/// The handshake era tells of lists by itself, and of resources that were subscribed to.
async fn subscribed(shared: Arc<Shared>, filter: Filter) -> Result<BoxStream<'static, Change>> {
    let receiver = shared.settings.changes.subscribe();
    let wish = shared.settings.wish();
    for uri in &filter.resource_subscriptions {
        let params = Map::from_iter([("uri".to_owned(), Value::from(uri.as_str()))]);
        shared.request("resources/subscribe", params, &wish).await?;
    }
    // The client stays while somebody listens.
    Ok(stream::unfold((receiver, shared, filter), async |(mut receiver, shared, filter)| {
        loop {
            let change = match receiver.recv().await {
                Ok(change) => change,
                Err(broadcast::error::RecvError::Lagged(_)) => Change::All,
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            if change.is_wanted(&filter) {
                return Some((change, (receiver, shared, filter)));
            }
        }
    })
    .boxed())
}

/// The stateless era tells on the stream of a request, which is made again when it breaks.
fn listening(shared: Arc<Shared>, filter: Filter) -> BoxStream<'static, Change> {
    let state = Listening { shared, filter, asked: None, wait: FIRST, first: true };
    stream::unfold(state, async |mut state| {
        let change = state.next().await?;
        Some((change, state))
    })
    .boxed()
}

struct Listening {
    shared: Arc<Shared>,
    filter: Filter,
    asked: Option<Asked>,
    wait: Duration,
    first: bool,
}

impl Listening {
    async fn next(&mut self) -> Option<Change> {
        loop {
            let Some(asked) = &mut self.asked else {
                if !self.first {
                    tokio::time::sleep(self.wait).await;
                    self.wait = (self.wait * 2).min(LONGEST);
                }
                self.asked = self.ask().await;
                self.first &= self.asked.is_some();
                continue;
            };
            match asked.frames.next().await {
                Some(Frame::Notification(said)) => {
                    if &*said.method == "notifications/subscriptions/acknowledged" {
                        self.wait = FIRST;
                        // What changed while nobody listened is not told.
                        if !std::mem::take(&mut self.first) {
                            return Some(Change::All);
                        }
                    }
                    if let Some(change) = Change::of(&said) {
                        return Some(change);
                    }
                }
                Some(Frame::Request(_)) => (),
                // The server ended it, for good or because it stops.
                Some(Frame::Response(response)) if response.result.is_err() => return None,
                Some(Frame::Response(_)) | None => {
                    match asked.fate.get() {
                        Some(Failure::Gone(_)) => asked.line.lose(),
                        // Asking again would not change the answer.
                        Some(Failure::Denied(_) | Failure::Status { status: 400..=499, .. }) => {
                            return None;
                        }
                        _ => (),
                    }
                    self.first = false;
                    self.asked = None;
                }
            }
        }
    }

    async fn ask(&mut self) -> Option<Asked> {
        let line = self.shared.line().await.ok()?;
        let id = self.shared.settings.ids.next();
        let mut params = Map::from_iter([("notifications".to_owned(), json!(self.filter))]);
        let headers = self.shared.headers(&line, "subscriptions/listen", &params);
        self.shared.settings.say_about(&mut params, Era::Stateless, &id);
        let request =
            Request { id, method: "subscriptions/listen".into(), params: Some(text(&params)) };
        let mut extensions = Extensions::new();
        extensions.insert(Headers(headers));
        let fate = Fate::default();
        extensions.insert(fate.clone());
        let frames = line.peer.send(Frame::Request(request), extensions);
        Some(Asked { frames, fate, line })
    }
}

/// A subscription under way.
struct Asked {
    frames: Frames,
    fate: Fate,
    line: Arc<Line>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
