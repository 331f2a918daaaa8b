//! Other servers beside a folder's own scripts, as `[mounts]` of `zcp.toml` says.

mod choice;
mod lock;
mod offers;
mod upstream;

pub(crate) use lock::Lock;

use crate::{cmd::serve, print};
use choice::Choice;
use futures_util::{StreamExt, stream::BoxStream};
use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use upstream::Upstream;
use zcp::{Catalog, Provider};
use zcp_scripts::{Mount, Processes, Scripts};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// What is mounted beside a folder.
#[derive(Default)]
pub(crate) struct Mounts {
    pub(crate) providers: Vec<Named>,
    /// Of other folders' scripts.
    pub(crate) processes: Vec<Processes>,
}

/// Mounts everything a folder asks for. Servers that cannot be reached yet are tried again; what
/// is known of them from before is offered meanwhile. With `locked`, nothing is offered that is not
/// in the lock file.
pub(crate) async fn open(scripts: &Scripts, locked: bool) -> Result<Mounts> {
    let mut mounts = Mounts::default();
    let lock = Lock::read(scripts.root())?;
    let (mut reached, mut new) = (vec![], vec![]);
    for (name, mount) in scripts.mounts() {
        let said = |why: Box<dyn Error>| format!("[mounts.{name}] of zcp.toml: {why}");
        let choice = Choice::new(name, mount, scripts.mounts()).map_err(said)?;
        // A policy that comes later takes away what it does not guard.
        let guarded = (!mount.unguarded).then(|| scripts.has_policy());
        if guarded.as_ref().is_some_and(|has_policy| *has_policy.borrow()) {
            let why = "the folder's policy is not for mounted servers: choose what it offers with \
                       `tools`, and say `unguarded = true`";
            return Err(said(why.into()).into());
        }
        match &mount.folder {
            Some(folder) => {
                let other = serve::folder(&scripts.root().join(folder)).map_err(said)?;
                if !other.mounts().is_empty() {
                    tracing::warn!("[mounts.{name}]: what is mounted there is not mounted here");
                }
                mounts.processes.push(other.processes());
                mounts.providers.push(Named::new(other, choice, guarded));
            }
            None => {
                let mut upstream = Upstream::new(name, mount, scripts).await.map_err(said)?;
                upstream.is_locked |= locked;
                if !lock.knows(name) && !upstream.is_locked {
                    new.push(name.as_str());
                }
                let lock = lock.clone();
                reached.push(async move {
                    Named::new(upstream.provide(lock, &choice).await, choice, guarded)
                });
            }
        }
    }
    if !new.is_empty() {
        print::aside(&format!("Waiting for mounted servers that are new: {} …", new.join(", ")));
    }
    mounts.providers.extend(futures_util::future::join_all(reached).await);
    Ok(mounts)
}

/// What is wrong with what a folder mounts, as far as that can be seen from here.
pub(crate) fn mistakes(scripts: &Scripts) -> Vec<String> {
    let wrong = |(name, mount): (&String, &Mount)| {
        let why = match (Choice::new(name, mount, scripts.mounts()), &mount.folder, &mount.command)
        {
            (Err(why), ..) => why.to_string(),
            (_, Some(folder), _) if !scripts.root().join(folder).is_dir() => {
                format!("there is no folder {}", folder.display())
            }
            (_, _, Some(words)) => {
                let program = words.first().map(String::as_str).unwrap_or_default();
                match which::which_in(program, std::env::var_os("PATH"), scripts.root()) {
                    Ok(_) => return None,
                    Err(_) => format!("`{program}` is not in PATH"),
                }
            }
            _ => return None,
        };
        Some(format!("[mounts.{name}] of zcp.toml: {why}"))
    };
    scripts.mounts().iter().filter_map(wrong).collect()
}

/// What the servers a folder mounts offer now, for a new lock file.
pub(crate) async fn listed(scripts: &Scripts) -> Result<Lock> {
    let lock = Lock::empty(scripts.root());
    let servers = scripts.mounts().iter().filter(|(_, mount)| mount.folder.is_none());
    for (name, mount) in servers {
        let said = |why: Box<dyn Error>| format!("[mounts.{name}] of zcp.toml: {why}");
        let choice = Choice::new(name, mount, scripts.mounts()).map_err(said)?;
        let upstream = Upstream::new(name, mount, scripts).await.map_err(said)?;
        lock.set(name, &upstream.offers(&choice).await.map_err(said)?);
    }
    Ok(lock)
}

/// Exactly one way to the other server.
fn is_one_way(mount: &Mount) -> bool {
    [mount.folder.is_some(), mount.command.is_some(), mount.url.is_some()]
        .iter()
        .filter(|is| **is)
        .count()
        == 1
}

/// A provider whose tools and prompts have other names, and of which only some are offered.
pub(crate) struct Named {
    catalog: watch::Receiver<Arc<Catalog>>,
    updated: Mutex<Option<BoxStream<'static, String>>>,
    _following: DropGuard,
}

impl Named {
    /// `guarded` tells whether there is a policy, for what is not offered beside one.
    fn new(
        provider: impl Provider,
        choice: Choice,
        guarded: Option<watch::Receiver<bool>>,
    ) -> Self {
        let mut inner = provider.catalog();
        let mut guarded = guarded.unwrap_or_else(|| watch::channel(false).1);
        let named = move |catalog: &Catalog, is_guarded: bool| {
            Arc::new(catalog.chosen(|kind, name| choice.name(kind, name).filter(|_| !is_guarded)))
        };
        let first = named(&inner.borrow_and_update(), *guarded.borrow_and_update());
        let (sender, catalog) = watch::channel(first);
        let updated = Mutex::new(Some(provider.updated()));
        let stop = CancellationToken::new();
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(async move {
            // Its changes are followed for as long as it is there.
            let _provider = provider;
            let mut told = false;
            loop {
                tokio::select! {
                    Ok(()) = inner.changed() => (),
                    Ok(()) = guarded.changed() => (),
                    else => return,
                }
                let is_guarded = *guarded.borrow_and_update();
                if is_guarded && !told {
                    tracing::warn!("the folder has a policy now: what is mounted is not offered");
                }
                told = is_guarded;
                let now = named(&inner.borrow_and_update(), is_guarded);
                sender.send_replace(now);
            }
        }));
        Self { catalog, updated, _following: stop.drop_guard() }
    }
}

impl Provider for Named {
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.clone()
    }

    fn updated(&self) -> BoxStream<'static, String> {
        let updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner).take();
        updated.unwrap_or_else(|| futures_util::stream::pending().boxed())
    }
}
