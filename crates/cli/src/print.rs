//! What people and programs are shown.

use anstyle::{AnsiColor, Style};
use serde_json::json;
use std::{
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    path::Path,
};
use tracing_subscriber::EnvFilter;

const NAME: Style = Style::new().bold();
const LINK: Style = AnsiColor::Cyan.on_default();
const QUIET: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Log lines go to standard error, as words or as JSON.
pub(crate) fn start_log(filter: &str, json: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    if json {
        log.json().init();
    } else {
        log.with_target(false).init();
    }
}

/// Where the server is, and the exact lines to connect clients with.
pub(crate) fn serving(http: Option<SocketAddr>, unix: Option<&Path>, json: bool) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    if json {
        let url = |scheme: &str, path: &str| http.map(|at| format!("{scheme}://{at}{path}"));
        let line = json!({
            "event": "serving",
            "mcp": url("http", "/mcp"),
            "websocket": url("ws", "/ws"),
            "sse": url("http", "/sse"),
            "unix": unix,
        });
        writeln!(out, "{line}")?;
        return out.flush();
    }
    writeln!(out, "{NAME}zcp{NAME:#} serves the demo")?;
    if let Some(at) = http {
        writeln!(out, "\n  MCP        {LINK}http://{at}/mcp{LINK:#}")?;
        writeln!(out, "  WebSocket  {LINK}ws://{at}/ws{LINK:#}")?;
        writeln!(
            out,
            "  HTTP+SSE   {LINK}http://{at}/sse{LINK:#} {QUIET}(clients of 2024){QUIET:#}"
        )?;
        writeln!(
            out,
            "  Health     {LINK}http://{at}/healthz{LINK:#}  /readyz  /metadata  /metrics"
        )?;
    }
    if let Some(path) = unix {
        writeln!(out, "\n  Socket     {LINK}{}{LINK:#}", path.display())?;
    }
    if let Some(at) = http {
        writeln!(out, "\nConnect a client:\n")?;
        for (client, line) in clients(&format!("http://{at}/mcp")) {
            writeln!(out, "  {QUIET}{client:<12}{QUIET:#} {line}")?;
        }
    }
    writeln!(out, "\n{QUIET}Ctrl-C stops it.{QUIET:#}")?;
    out.flush()
}

/// The line that connects each of the common clients.
fn clients(url: &str) -> [(&'static str, String); 6] {
    [
        ("Claude Code", format!("claude mcp add --transport http zcp-demo {url}")),
        ("Codex", format!("codex mcp add zcp-demo --url {url}")),
        ("Gemini CLI", format!("gemini mcp add --transport http zcp-demo {url}")),
        (
            "VS Code",
            format!(r#"code --add-mcp '{{"name":"zcp-demo","type":"http","url":"{url}"}}'"#),
        ),
        (
            "Cursor",
            format!(r#"{{"mcpServers":{{"zcp-demo":{{"url":"{url}"}}}}}}  in ~/.cursor/mcp.json"#),
        ),
        ("any, stdio", format!("{} serve --stdio", this_program())),
    ]
}

/// How this program is called, word for word.
fn this_program() -> String {
    std::env::current_exe().map_or_else(|_| "zcp".to_owned(), |path| path.display().to_string())
}

/// Work under way is finished first.
pub(crate) fn stopping(json: bool) {
    if json {
        let _ = writeln!(anstream::stderr(), "{}", json!({ "event": "stopping" }));
    } else {
        let _ = writeln!(anstream::stderr(), "\n{QUIET}Finishing what is under way …{QUIET:#}");
    }
}

/// Why the command did not do what it was asked.
pub(crate) fn failure(error: &dyn Error, json: bool) {
    if json {
        let _ = writeln!(anstream::stderr(), "{}", json!({ "error": error.to_string() }));
    } else {
        let _ = writeln!(anstream::stderr(), "{BAD}error:{BAD:#} {error}");
    }
}
