//! What was typed: clients, and the server they are to have.

use super::Install;
use crate::client_config::clients::{self, CLIENTS, Client};
use std::path::{Path, PathBuf};

/// The word for all clients on this machine.
const ALL: &str = "all";

/// What is to be installed, and where.
pub(super) struct Wish {
    pub(super) clients: Vec<&'static Client>,
    pub(super) source: Source,
}

/// A server that clients are to have.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A folder of scripts.
    Folder(PathBuf),
    Url(String),
    Command(Vec<String>),
}

impl Wish {
    pub(super) fn read(install: &Install) -> Result<Self, String> {
        let mut clients: Vec<&'static Client> = vec![];
        let mut add = |client: &'static Client| {
            if !clients.iter().any(|one| one.id == client.id) {
                clients.push(client);
            }
        };
        let mut source = None;
        let last = install.words.len() - 1;
        for (at, word) in install.words.iter().enumerate() {
            if word == ALL {
                CLIENTS.iter().filter(|client| client.is_here()).for_each(&mut add);
                continue;
            }
            match clients::named(word) {
                Ok(client) => add(client),
                Err(why) if at == 0 || at < last => return Err(why),
                Err(why) => source = Some(Source::read(word, &why)?),
            }
        }
        if install.remove.is_some() && source.is_some() {
            return Err("--remove takes the name of a server: leave the folder out".to_owned());
        }
        if clients.is_empty() {
            return Err("no client was found on this machine: say which".to_owned());
        }
        Ok(Self { clients, source: source.unwrap_or_else(|| Source::Folder(".".into())) })
    }
}

impl Source {
    /// The server that a word means. `no_client` says why it is no client.
    fn read(word: &str, no_client: &str) -> Result<Self, String> {
        if word.starts_with("http://") || word.starts_with("https://") {
            return Ok(Self::Url(word.to_owned()));
        }
        let is_path = word.contains('/') && !word.contains(char::is_whitespace);
        if Path::new(word).is_dir() || is_path && which::which(word).is_err() {
            return Ok(Self::Folder(word.into()));
        }
        let words = shell_words::split(word).map_err(|error| format!("`{word}`: {error}"))?;
        if words.len() > 1 || which::which(word).is_ok() {
            return Ok(Self::Command(words));
        }
        Err(format!("{no_client}\n`{word}` is no folder, URL or command, either"))
    }

    /// What clients may call it: by its host, or by the program or package that is started.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Folder(folder) => folder.display().to_string(),
            Self::Url(url) => {
                let host = url.split_once("://").map_or("", |(_, rest)| rest);
                host.split(['/', '?', '#']).next().unwrap_or_default().replace(['.', ':'], "-")
            }
            Self::Command(words) => {
                let starters =
                    ["npx", "uvx", "bunx", "pipx", "run", "node", "python3", "python", "docker"];
                let last = |word: &str| {
                    let word = word.rsplit('/').next().unwrap_or_default();
                    word.split('@').next().unwrap_or_default().to_owned()
                };
                let plain =
                    words.iter().filter(|word| !word.starts_with('-')).map(|word| last(word));
                let mut plain = plain.filter(|word| !starters.contains(&word.as_str()));
                plain.next().unwrap_or_else(|| "server".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_as_what_is_started() {
        let name = |word: &str| Source::read(word, "").unwrap().name();
        assert_eq!(name("npx -y @modelcontextprotocol/server-memory@1 x"), "server-memory");
        assert_eq!(name("uvx mcp-server-time"), "mcp-server-time");
        assert_eq!(name("https://mcp.example.com:8443/mcp"), "mcp-example-com-8443");
        assert!(
            Source::read("nothing-of-the-kind", "no client").unwrap_err().contains("no client")
        );
    }
}
