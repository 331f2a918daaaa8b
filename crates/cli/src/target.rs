//! Which server is meant, and a client that has reached it.

use crate::{args::Target, print, questions};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};
use zcp_client::{Builder, Client, Http, Process, Ws, wire::Revision};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reaches the server that is meant.
pub(crate) async fn reach(target: &Target, json: bool) -> Result<Client> {
    let client = client(target, json)?;
    let server = target.server.as_str();
    let reached = match server.split_once(':') {
        Some(("http" | "https", _)) => client.connect(http(server, target)?).await,
        Some(("ws" | "wss", _)) => client.connect(socket(server, target)?).await,
        Some(("unix", path)) => client.connect(headed(Http::unix(path)?, target)?).await,
        _ => match configured(server)? {
            Some(Configured { url: Some(url), headers, .. }) => {
                let http =
                    headers.iter().try_fold(http(&url, target)?, |http, (name, value)| {
                        Ok::<_, Box<dyn Error>>(http.header(name.parse()?, value.parse()?))
                    })?;
                client.connect(http).await
            }
            Some(Configured { command: Some(command), args, env, .. }) => {
                let process = Process::new(command).args(args);
                let process =
                    env.into_iter().fold(process, |it, (name, value)| it.env(name, value));
                client.connect(with_env(process, target)?).await
            }
            Some(_) => return Err(format!("`{server}` has neither a URL nor a command").into()),
            None => client.connect(process(server, target)?).await,
        },
    };
    Ok(reached?)
}

fn client(target: &Target, json: bool) -> Result<Builder> {
    let mut client = Client::builder("zcp", env!("CARGO_PKG_VERSION"))
        .timeout(Duration::from_secs(target.timeout))
        .elicit(questions::ask)
        .visits();
    if !json && std::io::stderr().is_terminal() {
        client = client.on_progress(|progress| print::progress(&progress));
    }
    if let Some(date) = &target.revision {
        let known = Revision::ALL.map(Revision::as_str).join(", ");
        let revision = Revision::parse(date)
            .ok_or_else(|| format!("`{date}` is no revision; there are {known}"))?;
        client = client.revision(revision);
    }
    Ok(client)
}

fn http(url: &str, target: &Target) -> Result<Http> {
    headed(Http::new(url)?, target)
}

fn headed(http: Http, target: &Target) -> Result<Http> {
    headers(target)?.into_iter().try_fold(http, |http, (name, value)| Ok(http.header(name, value)))
}

fn socket(url: &str, target: &Target) -> Result<Ws> {
    Ok(headers(target)?.into_iter().fold(Ws::new(url), |ws, (name, value)| ws.header(name, value)))
}

fn headers(target: &Target) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is no header: write \"Name: value\""))?;
        Ok((name.trim().parse()?, value.trim().parse()?))
    };
    target.header.iter().map(pair).collect()
}

fn process(line: &str, target: &Target) -> Result<Process> {
    let words = shell_words::split(line)
        .map_err(|error| format!("`{line}` is no command line: {error}"))?;
    let (program, args) = words.split_first().ok_or("which server? the command line is empty")?;
    with_env(Process::new(program).args(args), target)
}

fn with_env(process: Process, target: &Target) -> Result<Process> {
    target.env.iter().try_fold(process, |process, text| {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        Ok(process.env(name, value))
    })
}

/// A server in a client's configuration file.
#[derive(Debug, Default, Deserialize)]
struct Configured {
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// The files of common clients: the user's own first, then those of this folder.
fn files() -> Vec<PathBuf> {
    let here = [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"];
    let home = [
        ".claude.json",
        ".cursor/mcp.json",
        ".gemini/settings.json",
        ".codeium/windsurf/mcp_config.json",
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
    ];
    let folder = env::home_dir().unwrap_or_default();
    let own = home.iter().map(|file| folder.join(file));
    own.chain(here.iter().map(PathBuf::from)).collect()
}

/// The server of a name, from the first file that has it.
fn configured(name: &str) -> Result<Option<Configured>> {
    if name.contains(char::is_whitespace) || name.contains('/') {
        return Ok(None);
    }
    for file in files() {
        if let Some(server) = server_in(&file, name)? {
            return Ok(Some(server));
        }
    }
    Ok(None)
}

fn server_in(file: &Path, name: &str) -> Result<Option<Configured>> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default, rename = "mcpServers")]
        servers: BTreeMap<String, serde_json::Value>,
        /// What VS Code calls them.
        #[serde(default, rename = "servers")]
        others: BTreeMap<String, serde_json::Value>,
    }
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(None) };
    let Ok(mut all) = serde_json::from_str::<File>(&text) else { return Ok(None) };
    let Some(found) = all.servers.remove(name).or_else(|| all.others.remove(name)) else {
        return Ok(None);
    };
    let found = serde_json::from_value(found);
    Ok(Some(found.map_err(|error| format!("`{name}` in {}: {error}", file.display()))?))
}
