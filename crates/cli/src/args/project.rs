//! What is typed to work on a folder of scripts, and to serve it.

use super::{Kept, Target};
use std::{net::SocketAddr, path::PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "What is there already is never overwritten.

Examples:
  zcp new my-tools                          a folder with one tool, in bash
  zcp new my-tools --lang python            the same in Python
  zcp new my-tools --tool weather           a tool more
  zcp new my-tools --prompt review --completion review --resource motd
  zcp new my-tools --page board --template kanban")]
pub(crate) struct New {
    /// The folder.
    pub(crate) folder: PathBuf,

    /// Which language tools are written in.
    #[arg(long, value_enum, default_value_t = Lang::Bash)]
    pub(crate) lang: Lang,

    /// Add a tool of this name. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Vec<String>,

    /// Add a prompt of this name. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Vec<String>,

    /// Add a script that completes the arguments of the prompt of this name. Repeat for more.
    #[arg(long, value_name = "PROMPT")]
    pub(crate) completion: Vec<String>,

    /// Add a resource of this name. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Vec<String>,

    /// Add a page of this name, shown by clients that show pages. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) page: Vec<String>,

    /// What such a page is made of: form, data-table, progress, diff-viewer, tree-view or kanban.
    #[arg(long, value_name = "TEMPLATE", default_value = "form")]
    pub(crate) template: String,
}

/// A language there is a template for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lang {
    Bash,
    Python,
    Node,
    Ruby,
    Perl,
    Powershell,
    /// A request to a web service: no language at all.
    Http,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp dev                               serve this folder, and show calls and changes
  zcp dev ./my-tools --record my-tools/tests/today.yaml
                                        and keep the calls as cases for zcp test")]
pub(crate) struct Dev {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Where to serve it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787", value_parser = address)]
    pub(crate) http: SocketAddr,

    /// Write each call and its answer to this file, as a case for `zcp test`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Arguments are strings where the tool's schema says so, and JSON otherwise. The exit code is
the tool's own where it has one.

Examples:
  zcp run greet name=Ann
  zcp run greet --in ./my-tools --args @ann.json
  zcp run greet name=Ann --dry-run"
)]
pub(crate) struct Run {
    /// Which tool.
    pub(crate) tool: String,

    /// Arguments.
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,

    /// A folder of scripts.
    #[arg(long = "in", value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// All arguments as a JSON object: the text itself, @FILE, or - for standard input.
    #[arg(long = "args", value_name = "JSON")]
    pub(crate) whole: Option<String>,

    /// Folders the tool is told the client works in, with commas between.
    #[arg(long, value_name = "FOLDERS", value_delimiter = ',')]
    pub(crate) roots: Vec<PathBuf>,

    /// A variable of the server's environment. Repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Seconds without a sign of life after which it is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,

    /// Check the arguments, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Cases are in tests/*.yaml of the folder:

