//! What a bundle says of itself, from everything in a folder that says something of it.

use super::{conf, files::text_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, error::Error, fs, path::Path, process::Command};
use zcp_client::oauth::Url;
use zcp_scripts::show_to_scripts;

/// What a bundle says of itself: `[bundle]` of `zcp.toml`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct About {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) display_name: Option<String>,
    pub(super) version: String,
    pub(super) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) long_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<Author>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repository: Option<Repository>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) homepage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) documentation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) support: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) license: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) keywords: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) icon: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) privacy_policies: Vec<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) user_config: Map<String, Value>,
    #[serde(skip_serializing)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(skip_serializing)]
    pub(super) compatibility: Map<String, Value>,
}

/// Who made it: a name, or more.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Author(Value);

/// Where its source is: an address, or more.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Repository(Value);

impl From<Value> for Author {
    fn from(said: Value) -> Self {
        Self(if said.is_string() { json!({ "name": said }) } else { said })
    }
}

impl From<Value> for Repository {
    fn from(said: Value) -> Self {
        Self(if said.is_string() { json!({ "type": "git", "url": said }) } else { said })
    }
}

impl About {
    /// What a folder says, what was typed before it; and what to know of that.
    pub(super) fn read(
        root: &Path,
        name: Option<&str>,
        version: Option<&str>,
    ) -> Result<(Self, Vec<String>), Box<dyn Error>> {
        let mut typed = Map::new();
        typed.extend(name.map(|name| ("name".to_owned(), json!(name))));
        typed.extend(version.map(|version| ("version".to_owned(), json!(version))));
        let file = toml_of(root)?;
        let own = file.get("bundle").and_then(Value::as_object).cloned().unwrap_or_default();
        let wrong = |error| format!("zcp.toml, [bundle]: {error}");
        serde_json::from_value::<Self>(own.clone().into()).map_err(wrong)?;
        let (conf, mut notes) = conf::read(root)?;
        let is_mcp_bash = root.join("server.d").is_dir();
        let meta = json_of(&root.join("server.d/server.meta.json"));
        let sources = [
            typed,
            own,
            conf,
            if is_mcp_bash { version_file(root) } else { Map::new() },
            of_server(&file["server"]),
            of_meta(root, &meta),
            version_file(root),
            package(root),
            of_git(root),
        ];
        let mut all = Map::new();
        for (key, value) in sources.into_iter().flatten() {
            all.entry(key).or_insert(value);
        }
        if !all.contains_key("version") {
            let hint = "say it with `version` in `[server]` of zcp.toml, or with --version";
            // As the server says it.
            let version = env!("CARGO_PKG_VERSION");
            notes.push(format!("the folder says no version, so it is {version}: {hint}"));
            all.insert("version".to_owned(), json!(version));
        }
        let mut about: Self = serde_json::from_value(all.into())?;
        if is_mcp_bash && !about.env.is_empty() {
            show_to_scripts(&mut about.env);
        }
        if semver::Version::parse(&about.version).is_err() {
            notes.push(format!("`{}` is no version like 1.2.3, as clients want it", about.version));
        }
        if about.author.is_none() {
            notes
                .push("the folder does not say whose it is: say `author` in `[bundle]`".to_owned());
            about.author = Some(Author::from(json!("unknown")));
        }
        Ok((about, notes))
    }
}

/// `zcp.toml`, as a value.
pub(super) fn toml_of(root: &Path) -> Result<Value, Box<dyn Error>> {
    match text_of(root, "zcp.toml")? {
        Some(text) => Ok(toml::from_str(&text).map_err(|error| format!("zcp.toml: {error}"))?),
        None => Ok(json!({})),
    }
}

