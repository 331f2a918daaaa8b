//! The `zcp` command: MCP servers for every client, and a client for every server.

mod args;
mod cmd;
mod demo;
mod print;
mod questions;
mod target;

use args::{Args, Command};
use clap::Parser;
use std::{error::Error, process::ExitCode};
use zcp_client::Failure;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    print::start_log(&args.log, args.json);
    let done = match args.command {
        Command::Serve(serve) => cmd::serve::run(serve, args.json).await,
        Command::List(list) => cmd::list::run(list, args.json).await,
        Command::Call(call) => cmd::call::run(call, args.json).await,
        Command::Read(read) => cmd::read::run(read, args.json).await,
        Command::Prompt(prompt) => cmd::prompt::run(prompt, args.json).await,
        Command::Complete(complete) => cmd::complete::run(complete, args.json).await,
        Command::Ping(ping) => cmd::ping::run(ping, args.json).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            print::failure(&*error, args.json);
            exit_code(&*error)
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// What went wrong, for scripts. `args` has the list for people.
fn exit_code(error: &(dyn Error + 'static)) -> ExitCode {
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
