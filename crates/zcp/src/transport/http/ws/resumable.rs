//! A conversation that outlives its WebSocket connection, and what it said.

use super::{
    Socket, moved,
    open_calls::{self, Calls},
};
use crate::{
    auth::{Caller, Principal},
    protocol::mcp::{Mcp, session::Session},
    store::{Bound, StoreError, StoreResult, counted_logs::CountedLogs},
    sync::lock,
    transport::{
        DRAIN,
        converse::Conversation,
        http::Shared,
        outbox::{FREE, Inbox, counted_outbox},
    },
};
use axum::BoxError;
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::SinkExt;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

/// Messages kept for a client that lost its connection.
const KEEP: Bound = Bound::entries(1024);
/// How often a used conversation's time in the store is renewed.
const RENEW: Duration = Duration::from_secs(60 * 60);
/// How often the store is tried again while it is away.
const RETRY: Duration = Duration::from_millis(500);

/// A conversation that outlives its connection.
pub(super) struct Kept {
    pub(super) id: String,
    /// Whether its client may come back to it.
    pub(super) resumable: bool,
    pub(super) principal: Principal,
    pub(super) mcp: Mcp,
    pub(super) conversation: Conversation,
    /// Where the conversation's messages come out; held by the connection that has it.
    pub(super) inbox: AsyncMutex<Inbox>,
    /// Takes the conversation away from the connection that has it.
    taken: Mutex<CancellationToken>,
    pub(super) session: Arc<Session>,
    /// Whether another process could go on with it.
    is_saved: AtomicBool,
    /// When it was last made to be kept for longer.
    renewed: Mutex<Option<Instant>>,
    /// How many messages were said.
    pub(super) said: Arc<AtomicU64>,
    /// Those under way that another process can go on with.
    pub(super) calls: Arc<Calls>,
    /// Who has it, among the processes that had it.
    pub(super) owner: String,
    /// A message that was taken from the inbox and not noted yet.
    unnoted: Mutex<Option<ByteString>>,
}

/// How a conversation begins.
pub(super) enum Begins {
    /// For one connection.
    Once,
    /// For as many as its client needs.
    Resumable,
    /// With a session that began in another process.
    Elsewhere(Session),
}

impl Kept {
    pub(super) fn new(http: &Shared, id: String, begins: Begins, principal: Principal) -> Self {
        let (resumable, is_saved) =
            (!matches!(begins, Begins::Once), matches!(begins, Begins::Elsewhere(_)));
        let session = Arc::new(match begins {
            Begins::Once => Session::default(),
            Begins::Resumable => Session::new(
                id.as_str().into(),
                crate::token()[..12].into(),
                Caller::new(principal.clone()),
            ),
            Begins::Elsewhere(session) => session,
        });
        let closing = http.closing.child_token();
        let mcp = Mcp::with(http.runtime.clone(), Some(session.clone()), closing);
        let (outbox, inbox) = counted_outbox(&http.runtime, resumable);
        let said = Arc::new(AtomicU64::new(0));
        let calls = Calls::new(http, mcp.clone(), &id, said.clone());
        let mut conversation = Conversation::new(mcp.clone(), outbox);
        if resumable {
            let calls = calls.clone();
            conversation.keep_calls(Box::new(move |request, extensions, frames| {
                calls.keep(request, extensions, frames)
            }));
        }
        Self {
            id,
            resumable,
            session,
            is_saved: AtomicBool::new(is_saved),
            renewed: Mutex::default(),
            said,
            calls,
            owner: crate::token(),
            principal,
            conversation,
            mcp,
            inbox: AsyncMutex::new(inbox),
            taken: Mutex::default(),
            unnoted: Mutex::default(),
        }
    }

    /// Takes the conversation away from whoever has it.
    pub(super) fn take(&self) -> CancellationToken {
        let mut taken = lock(&self.taken);
        taken.cancel();
        *taken = CancellationToken::new();
        taken.clone()
    }

    fn log(&self) -> String {
        format!("ws/{}", self.id)
    }

