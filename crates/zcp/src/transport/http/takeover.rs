//! Calls whose process died: made again here, when their client asks for the rest.

use super::{
    Shared,
    replay::{Follow, Opened},
    resume::{Adopting, Made},
    sessions::{Live, end},
};
use crate::auth::Caller;
use ::http::Extensions;
use std::sync::Arc;
use tokio_util::task::TaskTracker;
use zcp_wire::Id;

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

    /// Makes the call again here if the process that made it is dead, and says so if that is not
    /// safe. The layers decide again, by what the caller may do now and might then. A call that was
    /// cancelled meanwhile ends instead.
    pub(super) async fn go_on_if_dead(&mut self, opened: Opened) {
        let replay = self.live.replay();
        let presence = self.live.mcp.runtime().presence();
        if presence.is_own(&opened.name)
            || !matches!(presence.is_alive(&opened.name).await, Ok(false))
            || !matches!(replay.claim(self.stream, &opened).await, Ok(true))
        {
            return;
        }
        match self.live.mcp.was_cancelled(&opened.request.id).await {
            Ok(false) => (),
            Ok(true) => return self.end(&opened.request.id).await,
            // The claim expires, and then somebody tries again.
            Err(error) => return tracing::warn!("a call waits to be taken over: {error}"),
        }
        let now = Caller::of(&self.extensions);
        let Some(caller) = opened.caller.taken_up_by(&now) else {
            return self.end(&opened.request.id).await;
        };
        let mut extensions = self.extensions.clone();
        if caller != Caller::ANONYMOUS {
            extensions.insert(caller.clone());
        }
        let again = self.live.mcp.again(&opened.request, extensions);
        let (live, tracker) = (self.live.clone(), self.tracker.clone());
        let made = Made { request: opened.request, caller };
        Adopting::go_on(live, tracker, self.stream, made, again).await;
    }

    /// Nobody goes on with the call.
    async fn end(&self, id: &Id) {
        end(&self.live.replay(), self.stream).await;
        if let Some(call) = self.live.mcp.opened_call(id) {
            call.close().await;
        }
    }
}
