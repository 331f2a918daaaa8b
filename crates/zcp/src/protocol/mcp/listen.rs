//! What changed, as notifications on the streams of those who want to know.

use super::{report::notification, session::Session, tasks};
use crate::{
    auth::Principal,
    runtime::{Runtime, changes::Change},
    shares::{Places, Shares},
    sync::holding,
};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Frame, Id, Method, Revision,
    mcp::{
        ResultMeta,
        subscriptions::{Filter, covers},
    },
};

/// Tasks one subscription may be about.
pub(super) const TASKS: usize = 100;
/// Tasks that all subscriptions of a process may be about: each is read whenever it changes, and now
/// and then.
const WATCHED: usize = 4096;

/// The tasks that subscriptions of this process are about.
struct Watched(Shares);

impl Default for Watched {
    fn default() -> Self {
        Self(Shares::new(WATCHED))
    }
}

/// Since 2026-07-28: one request is one subscription. First what will be told, then what
/// happens, and an end when the server closes.
pub(super) fn listen(
    runtime: &Runtime,
    id: Id,
    wanted: Wanted,
    closing: CancellationToken,
    end: Frame,
) -> impl Stream<Item = Frame> + Send + use<> {
    let changes = runtime.changes.clone();
    let streams = crate::runtime::metrics::Counted::new(&runtime.metrics.streams);
    let runtime = runtime.clone();
    // The position is taken before the acknowledgement leaves, so that nothing falls between.
    let start = async move {
        let (wanted, places) = wanted.known(&runtime).await;
        (changes.position().await, changes, wanted, places, runtime)
    };
    let told = stream::once(start).flat_map(move |(position, changes, wanted, places, runtime)| {
        let (id, tasks) = (id.clone(), holding(wanted.tasks(&runtime, &id), places));
        let filter = wanted.filter;
        let params = json!({ "notifications": filter });
        let acknowledged = tagged(Method::Listening, &params, &id);
        let told = changes.after(position).flat_map(move |(_, change)| {
            let frames = notifications(
                &change,
                || filter.resource_subscriptions.clone(),
                |uri| {
                    filter.resource_subscriptions.iter().any(|subscribed| covers(subscribed, uri))
                },
            );
            let wanted = frames.into_iter().filter(|(kind, ..)| match kind {
                Change::Tools => filter.tools_list_changed,
                Change::Prompts => filter.prompts_list_changed,
                Change::Resources => filter.resources_list_changed,
                Change::Updated(_) => true,
                Change::Visited(_) | Change::Anything => false,
            });
            let frames = wanted.map(|(_, method, params)| tagged(method, &params, &id));
            stream::iter(frames.collect::<Vec<_>>())
        });
        stream::iter([acknowledged]).chain(stream::select(told, tasks))
    });
    holding(told.take_until(closing.cancelled_owned()).chain(stream::iter([end])), streams)
}

/// What a client wants to hear of.
pub(super) struct Wanted {
    pub(super) revision: Revision,
    pub(super) filter: Filter,
    pub(super) principal: Principal,
    /// Whose share of the tasks that are watched its own count for.
    pub(super) share: String,
}

impl Wanted {
    /// Tasks are told of to those whose they are, as many as there is room for.
    async fn known(mut self, runtime: &Runtime) -> (Self, Vec<Places>) {
        let (watched, mut places) = (runtime.shelf::<Watched>(), vec![]);
        for id in std::mem::take(&mut self.filter.task_ids) {
            if self.filter.task_ids.contains(&id) {
                continue;
            }
            let Some(place) = watched.0.take(&self.share, 1) else { break };
            if runtime.engine().get(&id, &self.principal).await.is_ok() {
                self.filter.task_ids.push(id);
                places.push(place);
            }
        }
        (self, places)
    }

    fn tasks(&self, runtime: &Runtime, id: &Id) -> impl Stream<Item = Frame> + Send + use<> {
        let (revision, id) = (self.revision, id.clone());
        let all = self.filter.task_ids.iter();
        let all = all.map(move |task| {
            let id = id.clone();
            let show = move |task| {
                let params = json!(tasks::shown(revision, task));
                tagged(Method::TaskChanged, &params, &id)
            };
            tasks::changes(runtime, self.principal.clone(), task.clone(), show)
        });
        stream::select_all(all.map(StreamExt::boxed).collect::<Vec<_>>())
    }
}

