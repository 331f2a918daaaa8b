//! The `zcp` command: MCP servers for every client, and a client for every server.

mod background;
mod cases;
mod client_config;
mod cmd;
mod demo;
mod errors;
mod findings;
mod home;
mod jq;
mod mounts;
mod nearest;
mod needs;
mod print;
mod project;
mod questions;
mod target;

use clap::Parser;
use cmd::{Args, Command, run};
use errors::{Exited, Usage};
use std::{error::Error, io, process::ExitCode, sync::Arc, time::Duration};
use tokio::{runtime::Runtime, sync::Notify};
use zcp_client::Failure;

/// The exit code of what was stopped by Ctrl-C.
const INTERRUPTED: u8 = 130;
/// How long what is stopped may take to tidy up.
const PATIENCE: Duration = Duration::from_secs(6);

/// Hides from the programs that this process starts: file descriptors that it inherited, and its own
/// memory and environment.
#[cfg(unix)]
fn harden() {
    // Before there are threads.
    close_fds::set_fds_cloexec(3, &[]);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!("other processes of this user can read this one's memory: {error}");
        }
    }
}

#[cfg(not(unix))]
fn harden() {}

fn main() -> ExitCode {
    if let Some(words) = jq::called_as() {
        return jq::run(&words);
    }
    if let Some(words) = confined() {
        print::failure(&zcp_scripts::become_confined(&words), false);
        return ExitCode::from(126);
    }
    let args = Args::parse();
    print::start_log(args.log_filter(), args.log_format());
    harden();
    let idle = Arc::new(Notify::new());
    let runtime = match runtime(&args.command, &idle) {
        Ok(runtime) => runtime,
        Err(error) => {
            print::failure(&error, args.json);
            return ExitCode::FAILURE;
        }
    };
    let (json, serves) = (args.json, is_server(&args.command));
    let done = runtime.block_on(unless_stopped(args.command, json, &idle));
    // A question that nobody has answered is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads where the server is.
        Err(error) if serves && is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            print::failure(&*error, json);
            exit_code(&*error)
        }
    }
}

/// The runtime of a command. Unless that is a server, `idle` is notified whenever a thread of it has
/// nothing more to do: after a task has ended, for example.
fn runtime(command: &Command, idle: &Arc<Notify>) -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if !is_server(command) {
        let idle = idle.clone();
        builder.on_thread_park(move || idle.notify_one());
    }
    builder.enable_all().build()
}

/// Whether a command serves, and has its own way to stop.
fn is_server(command: &Command) -> bool {
    matches!(command, Command::Serve(_) | Command::Dev(_))
}

/// The words after the one that asks to be confined, which is not for people.
fn confined() -> Option<Vec<String>> {
    let mut words = std::env::args().skip(1);
    (words.next()? == zcp_scripts::CONFINED).then(|| words.collect())
}

/// Does what was asked, unless somebody thinks better of it: what was begun is ended then. Servers
/// have their own way to stop.
async fn unless_stopped(command: Command, json: bool, idle: &Notify) -> Result<(), Box<dyn Error>> {
    if is_server(&command) {
        return run(command, json).await;
    }
    tokio::select! {
        done = run(command, json) => return done,
        Ok(()) = tokio::signal::ctrl_c() => (),
    }
    tokio::select! {
        () = all_ended(idle) => (),
        () = tokio::time::sleep(PATIENCE) => (),
        // A second Ctrl-C ends the process at once.
        _ = tokio::signal::ctrl_c() => (),
    }
    Err(Exited::new(INTERRUPTED, "interrupted; the processes it started were terminated").into())
}

/// Waits until whatever was under way has tidied up: servers that were started are told to end.
async fn all_ended(idle: &Notify) {
    let metrics = tokio::runtime::Handle::current().metrics();
    // A thread that ended the last task finds nothing more to do after that. If it did before this
    // waits, the notification is kept.
    while metrics.num_alive_tasks() > 0 {
        idle.notified().await;
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What went wrong, for scripts. `cmd` has the list for people.
fn exit_code(error: &(dyn Error + 'static)) -> ExitCode {
    if error.is::<Usage>() {
        return ExitCode::from(2);
    }
    if let Some(Exited { code, .. }) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    ExitCode::from(match error.downcast_ref::<zcp_client::Error>() {
        Some(zcp_client::Error::Tool(_)) => 3,
        Some(zcp_client::Error::Refused(_)) => 4,
        Some(zcp_client::Error::Lost(Failure::Denied(_) | Failure::Status { status: 401, .. })) => {
            6
        }
        Some(zcp_client::Error::Lost(_) | zcp_client::Error::Late(_)) => 5,
        _ => 1,
    })
}
