//! Where a server is, and the lines that connect clients with it.

use super::{BAD, LINK, NAME, QUIET, visible};
use serde_json::json;
use std::{
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};
use zcp::Endpoint;

/// What a server means that others on the network reach.
const EXPOSED: &str = "Everybody on this network can call it, and nobody has to log in.";

/// An address that clients on this machine reach: a server on all addresses is also on this one.
fn reachable(mut at: SocketAddr) -> SocketAddr {
    match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => (),
    }
    at
}

/// Where the server is, and the exact lines to connect clients with.
pub(crate) fn serving(
    scripts: Option<(&str, &Path)>,
    http: Option<SocketAddr>,
    unix: Option<&Path>,
    disabled: &[Endpoint],
    json: bool,
) -> io::Result<()> {
    let others = http.filter(|at| !at.ip().to_canonical().is_loopback());
    let http = http.map(reachable);
    let mut out = super::out();
    let serves = |endpoint| !disabled.contains(&endpoint);
    if json {
        if others.is_some() {
            tracing::warn!("{EXPOSED}");
        }
        let url = |scheme: &str, path: &str, endpoint| {
            let at = http.filter(|_| serves(endpoint));
            at.map(|at| format!("{scheme}://{at}{path}"))
        };
        let line = json!({
            "event": "serving",
            "mcp": url("http", "/mcp", Endpoint::Mcp),
            "websocket": url("ws", "/ws", Endpoint::WebSocket),
            "sse": url("http", "/sse", Endpoint::Sse),
            "unix": unix,
        });
        writeln!(out, "{line}")?;
        return out.flush();
    }
    match scripts {
        Some((name, folder)) => {
            let (name, folder) = (visible(name), visible(&folder.display().to_string()));
            writeln!(out, "{NAME}zcp{NAME:#} serves {name}, from {folder}")?;
        }
        None => writeln!(out, "{NAME}zcp{NAME:#} serves the demo")?,
    }
    if let Some(at) = http {
        writeln!(out)?;
        if serves(Endpoint::Mcp) {
            writeln!(out, "  MCP        {LINK}http://{at}/mcp{LINK:#}")?;
        }
        if serves(Endpoint::WebSocket) {
            writeln!(out, "  WebSocket  {LINK}ws://{at}/ws{LINK:#}")?;
        }
        if serves(Endpoint::Sse) {
            let old = "(clients of 2024)";
            writeln!(out, "  HTTP+SSE   {LINK}http://{at}/sse{LINK:#} {QUIET}{old}{QUIET:#}")?;
        }
        let pages = [(Endpoint::Metadata, "  /metadata"), (Endpoint::Metrics, "  /metrics")];
        let pages = pages.into_iter().filter(|(page, _)| serves(*page));
        let pages: String = pages.map(|(_, page)| page).collect();
        writeln!(out, "  Health     {LINK}http://{at}/healthz{LINK:#}  /readyz{pages}")?;
    }
    if let Some(at) = others {
        writeln!(out, "\n  {BAD}{EXPOSED}{BAD:#}")?;
        if at.ip().is_unspecified() {
            writeln!(out, "  Others reach it by this machine's name, on port {}.", at.port())?;
        }
    }
    if let Some(path) = unix {
        writeln!(out, "\n  Socket     {LINK}{}{LINK:#}", path.display())?;
    }
    if let Some(at) = http.filter(|_| serves(Endpoint::Mcp)) {
        writeln!(out, "\nConnect a client:\n")?;
        for (client, line) in clients(scripts, &format!("http://{at}/mcp")) {
            writeln!(out, "  {QUIET}{client:<12}{QUIET:#} {line}")?;
        }
    }
    writeln!(out, "\n{QUIET}Ctrl-C stops it.{QUIET:#}")?;
    out.flush()
}

/// The line that connects each of the common clients.
fn clients(scripts: Option<(&str, &Path)>, url: &str) -> [(&'static str, String); 6] {
    let name = scripts.map_or("zcp-demo".to_owned(), |(name, _)| {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        name.chars().map(plain).collect()
    });
    let whole = scripts.and_then(|(_, folder)| folder.canonicalize().ok());
    let mut start = vec![this_program(), "serve".to_owned()];
    start.extend(whole.map(|folder| folder.to_string_lossy().into_owned()));
    start.push("--stdio".to_owned());
    [
        ("Claude Code", format!("claude mcp add --transport http {name} {url}")),
        ("Codex", format!("codex mcp add {name} --url {url}")),
        ("Gemini CLI", format!("gemini mcp add --transport http {name} {url}")),
        ("VS Code", format!(r#"code --add-mcp '{{"name":"{name}","type":"http","url":"{url}"}}'"#)),
        (
            "Cursor",
            format!(r#"{{"mcpServers":{{"{name}":{{"url":"{url}"}}}}}}  in ~/.cursor/mcp.json"#),
        ),
        ("any, stdio", shell_words::join(start)),
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
        let _ = writeln!(
            anstream::stderr(),
            "\n{QUIET}Finishing what is under way … (once more ends it now){QUIET:#}"
        );
    }
}
