//! The commands: the flags and the code of each in one file.

mod operate;
mod project;
mod reach;

use crate::print::LogFormat;
use operate::{completing, health, serve, sessions, shell, store, tasks};
use project::{
    bundle, config, dev, doctor, http, import, install, lint, lock, new, run, test, validate,
};
use reach::{call, complete, describe, list, login, ping, prompt, read};
use std::error::Error;
use store::StoreCommand;
use tasks::TasksCommand;

const MORE: &str = "Examples:
  zcp new my-tools               begin a folder of scripts
  zcp serve my-tools             serve it
  zcp call my-tools hello        call a tool of it

Exit codes:
  0  done
  1  something else went wrong
  2  what was typed is wrong, such as arguments that do not fit the tool
  3  the tool ran, and failed
  4  the server refused
  5  the server cannot be reached or went away, or the server or the tool took too long
  6  the server wants a token: zcp login SERVER
130  it was stopped by Ctrl-C
`zcp run` ends as its tool does where that failed by itself.";

/// MCP servers for every client, and a client for every server, of every age.
#[derive(Debug, clap::Parser)]
#[command(name = "zcp", version, arg_required_else_help = true, after_help = MORE)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print JSON for programs instead of words for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// What to log to standard error: error, warn, info, debug, trace, or a tracing filter. Default:
    /// warn, and one line for each call with `zcp serve` over HTTP.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// How to write log lines: text with the time, json, or plain without the time. Default: plain
    /// with `zcp run`, json with --json, and text otherwise.
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

impl Args {
    /// What is logged.
    pub(crate) fn log_filter(&self) -> &str {
        match (&self.log, &self.command) {
            (Some(filter), _) => filter,
            // With a client on standard input, standard error is the client's log.
            (None, Command::Serve(serve)) if !serve.stdio => "warn,zcp::calls=info",
            // A shell shows nothing but the words.
            (None, Command::Completing(_)) => "off",
            (None, Command::Run(_)) => "warn,zcp_client::stderr=debug",
            (None, _) => "warn",
        }
    }

    /// How log lines are written.
    pub(crate) fn log_format(&self) -> LogFormat {
        self.log_format.unwrap_or(match &self.command {
            _ if self.json => LogFormat::Json,
            Command::Run(_) => LogFormat::Plain,
            _ => LogFormat::Text,
        })
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Begin a folder of scripts, or add to one.
    New(new::New),
    /// Serve a folder of scripts, or a demo.
    Serve(serve::Serve),
    /// Serve a folder of scripts, and show what happens while you change it.
    Dev(dev::Dev),
    /// Run a tool of a folder, once.
    Run(run::Run),
    /// Run the cases of a folder's tests.
    Test(test::Test),
    /// Find what is wrong with a folder of scripts.
    Validate(validate::Validate),
    /// Find what models and clients will stumble over in a server's tools, and what they cost.
    Lint(lint::Lint),
    /// Say what this machine has and lacks to run a folder's scripts.
    Doctor(doctor::Doctor),
    /// Say whether a folder can be served, for what starts servers and watches them.
    Health(health::Health),
    /// Write a folder's server into a client's configuration.
    Install(install::Install),
    /// Show what a folder's settings come to, or what a client's configuration needs.
    Config(config::Config),
    /// Make tools of an API, a Makefile, a justfile or a package.json.
    Import(import::Import),
    /// Look at the tools of the servers a folder mounts, and agree to them.
    Lock(lock::Lock),
    /// Pack a folder of scripts into one file that clients install with a click (MCPB).
    Bundle(bundle::Bundle),
    /// List what a server offers.
    List(list::List),
    /// Show the arguments and the description of a tool.
    Describe(describe::Describe),
    /// Call a tool of a server.
    Call(call::Call),
    /// Read a resource of a server.
    Read(read::Read),
    /// Get a prompt of a server, filled.
    Prompt(prompt::Prompt),
    /// Ask a server what an argument could be.
    Complete(complete::Complete),
    /// Check that a server answers.
    Ping(ping::Ping),
    /// Log in to a server that wants to know who you are.
    Login(login::Login),
    /// Forget the login to a server.
    Logout(login::Logout),
    /// Inspect the session and task store, and rotate its keys.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// List the sessions of the servers that use a store.
    #[command(after_help = "Examples:
  zcp sessions --data ./state
  zcp sessions --store redis://127.0.0.1/ --json")]
    Sessions(store::Kept),
    /// List, show and cancel the tasks in a store.
    #[command(subcommand)]
    Tasks(tasks::TasksCommand),
    /// Print what a shell needs to complete this command's words.
    Completions(shell::Completions),
    /// Print this command's manual page.
    #[command(after_help = "Examples:
  zcp man | man -l -
  zcp man > ~/.local/share/man/man1/zcp.1")]
    Man,
    /// Make the request of a file, with the arguments on standard input as a JSON object.
    #[command(hide = true)]
    Http(http::Request),
    /// Print what a word could be that is being typed.
    #[command(hide = true, name = "__complete")]
    Completing(completing::Completing),
}

/// Does what was asked.
pub(crate) async fn run(command: Command, json: bool) -> Result<(), Box<dyn Error>> {
    match command {
        Command::New(new) => new::run(&new, json),
        Command::Dev(dev) => dev::run(dev, json).await,
        Command::Run(run) => run::run(run, json).await,
        Command::Test(test) => test::run(test, json).await,
        Command::Validate(validate) => validate::run(&validate, json).await,
        Command::Lint(lint) => lint::run(lint, json).await,
        Command::Doctor(doctor) => doctor::run(&doctor, json).await,
        Command::Health(health) => health::run(&health, json).await,
        Command::Install(install) => install::run(&install, json),
        Command::Config(config) => config::run(&config, json).await,
        Command::Import(import) => import::run(&import, json).await,
        Command::Bundle(bundle) => bundle::run(&bundle, json).await,
        Command::Lock(lock) => lock::run(&lock, json).await,
        Command::Completions(completions) => shell::completions(&completions, json),
        Command::Man => shell::man(json),
        Command::Completing(completing) => completing::run(&completing).await,
        Command::Http(request) => http::run(request).await,
        Command::Serve(serve) => serve::run(serve, json).await,
        Command::List(list) => list::run(list, json).await,
        Command::Describe(describe) => describe::run(describe, json).await,
        Command::Call(call) => call::run(call, json).await,
        Command::Read(read) => read::run(read, json).await,
        Command::Prompt(prompt) => prompt::run(prompt, json).await,
        Command::Complete(complete) => complete::run(complete, json).await,
        Command::Ping(ping) => ping::run(ping, json).await,
        Command::Login(login) => login::run(login, json).await,
        Command::Logout(logout) => login::out(logout, json).await,
        Command::Store(StoreCommand::Check(kept)) => store::check(&kept, json).await,
        Command::Store(StoreCommand::RotateKeys(rotate)) => store::rotate_keys(&rotate, json).await,
        Command::Sessions(kept) => sessions::list(&kept, json).await,
        Command::Tasks(TasksCommand::Ls(kept)) => tasks::list(&kept, json).await,
        Command::Tasks(TasksCommand::Show(one)) => tasks::show(&one, json).await,
        Command::Tasks(TasksCommand::Cancel(one)) => tasks::cancel(&one, json).await,
    }
}
