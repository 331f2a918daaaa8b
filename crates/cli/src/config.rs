//! Servers in the configuration files of other clients.

use crate::home;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    path::{Path, PathBuf},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A server in a configuration file.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Configured {
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    pub(crate) url: Option<String>,
    #[serde(default, alias = "http_headers")]
    pub(crate) headers: BTreeMap<String, String>,
    /// Headers whose values are in variables.
    #[serde(default)]
    env_http_headers: BTreeMap<String, String>,
    /// The variable that holds the token.
    bearer_token_env_var: Option<String>,
    pub(crate) command: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
    /// The file, if it is of the current folder and not of the user.
    #[serde(skip)]
    pub(crate) found_here: Option<PathBuf>,
}

impl Configured {
    /// With what stands for something else replaced by it.
    pub(crate) fn filled(mut self) -> Result<Self> {
        if let Some(folder) = &mut self.cwd {
            *folder = filled(&folder.to_string_lossy())?.into();
        }
        let texts = self.url.iter_mut().chain(&mut self.command).chain(&mut self.args);
        let texts = texts.chain(self.headers.values_mut()).chain(self.env.values_mut());
        for text in texts {
            *text = filled(text)?;
        }
        for (name, variable) in std::mem::take(&mut self.env_http_headers) {
            self.headers.insert(name, filled(&format!("${{{variable}}}"))?);
        }
        if let Some(variable) = self.bearer_token_env_var.take() {
            let token = filled(&format!("${{{variable}}}"))?;
            self.headers.insert("Authorization".into(), format!("Bearer {token}"));
        }
        Ok(self)
    }
}

/// Replaces `${NAME}`, `${NAME:-otherwise}`, `${env:NAME}` and `${workspaceFolder}`.
fn filled(text: &str) -> Result<String> {
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else { break };
        all += before;
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        all += &match (name, home::variable(name), otherwise) {
            ("workspaceFolder", ..) => env::current_dir()?.display().to_string(),
            (_, Some(value), _) => value,
            (_, None, Some(otherwise)) => otherwise.to_owned(),
            (_, None, None) => return Err(format!("`{text}`: {name} is not set").into()),
        };
        rest = after;
    }
    Ok(all + rest)
}

/// The server of a name as it is written, from the first file that has it: the user's own first,
/// then those of this folder.
pub(crate) fn find(name: &str) -> Result<Option<Configured>> {
    if name.contains(char::is_whitespace) || name.contains('/') {
        return Ok(None);
    }
    let own = [
        ".claude.json",
        ".cursor/mcp.json",
        ".gemini/settings.json",
        ".codeium/windsurf/mcp_config.json",
        ".codex/config.toml",
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
    ];
    // Without a home, nothing here is the user's own.
    let home = env::home_dir().filter(|home| home.is_absolute());
    for file in home.iter().flat_map(|home| own.iter().map(|file| home.join(file))) {
        if let Some(server) = server_in(&file, name)? {
            return Ok(Some(server));
        }
    }
    let here = [".mcp.json", ".cursor/mcp.json", ".gemini/settings.json", ".vscode/mcp.json"];
    for file in here.iter().map(PathBuf::from) {
        if let Some(server) = server_in(&file, name)? {
            return Ok(Some(Configured { found_here: Some(file), ..server }));
        }
    }
    Ok(None)
}

fn server_in(file: &Path, name: &str) -> Result<Option<Configured>> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(None) };
    let is_toml = file.extension().is_some_and(|ending| ending == "toml");
    let all: std::result::Result<Value, String> = match is_toml {
        true => toml::from_str(&text).map_err(|error| error.to_string()),
        false => serde_json::from_str(&text).map_err(|error| error.to_string()),
    };
    let all = match all {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!("{} is passed over: {error}", file.display());
            return Ok(None);
        }
    };
    let folder = env::current_dir().unwrap_or_default();
    let project = &all["projects"][folder.to_string_lossy().as_ref()];
    let places = [
        &project["mcpServers"],
        &all["mcpServers"],
        // What VS Code and Codex call them.
        &all["servers"],
        &all["mcp_servers"],
    ];
    let Some(found) = places.iter().find_map(|place| place.get(name)) else { return Ok(None) };
    let found = serde_json::from_value(found.clone());
    Ok(Some(found.map_err(|error| format!("`{name}` in {}: {error}", file.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_missing_ones_are_named() {
        let home = home::variable("PATH").unwrap();
        assert_eq!(filled("a ${PATH} b").unwrap(), format!("a {home} b"));
        assert_eq!(filled("${env:PATH}").unwrap(), home);
        assert_eq!(filled("${NOT_SET_AT_ALL:-x}y").unwrap(), "xy");
        assert_eq!(filled("$PATH ${").unwrap(), "$PATH ${");
        assert!(filled("${NOT_SET_AT_ALL}").unwrap_err().to_string().contains("NOT_SET_AT_ALL"));
    }

    #[test]
    fn toml_files_are_read_too() {
        let folder = env::temp_dir().join(format!("zcp-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config.toml");
        let text = "[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n\
                    [mcp_servers.far]\nurl = \"https://example.com/mcp\"\n\
                    bearer_token_env_var = \"PATH\"\n";
        std::fs::write(&file, text).unwrap();
        let time = server_in(&file, "time").unwrap().unwrap();
        assert_eq!((time.command.as_deref(), time.args.len()), (Some("uvx"), 1));
        let far = server_in(&file, "far").unwrap().unwrap().filled().unwrap();
        assert!(far.headers["Authorization"].starts_with("Bearer /"));
        assert!(server_in(&file, "none").unwrap().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
