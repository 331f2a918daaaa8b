//! What changes at the server, as it changes.

use crate::{
    client::Shared,
    connect::Line,
    error::{Error, Failure, Late, Result},
    limits,
    transport::{Fate, GAP, Headers},
};
use ::http::Extensions;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
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

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

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
            GAP => Self::All,
            "notifications/tools/list_changed" => Self::Tools,
            "notifications/prompts/list_changed" => Self::Prompts,
            "notifications/resources/list_changed" => Self::Resources,
            "notifications/resources/updated" => {
                let updated: Updated = serde_json::from_str(said.params.as_deref()?).ok()?;
                // Nobody subscribes to one that is longer.
                (updated.uri.len() <= limits::URI).then_some(Self::Resource(updated.uri))?
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
    honoured: Filter,
}

impl Changes {
    pub(crate) async fn open(shared: Arc<Shared>, filter: Filter) -> Result<Self> {
        let line = shared.line().await?;
        match line.server.revision.era() {
            Era::Handshake => subscribed(shared, filter).await,
            Era::Stateless => listening(shared, filter).await,
        }
    }

    /// What the server agreed to tell, which may be less than was wished for.
    pub fn honoured(&self) -> &Filter {
        &self.honoured
    }
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.stream.poll_next_unpin(context)
    }
}

/// The handshake era tells of lists by itself, and of resources that were subscribed to.
async fn subscribed(shared: Arc<Shared>, filter: Filter) -> Result<Changes> {
    let receiver = shared.settings.changes.subscribe();
    let mut subscribed = Subscribed { shared, filter: filter.clone() };
    subscribed.filter.resource_subscriptions.clear();
    for uri in &filter.resource_subscriptions {
        // Counted first: whoever stops waiting takes it along.
        subscribed.filter.resource_subscriptions.push(uri.clone());
        subscribed.shared.subscriptions.join(uri);
        subscribed.shared.subscribe(uri).await?;
    }
    let capabilities = subscribed.shared.now().server.capabilities.clone();
    let honoured = Filter {
        tools_list_changed: filter.tools_list_changed && capabilities.tools.is_some(),
        prompts_list_changed: filter.prompts_list_changed && capabilities.prompts.is_some(),
        resources_list_changed: filter.resources_list_changed && capabilities.resources.is_some(),
        ..filter
    };
    // The client stays while somebody listens.
    let stream = stream::unfold((receiver, subscribed), async |(mut receiver, subscribed)| {
        loop {
            let change = match receiver.recv().await {
                Ok(change) => change,
                Err(broadcast::error::RecvError::Lagged(_)) => Change::All,
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            if change == Change::All {
                subscribed.again().await;
            }
            if change.is_wanted(&subscribed.filter) {
                return Some((change, (receiver, subscribed)));
            }
        }
    });
    Ok(Changes { stream: stream.boxed(), honoured })
}

/// Subscriptions that end with whoever made them.
struct Subscribed {
    shared: Arc<Shared>,
    filter: Filter,
}

impl Subscribed {
    /// Makes the subscriptions again, at a server that may have to be reached again first: a new
    /// session knows of none.
    async fn again(&self) {
        let mut wait = FIRST;
        while self.shared.line().await.is_err() {
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(LONGEST);
        }
        for uri in &self.filter.resource_subscriptions {
            if let Err(why) = self.shared.subscribe(uri).await {
                tracing::warn!("changes of `{uri}` are not told any more: {why}");
            }
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        for uri in std::mem::take(&mut self.filter.resource_subscriptions) {
            if !self.shared.subscriptions.leave(&uri) {
                continue;
            }
            let (all, params) = (self.shared.subscriptions.clone(), uri_of(&uri));
            self.shared.in_parting("resources/unsubscribe", params, async move || {
                let turn = all.turn.clone().lock_owned().await;
                // Somebody may have come while this one left.
                all.is_alone(&uri).then_some(turn)
            });
        }
    }
}

fn uri_of(uri: &str) -> Map<String, Value> {
    Map::from_iter([("uri".to_owned(), Value::from(uri))])
}

/// How many listen to each resource.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    counts: Mutex<HashMap<String, usize>>,
    /// Held while the server is told, so that it is told in order.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Subscriptions {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, uri: &str) {
        *self.counts().entry(uri.to_owned()).or_default() += 1;
    }

    /// True when nobody is left.
    fn leave(&self, uri: &str) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(uri) else { return false };
        *count -= 1;
        *count == 0 && counts.remove(uri).is_some()
    }

    fn is_alone(&self, uri: &str) -> bool {
        !self.counts().contains_key(uri)
    }
}

