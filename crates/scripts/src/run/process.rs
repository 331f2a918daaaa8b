//! A script's process and all that come of it: started without a shell, ended as a whole.

use super::{
    channel::{Channel, Ends},
    family::{Family, MARK, Member, Share},
    guard::Guard,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::TaskTracker;

/// Held while a process is started: what it inherits must reach no other.
static SPAWNING: Mutex<()> = Mutex::new(());
/// How long a process that is told to end may take.
const GRACE: Duration = Duration::from_secs(2);

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
    pub(crate) ceilings: Ceilings,
    /// What all processes of it may have together.
    pub(crate) share: Share,
}

/// What the system itself refuses a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ceilings {
    pub(crate) memory: Option<u64>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) open_files: Option<u64>,
}

/// Starts processes, and sees to it that none is left.
#[derive(Debug)]
pub(crate) struct Nursery {
    family: Arc<Family>,
    /// Looks after the family, once there is one.
    keeping: OnceLock<()>,
    /// And after its end.
    guard: OnceLock<Option<Guard>>,
    tracker: TaskTracker,
    keeper: TaskTracker,
}

impl Default for Nursery {
    fn default() -> Self {
        Self {
            family: Family::new(),
            keeping: OnceLock::new(),
            guard: OnceLock::new(),
            tracker: TaskTracker::new(),
            keeper: TaskTracker::new(),
        }
    }
}

impl Nursery {
    /// From now on a folder is removed, and what runs is ended, even if this server is killed.
    pub(crate) fn guard(&self, folder: &Path) {
        self.guard.get_or_init(|| {
            let guard = Guard::start(&self.family, folder);
            guard.map_err(|error| tracing::warn!("a killed server may leave scripts: {error}")).ok()
        });
    }

    /// Starts a process in a group of its own, with a channel beside its standard ones.
    pub(crate) fn start(&self, recipe: &Recipe) -> io::Result<Process> {
        self.keeping.get_or_init(|| self.family.keep(&self.keeper));
        let (channel, ends) = Channel::new()?;
        let mut command = Command::new(&recipe.program);
        command.args(&recipe.args).current_dir(&recipe.cwd).env_clear();
        command.envs(recipe.env.iter().map(|(name, value)| (name, value)));
        command.envs(recipe.out_names.iter().map(|name| (name, ends.out_path())));
        command.env("ZCP_IN", ends.in_path());
        let member = self.family.begin(recipe.share);
        command.env(MARK, member.mark());
        command.stdin(if recipe.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = spawn(&mut command, &ends, &member)?;
        let group = Group::of(&child);
        group.set(recipe.ceilings);
        group.0.into_iter().for_each(|leader| member.leads(leader.as_raw_pid()));
        Ok(Process {
            member,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            channel: Some(channel),
            running: Running { child: Some(child), group, tracker: self.tracker.clone() },
        })
    }

    /// Ends all that run, and waits until they have ended.
    pub(crate) async fn close(&self) {
        let leaders = |signal| {
            for leader in self.family.leaders() {
                Group(Pid::from_raw(leader)).signal(signal);
            }
        };
        leaders(Signal::TERM);
        let gone = async {
            while !self.family.leaders().is_empty() {
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

fn spawn(command: &mut Command, ends: &Ends, member: &Member) -> io::Result<Child> {
    let _alone = SPAWNING.lock().unwrap_or_else(PoisonError::into_inner);
    ends.open()?;
    let _marking = member.marking();
    command.spawn()
}

/// A process under way. Dropping it ends the process, and all that came of it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) channel: Option<Channel>,
    pub(crate) member: Member,
    pub(crate) running: Running,
}

#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    group: Group,
    tracker: TaskTracker,
}

impl Running {
    /// Waits until it ends by itself, and ends what it left behind.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let Some(child) = &mut self.child else { return Err(io::ErrorKind::NotFound.into()) };
        let status = child.wait().await;
        self.child = None;
        self.group.signal(Signal::KILL);
        status
    }

    /// Ends it at once.
    pub(crate) async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.group.signal(Signal::KILL);
        self.wait().await
    }

    /// Tells it to end, and after a while makes it.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        self.group.signal(Signal::TERM);
        match timeout(GRACE, self.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.group.signal(Signal::KILL);
                self.wait().await
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        // Nobody waits for it: it is told to end, and then made to.
        let ending = Ending { child, group: self.group };
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            self.tracker.spawn_on(ending.end(), &handle);
        }
    }
}

/// A process that is told to end. Dropping it makes it.
struct Ending {
    child: Child,
    group: Group,
}

impl Ending {
    async fn end(mut self) {
        self.group.signal(Signal::TERM);
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.group.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

/// The group of processes a script is.
#[derive(Debug, Clone, Copy)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    /// To all of them; those that are gone do not mind.
    fn signal(self, signal: Signal) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }

    fn set(self, ceilings: Ceilings) {
        let set = |resource, most: u64| {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            if let Err(error) = prlimit(self.0, resource, limit) {
                tracing::warn!("a limit could not be set: {error}");
            }
        };
        // What is reserved and not used counts for nothing: some languages reserve a lot.
        ceilings.memory.into_iter().for_each(|most| set(Resource::Data, most));
        ceilings.cpu.into_iter().for_each(|most| set(Resource::Cpu, most.as_secs().max(1)));
        ceilings.open_files.into_iter().for_each(|most| set(Resource::Nofile, most));
    }
}
