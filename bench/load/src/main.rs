//! A load generator for MCP servers. Each command prints one JSON object.

mod answer;
mod ask;
mod calls;
mod cpu;
mod crowd;
mod http;
mod message;
mod open;
mod options;
mod replay;
mod sessions;
mod startup;
mod stdio;
mod verify;
mod websocket;

use clap::Parser;
use options::{Command, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    let measured = match Options::parse().command {
        Command::Http(options) => calls::over_http(&options),
        Command::Ws(options) => calls::over_websocket(&options),
        Command::Stdio(options) => stdio::run(&options),
        Command::Sessions(options) => sessions::run(&options),
        Command::Open(options) => open::run(&options),
        Command::Startup(options) => startup::run(&options),
        Command::Replay(options) => replay::run(&options),
    };
    match measured {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
