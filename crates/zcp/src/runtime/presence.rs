//! Says that this process is there, for as long as others count on it.

use crate::{
    store::{Bound, If, Store, StoreError, StoreResult},
    sync::lock,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify},
    time::{Instant, sleep},
};

/// A process that has not said for so long that it is there, is not.
pub(crate) const LEASE: Duration = Duration::from_secs(6);
/// How often it says so.
const BEAT: Duration = Duration::from_secs(2);
/// The names of all processes, each of which gives its own now and then.
const NAMES: &str = "runners";
const NAMES_KEPT: usize = 1024;
const NAMES_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const GIVEN_EVERY: Duration = Duration::from_secs(60 * 60);

/// This process among those that share a store.
pub(crate) struct Presence {
    store: Arc<dyn Store>,
    lease: Mutex<Option<Lease>>,
    /// One at a time.
    enlisting: AsyncMutex<()>,
    /// When the store was away last.
    away: Mutex<Option<Instant>>,
    needs: AtomicUsize,
    begun: Notify,
}

/// The name this process has, when it last said that it is there, and when it last gave the name.
#[derive(Clone)]
struct Lease {
    name: Arc<str>,
    renewed: Instant,
    given: Instant,
}

/// Somebody counts on this process.
pub(crate) struct Needed(Arc<Presence>);

impl Drop for Needed {
    fn drop(&mut self) {
        self.0.needs.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Needed {
    /// The name of this process, made known to the others.
    pub(crate) async fn name(&self) -> StoreResult<Arc<str>> {
        // This one is counted, and may be the first.
        self.0.enlist(self.0.needs.load(Ordering::Relaxed) > 1).await
    }
}

impl Presence {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            lease: Mutex::default(),
            enlisting: AsyncMutex::default(),
            away: Mutex::default(),
            needs: AtomicUsize::default(),
            begun: Notify::new(),
        }
    }

    /// Somebody counts on this process from now on.
    pub(crate) fn need(self: &Arc<Self>) -> Needed {
        self.needs.fetch_add(1, Ordering::Relaxed);
        self.begun.notify_one();
        Needed(self.clone())
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.needs.load(Ordering::Relaxed) > 0
    }

    /// Says that this process is there, if anybody counts on that.
    pub(crate) async fn renew(&self) -> StoreResult<()> {
        if self.is_needed() {
            self.enlist(true).await?;
        }
        Ok(())
    }

    /// Makes a name known. A new one if nobody counts on the old and it was silent for so long that
    /// others may think it dead.
    async fn enlist(&self, is_needed: bool) -> StoreResult<Arc<str>> {
        let _one_at_a_time = self.enlisting.lock().await;
        let (name, given) = match self.lease() {
            Some(lease) if lease.renewed.elapsed() < BEAT / 2 => return Ok(lease.name),
            Some(lease) if is_needed || lease.renewed.elapsed() < LEASE / 2 => {
                let known = lease.renewed.elapsed() < LEASE && lease.given.elapsed() < GIVEN_EVERY;
                (lease.name, known.then_some(lease.given))
            }
            _ => (crate::token().into(), None),
        };
        // What counts is when it began to be written.
        let renewed = Instant::now();
        // Before the name: whoever reads a name that is not alive forgets it.
        self.store.put(&alive(&name), Bytes::new(), If::Always, Some(LEASE)).await?;
        let given = match given {
            Some(given) => given,
            None => {
                let text = Bytes::copy_from_slice(name.as_bytes());
                self.store.append(NAMES, text, Bound::entries(NAMES_KEPT), Some(NAMES_TTL)).await?;
                Instant::now()
            }
        };
        *lock(&self.lease) = Some(Lease { name: name.clone(), renewed, given });
        Ok(name)
    }

    fn lease(&self) -> Option<Lease> {
        lock(&self.lease).clone()
    }

    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.lease().is_some_and(|lease| *lease.name == *name)
    }

    /// Whether a process is there. After the store was away everyone gets time to say so.
    pub(crate) async fn is_alive(&self, name: &str) -> StoreResult<bool> {
        let away = *lock(&self.away);
        if away.is_some_and(|away| away.elapsed() < LEASE) {
            return Ok(true);
        }
        Ok(self.store.get(&alive(name)).await?.is_some())
    }

    /// Nobody could say anything.
    pub(crate) fn was_away(&self) {
        *lock(&self.away) = Some(Instant::now());
    }

    /// Names that were given after a position, with where that leads.
    pub(crate) async fn names_after(&self, position: u64) -> StoreResult<(Vec<String>, u64)> {
        let new = match self.store.after(NAMES, position).await {
            Err(StoreError::Gone) => self.store.after(NAMES, 0).await?,
            new => new?,
        };
        let last = new.last().map_or(position, |(position, _)| *position);
        let names = new.iter().map(|(_, name)| String::from_utf8_lossy(name).into_owned());
        Ok((names.collect(), last))
    }

    /// Says that this process is no longer there.
    pub(crate) async fn leave(&self) {
        if let Some(lease) = self.lease() {
            let _ = self.store.remove(&alive(&lease.name)).await;
        }
    }

    /// When to say so again, or to look after others.
    pub(crate) fn rounds(&self) -> Rounds<'_> {
        let clocks = (SystemTime::now(), Instant::now());
        Rounds { presence: self, given: self.store.watch(NAMES), clocks }
    }
}

/// Times at which something is to be done.
pub(crate) struct Rounds<'a> {
    presence: &'a Presence,
    given: BoxStream<'static, ()>,
    clocks: (SystemTime, Instant),
}

impl Rounds<'_> {
    /// Waits for the next; if nothing is to be done, until there is.
    pub(crate) async fn next(&mut self, idle: bool) {
        tokio::select! {
            Some(()) = self.given.next() => (),
            () = self.presence.begun.notified() => (),
            () = sleep(BEAT), if !idle => (),
        }
        // A machine that slept has not said anything, and the others may have slept with it.
        if self.clocks.0.elapsed().unwrap_or_default() > self.clocks.1.elapsed() + LEASE {
            self.presence.was_away();
        }
        self.clocks = (SystemTime::now(), Instant::now());
    }
}

fn alive(name: &str) -> String {
    ["alive/", name].concat()
}
