//! Calls whose process died: made again here, when their client asks for the rest.

use super::{
    Shared,
    resume::{Adopting, Made},
    sessions::{Live, end},
};
use crate::{auth::Caller, store::StoreResult};
use ::http::Extensions;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

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
    pub(super) async fn find(
        http: &Shared,
        live: Arc<Live>,
        stream: u64,
        extensions: Extensions,
    ) -> StoreResult<Option<Self>> {
        let Some(opened) = live.replay().opened(stream).await? else { return Ok(None) };
        // This process does not have the stream, so the call has ended here.
        if live.mcp.runtime().presence().is_own(&opened.name) {
            return Ok(None);
        }
        Ok(Some(Self { live, tracker: http.tracker.clone(), stream, extensions }))
    }

    /// Makes the call again here if the process that made it is dead, and says so if that is not
    /// safe. The layers decide again, by what the caller may do now and might then. A call that was
    /// cancelled meanwhile ends instead.
    pub(super) async fn go_on_if_dead(&mut self) {
        // Read anew each time: whoever took the call up may have died, too.
        let replay = self.live.replay();
        let Ok(Some(opened)) = replay.opened(self.stream).await else { return };
        let presence = self.live.mcp.runtime().presence();
        if presence.is_own(&opened.name)
            || !matches!(presence.is_alive(&opened.name).await, Ok(false))
            || !matches!(replay.claim(self.stream, &opened).await, Ok(true))
        {
            return;
        }
        match self.live.mcp.was_cancelled(&opened.request.id).await {
            Ok(false) => (),
            Ok(true) => return end(&replay, self.stream).await,
            // The claim expires, and then somebody tries again.
            Err(error) => return tracing::warn!("a call waits to be taken over: {error}"),
        }
        let now = Caller::of(&self.extensions);
        let Some(caller) = opened.caller.taken_up_by(&now) else {
            return end(&replay, self.stream).await;
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
}
