//! What was typed.

use clap::{Parser, Subcommand};
use std::{error::Error, fmt, net::SocketAddr, path::PathBuf};

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

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  something else went wrong
  2  what was typed is wrong
  3  the tool ran, and failed
  4  the server refused
  5  the server cannot be reached, went away, or takes too long
  6  the server wants a token: zcp login SERVER";

/// MCP servers for every client, and a client for every server, of every age.
#[derive(Debug, Parser)]
#[command(name = "zcp", version, arg_required_else_help = true, after_help = EXIT_CODES)]
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
    /// Serve a folder of scripts, or a demo.
    Serve(Serve),
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
    Sessions(Kept),
    /// Look after the tasks of the servers that use a store.
    #[command(subcommand)]
    Tasks(TasksCommand),
}

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  zcp tasks ls --data ./state
  zcp tasks show bX9… --store redis://127.0.0.1/
  zcp tasks cancel bX9… --data ./state")]
pub(crate) enum TasksCommand {
    /// List them, oldest first.
    Ls(Kept),
    /// Show one: what it asks, what it came to.
    Show(OneTask),
    /// Give one up: whichever server runs it stops.
    Cancel(OneTask),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneTask {
    /// Its id, or the beginning of it.
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) kept: Kept,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Try everything a server does with a store, and say how long it takes.
    Check(Kept),
}

/// Where things are kept: in memory unless something is said.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Kept {
    /// Keep sessions and what belongs to them in a file in this folder: a restart loses none.
    #[arg(long, value_name = "FOLDER", conflicts_with = "store")]
    pub(crate) data: Option<PathBuf>,

    /// Keep them in a Redis or Valkey that other servers use too, such as redis://127.0.0.1/:
    /// any of them serves any session.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// Which server, and how to reach it.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// A URL, a command line in quotes, unix:PATH, or a name from a client's configuration file.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// A header of every request, such as "Authorization: Bearer …". Repeat for more.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// A variable of the command's environment. Repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Speak this revision, and find nothing out.
    #[arg(long, value_name = "DATE")]
    pub(crate) revision: Option<String>,

    /// Seconds without a sign of life after which the server is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,

    /// Use a server of a project's configuration file without asking.
    #[arg(long)]
    pub(crate) agree: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp list https://example.com/mcp
  zcp list 'uvx mcp-server-time' tools")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Only these.
    #[arg(value_enum)]
    pub(crate) what: Option<What>,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    Tools,
    Resources,
    Templates,
    Prompts,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Arguments are strings where the tool's schema says so, and JSON otherwise.

Examples:
  zcp call https://example.com/mcp add a=1 b=2
  zcp call 'uvx mcp-server-time' get_current_time timezone=UTC
  zcp call memory create_entities --args @entities.json")]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which tool.
    pub(crate) tool: String,

    /// Arguments.
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,

    /// All arguments as a JSON object: the text itself, @FILE, or - for standard input.
    #[arg(long = "args", value_name = "JSON")]
    pub(crate) whole: Option<String>,

    /// Call it as a task where the server can, and follow it to its end.
    #[arg(long)]
    pub(crate) task: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which resource.
    pub(crate) uri: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Prompt {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which prompt.
    pub(crate) name: String,

    /// What it is filled with.
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp complete https://example.com/mcp greet name An
  zcp complete https://example.com/mcp 'book://{id}' id 4")]
pub(crate) struct Complete {
    #[command(flatten)]
    pub(crate) target: Target,

    /// A prompt's name, or a resource's template.
    pub(crate) of: String,

    /// Which argument.
    pub(crate) argument: String,

    /// What has been typed of it.
    #[arg(default_value = "")]
    pub(crate) typed: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ping {
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "The token is kept in a file only you can read, and renewed when it ends.
A client that the server's issuer knows already is given by --client-id; its secret, if it has
one, by the variable ZCP_CLIENT_SECRET.

Examples:
  zcp login https://example.com/mcp
  zcp login https://example.com/mcp --no-browser")]
pub(crate) struct Login {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Show the page's address, and open no browser.
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// Ask for this scope, and not for those the server names. Repeat for more.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,

    /// What the server's issuer knows this client by.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Logout {
    #[command(flatten)]
    pub(crate) target: Target,
}

/// What to serve, and where: on HTTP at 127.0.0.1:8787 unless something is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp serve                     a demo
  zcp serve ./my-tools          the scripts of a folder
  zcp serve ./my-tools --stdio  the same, for a client that starts it")]
pub(crate) struct Serve {
    /// A folder of scripts; a demo without one.
    pub(crate) folder: Option<PathBuf>,

    /// Serve a client that started this process, on standard input and output.
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Serve on HTTP: /mcp, /ws and /sse.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,

    /// Serve HTTP on a Unix socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) kept: Kept,

    /// Also answer requests for this host. Repeat for more.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Also answer web pages of this origin. Repeat for more.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}
