//! What the settings of a folder come to, and where each of them comes from.

use super::Project;
use crate::{
    compat::mcp_bash,
    host::{Environment, environment::SHOWN_OUTPUT},
    manifest::{Sandbox, defaults, read_value},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// Where a setting comes from that nobody made.
const DEFAULT: &str = "default";
const OWN: &str = "zcp.toml";
const META: &str = "server.d/server.meta.json";

/// One setting of a folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// What it is called in `zcp.toml`.
    pub name: &'static str,
    /// What it comes to; null if there is none.
    pub value: Value,
    /// The file or the variable that says so, or `default`.
    pub from: String,
}

/// All of them: what the folder says of itself first, then what holds for its scripts unless they
/// say otherwise.
pub(crate) fn settings(project: &Project, environment: &Environment) -> Vec<Setting> {
    let mut all = about(project);
    all.extend(times(project, environment));
    let (limits, is_mcp_bash) = (&project.defaults.limits, project.is_mcp_bash);
    let shown = match is_mcp_bash {
        true => (mcp_bash::number(environment, mcp_bash::OUTPUT), mcp_bash::OUTPUT),
        false => (environment.shown_output(), SHOWN_OUTPUT),
    };
    let shown = shown.0.map(|most| (json!(size(most)), shown.1));
    let said = |name, said: Option<Value>, otherwise: Value| match said {
        Some(value) => Setting { name, value, from: OWN.to_owned() },
        None => Setting { name, value: otherwise, from: DEFAULT.to_owned() },
    };
    all.push(match (limits.output, shown) {
        (None, Some((value, from))) => {
            Setting { name: "limits.output", value, from: from.to_owned() }
        }
        (output, _) => {
            said("limits.output", output.map(size).map(Value::from), json!(size(defaults::OUTPUT)))
        }
    });
    all.extend([
        said("limits.processes", limits.processes.map(Value::from), json!(defaults::PROCESSES)),
        said("limits.memory", limits.memory.map(size).map(Value::from), Value::Null),
        said("limits.cpu", limits.cpu.map(time), Value::Null),
        said("limits.files", limits.open_files.map(Value::from), Value::Null),
        said("limits.concurrency", limits.concurrency.map(Value::from), Value::Null),
        said("limits.rate", limits.rate.map(Value::from), Value::Null),
        said("sandbox", project.defaults.sandbox.as_ref().map(sandbox), json!(false)),
    ]);
    // Values may be secrets.
    let names: Vec<&String> =
        project.defaults.env.keys().chain(&project.defaults.env_allow).collect();
    all.push(said("env", (!names.is_empty()).then(|| json!(names)), Value::Null));
    all
}

fn about(project: &Project) -> Vec<Setting> {
    let read = |path: PathBuf| read_value(&path).unwrap_or_default();
    let server = project.folder("server.d");
    let (own, meta) = (read(project.root.join(OWN)), read(server.join("server.meta.json")));
    let from = |names: &[&str], otherwise: &dyn Fn() -> String| {
        let has = |value: &Value| names.iter().any(|name| value.get(name).is_some());
        match (own.get("server").is_some_and(has), has(&meta)) {
            (true, _) => OWN.to_owned(),
            (false, true) => META.to_owned(),
            (false, false) => otherwise(),
        }
    };
    let first = |files: &[&str]| {
        let there = files.iter().find(|file| project.root.join(file).is_file());
        there.map_or_else(|| DEFAULT.to_owned(), |file| (*file).to_owned())
    };
    let (said, nowhere) = (&project.about, || DEFAULT.to_owned());
    let website = &["websiteUrl", "website", "website_url"];
    let words = ["server.d/server.instructions.md", "instructions.md"];
    let row = |name, value: &Option<String>, from| Setting { name, value: json!(value), from };
    vec![
        row("name", &Some(project.name()), from(&["name"], &|| "the folder's name".to_owned())),
        row("title", &said.title, from(&["title"], &nowhere)),
        row("version", &said.version, from(&["version"], &|| first(&["VERSION", "package.json"]))),
        row("description", &said.description, from(&["description"], &nowhere)),
        row("website", &said.website_url, from(website, &nowhere)),
        row("instructions", &said.instructions, from(&["instructions"], &|| first(&words))),
    ]
}

