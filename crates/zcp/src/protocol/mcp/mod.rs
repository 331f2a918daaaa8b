//! MCP, every revision: one conversation.

mod entry;
mod headers;
mod listen;
mod lists;
mod offer;
mod render;
mod report;
mod retry;
pub(crate) mod session;

use crate::{
    auth::Principal,
    runtime::{
        Runtime,
        call::{Call, Op},
        ctx::{About, Ctx},
    },
};
use entry::{Caller, Entered, Step};
use futures_util::{StreamExt, stream};
use http::{Extensions, HeaderMap};
use lists::Lists;
use report::{Report, Running};
use retry::Retry;
use session::{Remember, Session};
use std::{fmt, sync::Arc};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Frame, Frames, Id, Notification, Peer, Request, Response, Revision, RpcError,
    frame::json_text,
    mcp::{Body, Reply, subscriptions::Filter},
    params::Params,
    revision::downgrade,
};

pub(crate) use entry::{Route, check_version, route};
pub(crate) use offer::versions;

/// One conversation in MCP: a process, a socket, a session, or requests that remember nothing.
#[derive(Clone)]
pub struct Mcp {
    runtime: Runtime,
    lists: Arc<Lists>,
    session: Option<Arc<Session>>,
    closing: CancellationToken,
}

impl Mcp {
    /// A conversation that can be opened by a handshake, or go without.
    pub fn new(runtime: Runtime) -> Self {
        Self::with(runtime, Some(Arc::default()), CancellationToken::new())
    }

    /// Requests that remember nothing.
    pub(crate) fn stateless(runtime: Runtime, closing: CancellationToken) -> Self {
        Self::with(runtime, None, closing)
    }

    pub(crate) fn with(
        runtime: Runtime,
        session: Option<Arc<Session>>,
        closing: CancellationToken,
    ) -> Self {
        Self { lists: runtime.shelf(), runtime, session, closing }
    }

    /// Ends what would never end by itself: listening.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// The peer has no more to say: questions to it will not be answered, and listening ends.
    pub(crate) fn hear_no_more(&self) {
        self.close();
        self.session.iter().for_each(|session| session.pending().abandon());
    }

    /// Stops everything under way.
    pub(crate) fn cancel_all(&self) {
        self.session.iter().for_each(|session| session.cancel_all());
    }

    /// Whether a request may not be part of a batch: it opens a conversation, or needs none.
    pub(crate) fn is_alone(request: &Request) -> bool {
        &*request.method == "initialize" || entry::says_version(request.params.as_deref())
    }

    /// Whether messages may come in arrays.
    pub(crate) fn has_batches(&self) -> bool {
        self.revision().is_some_and(Revision::has_batches)
    }

    /// Whether a client may have been told that an event stream can pause and be resumed.
    pub(crate) fn has_polling(&self) -> bool {
        self.revision().is_some_and(Revision::has_polling)
    }

    /// What a handshake agreed on.
    fn revision(&self) -> Option<Revision> {
        Some(self.session.as_ref()?.handshake()?.revision)
    }

    /// A request that came with headers, which must say what it says. `Err` is a request that was
    /// refused before anything ran.
    pub(crate) fn post(
        &self,
        request: Request,
        headers: &HeaderMap,
        extensions: Extensions,
    ) -> Result<Frames, RpcError> {
        self.request(request, Some(headers), extensions).map_err(|(_, error)| error)
    }

    fn request(
        &self,
        request: Request,
        headers: Option<&HeaderMap>,
        extensions: Extensions,
    ) -> Result<Frames, (Id, RpcError)> {
        let Entered { revision, caller, step } =
            match entry::enter(self, &request, headers, &extensions) {
                Ok(entered) => entered,
                Err(error) => return Err((request.id, error)),
            };
        let id = request.id;
        match step {
            Step::Reply(reply) => Ok(Frames::One(self.response(id, revision, *reply))),
            Step::Fail(error) => {
                Ok(Frames::One(Frame::Response(Response { id: Some(id), result: Err(error) })))
            }
            Step::Call(op, retry) => self.run(id, revision, caller, op, retry, extensions),
            Step::Listen(filter) => self.listen(id, revision, filter),
            Step::Remember(change) => Ok(self.remember(id, revision, change)),
        }
    }

