//! The only code that starts processes: a child inherits what it is given here, and nothing else.
//!
//! Every descriptor of the server is close-on-exec, always. Those that are meant for a child lose
//! the flag in the child, between `fork` and `exec`, so no other process can inherit them.

use command_fds::CommandFdExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io,
    os::fd::OwnedFd,
    process,
    sync::{Mutex, MutexGuard},
};
use tokio::process::{Child, Command};
use zcp::wire::sync::lock;

/// Held while a process is started. A run is tagged by a resource limit of this process, which its
/// child inherits: the limit is set for one child at a time.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    lock(&STARTING)
}

/// Starts the first process of a run, whose `RLIMIT_RTTIME` is `tag`. Its descriptors are closed here
/// once it has them.
pub(crate) fn run(mut command: Command, descriptors: Vec<OwnedFd>, tag: u64) -> io::Result<Child> {
    command.preserved_fds(descriptors);
    let _alone = starting();
    let _tagged = Tagged::with(tag);
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

/// This process while its soft `RLIMIT_RTTIME` is a tag. Dropping it sets the limit back.
///
/// The limit bounds processes with real-time scheduling, which scripts do not use, and its values
/// here are too high to bound anybody. Every process started meanwhile inherits it.
#[must_use]
struct Tagged(Rlimit);

impl Tagged {
    fn with(tag: u64) -> Self {
        let before = getrlimit(Resource::Rttime);
        let limit = Rlimit { current: Some(tag), maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Rttime, limit) {
            tracing::debug!("a process is tagged by its environment alone: {error}");
        }
        Self(before)
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        if let Err(error) = setrlimit(Resource::Rttime, self.0) {
            tracing::warn!("RLIMIT_RTTIME could not be set back: {error}");
        }
    }
}
