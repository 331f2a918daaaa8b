//! How many bytes of URIs all sessions of one process are subscribed to, and those of one caller.

use super::session::Session;
use crate::{
    auth::{Caller, PeerAddress},
    clock,
    store::written::{Share, Written},
};
use http::Extensions;
use std::{sync::Arc, time::Duration};

/// Bytes of the URIs of all sessions.
const ALL: usize = 64 * 1024 * 1024;
/// Bytes of the URIs of one caller's sessions.
const OF_ONE: usize = ALL / 4;
/// What each URI takes beside its text.
const EACH: usize = 64;

/// The sessions that are subscribed to anything. One counts until it ends: its record, which has the
/// URIs too, outlives its memory here.
#[derive(Debug)]
pub(super) struct Subscribed(Written);

impl Default for Subscribed {
    fn default() -> Self {
        Self(Written::new(ALL))
    }
}

/// What a URI counts for.
pub(super) fn weight(uri: &str) -> usize {
    uri.len() + EACH
}

/// Whose share a session's subscriptions count for: its principal's, or that of the network that an
/// anonymous caller comes from, who can have any number of sessions. Without either it is the
/// session's own.
pub(super) fn share(extensions: &Extensions, conversation: &str) -> String {
    let caller = Caller::of(extensions);
    let network = extensions.get::<PeerAddress>().and_then(|peer| peer.sharing());
    match (caller.principal(), network) {
        (principal, _) if !principal.is_anonymous() => format!("principal {}", principal.key()),
        (_, Some(network)) => format!("network {network}"),
        (_, None) => format!("session {conversation}"),
    }
}

impl Session {
    /// Notes whose share what is kept for it counts for: that of whoever sends its first message.
    pub(super) fn count_for(&self, extensions: &Extensions) {
        let share = || share(extensions, &self.conversation()).into();
        self.share.get_or_init(share);
    }

    /// Whose share of what the process keeps it counts for.
    pub(crate) fn share(&self) -> Arc<str> {
        self.share.get().cloned().unwrap_or_else(|| self.conversation())
    }
}

impl Subscribed {
    /// Notes what a session's URIs count for.
    pub(super) fn set(&self, session: &str, bytes: usize, kept: Option<Duration>) {
        match bytes {
            0 => self.0.remove(session),
            _ => self.0.note(session, bytes, kept.map(clock::in_ms)),
        }
    }

    /// Notes what a session's URIs are to count for, unless there is no room for that; false if there
    /// is none.
    pub(super) fn try_set(
        &self,
        session: &str,
        bytes: usize,
        kept: Option<Duration>,
        share: &str,
    ) -> bool {
        let share = Share { owner: share, max: OF_ONE };
        self.0.try_set(session, bytes, kept.map(clock::in_ms), share)
    }

    /// A session is kept for so long from now on.
    pub(super) fn extend(&self, session: &str, kept: Duration) {
        self.0.extend(session, clock::in_ms(kept));
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.0.total()
    }

    /// A session has ended.
    pub(super) fn remove(&self, session: &str) {
        self.0.remove(session);
    }
}

/// What a session without a record counts for, until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) all: Arc<Subscribed>,
    pub(super) session: Arc<str>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.remove(&self.session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        auth::Caller,
        protocol::mcp::session::{Remember, Session},
    };

    fn subscribe(uri: &str) -> Remember {
        Remember::Subscribe(uri.to_owned())
    }

    /// Leaves 2000 bytes of the room.
    fn many(all: &Subscribed) {
        for (caller, bytes) in [OF_ONE, OF_ONE, OF_ONE, OF_ONE - 2000].into_iter().enumerate() {
            let name = format!("many {caller}");
            assert!(all.try_set(&name, bytes, None, &name));
        }
    }

    #[test]
    fn subscriptions_of_all_sessions_are_limited_together() {
        let runtime = crate::Server::new("test").build().unwrap();
        let all = runtime.shelf::<Subscribed>();
        let (one, other) = (Session::default(), Session::default());
        assert!(one.remember(&runtime, &subscribe(&"x".repeat(1000)), "ann"));
        many(&all);
        assert!(!other.remember(&runtime, &subscribe(&"y".repeat(1000)), "bob"));
        assert!(
            one.remember(&runtime, &subscribe(&"x".repeat(1000)), "ann"),
            "it is there already"
        );
        assert!(other.subscriptions().is_empty());
        // Whoever unsubscribes makes room.
        assert!(one.remember(&runtime, &Remember::Unsubscribe("x".repeat(1000)), "ann"));
        assert!(other.remember(&runtime, &subscribe(&"y".repeat(1000)), "bob"));
        assert!(!one.remember(&runtime, &subscribe(&"x".repeat(1000)), "ann"));
        // And whoever goes.
        drop(other);
        assert!(one.remember(&runtime, &subscribe(&"x".repeat(1000)), "ann"));
    }

    #[tokio::test]
    async fn a_session_s_subscriptions_count_until_it_ends() {
        let runtime = crate::Server::new("test").build().unwrap();
        let all = runtime.shelf::<Subscribed>();
        let open = async |id: &str| {
            let session = Session::new(id.into(), "server".into(), Caller::default());
            session.save(&runtime).await.unwrap();
            session
        };
        let (change, more) = (subscribe(&"x".repeat(1000)), subscribe(&"y".repeat(1000)));
        let one = open("one").await;
        assert!(one.remember(&runtime, &change, "ann"));
        one.keep(&runtime, &change).await.unwrap();
        many(&all);
        // It is in the store still.
        drop(one);
        let other = open("other").await;
        assert!(!other.remember(&runtime, &more, "bob"));
        Session::remove(&runtime, "one").await.unwrap();
        assert!(other.remember(&runtime, &more, "bob"));
    }

    #[test]
    fn one_caller_has_a_share_of_all_subscriptions() {
        let runtime = crate::Server::new("test").build().unwrap();
        let all = runtime.shelf::<Subscribed>();
        assert!(all.try_set("one", OF_ONE - 1000, None, "network 192.0.2.1"));
        let from = |address: &str, uri: &str| {
            let session = Session::default();
            let mut extensions = Extensions::new();
            extensions.insert(PeerAddress(address.parse().unwrap()));
            let share = share(&extensions, &session.conversation());
            session.remember(&runtime, &subscribe(uri), &share)
        };
        assert!(!from("192.0.2.1:1", &"x".repeat(1000)));
        assert!(from("192.0.2.2:1", &"x".repeat(1000)));
        // A proxy on this machine may have many callers.
        assert!(all.try_set("local", OF_ONE, None, "network 127.0.0.1"));
        assert!(from("127.0.0.1:1", &"x".repeat(1000)));
    }
}
