//! The clients that start servers, and where each of them has its own.

pub(crate) use super::client_table::CLIENTS;
use crate::{client_config::edit::Format, home};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: &'static str,
    /// What people also call it.
    pub(super) aliases: &'static [&'static str],
    pub(crate) name: &'static str,
    /// Where the user's own file may be, newest place first.
    pub(super) user: &'static [Place],
    /// Where a project's file is, for clients that read one.
    pub(super) project: Option<&'static str>,
    pub(crate) format: Format,
    /// The member of the file that holds the servers.
    pub(crate) servers: &'static str,
    pub(super) shape: Shape,
    /// How a server elsewhere is written down: the member with its URL, and its type where it has one.
    pub(super) remote: Option<(&'static str, Option<&'static str>)>,
    /// Whether it is started from a desktop, where `PATH` may be shorter than in a shell.
    pub(crate) is_app: bool,
    /// What is left to do when a server is in the file.
    pub(crate) next: &'static str,
}

/// Where a file of the user's is. `~` is the home, `$config` and `$appdata` are where the system
/// keeps settings.
#[derive(Debug)]
pub(super) struct Place {
    /// Variables that say otherwise, each with what follows the folder it names.
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) linux: &'static str,
    pub(super) mac: &'static str,
    pub(super) windows: &'static str,
}

/// How a server is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A command, its words, and its environment.
    Plain,
    /// And first that it is spoken to on standard input and output.
    Typed,
    /// As an extension of Goose.
    Goose,
}

/// The client that somebody means, or which there are.
pub(crate) fn named(word: &str) -> Result<&'static Client, String> {
    let plain = word.to_lowercase().replace([' ', '_'], "-");
    let is_meant = |client: &&Client| client.id == plain || client.aliases.contains(&&*plain);
    if let Some(client) = CLIENTS.iter().find(is_meant) {
        return Ok(client);
    }
    let close = |is_close: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let names = |client: &&Client| {
            is_close(client.id) || client.aliases.iter().any(|name| is_close(name))
        };
        CLIENTS.iter().filter(names).map(|client| client.id).collect()
    };
    let close = match close(&|name| plain.len() > 2 && name.starts_with(&plain)) {
        none if none.is_empty() => close(&|name| strsim::jaro_winkler(name, &plain) > 0.8),
        begun => begun,
    };
    let hint = match close.is_empty() {
        true => String::new(),
        false => format!(": did you mean {}?", close.join(" or ")),
    };
    let known = CLIENTS.iter().map(|client| client.id).collect::<Vec<_>>().join(", ");
    Err(format!("no client is called `{word}`{hint}\nknown are {known}"))
}

impl Client {
    /// Where the user's own file may be, newest place first; nowhere for a user without a home.
    pub(crate) fn user_files(&self) -> Vec<PathBuf> {
        let system = env::consts::OS;
        let home = env::home_dir().filter(|home| home.is_absolute());
        self.user.iter().filter_map(|place| place.on(system, home.as_deref(), folder)).collect()
    }

    /// The user's own file: the first that is there, or whose client is; otherwise the newest.
    pub(crate) fn user_file(&self) -> Result<PathBuf, String> {
        let all = self.user_files();
        let there = all.iter().find(|file| file.symlink_metadata().is_ok());
        let used = || all.iter().find(|file| file.parent().is_some_and(Path::is_dir));
        let file = there.or_else(used).or(all.first());
        file.cloned().ok_or_else(|| "you have no home folder: set HOME".to_owned())
    }

    /// The file of a project.
    pub(crate) fn project_file(&self, folder: &Path) -> Option<PathBuf> {
        self.project.map(|file| folder.join(file))
    }

    /// A name as this client takes it: letters, digits, `-` and `_`.
    pub(crate) fn safe_name(&self, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = name.trim().chars().map(plain).collect();
        match (name.contains(|c: char| c.is_ascii_alphanumeric()), self.shape) {
            (false, _) => "scripts".to_owned(),
            // Goose looks for lower case.
            (true, Shape::Goose) => name.to_lowercase(),
            (true, _) => name,
        }
    }