/// A notification that says which subscription it belongs to, by the id's own text.
fn tagged(method: Method, params: &Value, id: &Id) -> Frame {
    #[derive(Serialize)]
    struct Tagged<'a> {
        #[serde(flatten)]
        params: &'a Value,
        #[serde(rename = "_meta")]
        meta: ResultMeta,
    }
    let meta = ResultMeta { subscription_id: Some(id.clone()), ..ResultMeta::default() };
    notification(method, &Tagged { params, meta })
}

/// Until 2025-11-25: everybody in a session hears of lists, and of what they subscribed to, after
/// a position, or from now on. The last frame of a change has the change's position.
pub(super) fn events(
    runtime: &Runtime,
    session: Arc<Session>,
    position: Option<u64>,
) -> impl Stream<Item = (Option<u64>, Frame)> + Send + use<> {
    let changes = runtime.changes.clone();
    let start = async move {
        let position = match position {
            Some(position) => position,
            None => changes.position().await,
        };
        changes.after(position)
    };
    let tasks = task_news(runtime, session.clone()).map(|frame| (None, frame));
    let (runtime, listening) = (runtime.clone(), session.clone());
    let changes = stream::once(start).flatten().then(move |change| {
        let (runtime, session) = (runtime.clone(), listening.clone());
        async move {
            // Another process may have been told what this client wants.
            if let Change::Updated(_) | Change::Anything = change.1 {
                session.catch_up(&runtime).await;
            }
            change
        }
    });
    let changes = changes.flat_map(move |(position, change)| {
        // A conversation that has not been opened is none of the handshake era.
        let frames = match session.handshake() {
            None => vec![],
            Some(_) if matches!(&change, Change::Visited(id) if !session.was_sent_to(id)) => {
                vec![]
            }
            Some(_) => {
                notifications(&change, || session.subscriptions(), |uri| session.is_subscribed(uri))
            }
        };
        let frame = |(kind, method, params): (Change, Method, Value)| {
            let frame = match kind {
                Change::Updated(_) | Change::Visited(_) => notification(method, &params),
                _ => notification(method, &Map::new()),
            };
            (None, frame)
        };
        let mut frames: Vec<(Option<u64>, Frame)> = frames.into_iter().map(frame).collect();
        if let Some((last, _)) = frames.last_mut() {
            *last = Some(position);
        }
        stream::iter(frames)
    });
    stream::select(changes, tasks)
}

/// In 2025-11-25: the tasks that began in a session, each whenever it has another status. A stream that
/// is resumed does not tell what it missed of them: their clients look at them.
fn task_news(runtime: &Runtime, session: Arc<Session>) -> impl Stream<Item = Frame> + Send + use<> {
    let tasks = runtime.engine().told_in(&session.conversation());
    tasks.filter_map(move |task| {
        let revision = session.handshake().map(|handshake| handshake.revision);
        let revision = revision.filter(|revision| revision.asks_for_tasks());
        let told = revision.and_then(|revision| tasks::news(&session, revision, task));
        std::future::ready(told)
    })
}

/// The notifications of a change, if the resource is one that is wanted.
fn notifications(
    change: &Change,
    subscriptions: impl FnOnce() -> Vec<String>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(Change, Method, Value)> {
    let updated = |uri: &str| {
        (Change::Updated(uri.to_owned()), Method::ResourceUpdated, json!({ "uri": uri }))
    };
    let list = |change: Change, method| (change, method, json!({}));
    let tools = || list(Change::Tools, Method::ToolsChanged);
    let prompts = || list(Change::Prompts, Method::PromptsChanged);
    let resources = || list(Change::Resources, Method::ResourcesChanged);
    match change {
        Change::Tools => vec![tools()],
        Change::Prompts => vec![prompts()],
        Change::Resources => vec![resources()],
        Change::Updated(uri) if wanted(uri) => vec![updated(uri)],
        Change::Updated(_) => vec![],
        Change::Visited(id) => {
            vec![(change.clone(), Method::PageVisited, json!({ "elicitationId": id }))]
        }
        Change::Anything => {
            let all = [tools(), prompts(), resources()].into_iter();
            all.chain(subscriptions().iter().map(|uri| updated(uri))).collect()
        }
    }
}
