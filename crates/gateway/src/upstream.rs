//! A mounted server: the state machine that keeps its connection open.

use crate::{
    board::Place,
    lock::{Difference, LockFile},
    mount::Reused,
    mount_log::{Log, shown},
    names::Names,
    offers::{Kind, Offers},
    state::State,
};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use zcp_client::{Change, Client, Endpoint, wire::mcp::subscriptions::Filter};

/// How long opening a connection may take, and how long a call waits for one.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call may go without a word of the server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long until a lost server is tried again: twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Interval of the heartbeat of a server that sends nothing.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Pings in a row that may go unanswered.
const MISSED_PINGS: u32 = 2;
/// How long lists are not read again, however often the server says that they changed: twice as
/// long each time, until it says nothing for as long as the longest.
const FIRST_SETTLE: Duration = Duration::from_millis(250);
const LAST_SETTLE: Duration = Duration::from_secs(30);
/// Names that are logged one by one; of more, only the number is.
const LOGGED: usize = 20;

/// A server elsewhere.
pub(crate) struct Upstream {
    name: String,
    endpoint: Arc<dyn Endpoint>,
    names: Names,
    lock: Option<LockFile>,
    /// Only what is in the lock file is offered, also the first time.
    is_locked: bool,
    /// What is new is not written into the lock file.
    only_looks: bool,
    unlocked: Vec<Kind>,
    /// Its place among the mounts: of two that fit a URI, the first reads it.
    pub(crate) order: usize,
    pub(crate) log: Arc<Log>,
    link: watch::Sender<Link>,
    /// A call was lost: the server may be gone.
    doubt: Notify,
    /// Calls under way.
    calls: AtomicUsize,
}

/// A call under way, until it is dropped.
pub(crate) struct Calling<'a>(&'a AtomicUsize);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connection, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Link {
    pub(crate) client: Option<Arc<Client>>,
    /// What was accepted of what it offers, once its lists were read.
    pub(crate) accepted: Option<Arc<HashSet<(Kind, String)>>>,
    pub(crate) is_closed: bool,
}

impl Upstream {
    /// A server that is not connected to yet.
    pub(crate) fn new(
        place: &Place,
        endpoint: Arc<dyn Endpoint>,
        lock: Option<LockFile>,
        is_locked: bool,
        unlocked: Vec<Kind>,
    ) -> Self {
        Self {
            name: place.mount().to_owned(),
            endpoint,
            names: place.names().clone(),
            lock,
            is_locked,
            only_looks: false,
            unlocked,
            order: place.order(),
            log: place.log(),
            link: watch::Sender::default(),
            doubt: Notify::new(),
            calls: AtomicUsize::new(0),
        }
    }

    pub(crate) fn only_looking(self, only_looks: bool) -> Self {
        Self { only_looks, ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    /// Notes that a call is under way.
    pub(crate) fn calling(&self) -> Calling<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Calling(&self.calls)
    }

    /// Makes the heartbeat check the server now.
    pub(crate) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Whether nothing of it is listed before it was connected to.
    pub(crate) fn is_unseen(&self) -> bool {
        !self.is_locked && !self.lock.as_ref().is_some_and(|lock| lock.knows(&self.name))
    }

    /// What was accepted of it before.
    pub(crate) fn accepted_before(&self) -> Option<Offers> {
        self.lock.as_ref()?.offers(&self.name)
    }

    /// What it offers now, as far as that is wanted and locked.
    pub(crate) async fn offers_now(&self) -> Result<Offers, String> {
        let client = self.connect().await?;
        let offers = Offers::of(&client).await;
        client.close().await;
        let mut offers = offers.map_err(|error| error.to_string())?;
        offers
            .retain(|kind, name, _| self.names.takes(kind, name) && !self.unlocked.contains(&kind));
        Ok(offers)
    }

    /// Keeps the connection open, and the catalog as the server has it, until told to stop.
    pub(crate) async fn run(self: Arc<Self>, place: Place, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow(&place)).await;
        let closed = Link { is_closed: true, ..Link::default() };
        let last = self.link.send_replace(closed).client;
        // A call that is still under way closes it when it ends.
        if let Some(client) = last.and_then(Arc::into_inner) {
            client.close().await;
        }
        place.report(State::Stopped);
    }

    async fn follow(self: &Arc<Self>, place: &Place) {
        let (mut pause, mut lost) = (FIRST_RETRY, None);
        loop {
            place.report(State::Starting);
            let why = match self.connect().await {
                Ok(client) => {
                    let (client, begun) = (Arc::new(client), Instant::now());
                    let open = Link { client: Some(client.clone()), ..Link::default() };
                    self.link.send_replace(open);
                    let why = self.serve(&client, place, &mut lost).await;
                    // One that was there for a while is not one that fails at once.
                    if begun.elapsed() > LAST_RETRY {
                        pause = FIRST_RETRY;
                    }
                    why
                }
                Err(why) => why,
            };
            // It is said once, however often it is tried.
            if lost.as_ref() != Some(&why) {
                self.log.warn(&format!("the mounted server `{}` is not there: {why}", self.name));
            }
            lost = Some(why.clone());
            self.link.send_replace(Link::default());
            place.report(State::Degraded { why, retry_at: SystemTime::now() + pause });
            sleep(pause).await;
            pause = (pause * 2).min(LAST_RETRY);
        }
    }

