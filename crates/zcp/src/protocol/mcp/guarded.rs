//! What a peer does to the conversation itself, once the layers allow it: open it, subscribe, listen,
//! set a level, cancel, answer.

use super::{
    Carried, Mcp, capabilities,
    entry::{Client, Entry, Then},
    failed, forward, render,
    report::Report,
    session::{Remember, SUBSCRIBED_BYTES, SUBSCRIPTIONS},
    shared,
};
use crate::runtime::{
    call::{Call, Op, Outcome},
    ctx::Ctx,
    tasks::TaskOp,
};
use bytestring::ByteString;
use futures_util::{StreamExt, stream};
use http::Extensions;
use std::sync::{Arc, atomic::Ordering};
use zcp_wire::{
    Frame, Frames, Id, Method, Notification, Response, Revision, RpcError, params::Params,
};

impl Mcp {
    /// Does something about the conversation itself, if the layers allow it.
    pub(super) fn guarded(
        &self,
        id: Id,
        entry: Entry,
        client: Client,
        op: Op,
        then: Then,
        carried: Carried,
    ) -> Result<Frames, RpcError> {
        let extensions = carried.extensions.clone();
        if !self.runtime.is_layered() {
            return self.then(id, entry.revision, then, extensions);
        }
        let revision = entry.revision;
        let report = Report::new(self, entry, client, None, carried);
        let mcp = self.clone();
        Ok(Frames::stream(
            stream::once(async move {
                let call = Call { op, ctx: Ctx::new(report.clone()) };
                match mcp.runtime.call(call).await {
                    Outcome::Done => {
                        let then = mcp.without_denied_tasks(then, &report).await;
                        let done = mcp.then(id.clone(), revision, then, extensions);
                        done.unwrap_or_else(|error| failed(&id, error))
                    }
                    outcome => {
                        let response = render::response(id, &mcp.lists, revision, &report, outcome);
                        Frames::One(Frame::Response(response))
                    }
                }
            })
            .flatten(),
        ))
    }

    fn then(
        &self,
        id: Id,
        revision: Revision,
        then: Then,
        extensions: Arc<Extensions>,
    ) -> Result<Frames, RpcError> {
        let reply = match then {
            Then::Discover => capabilities::discover(&self.runtime),
            Then::Open(handshake) => {
                if let Some(session) = &self.session {
                    session.open(&self.runtime, revision, *handshake);
                }
                capabilities::initialize(&self.runtime, revision)
            }
            Then::Listen(filter) => return self.listen(id, revision, filter, extensions),
            Then::Subscribe(uri) => {
                self.check_subscription(revision, &uri)?;
                let change = Remember::Subscribe(uri);
                return Ok(self.remember(id, revision, change, &extensions));
            }
            Then::Remember(change) => {
                return Ok(self.remember(id, revision, change, &extensions));
            }
        };
        Ok(Frames::One(self.response(id, revision, reply)))
    }

    /// Leaves out the tasks that the caller may not look at: listening to one tells what looking
    /// at it does.
    async fn without_denied_tasks(&self, then: Then, report: &Arc<Report>) -> Then {
        let Then::Listen(mut filter) = then else { return then };
        report.about.is_counted.store(true, Ordering::Relaxed);
        let mut allowed = vec![];
        for id in filter.task_ids {
            let op = Op::Task(TaskOp::Get { id: id.clone() });
            let call = Call { op, ctx: Ctx::new(report.clone()) };
            if matches!(self.runtime.call(call).await, Outcome::Task(_)) {
                allowed.push(id);
            }
            // With a store in memory nothing else here waits.
            tokio::task::yield_now().await;
        }
        filter.task_ids = allowed;
        Then::Listen(filter)
    }

    /// Whether the session may be told of a resource. Only now: a caller whom the layers deny it
    /// learns nothing of what is there.
    fn check_subscription(&self, revision: Revision, uri: &str) -> Result<(), RpcError> {
        let has_room = self.session.as_ref().is_some_and(|session| session.may_subscribe(uri));
        if !has_room {
            return Err(RpcError::invalid_params(format!(
                "a session may subscribe to {SUBSCRIPTIONS} resources, whose URIs have \
                 {SUBSCRIBED_BYTES} bytes: unsubscribe from some"
            )));
        }
        match self.runtime.catalog().find_resource(uri) {
            Some(_) => Ok(()),
            None => Err(render::no_resource(revision, uri)),
        }
    }

