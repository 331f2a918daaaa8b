//! Several mounts as one provider.

use crate::{
    board::{Board, Place},
    error::{Error, Mistake, Result},
    lock::LockFile,
    mount::{Hidden, Mount, Way},
    names::{self, Names},
    state::State,
    upstream::Upstream,
};
use futures_util::{
    StreamExt,
    future::join_all,
    stream::{BoxStream, pending, select_all},
};
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use zcp::{Catalog, Provider, wire::sync::lock};
use zcp_client::Endpoint;

/// Other MCP servers as a [`Provider`], which [`Server::provide`](zcp::Server::provide) takes.
///
/// A clone is the same gateway. It connects when a server is built with it, in the background, and
/// disconnects when the last clone is dropped or [`close`](Self::close) is called.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    board: Arc<Board>,
    upstreams: Vec<Arc<Upstream>>,
    lock_file: PathBuf,
    unseen: Vec<String>,
    /// What is done once a server uses the gateway.
    idle: Mutex<Vec<Job>>,
    updated: Mutex<Option<BoxStream<'static, String>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// What is done for a mount in the background.
enum Job {
    Upstream(Arc<Upstream>, Place),
    Provider(Box<dyn Provider>, Place),
    Hidden(Hidden, Place),
}

impl Gateway {
    /// A gateway without mounts.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The state of each mount now, by its name.
    pub fn states(&self) -> BTreeMap<String, State> {
        self.inner.board.states().borrow().clone()
    }

    /// The state of each mount, now and whenever one changes.
    pub fn watch(&self) -> watch::Receiver<BTreeMap<String, State>> {
        self.inner.board.states()
    }

    /// The servers of which nothing was accepted yet, so that nothing of them is listed before they
    /// are [ready](State::Ready).
    pub fn unseen(&self) -> &[String] {
        &self.inner.unseen
    }

    /// Connects, and waits until each [unseen](Self::unseen) server was tried once, but no longer
    /// than `limit`. For clients that ask for lists once, and do not follow changes.
    pub async fn settle(&self, limit: Duration) {
        self.start();
        let (unseen, mut states) = (self.unseen(), self.watch());
        let settled = states.wait_for(|states| {
            unseen.iter().all(|name| states.get(name).is_none_or(State::is_settled))
        });
        let _ = tokio::time::timeout(limit, settled).await;
    }

    /// Connects to every mounted server, and returns what they offer now as a new lock file:
    /// [`LockFile::write`] accepts it. Mounted providers are not in it.
    ///
    /// # Errors
    ///
    /// Fails if a server cannot be reached.
    pub async fn describe(&self) -> Result<LockFile> {
        let lock = LockFile::empty(&self.inner.lock_file);
        let ask = |upstream: &Arc<Upstream>| {
            let upstream = upstream.clone();
            async move { (upstream.offers_now().await, upstream) }
        };
        let mut mistakes = vec![];
        for (offers, upstream) in join_all(self.inner.upstreams.iter().map(ask)).await {
            match offers {
                Ok(offers) => lock.set(upstream.name(), &offers),
                Err(why) => mistakes.push(Mistake::new(upstream.name(), why)),
            }
        }
        if mistakes.is_empty() { Ok(lock) } else { Err(Error::Mounts(mistakes)) }
    }

    /// Disconnects every mount, and waits until the processes that were started have ended. What
    /// they offer stays listed, and calls of it fail.
    pub async fn close(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Begins with what has to be done in the background, once.
    fn start(&self) {
        let jobs = std::mem::take(&mut *lock(&self.inner.idle));
        for job in jobs {
            self.inner.tasks.spawn(job.run(self.inner.stop.clone()));
        }
    }
}

impl Provider for Gateway {
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.start();
        self.inner.board.catalog()
    }

    fn updated(&self) -> BoxStream<'static, String> {
        lock(&self.inner.updated).take().unwrap_or_else(|| pending().boxed())
    }

    fn mounts(&self) -> Vec<(String, bool)> {
        let states = self.states().into_iter();
        states.map(|(name, state)| (name, matches!(state, State::Ready))).collect()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("states", &self.states()).finish_non_exhaustive()
    }
}

impl Job {
    async fn run(self, stop: CancellationToken) {
        match self {
            Self::Upstream(upstream, place) => upstream.run(place, stop).await,
            Self::Provider(provider, place) => {
                place.report(State::Ready);
                let mut catalog = provider.catalog();
                let follow = async {
                    loop {
                        place.publish(&catalog.borrow_and_update().clone());
                        if catalog.changed().await.is_err() {
                            std::future::pending().await
                        }
                    }
                };
                stop.run_until_cancelled(follow).await;
                place.report(State::Stopped);
            }
            Self::Hidden(Hidden { mut flag, why }, place) => {
                let follow = async {
                    let mut before = *flag.borrow_and_update();
                    place.hide(before);
                    while flag.changed().await.is_ok() {
                        let now = *flag.borrow_and_update();
                        if now && !before {
                            tracing::warn!("the mount `{}` is hidden: {why}", place.mount());
                        }
                        before = now;
                        place.hide(now);
                    }
                };
                stop.run_until_cancelled(follow).await;
            }
        }
    }
}