    async fn connect(&self) -> Result<Client, String> {
        let client = Client::builder("zcp", env!("CARGO_PKG_VERSION")).timeout(IDLE_TIMEOUT);
        let endpoint = Reused(self.endpoint.clone());
        match timeout(ANSWER_TIMEOUT, client.connect(endpoint)).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())),
        }
    }

    /// Offers what the server has for as long as it is there; says why it is gone.
    async fn serve(
        self: &Arc<Self>,
        client: &Client,
        place: &Place,
        lost: &mut Option<String>,
    ) -> String {
        let changed = Notify::new();
        // Side by side: while the client reconnects for one of them, the others wait for it.
        tokio::select! {
            why = self.offer(client, place, lost, &changed) => why,
            why = self.listen(client, &changed) => why,
            why = self.heartbeat(client) => why,
        }
    }

    /// Offers what the server's lists have, and reads them again when they may have changed.
    async fn offer(
        self: &Arc<Self>,
        client: &Client,
        place: &Place,
        lost: &mut Option<String>,
        changed: &Notify,
    ) -> String {
        let (mut published, mut pause) = (None, FIRST_SETTLE);
        loop {
            let mut offers = match Offers::of(client).await {
                Ok(offers) => offers,
                Err(error) => return error.to_string(),
            };
            offers.retain(|kind, name, _| self.names.takes(kind, name));
            self.hold(&mut offers).await;
            let (mut accepted, mut digest) = (HashSet::new(), Sha256::new());
            offers.each(|kind, name, said| {
                digest.update(format!("{kind} {name:?} {said}\n"));
                accepted.insert((kind, name.to_owned()));
            });
            let digest = Some(digest.finalize());
            if digest != published {
                self.link.send_modify(|link| link.accepted = Some(Arc::new(accepted)));
                place.publish(&self.catalog(offers));
                place.report(State::Ready);
                published = digest;
            }
            if lost.take().is_some() {
                self.log.warn(&format!("the mounted server `{}` is back", self.name));
            }
            let begun = Instant::now();
            changed.notified().await;
            if begun.elapsed() >= LAST_SETTLE {
                pause = FIRST_SETTLE;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LAST_SETTLE);
        }
    }

    /// Hears from the server that its lists changed.
    async fn listen(&self, client: &Client, changed: &Notify) -> String {
        let filter = Filter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            ..Filter::default()
        };
        let Ok(mut changes) = client.listen(filter).await else {
            return std::future::pending().await;
        };
        while let Some(change) = changes.next().await {
            if change == Change::All {
                self.log.warn(&format!(
                    "the connection to the mounted server `{}` was interrupted: its lists are read \
                     again",
                    self.name
                ));
            }
            changed.notify_one();
        }
        "it went away".into()
    }

    /// Pings the server at intervals, and at once when a call was lost. One that does not know the
    /// question is there. One that leaves several pings unanswered is not, unless a call is under
    /// way: a busy server may answer late, but not later than a call may.
    async fn heartbeat(&self, client: &Client) -> String {
        let (mut missed, mut heard) = (0, Instant::now());
        loop {
            if missed == 0 {
                tokio::select! {
                    () = sleep(HEARTBEAT) => (),
                    () = self.doubt.notified() => (),
                }
            }
            match timeout(ANSWER_TIMEOUT, client.ping()).await {
                Ok(Err(error @ zcp_client::Error::Lost(_))) => return error.to_string(),
                Ok(_) => (missed, heard) = (0, Instant::now()),
                Err(_) => missed += 1,
            }
            let is_busy = self.calls.load(Ordering::Relaxed) > 0;
            if missed >= MISSED_PINGS && (!is_busy || heard.elapsed() > IDLE_TIMEOUT) {
                return format!("no answer to {missed} pings");
            }
        }
    }

    /// Leaves out what was not accepted. The first time everything is accepted, and logged, unless
    /// the server is locked.
    async fn hold(&self, offers: &mut Offers) {
        let overlong = Some(offers.overlong).filter(|count| *count > 0);
        let overlong = overlong.map(|count| {
            format!("{count} of the mounted server `{}`: their names are too long", self.name)
        });
        self.log.warn_of_new("long names", &overlong.into_iter().collect::<Vec<_>>());
        let Some(lock) = &self.lock else { return };
        if !lock.knows(&self.name) && !self.is_locked {
            self.accept(offers, lock).await;
        }
        let differences = lock.hold(&self.name, offers, &self.unlocked);
        let line = |one: &Difference| {
            let Difference { mount, kind, name, what } = one;
            format!(
                "the {kind} \"{}\" of the mounted server `{mount}` {what}: `zcp lock` shows and \
                 accepts it",
                shown(name)
            )
        };
        self.log.warn_of_new("not accepted", &differences.iter().map(line).collect::<Vec<_>>());
    }

    /// Writes down what a new server offers, and logs what that is.
    async fn accept(&self, offers: &Offers, lock: &LockFile) {
        let mut kept = offers.clone();
        kept.retain(|kind, _, _| !self.unlocked.contains(&kind));
        if self.only_looks {
            return lock.set(&self.name, &kept);
        }
        let mut names = vec![];
        kept.each(|kind, name, _| names.push(format!("{kind} \"{}\"", shown(name))));
        let (count, more) = (names.len(), names.len().saturating_sub(LOGGED));
        names.truncate(LOGGED);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        self.log.warn(&format!(
            "the mounted server `{}` is new: {count} descriptions were accepted unseen and written \
             to {} ({}). Review the file; `--locked` or `locked = true` refuses new servers",
            self.name,
            lock.file_name(),
            names.join(", ")
        ));
        let (lock, name) = (lock.clone(), self.name.clone());
        let written = tokio::task::spawn_blocking(move || lock.add(&name, &kept)).await;
        if let Ok(Err(why)) = written {
            self.log.warn(&format!("what `{}` offers is not remembered: {why}", self.name));
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.name).finish_non_exhaustive()
    }
}
