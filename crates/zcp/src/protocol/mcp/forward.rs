//! Answers to questions that reached another process of the session than the one that waits for them.

use super::{open_call::holds, session::Session};
use crate::{
    runtime::{Runtime, roots},
    store::{
        Bound, Store, StoreError, StoreResult,
        counted_logs::{CountedLogs, Log},
    },
};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::{StreamExt, stream};
use std::{sync::Arc, time::Duration};
use zcp_wire::{Frame, Frames, Id, Response, RpcError, pending::Reply};

/// Messages of a kind that may be on their way in one session.
const FORWARDED: Bound = Bound { entries: 16, bytes: 1024 * 1024 };
/// How long they are kept for the process that waits.
const FORWARDED_KEPT: Duration = Duration::from_secs(5 * 60);
/// Questions of one session that may be answered by way of another process.
const QUESTIONS: Bound = Bound { entries: 64, bytes: 64 * 1024 };
/// How long a question may be open.
const QUESTIONS_KEPT: Duration = Duration::from_secs(60 * 60);

impl Session {
    /// Notes that this process asks a question, so that its answer may come by way of another.
    pub(super) async fn asks(&self, id: &Id, runtime: &Runtime) {
        let Some(log) = self.log("questions") else { return };
        let entry = Bytes::copy_from_slice(id.as_json().as_bytes());
        let (logs, store) = (runtime.shelf::<CountedLogs>(), &*runtime.store);
        let log = Log { name: &log, bound: QUESTIONS, kept: QUESTIONS_KEPT, owner: &self.share() };
        if let Err(error) = logs.append(store, log, entry).await {
            tracing::warn!("a question can be answered by way of this process only: {error}");
        }
    }

    /// Hands an answer to the question here, or to the process that asked it. What nobody asked is
    /// dropped.
    pub(super) fn answered(&self, response: Response, runtime: &Runtime) -> Frames {
        let Some(response) = self.pending().close(response) else { return Frames::None };
        // What was asked here was answered before, or nobody waits for it any more.
        if response.id.as_ref().is_some_and(|id| self.pending().is_own(id)) {
            return Frames::None;
        }
        let (Some(asked), Some(log)) = (self.log("questions"), self.log("answers")) else {
            return Frames::None;
        };
        let (store, logs) = (runtime.store.clone(), runtime.shelf::<CountedLogs>());
        let owner = self.share();
        silently(async move {
            let Some(id) = &response.id else { return Ok(()) };
            if !holds(&*store, &asked, id).await? {
                return Ok(());
            }
            let id = response.id.clone();
            let forward = async |response| {
                let text = Frame::Response(response).to_text().into_bytes();
                let (bound, kept) = (FORWARDED, FORWARDED_KEPT);
                let log = Log { name: &log, bound, kept, owner: &owner };
                logs.append(&*store, log, text).await
            };
            let forwarded = match forward(response).await {
                Err(StoreError::TooLarge { limit, .. }) => {
                    let why = format!(
                        "the answer is too large to reach another server: it may have {limit} bytes"
                    );
                    forward(Response { id, result: Err(RpcError::internal(why)) }).await
                }
                forwarded => forwarded,
            };
            forwarded.map(drop)
        })
    }

    /// The answer to a question of this process that another process was given.
    pub(super) async fn answered_elsewhere(&self, id: &Id, store: &Arc<dyn Store>) -> Reply {
        let Some(log) = self.log("answers") else { return std::future::pending().await };
        let mut grown = store.watch(&log);
        // Each answer is looked at once.
        let mut position = 0;
        loop {
            let new = match store.after(&log, position).await {
                Err(StoreError::Gone) => store.after(&log, 0).await,
                new => new,
            };
            for (at, text) in new.unwrap_or_default() {
                position = at;
                let frame =
                    ByteString::try_from(text).ok().and_then(|text| Frame::parse(&text).ok());
                if let Some(Frame::Response(response)) = frame
                    && response.id.as_ref() == Some(id)
                {
                    return response.result;
                }
            }
            if grown.next().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    pub(super) fn log(&self, kind: &str) -> Option<String> {
        self.id().map(|id| format!("{kind}/{id}"))
    }

    /// Forgets what was forwarded in a session.
    pub(super) async fn forget_forwarded(runtime: &Runtime, id: &str) -> StoreResult<()> {
        let logs = runtime.shelf::<CountedLogs>();
        for kind in ["questions", "answers", "cancels"] {
            logs.remove(&*runtime.store, &format!("{kind}/{id}")).await?;
        }
        logs.remove(&*runtime.store, &roots::log(id)).await
    }
}

/// Work that is answered with nothing.
pub(super) fn silently(work: impl Future<Output = StoreResult<()>> + Send + 'static) -> Frames {
    let silent = stream::once(async move {
        if let Err(error) = work.await {
            tracing::warn!("a message for another process is lost: {error}");
        }
        None::<Frame>
    });
    Frames::stream(silent.filter_map(std::future::ready))
}