impl Shared {
    async fn subscribe(self: &Arc<Self>, uri: &str) -> Result<()> {
        let _turn = self.subscriptions.turn.lock().await;
        let wish = self.settings.wish();
        self.request("resources/subscribe", uri_of(uri), &wish).await.map(drop)
    }
}

/// The stateless era tells on the stream of a request, which is made again when it breaks.
async fn listening(shared: Arc<Shared>, filter: Filter) -> Result<Changes> {
    let mut listening = Listening { shared, filter, asked: None, wait: FIRST };
    let honoured = listening.begin().await?;
    let stream = stream::unfold(listening, async |mut listening| {
        let change = listening.next().await?;
        Some((change, listening))
    });
    Ok(Changes { stream: stream.boxed(), honoured })
}

struct Listening {
    shared: Arc<Shared>,
    filter: Filter,
    asked: Option<Asked>,
    wait: Duration,
}

impl Listening {
    /// Waits until the server listens, and says to what.
    async fn begin(&mut self) -> Result<Filter> {
        let quiet = self.shared.settings.patience.quiet;
        let mut asked = self.ask().await?;
        let acknowledged = async {
            loop {
                match asked.frames.next().await {
                    Some(Frame::Notification(said)) if &*said.method == ACKNOWLEDGED => {
                        return Ok(honoured(&said));
                    }
                    Some(Frame::Response(response)) => {
                        return Err(match response.result {
                            Err(error) => Error::Refused(error),
                            Ok(_) => Error::invalid("it ended a subscription at once"),
                        });
                    }
                    Some(_) => (),
                    None => {
                        let unknown = || Failure::Gone("the server did not answer".into());
                        let failure = asked.fate.get().cloned().unwrap_or_else(unknown);
                        if let Failure::Gone(_) = failure {
                            asked.line.lose();
                        }
                        return Err(Error::Lost(failure));
                    }
                }
            }
        };
        let honoured = tokio::time::timeout(quiet, acknowledged)
            .await
            .map_err(|_| Error::Late(Late { after: quiet, about: None }))??;
        self.asked = Some(asked);
        Ok(honoured)
    }

    async fn next(&mut self) -> Option<Change> {
        loop {
            let Some(asked) = &mut self.asked else {
                tokio::time::sleep(jittered(self.wait)).await;
                self.wait = (self.wait * 2).min(LONGEST);
                match self.begin().await {
                    // What changed while nobody listened is not told.
                    Ok(_) => {
                        self.shared.settings.forget(&Change::All);
                        return Some(Change::All);
                    }
                    // Asking again would not change the answer.
                    Err(Error::Refused(_) | Error::Unable(_)) => return None,
                    Err(Error::Lost(
                        Failure::Denied(_) | Failure::Status { status: 400..=499, .. },
                    )) => return None,
                    Err(_) => continue,
                }
            };
            match asked.frames.next().await {
                Some(Frame::Notification(said)) => {
                    if let Some(change) = Change::of(&said) {
                        self.shared.settings.forget(&change);
                        return Some(change);
                    }
                }
                // The server ended it, for good or because it stops.
                Some(Frame::Response(response)) if response.result.is_err() => return None,
                Some(Frame::Response(_)) | None => {
                    if let Some(Failure::Gone(_)) = asked.fate.get() {
                        asked.line.lose();
                    }
                    // One that ends as soon as it is made is not made again as soon as it ends.
                    if asked.since.elapsed() > LONGEST {
                        self.wait = FIRST;
                    }
                    self.asked = None;
                }
                Some(_) => (),
            }
        }
    }

    async fn ask(&mut self) -> Result<Asked> {
        let line = self.shared.line().await?;
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
        Ok(Asked { frames, fate, line, since: Instant::now() })
    }
}

/// What a server agrees to tell.
fn honoured(said: &Notification) -> Filter {
    #[derive(Deserialize)]
    struct Acknowledged {
        #[serde(default)]
        notifications: Filter,
    }
    let params = said.params.as_deref().unwrap_or("{}");
    serde_json::from_str::<Acknowledged>(params)
        .map_or_else(|_| Filter::default(), |it| it.notifications)
}

/// A time that is not the same for all who wait.
pub(crate) fn jittered(time: Duration) -> Duration {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    time.mul_f64(0.75 + f64::from(byte[0]) / 512.0)
}

/// A subscription under way.
struct Asked {
    frames: Frames,
    fate: Fate,
    line: Arc<Line>,
    since: Instant,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("honoured", &self.honoured).finish_non_exhaustive()
    }
}
