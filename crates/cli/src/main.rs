//! The `zcp` command: MCP servers for every client, from the command line.

mod args;
mod cmd;
mod demo;
mod print;

use args::{Args, Command};
use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    print::start_log(&args.log, args.json);
    let done = match args.command {
        Command::Serve(serve) => cmd::serve::run(serve, args.json).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::failure(&*error, args.json);
            ExitCode::FAILURE
        }
    }
}