  - name: greets by name
    tool: greet
    args: { name: Ann }
    expect: { text: \"Hello, Ann!\" }

Examples:
  zcp test                        run the cases of this folder
  zcp test ./my-tools --only greet
  zcp test ./my-tools --record    write what comes out as what is expected")]
pub(crate) struct Test {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// A file of cases, instead of those in tests/. Repeat for more.
    #[arg(long, value_name = "FILE")]
    pub(crate) cases: Vec<PathBuf>,

    /// Only cases whose name or tool contains this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Write what comes out into the cases, as what is expected from now on.
    #[arg(long)]
    pub(crate) record: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp validate
  zcp validate ./my-tools --strict
  zcp validate ./my-tools --fix      make scripts executable that should be")]
pub(crate) struct Validate {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Warnings count as mistakes.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Mend what can be mended without changing what anything does.
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp lint .
  zcp lint ./my-tools --strict
  zcp lint https://example.com/mcp")]
pub(crate) struct Lint {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Warnings count as mistakes.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp doctor
  zcp doctor ./my-tools --json")]
pub(crate) struct Doctor {
    /// A folder of scripts.
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 it can be served, 1 it can, and something is left out, 2 it cannot.

Examples:
  zcp health ./my-tools
  zcp health ./my-tools --timeout 5"
)]
pub(crate) struct Health {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Seconds it may take to answer: 5 unless MCPBASH_HEALTH_TIMEOUT_SECS or this says otherwise.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Clients: claude-code, claude-desktop, cursor, vscode, windsurf, zed, gemini, codex, goose, cline.

Examples:
  zcp install claude-code ./my-tools
  zcp install cursor ./my-tools --name tools --env REGION=eu
  zcp install claude-desktop ./my-tools --dry-run
  zcp install zed --remove my-tools"
)]
pub(crate) struct Install {
    /// Which client.
    pub(crate) client: String,

    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// What the server is called there, instead of as the folder is.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// A variable of the server's environment. Repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Write the file of the project in this folder, instead of the user's own.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,

    /// Take a server of this name out again.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["folder", "name", "env"])]
    pub(crate) remove: Option<String>,

    /// Show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp config ./my-tools                    what its settings come to
  zcp config ./my-tools --client cursor    what to write into Cursor's file
  zcp config ./my-tools --wrapper          a script that starts the server")]
pub(crate) struct Config {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Show what this client's file needs.
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,

    /// Print a script that starts the server, for clients that want one file.
    #[arg(long, conflicts_with = "client")]
    pub(crate) wrapper: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is there already is never overwritten. Nothing that is imported runs meanwhile.

Examples:
  zcp import openapi.yaml --into ./my-tools
  zcp import Makefile --into ./my-tools --only build,test
  zcp import package.json --into ./my-tools --dry-run"
)]
pub(crate) struct Import {
    /// An OpenAPI description (JSON or YAML), a Makefile, a justfile, or a package.json.
    pub(crate) file: PathBuf,

    /// The folder of scripts the tools are written into; made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) into: PathBuf,

    /// Only these operations, targets, recipes or scripts, with commas between; * stands for
    /// anything.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// What tools' names begin with.
    #[arg(long, default_value = "")]
    pub(crate) prefix: String,

    /// Show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What a mounted server says of its tools reaches the model. A tool that is new or has changed is
offered once it is in zcp.lock.

Examples:
  zcp lock ./my-tools            show what has changed, and agree to it
  zcp lock ./my-tools --check    only look: an error if something has changed"
)]
pub(crate) struct Lock {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Write nothing.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp bundle ./my-tools                         my-tools-0.1.0.mcpb, for this system
  zcp bundle ./my-tools --platform win32 --binary ./zcp.exe
  zcp bundle ./my-tools --output dist")]
pub(crate) struct Bundle {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// The folder the bundle is written into.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) output: PathBuf,

    /// What it is called, instead of as the folder is.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Its version, instead of the folder's.
    #[arg(long)]
    pub(crate) version: Option<String>,

    /// The system it is for: darwin, linux or win32; this one unless said.
    #[arg(long)]
    pub(crate) platform: Option<String>,

    /// The `zcp` command for that system; this one unless said.
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp completions bash > ~/.local/share/bash-completion/completions/zcp
  zcp completions zsh > \"${fpath[1]}/_zcp\"
  zcp completions fish > ~/.config/fish/completions/zcp.fish")]
pub(crate) struct Completions {
    /// Which shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// A shell whose completions are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

/// A request: what a tool that is an `.http` file does.
#[derive(Debug, clap::Args)]
pub(crate) struct Request {
    /// The file.
    pub(crate) file: PathBuf,

    /// Seconds after which an answer is no longer waited for.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
}

/// What to serve, and where: on HTTP at 127.0.0.1:8787 unless something is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp serve                     the project here, or a demo
  zcp serve ./my-tools          the scripts of a folder
  zcp serve ./my-tools --stdio  the same, for a client that starts it")]
pub(crate) struct Serve {
    /// A folder of scripts. Without one: what MCPBASH_PROJECT_ROOT names, else the nearest project,
    /// here or further up, else a demo.
    pub(crate) folder: Option<PathBuf>,

    /// Serve a client that started this process, on standard input and output.
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Serve on HTTP: /mcp, /ws and /sse.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,

    /// Serve HTTP on a Unix socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Offer nothing of mounted servers that is not in zcp.lock, also the first time.
    #[arg(long)]
    pub(crate) locked: bool,

    #[command(flatten)]
    pub(crate) kept: Kept,

    /// Also answer requests for this host. Repeat for more.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Also answer web pages of this origin. Repeat for more.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,

    /// Maximum number of HTTP connections from one address. Default: 2048, and no limit for this
    /// machine. Raise it behind a proxy on another machine.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections_per_address: Option<usize>,
}

/// An address, or a port of this machine.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let text = text.replacen("localhost", "127.0.0.1", 1);
    text.parse().map_err(|_| "say an address and a port, such as 127.0.0.1:8787".to_owned())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_port_is_one_of_this_machine() {
        for text in ["8799", ":8799", "localhost:8799", "127.0.0.1:8799"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:8799");
        }
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        assert!(address("everywhere").is_err());
    }
}
