//! An entry of a client's file: added, changed or taken out.

use super::{
    super::{config::counted, validate},
    Install, command, open, short_path,
    wish::Source,
};
use crate::{
    client_config::{clients::Client, edit::At, user_files::Kept},
    errors::usage,
    findings, needs, print,
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
};
use zcp::{ListKind, Provider};
use zcp_scripts::Scripts;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a folder that offers something may have, beside tools.
const PARTS: [&str; 7] = ["zcp.toml", "server.d", "tools", "resources", "prompts", "skills", "ui"];

/// What becomes of the file.
pub(super) struct Change {
    pub(super) name: String,
    pub(super) entry: Value,
    pub(super) text: String,
    /// What happened, for people.
    pub(super) words: String,
    /// What else to know.
    pub(super) notes: Vec<String>,
}

pub(super) fn addition(
    client: &Client,
    kept: &Kept,
    servers: &Value,
    install: &Install,
    source: &Source,
) -> Result<Change> {
    let (wish, offers, mut notes) = match source {
        Source::Folder(folder) => {
            let scripts = opened(folder)?;
            let wish = scripts.name();
            findings::lines(&scripts).iter().for_each(|line| print::aside(line));
            validate::summary(&scripts, folder).iter().for_each(|line| print::aside(line));
            let tools = counted(scripts.catalog().borrow().count(ListKind::Tools), "tools");
            let notes = unset(&scripts, &install.env);
            (wish, format!(" ({tools})"), notes)
        }
        Source::Url(_) | Source::Command(_) => (source.name(), String::new(), vec![]),
    };
    let name = match &install.name {
        Some(name) if client.safe_name(name) != *name => {
            let safe = client.safe_name(name);
            let why = format!("{} would not take the name `{name}`: use `{safe}`", client.name);
            return Err(usage(why.into()));
        }
        Some(name) => name.clone(),
        None => client.safe_name(&wish),
    };
    let env = install.env.iter().map(|text| {
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let env: BTreeMap<_, _> =
        env.collect::<std::result::Result<_, String>>().map_err(|why| usage(why.into()))?;
    let wanted = entry(client, &name, source, &env)?;
    if client.is_app && !env.contains_key("PATH") {
        notes.extend(short_path::note(client, source));
    }
    let there = servers.get(&name).filter(|there| !there.is_null());
    let entry = match there {
        Some(there) if !may_change(client, there, &wanted, source) => {
            let place = kept.path.display();
            let what = about(client, there);
            let hint = "choose another name with --name";
            return Err(format!("{place} has another server called `{name}`{what}: {hint}").into());
        }
        Some(there) => {
            if let Some(other) = other_folder(client, there, &wanted, install) {
                let (place, other) = (kept.path.display(), other.display());
                let hint = "choose another name with --name, or say this one to replace it";
                return Err(format!("{place} has `{name}` for {other}: {hint}").into());
            }
            merged(client, there, wanted)
        }
        None => wanted,
    };
    let before = kept.text.as_deref().unwrap_or_default();
    let at = At { table: client.servers, name: &name };
    let text = client.format.set(before, at, &entry).map_err(|why| {
        let snippet = client.format.set("", at, &entry).unwrap_or_default();
        format!("{}: {why}; write this into it yourself:\n{snippet}", kept.path.display())
    })?;
    let words = match (there.is_some(), text == before) {
        (_, true) => format!("{} has {name} already, just like this{offers}", client.name),
        (true, false) => format!("{} now starts {name} in another way{offers}", client.name),
        (false, false) => format!("{} now has {name}{offers}", client.name),
    };
    Ok(Change { name, entry: entry.into(), text, words, notes })
}

pub(super) fn removal(client: &Client, kept: &Kept, servers: &Value, name: &str) -> Result<Change> {
    let place = kept.path.display();
    let Some(there) = servers.get(name) else {
        let names = servers.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let known = match names.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "it has none".to_owned(),
            names => format!("it has {names}"),
        };
        return Err(format!("{place} has no server called `{name}`: {known}").into());
    };
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    if !is_ours(client, there, &program) {
        let what = about(client, there);
        let hint = "take it out yourself if you mean it";
        return Err(format!("`{name}` in {place} is no folder of scripts{what}: {hint}").into());
    }
    let at = At { table: client.servers, name };
    let before = kept.text.as_deref().unwrap_or_default();
    let text = client
        .format
        .remove(before, at)
        .map_err(|why| format!("{place}: {why}; take `{name}` out of it yourself"))?;
    let words = format!("{} no longer has {name}", client.name);
    Ok(Change { name: name.to_owned(), entry: there.clone(), text, words, notes: vec![] })
}

/// A server as a client writes it down.
fn entry(
    client: &Client,
    name: &str,
    source: &Source,
    env: &BTreeMap<String, String>,
) -> Result<Map<String, Value>> {
    Ok(match source {
        Source::Folder(folder) => {
            let (program, args) = command(folder)?;
            client.entry(name, &program, &args, env)
        }
        Source::Command(words) => {
            let (program, args) = words.split_first().ok_or("the command line is empty")?;
            client.entry(name, program, args, env)
        }
        Source::Url(_) if !env.is_empty() => {
            return Err(usage("a URL has no environment: leave --env out".into()));
        }
        Source::Url(url) => client.remote_entry(name, url).ok_or_else(|| {
            let hint = "add it as a connector in its settings";
            format!(
                "{} starts servers of its file itself, and reads no URL there: {hint}",
                client.name
            )
        })?,
    })
}

/// Opens a folder that offers something.
fn opened(folder: &Path) -> Result<Scripts> {
    let scripts = open(folder)?;
    let has = |name: &&str| scripts.root().join(name).exists();
    if scripts.programs().borrow().is_empty() && !PARTS.iter().any(has) {
        let folder = folder.display();
        let hint = "name the folder of your scripts, or begin one with `zcp new`";
        return Err(usage(format!("{folder} has nothing to offer: {hint}").into()));
    }
    Ok(scripts)
}

/// Environment variables that scripts read and that the client is not told.
fn unset(scripts: &Scripts, env: &[String]) -> Vec<String> {
    let needs = needs::of(scripts);
    let is_told = |name: &str| env.iter().any(|pair| pair.split('=').next() == Some(name));
    let mut names: Vec<&str> = needs.iter().filter_map(|(_, need)| need.variable()).collect();
    names.retain(|name| !is_told(name));
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return vec![];
    }
    let flags: Vec<String> = names.iter().map(|name| format!("--env {name}=…")).collect();
    let why = "Its tools read environment variables, which many clients do not pass on";
    vec![format!("{why}. To write them into the file: {}", flags.join(" "))]
}

