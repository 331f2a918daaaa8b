//! What was typed.

mod keep;
mod project;
mod reach;

pub(crate) use keep::{Kept, OneTask, RotateKeys, StoreCommand, TasksCommand};
pub(crate) use project::{
    Bundle, Completions, Config, Dev, Doctor, Health, Import, Install, Lang, Lint, Lock, New,
    Request, Run, Serve, Shell, Test, Validate,
};
pub(crate) use reach::{Call, Complete, List, Login, Logout, Ping, Prompt, Read, Target, What};

use clap::{Parser, Subcommand};
use std::{error::Error, fmt};

/// What was typed is wrong, and how.
#[derive(Debug)]
pub(crate) struct Usage(String);

/// Says that what was typed is wrong.
#[expect(clippy::needless_pass_by_value, reason = "it stands where errors are mapped")]
pub(crate) fn usage(error: Box<dyn Error>) -> Box<dyn Error> {
    Box::new(Usage(error.to_string()))
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// Something that ends with an exit code of its own, and why.
#[derive(Debug)]
pub(crate) struct Exited {
    pub(crate) code: u8,
    why: String,
}

impl Exited {
    pub(crate) fn new(code: u8, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for Exited {}

const MORE: &str = "Examples:
  zcp new my-tools               begin a folder of scripts
  zcp serve my-tools             serve it
  zcp call my-tools hello        call a tool of it

Exit codes:
  0  done
  1  something else went wrong
  2  what was typed is wrong
  3  the tool ran, and failed
  4  the server refused
  5  the server cannot be reached, went away, or takes too long
  6  the server wants a token: zcp login SERVER
130  it was stopped by Ctrl-C
`zcp run` ends as its tool does where that failed by itself.";

/// MCP servers for every client, and a client for every server, of every age.
#[derive(Debug, Parser)]
#[command(name = "zcp", version, arg_required_else_help = true, after_help = MORE)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print JSON for programs instead of words for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// What to log to standard error: error, warn, info, debug, trace, or a tracing filter.
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Begin a folder of scripts, or add to one.
    New(New),
    /// Serve a folder of scripts, or a demo.
    Serve(Serve),
    /// Serve a folder of scripts, and show what happens while you change it.
    Dev(Dev),
    /// Run a tool of a folder, once.
    Run(Run),
    /// Run the cases of a folder's tests.
    Test(Test),
    /// Find what is wrong with a folder of scripts.
    Validate(Validate),
    /// Find what models and clients will stumble over in a server's tools, and what they cost.
    Lint(Lint),
    /// Say what this machine has and lacks to run a folder's scripts.
    Doctor(Doctor),
    /// Say whether a folder can be served, for what starts servers and watches them.
    Health(Health),
    /// Write a folder's server into a client's configuration.
    Install(Install),
    /// Show what a folder's settings come to, or what a client's configuration needs.
    Config(Config),
    /// Make tools of an API, a Makefile, a justfile or a package.json.
    Import(Import),
    /// Look at the tools of the servers a folder mounts, and agree to them.
    Lock(Lock),
    /// Pack a folder of scripts into one file that clients install with a click (MCPB).
    Bundle(Bundle),
    /// List what a server offers.
    List(List),
    /// Call a tool of a server.
    Call(Call),
    /// Read a resource of a server.
    Read(Read),
    /// Get a prompt of a server, filled.
    Prompt(Prompt),
    /// Ask a server what an argument could be.
    Complete(Complete),
    /// Ask a server for a sign of life.
    Ping(Ping),
    /// Log in to a server that wants to know who you are.
    Login(Login),
    /// Forget the login to a server.
    Logout(Logout),
    /// Look after what servers keep.
    #[command(subcommand)]
    Store(StoreCommand),
    /// List the sessions of the servers that use a store.
    #[command(after_help = "Examples:
  zcp sessions --data ./state
  zcp sessions --store redis://127.0.0.1/ --json")]
    Sessions(Kept),
    /// Look after the tasks of the servers that use a store.
    #[command(subcommand)]
    Tasks(TasksCommand),
    /// Print what a shell needs to complete this command's words.
    Completions(Completions),
    /// Print this command's manual page.
    #[command(after_help = "Examples:
  zcp man | man -l -
  zcp man > ~/.local/share/man/man1/zcp.1")]
    Man,
    /// Make the request of a file, with the arguments on standard input as a JSON object.
    #[command(hide = true)]
    Http(Request),
}
