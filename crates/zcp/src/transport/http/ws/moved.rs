//! Conversations that go on in another process: what they said so far, and what is still to come.

use super::{Begins, Kept, Waiting, forget_later, open_calls};
use crate::{
    auth::Principal,
    protocol::mcp::session::Session,
    store::{Bound, StoreError, StoreResult, counted_logs::CountedLogs},
    transport::http::{Shared, json_answer::unopened},
};
use ::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::StreamExt;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::OwnedSemaphorePermit;

/// Messages on their way from one process to another.
const MAIL: Bound = Bound::entries(1024);
/// How often it is looked whether a conversation's calls have ended.
const LOOK: Duration = Duration::from_millis(100);

/// Where a conversation's former owners send what they still have to say.
pub(super) fn mail(id: &str) -> String {
    ["mail/", id].concat()
}

/// What a conversation said, as far as it is held: each with its number. With it comes the right to
/// have a whole log in memory.
pub(super) async fn said(
    http: &Shared,
    id: &str,
) -> StoreResult<(Vec<(u64, ByteString)>, Option<OwnedSemaphorePermit>)> {
    let reading = http.runtime.shelf::<CountedLogs>().reading().await;
    let held = http.runtime.store.after(&format!("ws/{id}"), 0).await?;
    Ok((held.into_iter().filter_map(|(_, note)| numbered(note)).collect(), reading))
}

fn numbered(note: Bytes) -> Option<(u64, ByteString)> {
    let note = ByteString::try_from(note).ok()?;
    let (number, text) = note.split_once(' ')?;
    Some((number.parse().ok()?, note.slice_ref(text)))
}

/// What former owners of a conversation still had to say, as far as it is held.
pub(super) async fn mailed(http: &Shared, id: &str) -> StoreResult<Vec<ByteString>> {
    let held = http.runtime.store.after(&mail(id), 0).await?;
    Ok(held.into_iter().filter_map(|(_, letter)| content(letter)).collect())
}

fn content(letter: Bytes) -> Option<ByteString> {
    let letter = ByteString::try_from(letter).ok()?;
    letter.strip_prefix('-').map(|text| letter.slice_ref(text))
}

/// A connection that wants to continue a conversation.
pub(super) struct Claim<'a> {
    pub(super) id: &'a str,
    pub(super) principal: Principal,
    pub(super) extensions: &'a Extensions,
    /// How many messages its client has received.
    pub(super) received: u64,
}

impl Claim<'_> {
    /// Whether the layers allow it, and all that its client missed is still there.
    async fn check(&self, http: &Shared, kept: &Kept) -> Result<(), Response> {
        let allowed = kept.mcp.may_resume(self.extensions.clone()).await;
        allowed.map_err(|error| unopened(None, error))?;
        kept.missed(http, self.received).await.map(drop).map_err(|_| {
            let why = "too much was missed, or the count is wrong: connect without `session`\n";
            (StatusCode::GONE, why).into_response()
        })
    }
}

/// The conversation that a connection claims, from here or from another process.
pub(super) async fn find(http: &Arc<Shared>, claim: &Claim<'_>) -> Result<Arc<Kept>, Response> {
    let waiting = http.runtime.shelf::<Waiting>();
    let here = || waiting.find(claim.id);
    let unknown = || {
        let why = "no such session: connect without `session` and start over\n";
        (StatusCode::NOT_FOUND, why).into_response()
    };
    let found = match here() {
        Some(kept) => kept,
        None => {
            let _alone = waiting.moving(claim.id).lock().await;
            match here() {
                Some(kept) => kept,
                // It is checked before it is taken over, and only once: layers may count it.
                None => return take_over(http, claim).await?.ok_or_else(unknown),
            }
        }
    };
    if found.principal != claim.principal {
        return Err(unknown());
    }
    claim.check(http, &found).await?;
    Ok(found)
}

