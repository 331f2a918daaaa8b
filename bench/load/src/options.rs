//! What the command line says.

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Loads an MCP server, checks its answers and prints one JSON object.
#[derive(Parser)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Calls over HTTP; each connection has one call under way at a time.
    Http(Calls),
    /// Calls over WebSocket; each connection has one call under way at a time.
    Ws(Calls),
    /// Starts a server and calls it over its standard input and output.
    Stdio(Stdio),
    /// Opens and closes sessions over HTTP, again and again.
    Sessions(Sessions),
    /// Opens sessions or streams, leaves them open, and says what memory each one takes.
    Open(Open),
    /// Starts a server again and again: the time to its first answer, its memory when idle.
    Startup(Startup),
    /// Fills streams of sessions, and has them said again.
    Replay(Replay),
}

/// Where the server is.
#[derive(Args, Clone)]
pub struct Place {
    #[arg(long)]
    pub port: u16,
    #[arg(long, default_value = "/mcp")]
    pub path: String,
    /// The server's process, to know the CPU time and memory it takes.
    #[arg(long, default_value_t = 0)]
    pub pid: u32,
}

/// What each call asks for.
#[derive(Args, Clone)]
pub struct Work {
    #[arg(long, value_enum, default_value_t = Era::Modern)]
    pub era: Era,
    #[arg(long, value_enum, default_value_t = Operation::Echo)]
    pub operation: Operation,
    /// How many tools `list` must give.
    #[arg(long, default_value_t = 100)]
    pub tools: usize,
    /// Do not compare ids: for servers with one answer made in advance.
    #[arg(long)]
    pub any_id: bool,
}

#[derive(Args)]
pub struct Calls {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub work: Work,
    #[arg(long, default_value_t = 1)]
    pub connections: usize,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Seconds before those.
    #[arg(long, default_value_t = 0.3)]
    pub warm: f64,
    /// Make this many calls instead, and measure all of them.
    #[arg(long)]
    pub count: Option<u64>,
}

#[derive(Args)]
pub struct Stdio {
    #[command(flatten)]
    pub work: Work,
    /// Calls in a round.
    #[arg(long, default_value_t = 10_000)]
    pub count: u64,
    /// Rounds that are measured.
    #[arg(long, default_value_t = 1)]
    pub rounds: u64,
    /// Calls before those, one by one.
    #[arg(long, default_value_t = 500)]
    pub warm: u64,
    /// Send everything without waiting for answers.
    #[arg(long)]
    pub pipelined: bool,
    /// The server and its arguments.
    #[arg(last = true, required = true)]
    pub server: Vec<String>,
}

#[derive(Args)]
pub struct Sessions {
    #[command(flatten)]
    pub place: Place,
    #[arg(long, default_value_t = 32)]
    pub connections: usize,
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    #[arg(long, default_value_t = 0.3)]
    pub warm: f64,
}

#[derive(Args)]
pub struct Open {
    #[command(flatten)]
    pub place: Place,
    /// How many to open.
    #[arg(long, default_value_t = 1000)]
    pub count: usize,
    #[arg(long, value_enum, default_value_t = Kind::Session)]
    pub kind: Kind,
    /// Connections that open the sessions.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
}

#[derive(Args)]
pub struct Replay {
    #[command(flatten)]
    pub place: Place,
    #[arg(long, default_value_t = 10)]
    pub streams: usize,
    /// Events in a stream: a session keeps about a thousand.
    #[arg(long, default_value_t = 1000)]
    pub events: usize,
}

#[derive(Args)]
pub struct Startup {
    #[command(flatten)]
    pub place: Place,
    #[arg(long, value_enum, default_value_t = Era::Modern)]
    pub era: Era,
    /// How often it is started.
    #[arg(long, default_value_t = 7)]
    pub times: usize,
    /// The server and its arguments.
    #[arg(last = true, required = true)]
    pub server: Vec<String>,
}

/// How a client of a revision behaves.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Era {
    /// 2026-07-28: every request stands for itself.
    Modern,
    /// 2025-11-25: a session is opened first.
    Session,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// Calls the tool `echo` with 40 characters.
    Echo,
    /// Calls the tool `add`, which has a structured result.
    Add,
    /// Calls `echo` with 64 KiB of plain letters.
    #[value(name = "echo64k")]
    Echo64k,
    /// Calls `echo` with 64 KiB full of quotes, backslashes, line ends and accents.
    #[value(name = "echo64k-escaped")]
    Echo64kEscaped,
    /// Lists the tools.
    List,
    /// Calls the tool `later`, which becomes a task.
    Task,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A session of 2025-11-25 that nobody uses.
    Session,
    /// A session's stream of events: GET, 2025-11-25.
    Stream,
    /// A subscription's stream of events: `subscriptions/listen`, 2026-07-28.
    Listen,
}