/// Whether an entry that is there is one this command may change: another start of a folder, or the
/// same server.
fn may_change(
    client: &Client,
    there: &Value,
    wanted: &Map<String, Value>,
    source: &Source,
) -> bool {
    let [command, args, _] = client.members();
    match source {
        Source::Folder(_) => is_ours(client, there, wanted[command].as_str().unwrap_or_default()),
        Source::Command(_) => there[command] == wanted[command] && there[args] == wanted[args],
        Source::Url(url) => {
            let mut members = there.as_object().into_iter().flat_map(Map::values);
            members.any(|value| value == url)
        }
    }
}

/// Whether an entry starts `zcp serve`.
fn is_ours(client: &Client, entry: &Value, program: &str) -> bool {
    let [command, args, _] = client.members();
    let command = entry[command].as_str().unwrap_or_default();
    let stem = Path::new(command).file_stem();
    let is_zcp = command == program || stem.is_some_and(|stem| stem == "zcp");
    is_zcp && entry[args][0] == "serve"
}

/// The folder that the words of an entry name, if it is there.
fn folder_of(args: &Value) -> Option<PathBuf> {
    let folder = Path::new(args[1].as_str()?);
    let whole = folder.is_absolute().then(|| folder.canonicalize().ok())?;
    whole.filter(|folder| folder.is_dir())
}

fn is_same_folder(one: &Value, other: &Value) -> bool {
    folder_of(one).is_some_and(|folder| Some(folder) == folder_of(other))
}

/// Another folder's, which nobody asked to replace.
fn other_folder(
    client: &Client,
    there: &Value,
    wanted: &Map<String, Value>,
    install: &Install,
) -> Option<PathBuf> {
    let [_, args, _] = client.members();
    let folder = folder_of(&there[args]).filter(|_| install.name.is_none())?;
    (folder_of(&wanted[args])? != folder).then_some(folder)
}

/// What an entry of somebody else's does.
fn about(client: &Client, entry: &Value) -> String {
    let [command, ..] = client.members();
    let what = [command, "url", "serverUrl", "httpUrl", "uri"];
    let what = what.iter().find_map(|name| entry[*name].as_str());
    what.map(|what| format!(" ({what})")).unwrap_or_default()
}

/// An entry as it is to be: what says how it is started is new, variables are added, and what the
/// user or the client has added stays, also to the words where the folder is the same.
fn merged(client: &Client, there: &Value, wanted: Map<String, Value>) -> Map<String, Value> {
    let mut entry = there.as_object().cloned().unwrap_or_default();
    let [command, args, env] = client.members();
    for (name, value) in wanted {
        match entry.get_mut(&name) {
            Some(Value::Object(now)) if name == env => {
                now.extend(value.as_object().cloned().unwrap_or_default());
            }
            Some(_) if ![command, args, env].contains(&&*name) => (),
            Some(now) if name == args && is_same_folder(now, &value) => (),
            _ => drop(entry.insert(name, value)),
        }
    }
    entry
}
