//! What is typed to reach a server.

use std::path::Path;

/// Which server, and how to reach it.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// A URL, a folder of scripts, a command line in quotes, unix:PATH, or a name from a client's
    /// configuration file.
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

impl Target {
    /// The server of a folder of scripts.
    pub(crate) fn folder(folder: &Path, env: &[String], timeout: u64) -> Self {
        Self {
            server: crate::target::as_folder(folder),
            header: vec![],
            env: env.to_vec(),
            revision: None,
            timeout,
            agree: false,
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp list ./my-tools
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
#[command(after_help = "Examples:
  zcp read ./my-tools file:///motd.txt
  zcp read https://example.com/mcp docs://guide > guide.md")]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which resource.
    pub(crate) uri: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp prompt ./my-tools review language=rust
  zcp prompt https://example.com/mcp greet name=Ann --json")]
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
#[command(after_help = "Examples:
  zcp ping https://example.com/mcp
  zcp ping ./my-tools --timeout 5")]
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
#[command(after_help = "Examples:
  zcp logout https://example.com/mcp")]
pub(crate) struct Logout {
    #[command(flatten)]
    pub(crate) target: Target,
}
