//! MCP, every revision: one conversation.

mod capabilities;
mod entry;
mod forward;
mod guarded;
mod handshake;
mod headers;
mod listen;
mod lists;
pub(crate) mod open_call;
mod operation;
mod render;
mod report;
mod retry;
mod running;
pub(crate) mod session;
mod subscribed;
mod tasks;

use crate::{
    auth::Caller,
    runtime::{
        Runtime,
        call::{Call, Op},
        ctx::{Ctx, Release},
    },
    sync::holding,
};
use entry::{Client, Clients, Entered, Entry, Step};
use futures_util::{StreamExt, stream};
use http::{Extensions, HeaderMap};
use lists::Lists;
use report::Report;
use retry::Retry;
use running::Running;
use session::{Registered, Remember, Session, Stoppable};
use std::{
    fmt,
    sync::{Arc, LazyLock},
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Batch, Frame, Frames, Id, Malformed, Method, Peer, Request, Response, Revision, RpcError,
    downgrade::downgrade,
    mcp::{Body, Reply, subscriptions::Filter},
    params::Params,
};

pub(crate) use capabilities::versions;
pub(crate) use entry::{Route, check_session_version, route};

/// Messages that one batch may have.
const MAX_BATCH: usize = 100;

/// One conversation in MCP: a process, a socket, a session, or requests that remember nothing.
#[derive(Clone)]
pub struct Mcp {
    runtime: Runtime,
    lists: Arc<Lists>,
    clients: Arc<Clients>,
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
        runtime.keep_tasks();
        Self { lists: runtime.shelf(), clients: runtime.shelf(), runtime, session, closing }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Cancelled when what would never end by itself ends.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
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
        let params = Params::parse(request.params.as_deref());
        request.method.is(Method::Initialize) || params.is_ok_and(|params| params.says_version())
    }

    /// Whose share of what the process keeps the conversation counts for.
    pub(crate) fn share(&self) -> Arc<str> {
        self.session.as_ref().map(|session| session.share()).unwrap_or_default()
    }

    /// The messages of a batch: each is read, or is none.
    pub(crate) fn batch(&self, batch: &Batch) -> Result<Vec<Result<Frame, Malformed>>, Malformed> {
        if !self.revision().is_some_and(Revision::has_batches) {
            let why = "this revision has no batches: send one message at a time";
            return Err(RpcError::invalid_request(why).into());
        }
        batch.frames(MAX_BATCH)
    }

    /// Whether a client may have been told that an event stream can pause and be resumed.
    pub(crate) fn has_polling(&self) -> bool {
        self.revision().is_some_and(Revision::has_polling)
    }

    /// Whether there was a handshake.
    pub(crate) fn is_open(&self) -> bool {
        self.revision().is_some()
    }

    /// What a handshake agreed on.
    fn revision(&self) -> Option<Revision> {
        Some(self.session.as_ref()?.handshake()?.revision)
    }

    /// A request that came with headers, which must say what it says. `Err` is a request that was
    /// refused before anything ran.
    pub(crate) fn post(
        &self,
        request: &Request,
        params: &Params<'_>,
        headers: &HeaderMap,
        extensions: Arc<Extensions>,
    ) -> Result<Frames, RpcError> {
        let carried = Carried { extensions, release: None };
        self.request(request, params, Some(headers), carried)
    }

    /// A request of a conversation; its client may be let go if there is a way to say so.
    pub(crate) fn call(
        &self,
        request: &Request,
        params: &Params<'_>,
        extensions: Arc<Extensions>,
        release: Option<Release>,
    ) -> Frames {
        self.request(request, params, None, Carried { extensions, release })
            .unwrap_or_else(|error| failed(&request.id, error))
    }

    /// A request whose process died before it was answered, made once more if that is safe.
    pub(crate) fn again(&self, request: &Request, extensions: Extensions) -> Frames {
        match Params::parse(request.params.as_deref()) {
            Ok(params) if self.may_be_made_again(request, &params) => {
                self.call(request, &params, shared(extensions), None)
            }
            _ => {
                let why = "the server that ran this was stopped before it was done: \
                    call again if doing it twice is safe";
                failed(&request.id, RpcError::internal(why))
            }
        }
    }

    fn may_be_made_again(&self, request: &Request, params: &Params<'_>) -> bool {
        let name = || serde_json::from_str::<String>(params.name.unwrap_or_default()).ok();
        let tool = || name().is_some_and(|name| self.runtime.may_run_twice(&name));
        // A method that there is not does nothing.
        request.method.known().is_none_or(|method| method.may_repeat(tool))
    }

    fn request(
        &self,
        request: &Request,
        params: &Params<'_>,
        headers: Option<&HeaderMap>,
        carried: Carried,
    ) -> Result<Frames, RpcError> {
        self.runtime.keep_tasks();
        params.checked()?;
        let Entered { entry, client, step } =
            entry::enter(self, request, params, headers, &carried.extensions)?;
        let id = request.id.clone();
        match step {
            Step::Reply(reply) => Ok(Frames::One(self.response(id, entry.revision, *reply))),
            Step::Fail(error) => Ok(failed(&id, error)),
            Step::Call(op, retry) => self.run(id, entry, client, op, retry, carried),
            Step::Await(task) => self.wait_for(id, entry, client, task, carried),
            Step::Guarded(op, then) => self.guarded(id, entry, client, op, then, carried),
        }
    }

    /// Runs an operation: what it reports, and its response last.
    fn run(
        &self,
        id: Id,
        entry: Entry,
        client: Client,
        op: Op,
        retry: Option<Retry>,
        carried: Carried,
    ) -> Result<Frames, RpcError> {
        let revision = entry.revision;
        let report = Report::new(self, entry, client, retry, carried);
        let registered = self.register(&id, || report.clone())?;
        let (lists, reported) = (self.lists.clone(), report.clone());
        let answer = async move {
            if let Err(error) = reported.claim().await {
                return Frame::Response(Response { id: Some(id), result: Err(error) });
            }
            let ctx = Ctx::new(reported.clone());
            // Held until the result of a task is a text.
            let _reading = match &op {
                Op::Task(_) => reported.runtime().engine().reading().await,
                _ => None,
            };
            let outcome = reported.runtime().call(Call { op, ctx }).await;
            Frame::Response(render::response(id, &lists, revision, &reported, outcome))
        };
        Ok(Frames::stream(Running::new(answer, report, registered)))
    }

    /// Waits for a task: what it tells and asks meanwhile, and its result last.
    fn wait_for(
        &self,
        id: Id,
        entry: Entry,
        client: Client,
        task: String,
        carried: Carried,
    ) -> Result<Frames, RpcError> {
        let revision = entry.revision;
        let report = Report::new(self, entry, client, None, carried);
        let registered = self.register(&id, || report.clone())?;
        let (lists, reported) = (self.lists.clone(), report.clone());
        let answer = async move {
            let (outcome, _reading) = tasks::result(&reported, revision, task).await;
            Frame::Response(render::response(id, &lists, revision, &reported, outcome))
        };
        Ok(Frames::stream(Running::new(answer, report, registered)))
    }

    /// Tells of changes until the client or the server has enough.
    fn listen(
        &self,
        id: Id,
        revision: Revision,
        filter: Filter,
        extensions: Arc<Extensions>,
    ) -> Result<Frames, RpcError> {
        let caller = Caller::of(&extensions);
        let cancel = CancellationToken::new();
        let registered = self.register(&id, || Arc::new(cancel.clone()))?;
        let mut end = Reply::new(Body::Empty {});
        end.meta.subscription_id = Some(id.clone());
        let end = self.response(id.clone(), revision, end);
        let share = subscribed::share(&extensions, "");
        let principal = caller.principal().clone();
        let wanted = listen::Wanted { revision, filter, principal, share };
        let frames = listen::listen(&self.runtime, id, wanted, self.closing.clone(), end);
        let frames = frames.take_until(cancel.cancelled_owned()).take_until(caller.expired());
        // Its id is in use until it ends, and the room that its message takes.
        Ok(Frames::stream(holding(frames, (registered, extensions))))
    }

    /// Notes something for the session. It holds at once; it is answered when it is kept.
    fn remember(
        &self,
        id: Id,
        revision: Revision,
        change: Remember,
        extensions: &Extensions,
    ) -> Frames {
        let Some(session) = self.session.clone() else { return Frames::None };
        let share = subscribed::share(extensions, &session.conversation());
        if !session.remember(&self.runtime, &change, &share) {
            let why = "your sessions, or all of this server, have too many subscriptions: \
                unsubscribe from some, or try again later";
            let result = Err(RpcError::internal(why));
            return Frames::One(Frame::Response(Response { id: Some(id), result }));
        }
        let mcp = self.clone();
        Frames::stream(stream::once(async move {
            match session.keep(&mcp.runtime, &change).await {
                Ok(()) => mcp.response(id, revision, Reply::new(Body::Empty {})),
                Err(error) => {
                    let result = Err(RpcError::internal(error.for_clients()));
                    Frame::Response(Response { id: Some(id), result })
                }
            }
        }))
    }

    /// Makes a request cancellable by its id, where ids belong to one peer.
    fn register<S: Stoppable>(
        &self,
        id: &Id,
        work: impl FnOnce() -> Arc<S>,
    ) -> Result<Option<Registered>, RpcError> {
        let Some(session) = &self.session else {
            return Ok(None);
        };
        session.register(id, work()).map(Some).ok_or_else(|| {
            let why = "this id is in use by a request that has not been answered";
            RpcError::invalid_request(why)
        })
    }

    fn response(&self, id: Id, revision: Revision, mut reply: Reply) -> Frame {
        reply.meta.server_info = Some(self.runtime.info_json.clone());
        downgrade(&mut reply, revision);
        Frame::Response(Response::write(id, reply.length(), |out| reply.write(out)))
    }
}

/// What a request's wire gives along.
struct Carried {
    extensions: Arc<Extensions>,
    release: Option<Release>,
}

/// Most requests carry nothing, and share that.
pub(crate) fn shared(extensions: Extensions) -> Arc<Extensions> {
    static NOTHING: LazyLock<Arc<Extensions>> = LazyLock::new(Arc::default);
    if extensions.is_empty() { NOTHING.clone() } else { Arc::new(extensions) }
}

fn failed(id: &Id, error: RpcError) -> Frames {
    Frames::One(Frame::Response(Response { id: Some(id.clone()), result: Err(error) }))
}

impl Peer for Mcp {
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames {
        match frame {
            Frame::Request(request) => match Params::parse(request.params.as_deref()) {
                Ok(params) => self.call(&request, &params, shared(extensions), None),
                Err(error) => failed(&request.id, error),
            },
            Frame::Response(response) => self.answered(response, extensions),
            Frame::Notification(notification) => self.notified(notification, extensions),
            _ => Frames::None,
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