/// A gateway in the making.
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    mounts: Vec<(String, Mount)>,
    lock_file: Option<PathBuf>,
    is_locked: bool,
    only_looks: bool,
}

impl Builder {
    /// Adds a mount. Of two with one name or URI the first that was added is used, and a warning
    /// names both mounts.
    pub fn mount(mut self, name: impl Into<String>, mount: impl Into<Mount>) -> Self {
        self.mounts.push((name.into(), mount.into()));
        self
    }

    /// Pins what servers offer in a file. Default: nothing is pinned.
    pub fn lock_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.lock_file = Some(path.into());
        self
    }

    /// Offers only what is in the lock file, also of servers that are new. Default: `false`.
    pub fn locked(mut self, is_locked: bool) -> Self {
        self.is_locked = is_locked;
        self
    }

    /// Leaves the lock file as it is: what new servers offer is offered, and not written into it.
    /// Default: `false`.
    pub fn only_looks(mut self, only_looks: bool) -> Self {
        self.only_looks = only_looks;
        self
    }

    /// What is wrong with the mounts, as far as that can be known without connecting.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let (mut all, mut known) = (vec![], HashSet::new());
        for (name, mount) in &self.mounts {
            let mut tell = |why: &str| all.push(Mistake::new(name, why));
            mount.mistakes.iter().for_each(|why| tell(why));
            if !known.insert(name) {
                tell("there is another mount of that name");
            }
            if (mount.is_locked || self.is_locked) && self.lock_file.is_none() {
                tell("`locked` needs a lock file: add `.lock_file(..)`");
            }
            if let Err(why) = Names::new(name, mount, &[]) {
                tell(&why);
            }
        }
        all
    }

    /// Builds the gateway. It is [idle](State::Idle) until a server is built with it; what the lock
    /// file holds is in its catalog at once.
    ///
    /// # Errors
    ///
    /// Fails if there is a mistake in a mount, or if the lock file cannot be read.
    pub fn build(self) -> Result<Gateway> {
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(Error::Mounts(mistakes));
        }
        let lock_file = self.lock_file.as_ref().map(LockFile::read).transpose()?;
        let prefixes: Vec<_> =
            self.mounts.iter().map(|(name, mount)| names::prefix(name, mount)).collect();
        let mounts: Vec<_> = self.mounts.iter().map(|(name, _)| name.clone()).collect();
        let board = Arc::new(Board::new(&mounts));
        let (mut upstreams, mut idle, mut updated) = (vec![], vec![], vec![]);
        for (index, (name, mount)) in self.mounts.into_iter().enumerate() {
            let names = Names::new(&name, &mount, &prefixes)
                .map_err(|why| Error::Mounts(vec![Mistake::new(&name, why)]))?;
            let place = Place::new(board.clone(), index, names);
            let is_locked = mount.is_locked || self.is_locked;
            if let Some(hidden) = mount.hidden {
                place.hide(*hidden.flag.borrow());
                idle.push(Job::Hidden(hidden, place.clone()));
            }
            let endpoint: Arc<dyn Endpoint> = match mount.way {
                Way::Process(process) => Arc::new(process),
                Way::Http(http) => Arc::new(http),
                Way::Endpoint(endpoint) => endpoint,
                Way::Provider(provider) => {
                    let place = place.trusted();
                    place.publish(&provider.catalog().borrow().clone());
                    updated.push(provider.updated());
                    idle.push(Job::Provider(provider, place));
                    continue;
                }
                Way::Nowhere => continue,
            };
            let upstream =
                Upstream::new(&place, endpoint, lock_file.clone(), is_locked, mount.unlocked);
            let upstream = Arc::new(upstream.only_looking(self.only_looks));
            if let Some(offers) = upstream.accepted_before() {
                place.publish(&upstream.catalog(offers));
            }
            upstreams.push(upstream.clone());
            idle.push(Job::Upstream(upstream, place));
        }
        let unseen = upstreams.iter().filter(|one| one.is_unseen());
        let unseen = unseen.map(|one| one.name().to_owned()).collect();
        let stop = CancellationToken::new();
        let inner = Inner {
            board,
            upstreams,
            lock_file: self.lock_file.unwrap_or_else(|| "zcp.lock".into()),
            unseen,
            idle: Mutex::new(idle),
            updated: Mutex::new(Some(select_all(updated).chain(pending()).boxed())),
            tasks: TaskTracker::new(),
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
        };
        Ok(Gateway { inner: Arc::new(inner) })
    }
}