/// Takes over a conversation that began in another process, if it belongs to the caller. Whoever is
/// refused changes nothing there.
async fn take_over(http: &Arc<Shared>, claim: &Claim<'_>) -> Result<Option<Arc<Kept>>, Response> {
    let Claim { id, principal, .. } = claim;
    let failed = |error: StoreError| unavailable(&error);
    let entry = Session::find(&http.runtime, id).await.map_err(failed)?;
    let Some(entry) = entry else { return Ok(None) };
    let name = crate::token()[..12].into();
    let session = Session::restore(&http.runtime, (*id).into(), name, &entry);
    let Some(session) = session.filter(|session| session.belongs_to(principal)) else {
        return Ok(None);
    };
    let kept = Kept::new(http, (*id).to_owned(), Begins::Elsewhere(session), principal.clone());
    let (said, reading) = said(http, id).await.map_err(failed)?;
    kept.said.store(said.last().map_or(0, |(number, _)| *number), Ordering::Relaxed);
    drop((said, reading));
    claim.check(http, &kept).await?;
    kept.session.renew(&http.runtime, &entry).await.map_err(failed)?;
    let notice = Bytes::from(format!("@{}", kept.owner));
    let noted = http.append(&kept.session, &mail(id), notice, MAIL).await;
    let position = noted.map_err(failed)?;
    kept.conversation.tell_changes().await;
    let kept = Arc::new(kept);
    receive(http, &kept, position);
    let taken = kept.take();
    http.runtime.shelf::<Waiting>().keep(http, &kept);
    open_calls::take_up(http, &kept, claim.extensions);
    // Its connection may never come to be.
    forget_later(http, kept.clone(), taken, None);
    Ok(Some(kept))
}

/// Says what former owners still have to say.
fn receive(http: &Arc<Shared>, kept: &Arc<Kept>, mut position: u64) {
    let (store, log) = (http.runtime.store.clone(), mail(&kept.id));
    let (kept, closing) = (Arc::downgrade(kept), kept.mcp.closing());
    let mut grown = store.watch(&log);
    http.tracker.spawn(closing.run_until_cancelled_owned(async move {
        loop {
            for (at, letter) in store.after(&log, position).await.unwrap_or_default() {
                position = at;
                let Some(kept) = kept.upgrade() else { return };
                if let Some(text) = content(letter) {
                    kept.conversation.pass_on(text).await;
                }
            }
            if grown.next().await.is_none() {
                return;
            }
        }
    }));
}

/// Lets a conversation go when another process takes it over, and sends what it still has to say.
pub(super) fn look_out(http: &Arc<Shared>, kept: &Arc<Kept>) {
    let (shared, kept, closing) = (http.clone(), kept.clone(), kept.mcp.closing());
    http.tracker.spawn(async move {
        let Some(()) = closing.run_until_cancelled(taken(&shared, &kept)).await else { return };
        shared.runtime.shelf::<Waiting>().remove(&kept);
        Session::leave(&shared.runtime, &kept.id);
        // Nobody is told of changes here any more; what was called is answered there.
        kept.mcp.close();
        kept.take();
        let inbox = kept.inbox.lock().await;
        let log = mail(&kept.id);
        loop {
            inbox.attend();
            while let Some(text) = inbox.pop() {
                let letter = Bytes::from(format!("-{text}"));
                match shared.append(&kept.session, &log, letter, MAIL).await {
                    Ok(_) => kept.calls.noted(&text),
                    Err(error) => {
                        tracing::warn!("a message of a conversation that moved is lost: {error}");
                    }
                }
            }
            if kept.conversation.tracker.is_empty() {
                return;
            }
            tokio::select! {
                _ = inbox.ready() => (),
                () = tokio::time::sleep(LOOK) => (),
            }
        }
    });
}

/// Waits until another process has taken a conversation over.
async fn taken(http: &Shared, kept: &Kept) {
    let mut grown = http.runtime.store.watch(&mail(&kept.id));
    while !is_elsewhere(http, kept).await {
        if grown.next().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Whether another process has taken a conversation over.
pub(super) async fn is_elsewhere(http: &Shared, kept: &Kept) -> bool {
    let letters = http.runtime.store.after(&mail(&kept.id), 0).await.unwrap_or_default();
    let last = letters.iter().rev().find_map(|(_, letter)| letter.strip_prefix(b"@"));
    last.is_some_and(|owner| owner != kept.owner.as_bytes())
}

pub(super) fn unavailable(error: &StoreError) -> Response {
    tracing::warn!("{error}");
    let why = "the store is unavailable: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}
