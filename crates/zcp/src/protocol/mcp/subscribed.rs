//! How many bytes of URIs all sessions of one process are subscribed to.

use crate::{clock, store::written::Written};
use std::{sync::Arc, time::Duration};

/// Bytes of the URIs of all sessions.
const ALL: usize = 64 * 1024 * 1024;
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

impl Subscribed {
    /// Notes what a session's URIs count for, with what one more takes. False if there is no room
    /// for that.
    pub(super) fn set(
        &self,
        session: &str,
        bytes: usize,
        more: usize,
        kept: Option<Duration>,
    ) -> bool {
        let ends = kept.map(ends);
        match (bytes, more) {
            (0, 0) => self.0.remove(session),
            (_, 0) => self.0.note(session, bytes, ends),
            _ => return self.0.try_set(session, bytes + more, ends),
        }
        true
    }

    /// A session is kept for so long from now on.
    pub(super) fn extend(&self, session: &str, kept: Duration) {
        self.0.extend(session, ends(kept));
    }

    /// A session has ended.
    pub(super) fn remove(&self, session: &str) {
        self.0.remove(session);
    }
}

fn ends(kept: Duration) -> u64 {
    clock::now_ms().saturating_add(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX))
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

    #[test]
    fn subscriptions_of_all_sessions_are_limited_together() {
        let runtime = crate::Server::new("test").build().unwrap();
        let all = runtime.shelf::<Subscribed>();
        let (one, other) = (Session::default(), Session::default());
        assert!(one.remember(&runtime, &subscribe(&"x".repeat(1000))));
        assert!(all.set("many", 0, ALL - 2000, None));
        assert!(!other.remember(&runtime, &subscribe(&"y".repeat(1000))));
        assert!(one.remember(&runtime, &subscribe(&"x".repeat(1000))), "it is there already");
        assert!(other.subscriptions().is_empty());
        // Whoever unsubscribes makes room.
        assert!(one.remember(&runtime, &Remember::Unsubscribe("x".repeat(1000))));
        assert!(other.remember(&runtime, &subscribe(&"y".repeat(1000))));
        assert!(!one.remember(&runtime, &subscribe(&"x".repeat(1000))));
        // And whoever goes.
        drop(other);
        assert!(one.remember(&runtime, &subscribe(&"x".repeat(1000))));
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
        assert!(one.remember(&runtime, &change));
        one.keep(&runtime, &change).await.unwrap();
        assert!(all.set("many", 0, ALL - 2000, None));
        // It is in the store still.
        drop(one);
        let other = open("other").await;
        assert!(!other.remember(&runtime, &more));
        Session::remove(&runtime, "one").await.unwrap();
        assert!(other.remember(&runtime, &more));
    }
}
