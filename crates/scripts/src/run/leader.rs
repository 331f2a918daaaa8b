//! The first process of a run, and the process group it leads.

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::{
    io,
    os::fd::OwnedFd,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::Child,
    time::timeout,
};
use zcp::wire::sync::lock;

/// How long a process that is told to end may take.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// A process group, until its leader is reaped: from then on the system may give its number to
/// another process, which must not be signalled.
#[derive(Debug)]
pub(super) struct Group(Mutex<Option<Pid>>);

impl Group {
    fn leader(&self) -> MutexGuard<'_, Option<Pid>> {
        lock(&self.0)
    }

    /// The number of its leader, which is that of the group.
    pub(super) fn id(&self) -> Option<Pid> {
        *self.leader()
    }

    /// To all of its processes.
    pub(super) fn signal(&self, signal: Signal) {
        // The lock is held, so that the leader is not reaped meanwhile.
        if let Some(leader) = *self.leader()
            // A process in a sandbox makes the group itself, right after its start.
            && kill_process_group(leader, signal).is_err()
        {
            let _ = kill_process(leader, signal);
        }
    }

    /// Kills what is left of it, for the last time.
    fn end(&self) {
        self.signal(Signal::KILL);
        *self.leader() = None;
    }
}

/// The first process of a run. Dropping it kills its group.
#[derive(Debug)]
pub(super) struct Leader {
    child: Child,
    /// Readable when the process has exited, which does not reap it.
    exited: Option<AsyncFd<OwnedFd>>,
    pub(super) group: Arc<Group>,
}

impl Leader {
    pub(super) fn new(child: Child) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { child, exited: id.and_then(exited), group: Arc::new(Group(Mutex::new(id))) }
    }

    /// Waits until it ends, and ends what it left in its group before it is reaped.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(exited) = &self.exited {
            let _ = exited.readable().await?;
            self.group.end();
        }
        let status = self.child.wait().await;
        // Only kernels without pidfds come here with a group.
        self.group.end();
        status
    }

    /// Tells it to end, and after a while makes it.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
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

#[expect(deprecated, reason = "it is unsound for foreign types only: an `OwnedFd` stays open")]
fn exited(process: Pid) -> Option<AsyncFd<OwnedFd>> {
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    AsyncFd::with_interest(process, Interest::READABLE).ok()
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.group.end();
    }
}
