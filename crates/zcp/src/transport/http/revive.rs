//! Calls whose process died: made again here, when their client asks for the rest.

use super::{Shared, resume::Adopting, sessions::Live};
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
    /// None if nobody ever said that it would be answered.
    pub(super) async fn find(
        http: &Shared,
        live: Arc<Live>,
        stream: u64,
        extensions: Extensions,
    ) -> Option<Self> {
        live.replay().opened(stream).await.ok()??;
        Some(Self { live, tracker: http.tracker.clone(), stream, extensions })
    }

    /// Makes the call again here if whoever made it is dead, and says so if that is not safe.
    pub(super) async fn go_on_if_dead(&mut self) {
        // Read anew each time: whoever took the call up may have died, too.
        let Ok(Some(opened)) = self.live.replay().opened(self.stream).await else { return };
        let presence = self.live.mcp.runtime().presence();
        let dead = match presence.is_own(&opened.name) {
            true => !self.live.is_under_way(self.stream),
            false => matches!(presence.is_alive(&opened.name).await, Ok(false)),
        };
        if !dead || !matches!(self.live.replay().claim(self.stream, &opened).await, Ok(true)) {
            return;
        }
        let again = self.live.mcp.again(&opened.request, self.extensions.clone());
        let (live, tracker) = (self.live.clone(), self.tracker.clone());
        Adopting::go_on(live, tracker, self.stream, opened.request, again).await;
    }
}