fn times(project: &Project, environment: &Environment) -> [Setting; 2] {
    let said = &project.defaults;
    let variable = |name: &str| {
        let counts = project.is_mcp_bash || name == mcp_bash::TIMEOUT;
        mcp_bash::seconds(environment, name).filter(|_| counts)
    };
    let chosen = |name, said: Option<Duration>, variable_name: &str, otherwise| {
        let (value, from) = match (said, variable(variable_name)) {
            (Some(said), _) => (said, OWN),
            (None, Some(said)) => (said, variable_name),
            (None, None) => (otherwise, DEFAULT),
        };
        Setting { name, value: time(value), from: from.to_owned() }
    };
    let most = if project.is_mcp_bash { mcp_bash::MOST_TIME } else { defaults::MAX_TIMEOUT };
    [
        chosen("timeout", said.timeout, mcp_bash::TIMEOUT, defaults::TIMEOUT),
        chosen("maxTimeout", said.max_timeout, mcp_bash::MAX_TIMEOUT, most),
    ]
}

fn time(time: Duration) -> Value {
    json!(humantime::format_duration(time).to_string())
}

/// A number of bytes, as it may be written.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.iter().find(|(_, bits)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    whole.map_or_else(|| bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
}

fn sandbox(sandbox: &Sandbox) -> Value {
    if *sandbox == Sandbox::CLOSED {
        return json!(true);
    }
    let Sandbox { read, write, network, unix_sockets, signals } = sandbox;
    let rules = [
        read.as_ref().map(|paths| ("read", json!(paths))),
        write.as_ref().map(|paths| ("write", json!(paths))),
        (!network).then_some(("network", json!(false))),
        unix_sockets.then_some(("unixSockets", json!(true))),
        (!signals).then_some(("signals", json!(false))),
    ];
    match rules.iter().flatten().next() {
        None => json!(false),
        Some(_) => {
            rules.into_iter().flatten().map(|(name, rule)| (name.to_owned(), rule)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Host, run::concurrency::Bounds};
    use std::{collections::BTreeMap, fs, sync::Arc};

    #[test]
    fn every_setting_says_where_it_comes_from() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let text = "[server]\nname = \"mine\"\n[defaults]\ntimeout = \"30s\"\nsandbox = true\n\
                    env = { KEY = \"secret\" }\n[defaults.limits]\nmemory = \"512MiB\"\n";
        fs::write(root.join(OWN), text).unwrap();
        fs::create_dir(root.join("server.d")).unwrap();
        fs::write(root.join(META), r#"{ "name": "theirs", "title": "A title" }"#).unwrap();
        fs::write(root.join("VERSION"), "1.2.3\n").unwrap();
        let env = BTreeMap::from([(mcp_bash::MAX_TIMEOUT.to_owned(), "90".to_owned())]);
        let (project, mistakes) = Project::open(root, &env);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        let bounds = Bounds::of(&env, mcp_bash::MAX_CONCURRENT);
        let host = Host::new(None, env, BTreeMap::new(), bounds, root, Arc::default()).unwrap();
        let all = settings(&project, &host.environment);
        let is = |name: &str, value: Value, from: &str| {
            let one = all.iter().find(|one| one.name == name).unwrap();
            assert_eq!((&one.value, one.from.as_str()), (&value, from), "{name}");
        };
        is("name", json!("mine"), OWN);
        is("title", json!("A title"), META);
        is("version", json!("1.2.3"), "VERSION");
        is("instructions", Value::Null, DEFAULT);
        is("timeout", json!("30s"), OWN);
        is("maxTimeout", json!("1m 30s"), mcp_bash::MAX_TIMEOUT);
        is("limits.memory", json!("512MiB"), OWN);
        is("limits.output", json!("256KiB"), DEFAULT);
        is("sandbox", json!(true), OWN);
        is("env", json!(["KEY"]), OWN);
    }
}