    /// Asks the layers whether something may be done that is no request.
    async fn allows(
        &self,
        op: Op,
        params: Option<ByteString>,
        extensions: Extensions,
    ) -> Result<(), RpcError> {
        if !self.runtime.is_layered() {
            return Ok(());
        }
        let revision = self.revision().unwrap_or(Revision::LATEST_HANDSHAKE);
        let client = Client { params, ..Client::default() };
        let carried = Carried { extensions: shared(extensions), release: None };
        let entry = Entry::in_session(revision, None);
        let ctx = Ctx::new(Report::new(self, entry, client, None, carried));
        match self.runtime.call(Call { op, ctx }).await {
            Outcome::Done => Ok(()),
            Outcome::Fault(fault) => Err(render::error(revision, fault)),
            _ => Err(RpcError::internal("a layer answered for something else")),
        }
    }

    /// Asks the layers whether a session's stream of changes may be opened.
    pub(crate) async fn may_listen(&self, extensions: Extensions) -> Result<(), RpcError> {
        if !self.runtime.is_layered() {
            return Ok(());
        }
        let uris = self.session.as_ref().map(|session| session.subscriptions());
        self.allows(Op::Listen { uris: uris.unwrap_or_default() }, None, extensions).await
    }

    /// Asks the layers whether a new connection may continue the session.
    pub(crate) async fn may_resume(&self, extensions: Extensions) -> Result<(), RpcError> {
        self.allows(Op::Resume, None, extensions).await
    }

    /// Asks the layers whether the session may be ended.
    pub(crate) async fn may_close(&self, extensions: Extensions) -> Result<(), RpcError> {
        self.allows(Op::Close, None, extensions).await
    }

    /// Does something that is not answered, if the layers allow it.
    fn unanswered(
        &self,
        op: Op,
        params: Option<ByteString>,
        extensions: Extensions,
        then: impl FnOnce(&Self) -> Frames + Send + 'static,
    ) -> Frames {
        if !self.runtime.is_layered() {
            return then(self);
        }
        let mcp = self.clone();
        Frames::stream(
            stream::once(async move {
                match mcp.allows(op, params, extensions).await {
                    Ok(()) => then(&mcp),
                    Err(error) => {
                        tracing::debug!("a message was ignored: {}", error.message);
                        Frames::None
                    }
                }
            })
            .flatten(),
        )
    }

    pub(super) fn notified(&self, notification: Notification, extensions: Extensions) -> Frames {
        if let Some(session) = self.session.clone()
            && notification.method.is(Method::Cancelled)
            && let Ok(params) = Params::parse(notification.params.as_deref())
            && let Some(id) = params.request_id.and_then(Id::from_json)
        {
            let op = Op::Cancel { id: id.clone() };
            let cancel = move |mcp: &Self| session.cancel(&id, &mcp.runtime);
            return self.unanswered(op, notification.params, extensions, cancel);
        }
        if let Some(session) = self.session.clone()
            && session.handshake().is_some()
            && notification.method.is(Method::RootsChanged)
        {
            let runtime = self.runtime.clone();
            let changed = move |_: &Self| {
                let changed = async move {
                    runtime.roots_changed(&session.conversation(), &session.share()).await
                };
                forward::silently(changed)
            };
            return self.unanswered(Op::RootsChanged, notification.params, extensions, changed);
        }
        Frames::None
    }

    pub(super) fn answered(&self, response: Response, extensions: Extensions) -> Frames {
        let Some(session) = self.session.clone() else { return Frames::None };
        let op = Op::Answer { id: response.id.clone() };
        let answer = move |mcp: &Self| session.answered(response, &mcp.runtime);
        self.unanswered(op, None, extensions, answer)
    }
}
