//! What was typed.

use clap::{Parser, Subcommand};
use std::{net::SocketAddr, path::PathBuf};

/// MCP servers for every client, of every age.
#[derive(Debug, Parser)]
#[command(name = "zcp", version, arg_required_else_help = true)]
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
    /// Serve a demo: a few tools, a resource, a prompt, a question, something long.
    Serve(Serve),
}

/// Where to serve: on HTTP at 127.0.0.1:8787 unless something is said.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Serve a client that started this process, on standard input and output.
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Serve on HTTP: /mcp, /ws and /sse.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,

    /// Serve HTTP on a Unix socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Also answer requests for this host. Repeat for more.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Also answer web pages of this origin. Repeat for more.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}