fn json_of(path: &Path) -> Value {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn renamed(from: &Value, names: &[(&str, &str)]) -> Map<String, Value> {
    let one = |(old, new): &(&str, &str)| {
        let value = from.get(old).filter(|value| !value.is_null())?;
        Some(((*new).to_owned(), value.clone()))
    };
    names.iter().filter_map(one).collect()
}

fn of_server(server: &Value) -> Map<String, Value> {
    let names = [
        ("name", "name"),
        ("title", "display_name"),
        ("version", "version"),
        ("description", "description"),
        ("website", "homepage"),
        ("websiteUrl", "homepage"),
        ("website_url", "homepage"),
    ];
    renamed(server, &names)
}

fn of_meta(root: &Path, meta: &Value) -> Map<String, Value> {
    let mut all = of_server(meta);
    let same =
        ["author", "repository", "license", "keywords", "homepage", "documentation", "support"];
    let same = same.into_iter().chain(["privacy_policies", "compatibility", "user_config"]);
    all.extend(renamed(meta, &same.map(|name| (name, name)).collect::<Vec<_>>()));
    let long = meta["long_description_file"].as_str();
    if let Some(text) = long.and_then(|file| fs::read_to_string(root.join(file)).ok()) {
        all.insert("long_description".to_owned(), text.into());
    }
    let mut env = meta["env"].as_object().cloned().unwrap_or_default();
    if let Some(names) = meta["user_config_env_map"].as_object() {
        let pairs = names.iter().filter_map(|(key, name)| Some((key.as_str(), name.as_str()?)));
        env.extend(conf::mapped(pairs).as_object().cloned().unwrap_or_default());
    }
    if !env.is_empty() {
        all.insert("env".to_owned(), env.into());
    }
    all
}

fn version_file(root: &Path) -> Map<String, Value> {
    let text = fs::read_to_string(root.join("VERSION")).unwrap_or_default();
    let text = Some(text.trim()).filter(|text| !text.is_empty());
    text.map(|text| ("version".to_owned(), json!(text))).into_iter().collect()
}

fn package(root: &Path) -> Map<String, Value> {
    let names = ["version", "description", "license"].map(|name| (name, name));
    let mut all = renamed(&json_of(&root.join("package.json")), &names);
    all.retain(|_, value| value.is_string());
    all
}

/// Who works on the folder, and where its source is.
fn of_git(root: &Path) -> Map<String, Value> {
    let git = |words: &[&str]| {
        let done = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
        let text = String::from_utf8(done.stdout).ok()?.trim().to_owned();
        (done.status.success() && !text.is_empty()).then_some(text)
    };
    let mut all = Map::new();
    if let Some(name) = git(&["config", "user.name"]) {
        let mut author = Map::from_iter([("name".to_owned(), json!(name))]);
        author.extend(git(&["config", "user.email"]).map(|text| ("email".to_owned(), json!(text))));
        all.insert("author".to_owned(), author.into());
    }
    let remote = git(&["remote", "get-url", "origin"]).and_then(|url| public(&url));
    all.extend(remote.map(|url| ("repository".to_owned(), json!(url))));
    all
}

/// An address of a repository that anybody may be told: no names, and no passwords.
fn public(remote: &str) -> Option<String> {
    let whole = match remote.split_once('@').and_then(|(_, rest)| rest.split_once(':')) {
        Some((host, path)) if !remote.contains("://") => format!("https://{host}/{path}"),
        _ => remote.to_owned(),
    };
    let mut url = Url::parse(&whole).ok()?;
    if url.scheme() == "ssh" {
        url = Url::parse(&whole.replacen("ssh://", "https://", 1)).ok()?;
        url.set_port(None).ok()?;
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    matches!(url.scheme(), "https" | "http").then(|| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_repositories_tell_no_secrets() {
        let https = Some("https://example.com/me/it.git".to_owned());
        assert_eq!(public("https://me:token@example.com/me/it.git"), https);
        assert_eq!(public("git@example.com:me/it.git"), https);
        assert_eq!(public("ssh://git@example.com:22/me/it.git"), https);
        assert_eq!(public("/home/me/it"), None);
        assert_eq!(public("file:///home/me/it"), None);
    }
}