    /// A server as this client writes it down.
    pub(crate) fn entry(
        &self,
        name: &str,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Map<String, Value> {
        let mut entry = Map::new();
        let mut set = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
        match self.shape {
            Shape::Plain | Shape::Typed => {
                if self.shape == Shape::Typed {
                    set("type", json!("stdio"));
                }
                set("command", json!(command));
                set("args", json!(args));
                if !env.is_empty() {
                    set("env", json!(env));
                }
            }
            Shape::Goose => {
                set("type", json!("stdio"));
                set("name", json!(name));
                set("description", json!("A folder of scripts, served by zcp."));
                set("enabled", json!(true));
                set("cmd", json!(command));
                set("args", json!(args));
                set("envs", json!(env));
                set("timeout", json!(300));
            }
        }
        entry
    }

    /// A server elsewhere as this client writes it down; none if it writes down only commands.
    pub(crate) fn remote_entry(&self, name: &str, url: &str) -> Option<Map<String, Value>> {
        let (member, kind) = self.remote?;
        let mut entry = Map::new();
        let mut set = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
        if let Some(kind) = kind {
            set("type", json!(kind));
        }
        if self.shape == Shape::Goose {
            set("name", json!(name));
            set("description", json!("An MCP server."));
            set("enabled", json!(true));
            set("timeout", json!(300));
        }
        set(member, json!(url));
        Some(entry)
    }

    /// Whether it seems to be on this machine: its file is there, or the folder of that.
    pub(crate) fn is_here(&self) -> bool {
        let home = env::home_dir();
        self.user_files().iter().any(|file| {
            let folder = file.parent().filter(|folder| Some(*folder) != home.as_deref());
            file.is_file() || folder.is_some_and(Path::is_dir)
        })
    }

    /// Members of an entry that say what is started: the command, its words, its environment.
    pub(crate) fn members(&self) -> [&'static str; 3] {
        match self.shape {
            Shape::Plain | Shape::Typed => ["command", "args", "env"],
            Shape::Goose => ["cmd", "args", "envs"],
        }
    }
}

/// A folder that a variable names.
fn folder(variable: &str) -> Option<PathBuf> {
    home::variable(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

impl Place {
    fn on(
        &self,
        system: &str,
        home: Option<&Path>,
        folder: impl Fn(&str) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        let said = self.variables.iter().find_map(|(name, below)| Some((folder(name)?, below)));
        if let Some((folder, below)) = said {
            return Some(if below.is_empty() { folder } else { folder.join(below) });
        }
        let path = match system {
            "windows" => self.windows,
            "macos" => self.mac,
            _ => self.linux,
        };
        let (root, below) = path.split_once('/')?;
        let root = match root {
            "$config" => folder("XDG_CONFIG_HOME").or_else(|| Some(home?.join(".config"))),
            "$appdata" => folder("APPDATA").or_else(|| Some(home?.join("AppData/Roaming"))),
            _ => home.map(Path::to_path_buf),
        };
        Some(root?.join(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(id: &str, system: &str, set: &[(&str, &str)]) -> Vec<String> {
        let folder = |name: &str| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let client = named(id).unwrap();
        let on = |place: &Place| place.on(system, Some(Path::new("/home/ann")), folder);
        client.user.iter().filter_map(on).map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn files_are_where_each_system_and_its_variables_have_them() {
        for (id, system, set, place) in [
            ("claude-code", "linux", &[][..], "/home/ann/.claude.json"),
            ("claude-code", "macos", &[("CLAUDE_CONFIG_DIR", "/c")], "/c/.claude.json"),
            (
                "claude-desktop",
                "linux",
                &[("XDG_CONFIG_HOME", "/x")],
                "/x/Claude/claude_desktop_config.json",
            ),
            (
                "claude-desktop",
                "macos",
                &[("XDG_CONFIG_HOME", "/x")],
                "/home/ann/Library/Application Support/Claude/claude_desktop_config.json",
            ),
            (
                "claude-desktop",
                "windows",
                &[("APPDATA", "/a")],
                "/a/Claude/claude_desktop_config.json",
            ),
            ("vscode", "windows", &[], "/home/ann/AppData/Roaming/Code/User/mcp.json"),
            ("vscode", "linux", &[], "/home/ann/.config/Code/User/mcp.json"),
            ("zed", "macos", &[("XDG_CONFIG_HOME", "/x")], "/home/ann/.config/zed/settings.json"),
            ("zed", "windows", &[("APPDATA", "/a")], "/a/Zed/settings.json"),
            ("codex", "linux", &[("CODEX_HOME", "/codex")], "/codex/config.toml"),
            ("gemini", "linux", &[("GEMINI_CLI_HOME", "/g")], "/g/.gemini/settings.json"),
            ("goose", "macos", &[], "/home/ann/.config/goose/config.yaml"),
            ("goose", "windows", &[("APPDATA", "/a")], "/a/Block/goose/config/config.yaml"),
            ("cline", "linux", &[("CLINE_MCP_SETTINGS_PATH", "/s.json")], "/s.json"),
        ] {
            assert_eq!(places(id, system, set)[0], place, "{id} on {system}");
        }
        let old = &places("cline", "linux", &[])[1];
        assert!(old.contains("/.config/Code/User/globalStorage/saoudrizwan.claude-dev/"), "{old}");
    }

    #[test]
    fn clients_are_found_by_what_people_call_them() {
        assert_eq!(named("Claude Code").unwrap().id, "claude-code");
        assert_eq!(named("VS_Code").unwrap().id, "vscode");
        let why = named("claude").unwrap_err();
        assert!(why.contains("did you mean claude-code or claude-desktop?"), "{why}");
        let why = named("windsruf").unwrap_err();
        assert!(why.contains("did you mean windsurf?") && why.contains("goose"), "{why}");
        assert!(!named("emacs").unwrap_err().contains("did you mean"));
    }

    #[test]
    fn names_are_safe() {
        let [code, goose] = ["claude-code", "goose"].map(|id| named(id).unwrap());
        assert_eq!(code.safe_name("My tools.v2"), "My_tools_v2");
        assert_eq!(goose.safe_name("My tools"), "my_tools");
        assert_eq!(code.safe_name("工具"), "scripts");
    }
}
