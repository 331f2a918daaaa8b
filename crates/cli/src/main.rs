//! The `zcp` command: MCP servers for every client, and a client for every server.

mod args;
mod background;
mod cases;
mod clients;
mod cmd;
mod config;
mod consent;
mod demo;
mod edit;
mod files;
mod findings;
mod home;
mod jq;
mod mounts;
mod nearest;
mod print;
mod project;
mod questions;
mod target;

use args::{Args, Command, Exited, StoreCommand, TasksCommand, Usage};
use clap::Parser;
use std::{error::Error, process::ExitCode, time::Duration};
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
    print::start_log(&args.log, args.json);
    harden();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::failure(&error, args.json);
            return ExitCode::FAILURE;
        }
    };
    let json = args.json;
    let done = runtime.block_on(unless_stopped(args.command, json));
    // A question that nobody has answered is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            print::failure(&*error, json);
            exit_code(&*error)
        }
    }
}

/// The words after the one that asks to be confined, which is not for people.
fn confined() -> Option<Vec<String>> {
    let mut words = std::env::args().skip(1);
    (words.next()? == zcp_scripts::CONFINED).then(|| words.collect())
}

/// Does what was asked, unless somebody thinks better of it: what was begun is ended then. Servers
/// have their own way to stop.
async fn unless_stopped(command: Command, json: bool) -> Result<(), Box<dyn Error>> {
    if matches!(command, Command::Serve(_) | Command::Dev(_)) {
        return run(command, json).await;
    }
    tokio::select! {
        done = run(command, json) => return done,
        Ok(()) = tokio::signal::ctrl_c() => (),
    }
    tokio::select! {
        () = all_ended() => (),
        () = tokio::time::sleep(PATIENCE) => (),
        // Whoever says so twice does not want to wait.
        _ = tokio::signal::ctrl_c() => (),
    }
    Err(Exited::new(INTERRUPTED, "stopped, and what it was doing with it").into())
}

/// Waits until whatever was under way has tidied up: servers that were started are told to end.
async fn all_ended() {
    let metrics = tokio::runtime::Handle::current().metrics();
    while metrics.num_alive_tasks() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn run(command: Command, json: bool) -> Result<(), Box<dyn Error>> {
    match command {
        Command::New(new) => cmd::new::run(&new, json),
        Command::Dev(dev) => cmd::dev::run(dev, json).await,
        Command::Run(run) => cmd::run::run(run, json).await,
        Command::Test(test) => cmd::test::run(test, json).await,
        Command::Validate(validate) => cmd::validate::run(&validate, json).await,
        Command::Lint(lint) => cmd::lint::run(lint, json).await,
        Command::Doctor(doctor) => cmd::doctor::run(&doctor, json).await,
        Command::Health(health) => cmd::health::run(&health).await,
        Command::Install(install) => cmd::install::run(&install, json),
        Command::Config(config) => cmd::config::run(&config, json).await,
        Command::Import(import) => cmd::import::run(&import, json),
        Command::Bundle(bundle) => cmd::bundle::run(&bundle, json).await,
        Command::Lock(lock) => cmd::lock::run(&lock, json).await,
        Command::Completions(completions) => cmd::shell::completions(&completions, json),
        Command::Man => cmd::shell::man(json),
        Command::Http(request) => cmd::http::run(request).await,
        Command::Serve(serve) => cmd::serve::run(serve, json).await,
        Command::List(list) => cmd::list::run(list, json).await,
        Command::Call(call) => cmd::call::run(call, json).await,
        Command::Read(read) => cmd::read::run(read, json).await,
        Command::Prompt(prompt) => cmd::prompt::run(prompt, json).await,
        Command::Complete(complete) => cmd::complete::run(complete, json).await,
        Command::Ping(ping) => cmd::ping::run(ping, json).await,
        Command::Login(login) => cmd::login::run(login, json).await,
        Command::Logout(logout) => cmd::login::out(logout, json).await,
        Command::Store(StoreCommand::Check(kept)) => cmd::store::check(&kept, json).await,
        Command::Store(StoreCommand::RotateKeys(rotate)) => {
            cmd::store::rotate_keys(&rotate, json).await
        }
        Command::Sessions(kept) => cmd::sessions::list(&kept, json).await,
        Command::Tasks(TasksCommand::Ls(kept)) => cmd::tasks::list(&kept, json).await,
        Command::Tasks(TasksCommand::Show(one)) => cmd::tasks::show(&one, json).await,
        Command::Tasks(TasksCommand::Cancel(one)) => cmd::tasks::cancel(&one, json).await,
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// What went wrong, for scripts. `args` has the list for people.
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
