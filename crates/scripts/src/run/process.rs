//! A script's process and all that come of it: started without a shell, ended as a whole.

use super::{
    channel::Channel,
    leader::{GRACE, Leader},
    process_tree::{ProcessTree, Share, Tracked, VARIABLE},
    watchdog::Watchdog,
};
use crate::{
    manifest::{Limits, defaults},
    spawn,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::TaskTracker;

/// What is started, and how.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Variables that name the way to the server.
    pub(crate) out_names: Vec<&'static str>,
    pub(crate) stdin: Option<Vec<u8>>,
    /// Set right after its start, where nothing sets them before.
    pub(crate) ceilings: Ceilings,
    /// It begins a session, and so a group, itself: right after its start.
    pub(crate) begins_session: bool,
    /// What all processes of it may have together.
    pub(crate) share: Share,
}

/// What the system itself refuses a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ceilings {
    pub(crate) memory: Option<u64>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) open_files: Option<u64>,
    /// Bytes of a file it writes.
    pub(crate) file_size: Option<u64>,
}

/// Starts processes, and sees to it that none is left.
#[derive(Debug)]
pub(crate) struct Nursery {
    tree: Arc<ProcessTree>,
    /// Set once the tree is looked after.
    keeping: OnceLock<()>,
    /// Ends what is left if this server is killed.
    watchdog: OnceLock<Option<Watchdog>>,
    tracker: TaskTracker,
    keeper: TaskTracker,
}

impl Default for Nursery {
    fn default() -> Self {
        Self {
            tree: ProcessTree::new(),
            keeping: OnceLock::new(),
            watchdog: OnceLock::new(),
            tracker: TaskTracker::new(),
            keeper: TaskTracker::new(),
        }
    }
}

impl Nursery {
    /// From now on a folder is removed, and what runs is ended, even if this server is killed.
    pub(crate) fn guard(&self, folder: &Path) {
        self.watchdog.get_or_init(|| {
            let started = Watchdog::start(&self.tree, folder);
            started
                .map_err(|error| tracing::warn!("a killed server may leave scripts: {error}"))
                .ok()
        });
    }

    /// Starts a process in a group of its own, with a channel beside its standard ones.
    pub(crate) fn start(&self, recipe: &Recipe) -> io::Result<Process> {
        self.keeping.get_or_init(|| self.tree.keep(&self.keeper));
        let (channel, ends) = Channel::new()?;
        let mut command = Command::new(&recipe.program);
        command.args(&recipe.args).current_dir(&recipe.cwd).env_clear();
        command.envs(recipe.env.iter().map(|(name, value)| (name, value)));
        command.envs(recipe.out_names.iter().map(|name| (name, ends.out_path())));
        command.env("ZCP_IN", ends.in_path());
        let tracked = self.tree.track(recipe.share);
        command.env(VARIABLE, tracked.variable());
        command.stdin(if recipe.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !recipe.begins_session {
            command.process_group(0);
        }
        let mut child = spawn::run(command, ends.into_descriptors(), tracked.limit())?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let leader = Leader::new(child);
        if let Err(error) = recipe.ceilings.set(leader.group.id()) {
            tracing::warn!("a limit could not be set: {error}");
        }
        tracked.leads(&leader.group);
        let running = Running { leader: Some(leader), tracker: self.tracker.clone() };
        Ok(Process { tracked, stdin, stdout, stderr, channel: Some(channel), running })
    }

    /// Ends all that run, and waits until they have ended.
    pub(crate) async fn close(&self) {
        let leaders = |signal| {
            for group in self.tree.groups() {
                group.signal(signal);
            }
        };
        leaders(Signal::TERM);
        let gone = async {
            while !self.tree.groups().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(GRACE, gone).await.is_err() {
            leaders(Signal::KILL);
        }
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// A process under way. Dropping it ends the process, and all that came of it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) channel: Option<Channel>,
    pub(super) tracked: Tracked,
    pub(crate) running: Running,
}

#[derive(Debug)]
pub(crate) struct Running {
    leader: Option<Leader>,
    tracker: TaskTracker,
}

impl Running {
    fn leader(&mut self) -> io::Result<&mut Leader> {
        self.leader.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits until it ends by itself, and ends what it left behind.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.leader()?.wait().await;
        self.leader = None;
        status
    }

    /// Ends it at once.
    pub(crate) async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.leader()?.group.signal(Signal::KILL);
        self.wait().await
    }

    /// Tells it to end, and after a while makes it.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        let status = self.leader()?.end().await;
        self.leader = None;
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut leader) = self.leader.take() else { return };
        // Nobody waits for it: it is told to end, and then made to.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            self.tracker.spawn_on(async move { drop(leader.end().await) }, &handle);
        }
    }
}

impl Ceilings {
    /// Those of some limits. Files have one in a sandbox: they may be where nobody looks.
    pub(crate) fn of(limits: &Limits, is_confined: bool) -> Self {
        Self {
            memory: limits.memory,
            cpu: limits.cpu,
            open_files: limits.open_files,
            file_size: is_confined.then_some(defaults::FILE_SIZE),
        }
    }

    /// Sets them, for another process or for this one.
    pub(crate) fn set(self, process: Option<Pid>) -> io::Result<()> {
        let cpu = self.cpu.map(|most| most.as_secs().max(1));
        for (resource, most) in [
            // What is reserved and not used counts for nothing: some languages reserve a lot.
            (Resource::Data, self.memory),
            (Resource::Cpu, cpu),
            (Resource::Nofile, self.open_files),
            (Resource::Fsize, self.file_size),
        ] {
            if let Some(most) = most {
                let own = process.map_or_else(|| getrlimit(resource).maximum, |_| None);
                // What is less already stays.
                let within = |most: u64| Some(own.map_or(most, |own| own.min(most)));
                // A second later the system kills it without saying why.
                let last = if resource == Resource::Cpu { most + 1 } else { most };
                let limit = Rlimit { current: within(most), maximum: within(last) };
                prlimit(process, resource, limit)?;
            }
        }
        Ok(())
    }
}