    /// Notes a message before it is sent, so that it is lost with the connection and not with
    /// the conversation.
    async fn note(&self, http: &Shared, text: &ByteString) -> StoreResult<()> {
        let unnoted = || lock(&self.unnoted);
        *unnoted() = Some(text.clone());
        if !self.is_saved.load(Ordering::Relaxed) && self.session.handshake().is_some() {
            self.session.save(&http.runtime).await?;
            self.is_saved.store(true, Ordering::Relaxed);
        }
        self.renew(http).await?;
        let number = self.said.load(Ordering::Relaxed) + 1;
        let note = Bytes::from(format!("{number} {text}"));
        let log = self.log();
        match http.append(&self.session, &log, note, KEEP).await {
            // Its number alone: whoever misses the message cannot go on from before it.
            Err(StoreError::TooLarge { .. }) => {
                // First: nothing that is noted says afterwards that it was answered.
                if let Some(call) = self.calls.answered_by(text) {
                    call.close().await;
                }
                http.append(&self.session, &log, Bytes::from(format!("{number} ")), KEEP).await?;
            }
            noted => drop(noted?),
        }
        self.said.store(number, Ordering::Relaxed);
        *unnoted() = None;
        self.calls.noted(text);
        Ok(())
    }

    /// Notes what waits for a client that is away: whenever others need its room, and at once if
    /// another process could go on, which must not do again what was done.
    pub(super) async fn note_while_away(&self, http: &Shared) -> Infallible {
        loop {
            let inbox = self.inbox.lock().await;
            let is_due = self.is_saved.load(Ordering::Relaxed) && lock(&self.unnoted).is_some();
            tokio::select! {
                () = inbox.gives_way() => (),
                () = std::future::ready(()), if is_due => (),
                true = inbox.ready(), if self.is_saved.load(Ordering::Relaxed) => (),
            }
            let unnoted = lock(&self.unnoted).take();
            let waiting = unnoted.into_iter().chain(std::iter::from_fn(|| inbox.pop()));
            for text in waiting {
                while let Err(error) = self.note(http, &text).await {
                    tracing::warn!("a message waits to be written: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
            inbox.goes_on();
        }
    }

    /// Keeps the session of a conversation that is used.
    async fn renew(&self, http: &Shared) -> StoreResult<()> {
        let often = RENEW.min(http.runtime.settings.session_ttl / 4);
        let last = *lock(&self.renewed);
        if !self.is_saved.load(Ordering::Relaxed) || last.is_some_and(|at| at.elapsed() < often) {
            return Ok(());
        }
        if let Some(entry) = Session::find(&http.runtime, &self.id).await? {
            self.session.renew(&http.runtime, &entry).await?;
        }
        *lock(&self.renewed) = Some(Instant::now());
        Ok(())
    }

    /// What was said after so many messages.
    pub(super) async fn missed(
        &self,
        http: &Shared,
        received: u64,
    ) -> StoreResult<Vec<ByteString>> {
        // Most have missed nothing, and a wrong count is known without the log.
        let last = self.said.load(Ordering::Relaxed);
        if last.checked_sub(received).ok_or(StoreError::Gone)? == 0 {
            return Ok(vec![]);
        }
        let (said, _reading) = moved::said(http, &self.id).await?;
        let last = self.said.load(Ordering::Relaxed);
        // A message whose connection went while it was noted is noted again, with the same number.
        let missed = said.into_iter().filter(|(number, _)| *number > received && *number <= last);
        let mut missed: BTreeMap<_, _> = missed.collect();
        missed.retain(|_, text| !text.is_empty());
        // All that is missing must be there: counted from the last, back to the first.
        match missed.len() as u64 == last.checked_sub(received).ok_or(StoreError::Gone)? {
            true => Ok(missed.into_values().collect()),
            false => Err(StoreError::Gone),
        }
    }

    /// Waits until the server is to stop, and what is under way has ended.
    pub(super) async fn drained(&self, http: &Shared) {
        http.closing.cancelled().await;
        self.conversation.tracker.close();
        let _ = tokio::time::timeout(DRAIN / 2, self.conversation.tracker.wait()).await;
    }

    /// Ends it here; it may be taken up on another server.
    pub(super) fn stop(&self) {
        self.mcp.close();
        self.mcp.cancel_all();
    }

    /// Ends it for good.
    pub(super) async fn end(&self, http: &Shared) {
        self.stop();
        if !self.resumable {
            return;
        }
        if moved::is_elsewhere(http, self).await {
            return Session::leave(&http.runtime, &self.id);
        }
        self.calls.close_all();
        for log in [self.log(), moved::mail(&self.id), open_calls::names(&self.id)] {
            let logs = http.runtime.shelf::<CountedLogs>();
            let _ = logs.remove(&*http.runtime.store, &log).await;
        }
        let _ = Session::remove(&http.runtime, &self.id).await;
    }

    /// Sends what waits.
    pub(super) async fn say(
        &self,
        http: &Shared,
        socket: &mut Socket,
        inbox: &Inbox,
    ) -> Result<(), BoxError> {
        let mut said = false;
        while let Some(text) = inbox.pop() {
            if self.resumable {
                self.note(http, &text).await?;
            }
            match text.len() > FREE {
                // It counts until the next one is taken.
                true => socket.send(text_message(&text)).await?,
                false => socket.feed(text_message(&text)).await?,
            }
            said = true;
        }
        if said {
            socket.flush().await?;
        }
        Ok(())
    }

    /// Sends what the client has not received yet, and what was about to be said.
    pub(super) async fn say_again(
        &self,
        http: &Shared,
        socket: &mut Socket,
        received: Option<u64>,
        inbox: &Inbox,
    ) -> Result<(), BoxError> {
        if let Some(received) = received {
            let missed = self.missed(http, received).await.unwrap_or_default();
            inbox.leaves(missed.iter().map(|text| text.len()).sum());
            for text in missed {
                socket.send(text_message(&text)).await?;
            }
        }
        let unnoted = lock(&self.unnoted).take();
        if let Some(text) = unnoted {
            self.note(http, &text).await?;
            socket.send(text_message(&text)).await?;
        }
        Ok(())
    }
}

fn text_message(text: &ByteString) -> Message {
    Message::Text((&**text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Http, Runtime, Server, protocol::mcp::session::Remember, store::Store};
    use ::http::Extensions;
    use tokio_util::task::TaskTracker;

    fn shared() -> Arc<Shared> {
        serving(Server::new("test").build().unwrap())
    }

    fn serving(runtime: Runtime) -> Arc<Shared> {
        let http = Http::new(([127, 0, 0, 1], 0));
        http.door(runtime, CancellationToken::new(), TaskTracker::new()).direct.unwrap()
    }

    #[tokio::test]
    async fn what_is_crowded_out_can_be_resumed() {
        let http = shared();
        let kept = Kept::new(&http, "kept".into(), Begins::Resumable, Principal::ANONYMOUS);
        let text: ByteString = "x".repeat(FREE).into();
        for _ in 0..3 {
            kept.conversation.pass_on(text.clone()).await;
        }
        let noted = tokio::time::timeout(RETRY, kept.note_while_away(&http));
        assert!(noted.await.is_err() && kept.missed(&http, 0).await.unwrap().is_empty());
        // Others need its room: so many outboxes that it is not small among them.
        let others: Vec<_> = (0..5000).map(|_| counted_outbox(&http.runtime, true)).collect();
        for (other, _) in &others {
            other.push(text.clone());
            other.push(text.clone());
        }
        let noted = tokio::time::timeout(RETRY, kept.note_while_away(&http));
        assert!(noted.await.is_err());
        assert_eq!(kept.missed(&http, 1).await.unwrap(), [text.clone(), text.clone()]);
        assert!(kept.inbox.lock().await.pop().is_none());
    }

    #[tokio::test]
    async fn a_message_that_is_noted_twice_is_said_once() {
        let http = shared();
        let kept = Kept::new(&http, "kept".into(), Begins::Resumable, Principal::ANONYMOUS);
        let (one, two) = (ByteString::from("one"), ByteString::from("two"));
        kept.note(&http, &one).await.unwrap();
        kept.note(&http, &two).await.unwrap();
        // Its connection went before that was known.
        kept.said.store(1, Ordering::Relaxed);
        assert_eq!(kept.missed(&http, 0).await.unwrap(), ["one"]);
        kept.note(&http, &two).await.unwrap();
        assert_eq!(kept.missed(&http, 0).await.unwrap(), [one, two]);
    }

    #[tokio::test]
    async fn subscriptions_of_a_moved_conversation_do_not_count() {
        let store: Arc<dyn Store> = Arc::new(crate::store::Memory::default());
        let server = || Server::new("test").shared_store(store.clone()).build().unwrap();
        let (here, there) = (serving(server()), serving(server()));
        let kept = Kept::new(&here, "kept".into(), Begins::Resumable, Principal::ANONYMOUS);
        kept.session.save(&here.runtime).await.unwrap();
        let change = Remember::Subscribe("test://x".into());
        assert!(kept.session.remember(&here.runtime, &change, "ann"));
        kept.session.keep(&here.runtime, &change).await.unwrap();
        let kept = Arc::new(kept);
        here.runtime.shelf::<super::super::Waiting>().keep(&here, &kept);
        assert!(Session::subscribed(&here.runtime) > 0);
        let (principal, extensions) = (Principal::ANONYMOUS, Extensions::new());
        let claim = moved::Claim { id: "kept", principal, extensions: &extensions, received: 0 };
        assert!(moved::find(&there, &claim).await.is_ok());
        for _ in 0..100 {
            if Session::subscribed(&here.runtime) == 0 {
                assert!(Session::subscribed(&there.runtime) > 0);
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("they still count");
    }
}
