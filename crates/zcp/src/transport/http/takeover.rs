//! Calls whose process died: made again here, when their client asks for the rest.

use super::{
    Shared,
    replay::Follow,
    resume::Adopting,
    sessions::{Live, end},
};
use crate::{
    auth::{Caller, StoredCaller},
    protocol::mcp::Mcp,
    runtime::Runtime,
    store::{If, StoreResult},
};
use ::http::Extensions;
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;
use zcp_wire::{Frame, Frames, Id, Request, json};

/// Bytes of parameters with which a request is made again if its process dies.
const LARGEST_REQUEST: usize = 64 * 1024;
/// How long whoever goes on with a call has to say so.
const CLAIM: Duration = Duration::from_secs(12);

/// A request, and who made it.
pub(super) struct Made {
    pub(super) request: Request,
    pub(super) caller: Caller,
}

/// A call under way, and the process that answers it.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) made: Made,
}

impl Opened {
    /// None if it cannot be read: nobody goes on with that.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(' ')?;
        let (caller, request) = rest.split_once('\n')?;
        let caller = serde_json::from_str::<StoredCaller>(caller).ok()?.read()?;
        let Ok(Frame::Request(request)) = Frame::parse(&request.into()) else { return None };
        Some(Self { name: name.to_owned(), made: Made { request, caller } })
    }

    /// As stores hold it. A large request is not kept for the rare case that this process dies: it
    /// is not made again.
    pub(super) fn to_text(&self) -> String {
        let Self { name, made: Made { request, caller } } = self;
        let caller = json::text(&StoredCaller::from(caller));
        let mut request = request.clone();
        request.params.take_if(|params| params.len() > LARGEST_REQUEST);
        // Neither is more than a line.
        format!("{name} {caller}\n{}", Frame::Request(request).to_text())
    }

    /// Whether its process is dead, and nobody else has begun to go on with the call. `call` is
    /// what the store names it by.
    pub(super) async fn is_left(&self, call: &str, runtime: &Runtime) -> bool {
        let presence = runtime.presence();
        if presence.is_own(&self.name) || !matches!(presence.is_alive(&self.name).await, Ok(false))
        {
            return false;
        }
        let key = format!("revived/{call}/{}", self.name);
        let claimed = runtime.store.put(&key, Bytes::new(), If::Absent, Some(CLAIM)).await;
        matches!(claimed, Ok(true))
    }

    /// Makes a call again that was left, and says so if that is not safe. The layers decide again,
    /// by what the caller may do now and might then. None if nobody goes on with it: it was
    /// cancelled meanwhile, is another caller's, or its caller has expired.
    pub(super) async fn again(
        self,
        mcp: &Mcp,
        extensions: &Extensions,
    ) -> StoreResult<Option<(Made, Frames)>> {
        let Made { request, caller } = self.made;
        if mcp.was_cancelled(&request.id).await? {
            return Ok(None);
        }
        let caller = caller.taken_up_by(&Caller::of(extensions));
        let Some(caller) = caller.filter(|caller| !caller.is_expired()) else { return Ok(None) };
        let mut extensions = extensions.clone();
        if caller != Caller::ANONYMOUS {
            extensions.insert(caller.clone());
        }
        let again = mcp.again(&request, extensions);
        Ok(Some((Made { request, caller }, again)))
    }
}

/// A call that another process answers, if that is still there.
pub(super) struct Elsewhere {
    live: Arc<Live>,
    tracker: TaskTracker,
    stream: u64,
    extensions: Extensions,
}

impl Elsewhere {
    /// None if no process answers the call: it has ended, or nobody ever said that it would be
    /// answered.
    pub(super) fn find(
        http: &Shared,
        live: Arc<Live>,
        follow: &Follow,
        stream: u64,
        extensions: Extensions,
    ) -> Option<Self> {
        let opened = follow.opened()?;
        // This process does not have the stream, so the call has ended here.
        if live.mcp.runtime().presence().is_own(&opened.name) {
            return None;
        }
        Some(Self { live, tracker: http.tracker.clone(), stream, extensions })
    }

    /// Makes the call again here if the process that made it is dead. One that was cancelled
    /// meanwhile ends instead.
    pub(super) async fn go_on_if_dead(&mut self, opened: Opened) {
        let call = self.live.replay().name_of(self.stream);
        if !opened.is_left(&call, self.live.mcp.runtime()).await {
            return;
        }
        let id = opened.made.request.id.clone();
        match opened.again(&self.live.mcp, &self.extensions).await {
            Ok(Some((made, again))) => {
                let (live, tracker) = (self.live.clone(), self.tracker.clone());
                Adopting::go_on(live, tracker, self.stream, made, again).await;
            }
            Ok(None) => self.end(&id).await,
            // The claim expires, and then somebody tries again.
            Err(error) => tracing::warn!("a call waits to be taken over: {error}"),
        }
    }

    /// Nobody goes on with the call.
    async fn end(&self, id: &Id) {
        end(&self.live.replay(), self.stream).await;
        if let Some(call) = self.live.mcp.opened_call(id) {
            call.close().await;
        }
    }
}
