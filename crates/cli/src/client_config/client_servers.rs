//! Servers in the configuration files of other clients.

use crate::{
    client_config::clients::{CLIENTS, Client},
    home,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    error::Error,
    path::{Path, PathBuf},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A server in a configuration file.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "Written")]
pub(crate) struct Configured {
    pub(crate) url: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    /// Headers whose values are in variables.
    env_http_headers: BTreeMap<String, String>,
    /// The variable that holds the token.
    bearer_token_env_var: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
    /// The file, if it is of the current folder and not of the user.
    #[serde(skip)]
    pub(crate) found_here: Option<PathBuf>,
}

/// A server in the words of every client.
#[derive(Deserialize)]
struct Written {
    url: Option<String>,
    #[serde(rename = "serverUrl")]
    server_url: Option<String>,
    #[serde(rename = "httpUrl")]
    http_url: Option<String>,
    uri: Option<String>,
    headers: Option<BTreeMap<String, Text>>,
    http_headers: Option<BTreeMap<String, Text>>,
    env_http_headers: Option<BTreeMap<String, String>>,
    bearer_token_env_var: Option<String>,
    command: Option<String>,
    cmd: Option<String>,
    args: Option<Vec<Text>>,
    env: Option<BTreeMap<String, Text>>,
    envs: Option<BTreeMap<String, Text>>,
    cwd: Option<PathBuf>,
}

/// A text, also where somebody left the quotes out.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct Text(String);

impl TryFrom<Value> for Text {
    type Error = String;

    fn try_from(value: Value) -> std::result::Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Bool(_) | Value::Number(_) => Ok(Self(value.to_string())),
            _ => Err(format!("{value} is no text")),
        }
    }
}

impl From<Written> for Configured {
    fn from(written: Written) -> Self {
        let texts = |one: Option<BTreeMap<String, Text>>, other: Option<BTreeMap<_, _>>| {
            let all = one.or(other).unwrap_or_default().into_iter();
            all.map(|(name, text)| (name, text.0)).collect()
        };
        Self {
            // A client's own word for it comes before the common one.
            url: written.http_url.or(written.server_url).or(written.url).or(written.uri),
            headers: texts(written.headers, written.http_headers),
            env_http_headers: written.env_http_headers.unwrap_or_default(),
            bearer_token_env_var: written.bearer_token_env_var,
            command: written.command.or(written.cmd),
            args: written.args.unwrap_or_default().into_iter().map(|text| text.0).collect(),
            env: texts(written.env, written.envs),
            cwd: written.cwd,
            found_here: None,
        }
    }
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
        for (name, text) in self.secret_headers() {
            self.headers.insert(name, filled(&text)?);
        }
        self.env_http_headers.clear();
        self.bearer_token_env_var = None;
        Ok(self)
    }

    /// Headers whose values are in variables, with what stands for these.
    pub(crate) fn secret_headers(&self) -> Vec<(String, String)> {
        let named = self.env_http_headers.iter();
        let named = named.map(|(name, variable)| (name.clone(), format!("${{{variable}}}")));
        let token = self.bearer_token_env_var.iter();
        let token =
            token.map(|variable| ("Authorization".to_owned(), format!("Bearer ${{{variable}}}")));
        named.chain(token).collect()
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
    if !is_bare(name) {
        return Ok(None);
    }
    let folder = env::current_dir().unwrap_or_default();
    for client in &CLIENTS {
        for file in client.user_files() {
            if let Some(server) = server_in(client, &file, &folder, name)? {
                return Ok(Some(server));
            }
        }
    }
    for client in &CLIENTS {
        let Some(file) = client.project_file(Path::new("")) else { continue };
        if let Some(server) = server_in(client, &file, &folder, name)? {
            return Ok(Some(Configured { found_here: Some(file), ..server }));
        }
    }
    Ok(None)
}

/// Whether a word could be a name in a client's file. Paths and command lines are not looked for.
fn is_bare(name: &str) -> bool {
    !name.starts_with('.') && !name.contains(|c: char| c.is_whitespace() || c == '/')
}

/// A server of a client's file.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// The client.
    pub(crate) client: &'static str,
    pub(crate) file: PathBuf,
    /// Its URL or its command, without arguments, which may be secret.
    pub(crate) about: String,
    #[serde(skip)]
    args: Vec<String>,
}

/// Whether a client's file has a server of a name that is not the one of this folder. Files that
/// cannot be read are passed over.
pub(crate) fn has_other(name: &str, folder: &Path) -> bool {
    let folder = folder.canonicalize().map(|path| path.to_string_lossy().into_owned());
    let is_other = |one: &Listed| {
        one.name == name && !folder.as_ref().is_ok_and(|folder| one.args.contains(folder))
    };
    is_bare(name) && all().iter().any(is_other)
}

