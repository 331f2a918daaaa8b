//! The only code that starts processes: a child inherits what it is given here, and nothing else.
//!
//! Every descriptor of the server is close-on-exec, always. Those that are meant for a child lose
//! the flag in the child, between `fork` and `exec`, so no other process can inherit them.

use crate::run::Member;
use command_fds::CommandFdExt;
use std::{
    io,
    os::fd::OwnedFd,
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::process::{Child, Command};

/// Held while a process is started. The mark of a run is a resource limit of this process, which a
/// child inherits: it is set for one child at a time.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the first process of a run. Its descriptors are closed here once it has them.
pub(crate) fn run(
    mut command: Command,
    descriptors: Vec<OwnedFd>,
    member: &Member,
) -> io::Result<Child> {
    command.preserved_fds(descriptors);
    let _alone = starting();
    let _marking = member.marking();
    command.spawn()
}

/// Starts a process that belongs to no run.
pub(crate) fn child(command: &mut Command) -> io::Result<Child> {
    let _alone = starting();
    command.spawn()
}

/// The same where there is no runtime.
pub(crate) fn blocking(command: &mut process::Command) -> io::Result<process::Child> {
    let _alone = starting();
    command.spawn()
}
