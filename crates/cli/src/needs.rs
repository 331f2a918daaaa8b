//! Environment variables and secrets that a folder's files name, and which of them are missing.

use crate::home;
use regex::Regex;
use serde_json::Value;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};
use zcp_scripts::{Program, Scripts};

/// How much of a script is read: a header stands at its beginning.
const HEADER: u64 = 64 * 1024;
/// The largest file of settings that is read.
const SETTINGS: u64 = 1024 * 1024;
/// Members that name environment variables.
const NAMES: [&str; 5] = ["env_allow", "envAllow", "envAllowlist", "pass_env", "passEnv"];

/// A header's line of variables: `@env NAME, NAME` or `@env NAME=value`.
const TAG: &str = r"(?m)^[\s#/*;%'-]*@env[ \t]+(\S.*)$";

/// Something of the environment that a file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// An environment variable.
    Variable(String),
    /// A secret in an environment variable.
    Secret(String),
    /// A secret in a file.
    File(PathBuf),
}

impl Need {
    /// The variable it is about.
    pub(crate) fn variable(&self) -> Option<&str> {
        match self {
            Self::Variable(name) | Self::Secret(name) => Some(name),
            Self::File(_) => None,
        }
    }

    /// What is missing, unless it is there.
    pub(crate) fn missing(&self) -> Option<String> {
        let is_set = |name: &str| home::variable(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Variable(name) => (!is_set(name))
                .then(|| format!("reads the environment variable {name}, which is not set")),
            Self::Secret(name) => (!is_set(name))
                .then(|| format!("secret://env/{name} cannot be had: {name} is not set")),
            Self::File(path) => (!path.is_file()).then(|| {
                let path = path.display();
                format!("secret://file/… cannot be had: {path} is not there")
            }),
        }
    }

    /// What to do about it.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Variable(name) | Self::Secret(name) => {
                format!(
                    "set {name} for the server: `zcp install CLIENT --env {name}=…` writes it there"
                )
            }
            Self::File(path) => format!("write the secret into {}", path.display()),
        }
    }
}

/// What is needed, each with the tool or the file that names it.
pub(crate) fn of(scripts: &Scripts) -> Vec<(String, Need)> {
    let root = scripts.root();
    let mut all = vec![];
    for program in scripts.programs().borrow().iter() {
        let mut found = of_header(&program.script, root);
        found.extend(beside(program).iter().flat_map(|value| of_value(value, root)));
        all.extend(found.into_iter().map(|need| (program.tool.clone(), need)));
    }
    let settings = beginning(&root.join("zcp.toml"), SETTINGS);
    if let Some(settings) = settings.and_then(|text| toml::from_str::<Value>(&text).ok()) {
        let found = of_value(&settings, root);
        all.extend(found.into_iter().map(|need| ("zcp.toml".to_owned(), need)));
    }
    all.sort();
    all.dedup();
    all
}

fn of_header(script: &Path, root: &Path) -> Vec<Need> {
    let Some(text) = beginning(script, HEADER) else { return vec![] };
    let Ok(tag) = Regex::new(TAG) else { return vec![] };
    let mut all = vec![];
    for found in tag.captures_iter(&text) {
        let said = found[1].trim();
        match said.split_once('=') {
            Some((_, value)) => all.extend(of_secret(value.trim(), root)),
            None => {
                let names = said.split([' ', ',']).filter(|name| is_name(name));
                all.extend(names.map(|name| Need::Variable(name.to_owned())));
            }
        }
    }
    all
}

/// The settings of a script in a file beside it.
fn beside(program: &Program) -> Option<Value> {
    let path = &program.script;
    let name = path.file_name()?.to_string_lossy();
    let stem = path.file_stem()?.to_string_lossy();
    let files = [format!("{name}.meta.json"), format!("{stem}.meta.json")];
    let text = files.iter().find_map(|file| beginning(&path.with_file_name(file), SETTINGS))?;
    serde_json::from_str(&text).ok()
}

fn of_value(value: &Value, root: &Path) -> Vec<Need> {
    match value {
        Value::String(text) => of_secret(text, root).into_iter().collect(),
        Value::Array(all) => all.iter().flat_map(|one| of_value(one, root)).collect(),
        Value::Object(members) => {
            let of_member = |(member, value): (&String, &Value)| match value.as_array() {
                Some(names) if NAMES.contains(&member.as_str()) => {
                    let names = names.iter().filter_map(Value::as_str).filter(|name| is_name(name));
                    names.map(|name| Need::Variable(name.to_owned())).collect()
                }
                _ => of_value(value, root),
            };
            members.iter().flat_map(of_member).collect()
        }
        _ => vec![],
    }
}

/// The secret that a value refers to; headers have it behind other words.
fn of_secret(text: &str, root: &Path) -> Option<Need> {
    let (_, reference) = text.split_once("secret://")?;
    match reference.trim().split_once('/')? {
        ("env", name) => Some(Need::Secret(name.to_owned())),
        ("file", path) => Some(Need::File(root.join(path))),
        _ => None,
    }
}

/// Whether a word is the name of one variable, and no pattern for several.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The beginning of a text file.
pub(crate) fn beginning(path: &Path, most: u64) -> Option<String> {
    let mut bytes = vec![];
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headers_and_settings_name_what_they_need() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("a.sh");
        std::fs::write(
            &script,
            "#!/bin/sh\n# Sells.\n# @env SHOP_KEY, REGION\n# @env LEVEL=high\n# @env T=secret://env/TOKEN\n# @env AWS_*\necho @env NO\n",
        )
        .unwrap();
        let variable = |name: &str| Need::Variable(name.to_owned());
        let secret = |name: &str| Need::Secret(name.to_owned());
        assert_eq!(
            of_header(&script, folder.path()),
            [variable("SHOP_KEY"), variable("REGION"), secret("TOKEN")]
        );
        let settings = json!({ "mounts": { "a": {
            "pass_env": ["HOST"], "headers": { "Authorization": "Bearer secret://env/BEARER" },
            "env": { "F": "secret://file/key.txt" },
        } } });
        let root = Path::new("/p");
        assert_eq!(
            of_value(&settings, root),
            [variable("HOST"), secret("BEARER"), Need::File("/p/key.txt".into())]
        );
    }
}
