//! What changes at the server, as a stream.

use super::Connection;
use crate::{error::Result, request::change::Change};
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use zcp_wire::mcp::subscriptions::Filter;

/// How long to wait before a lost subscription is made again, at first and at most.
pub(super) const FIRST: Duration = Duration::from_millis(200);
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// Changes as they come. Dropping it ends the subscription.
pub struct Changes {
    stream: BoxStream<'static, Change>,
    honoured: Filter,
}

impl Changes {
    pub(crate) async fn open(connection: &Arc<Connection>, filter: Filter) -> Result<Self> {
        let link = connection.link().await?;
        link.dialect.listen(connection.clone(), filter).await
    }

    /// The changes that `next` gives until it gives none.
    pub(super) fn new<S: Send + 'static, F>(
        honoured: Filter,
        state: S,
        next: impl FnMut(S) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Option<(Change, S)>> + Send + 'static,
    {
        Self { stream: stream::unfold(state, next).boxed(), honoured }
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

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("honoured", &self.honoured).finish_non_exhaustive()
    }
}