/// The servers of all clients' files. Files that cannot be read are passed over.
pub(crate) fn all() -> Vec<Listed> {
    let folder = env::current_dir().unwrap_or_default();
    let (mut listed, mut seen) = (vec![], BTreeSet::new());
    for client in &CLIENTS {
        let own = client.user_files().into_iter();
        for file in own.chain(client.project_file(Path::new(""))) {
            // Who stands at home has one file for both.
            let is_new = file.canonicalize().is_ok_and(|file| seen.insert(file));
            let Some(text) = is_new.then(|| std::fs::read_to_string(&file).ok()).flatten() else {
                continue;
            };
            let Ok(all) = client.format.read(&text) else { continue };
            let project = &all["projects"][folder.to_string_lossy().as_ref()];
            let places = [&project[client.servers], &all[client.servers]];
            for (name, entry) in places.into_iter().filter_map(Value::as_object).flatten() {
                if is_extension(entry) {
                    continue;
                }
                let said = ["url", "serverUrl", "httpUrl", "uri", "command", "cmd"];
                let about = said.iter().find_map(|member| entry[*member].as_str());
                let args = entry["args"].as_array().into_iter().flatten();
                listed.push(Listed {
                    name: name.clone(),
                    client: client.id,
                    file: file.clone(),
                    about: about.unwrap_or_default().to_owned(),
                    args: args.filter_map(|arg| Some(arg.as_str()?.to_owned())).collect(),
                });
            }
        }
    }
    listed
}

/// Whether an entry is something a client knows that is no server of anybody's.
fn is_extension(entry: &Value) -> bool {
    const KINDS: [&str; 5] = ["builtin", "platform", "frontend", "inline_python", "extension"];
    let kind = entry.get("type").or(entry.get("source"));
    kind.is_some_and(|kind| KINDS.iter().any(|no| kind == no))
}

/// The server of a name in a client's file. `folder` is where the user is: there may be servers
/// for it alone.
fn server_in(
    client: &Client,
    file: &Path,
    folder: &Path,
    name: &str,
) -> Result<Option<Configured>> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(None) };
    let all = match client.format.read(&text) {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!("{} is passed over: {error}", file.display());
            return Ok(None);
        }
    };
    let project = &all["projects"][folder.to_string_lossy().as_ref()];
    let places = [&project[client.servers], &all[client.servers]];
    let Some(found) = places.iter().find_map(|place| place.get(name)) else { return Ok(None) };
    if is_extension(found) {
        return Ok(None);
    }
    let found = serde_json::from_value(found.clone());
    Ok(Some(found.map_err(|error| format!("`{name}` in {}: {error}", file.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_config::clients;
    use serde_json::json;

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
    fn entries_are_read_as_clients_read_them() {
        let read = |value: Value| serde_json::from_value::<Configured>(value).unwrap();
        let nothing = read(json!({ "command": "x", "args": null, "env": null, "headers": null }));
        assert_eq!((nothing.args.len(), nothing.env.len()), (0, 0));
        let loose = read(json!({ "cmd": "x", "args": ["-p", 1], "env": { "P": 8080, "D": true } }));
        assert_eq!(loose.args, ["-p", "1"]);
        assert_eq!((loose.env["P"].as_str(), loose.env["D"].as_str()), ("8080", "true"));
        let both = read(json!({ "url": "https://a", "serverUrl": "https://b", "uri": null }));
        assert_eq!(both.url.as_deref(), Some("https://b"));
        assert!(serde_json::from_value::<Configured>(json!({ "env": { "A": [1] } })).is_err());
    }

    #[test]
    fn files_of_every_format_are_read() {
        let folder = env::temp_dir().join(format!("zcp-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config.toml");
        let text = "[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n\
                    [mcp_servers.far]\nurl = \"https://example.com/mcp\"\n\
                    bearer_token_env_var = \"PATH\"\n";
        std::fs::write(&file, text).unwrap();
        let codex = clients::named("codex").unwrap();
        let time = server_in(codex, &file, &folder, "time").unwrap().unwrap();
        assert_eq!((time.command.as_deref(), time.args.len()), (Some("uvx"), 1));
        let far = server_in(codex, &file, &folder, "far").unwrap().unwrap().filled().unwrap();
        assert!(far.headers["Authorization"].starts_with("Bearer /"));
        assert!(server_in(codex, &file, &folder, "none").unwrap().is_none());
        let file = folder.join("config.yaml");
        let text = "extensions:\n  memory:\n    type: builtin\n  mine:\n    type: stdio\n    cmd: zcp\n    \
                    args: [serve]\n    envs: {A: b}\n";
        std::fs::write(&file, text).unwrap();
        let goose = clients::named("goose").unwrap();
        let mine = server_in(goose, &file, &folder, "mine").unwrap().unwrap();
        assert_eq!((mine.command.as_deref(), mine.env["A"].as_str()), (Some("zcp"), "b"));
        assert!(server_in(goose, &file, &folder, "memory").unwrap().is_none());
        let file = folder.join("mcp.json");
        let text = json!({ "servers": { "code": { "command": "x" } } });
        std::fs::write(&file, format!("// mine\n{text}")).unwrap();
        let code = clients::named("vscode").unwrap();
        assert!(server_in(code, &file, &folder, "code").unwrap().is_some());
        let file = folder.join(".claude.json");
        let here = json!({ "mcpServers": { "here": { "url": "https://example.com" } } });
        let text = json!({ "projects": { folder.to_string_lossy(): here } });
        std::fs::write(&file, text.to_string()).unwrap();
        let claude = clients::named("claude-code").unwrap();
        assert!(server_in(claude, &file, &folder, "here").unwrap().is_some());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