    /// Runs an operation: what it reports, and its response last.
    fn run(
        &self,
        id: Id,
        revision: Revision,
        caller: Caller,
        op: Op,
        retry: Option<Retry>,
        extensions: Extensions,
    ) -> Result<Frames, (Id, RpcError)> {
        let cancel = CancellationToken::new();
        let registered = self.register(&id, &cancel)?;
        let report = Report::new(self, revision, &caller, retry, &extensions);
        let ctx = Ctx::new(report.clone(), self.about(caller, cancel.clone(), extensions));
        let (runtime, lists, reported) = (self.runtime.clone(), self.lists.clone(), report.clone());
        let answer = async move {
            let result = match reported.claim(&runtime).await {
                Ok(()) => {
                    let outcome = runtime.call(Call { op, ctx }).await;
                    render::outcome(&runtime, &lists, revision, &reported, outcome)
                }
                Err(error) => Err(error),
            };
            Frame::Response(Response { id: Some(id), result })
        };
        let running = Running::new(answer, report, cancel.clone());
        Ok(match registered {
            None => Frames::stream(running),
            Some(registered) => Frames::stream(registered.keep(running, cancel)),
        })
    }

    /// Tells of changes until the client or the server has enough.
    fn listen(&self, id: Id, revision: Revision, filter: Filter) -> Result<Frames, (Id, RpcError)> {
        let cancel = CancellationToken::new();
        let registered = self.register(&id, &cancel)?;
        let mut end = Reply::new(Body::Empty {});
        end.meta.subscription_id = Some(id.clone());
        let end = self.response(id.clone(), revision, end);
        let frames = listen::listen(&self.runtime, id, filter, self.closing.clone(), end);
        Ok(match registered {
            None => Frames::stream(frames),
            Some(registered) => Frames::stream(registered.keep(frames, cancel)),
        })
    }

    /// Notes something for the session. It holds at once; it is answered when it is kept.
    fn remember(&self, id: Id, revision: Revision, change: Remember) -> Frames {
        let Some(session) = self.session.clone() else { return Frames::None };
        session.remember(&change);
        let mcp = self.clone();
        Frames::stream(stream::once(async move {
            match session.keep(&mcp.runtime, &change).await {
                Ok(()) => mcp.response(id, revision, Reply::new(Body::Empty {})),
                Err(error) => {
                    let result = Err(RpcError::internal(error.to_string()));
                    Frame::Response(Response { id: Some(id), result })
                }
            }
        }))
    }

    fn about(&self, caller: Caller, cancelled: CancellationToken, extensions: Extensions) -> About {
        About {
            principal: Principal::of(&extensions),
            client: caller.capabilities,
            trace: caller.trace,
            cancelled,
            extensions,
            changes: self.runtime.changes.clone(),
            keys: self.runtime.keys.clone(),
        }
    }

    /// Makes a request cancellable by its id, where ids belong to one peer.
    fn register(
        &self,
        id: &Id,
        cancel: &CancellationToken,
    ) -> Result<Option<session::Registered>, (Id, RpcError)> {
        let Some(session) = &self.session else {
            return Ok(None);
        };
        session.register(id, cancel).map(Some).ok_or_else(|| {
            let why = "this id is in use by a request that has not been answered";
            (id.clone(), RpcError::invalid_request(why))
        })
    }

    fn response(&self, id: Id, revision: Revision, mut reply: Reply) -> Frame {
        reply.meta.server_info = Some(self.runtime.info_json.clone());
        downgrade(&mut reply, revision);
        Frame::Response(Response { id: Some(id), result: Ok(json_text(&reply)) })
    }

    fn notified(&self, notification: &Notification) {
        let Some(session) = &self.session else { return };
        if &*notification.method == "notifications/cancelled"
            && let Ok(params) = Params::parse(notification.params.as_deref())
            && let Some(id) = params.request_id.and_then(|raw| Id::from_json(raw.get()))
        {
            session.cancel(&id);
        }
    }
}

impl Peer for Mcp {
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames {
        match frame {
            Frame::Request(request) => {
                self.request(request, None, extensions).unwrap_or_else(|(id, error)| {
                    Frames::One(Frame::Response(Response { id: Some(id), result: Err(error) }))
                })
            }
            Frame::Response(response) => match &self.session {
                Some(session) => session.answered(response, &self.runtime.store),
                None => Frames::None,
            },
            Frame::Notification(notification) => {
                self.notified(&notification);
                Frames::None
            }
        }
    }

    fn events(&self) -> Frames {
        let Some(session) = &self.session else {
            return Frames::None;
        };
        Frames::stream(listen::events(&self.runtime, session.clone(), None).map(|(_, frame)| frame))
    }
}

impl Mcp {
    /// Like [`Peer::events`], each with its position, from one on.
    pub(crate) fn events_after(
        &self,
        position: Option<u64>,
    ) -> impl futures_util::Stream<Item = (Option<u64>, Frame)> + Send + use<> {
        let session = self.session.clone().unwrap_or_default();
        listen::events(&self.runtime, session, position)
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}
