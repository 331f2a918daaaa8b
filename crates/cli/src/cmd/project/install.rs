//! `zcp install`: a folder's server, written into a client's configuration.

use super::config::counted;
use crate::{
    client_config::{
        clients::{self, Client},
        edit::At,
        user_files::{Kept, Readers},
    },
    errors::usage,
    print,
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
};
use zcp::{ListKind, Provider};
use zcp_scripts::Scripts;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Clients: claude-code, claude-desktop, cursor, vscode, windsurf, zed, gemini, codex, goose, cline.

Examples:
  zcp install claude-code ./my-tools
  zcp install cursor ./my-tools --name tools --env REGION=eu
  zcp install claude-desktop ./my-tools --dry-run
  zcp install zed --remove my-tools"
)]
pub(crate) struct Install {
    /// Which client.
    pub(crate) client: String,

    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// What the server is called there, instead of as the folder is.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// A variable of the server's environment. Repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Write the file of the project in this folder, instead of the user's own.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,

    /// Take a server of this name out again.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["folder", "name", "env"])]
    pub(crate) remove: Option<String>,

    /// Show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a folder that offers something may have, beside tools.
const PARTS: [&str; 7] = ["zcp.toml", "server.d", "tools", "resources", "prompts", "skills", "ui"];

/// What becomes of the file.
struct Change {
    name: String,
    entry: Value,
    text: String,
    /// What happened, for people.
    words: String,
}

pub(crate) fn run(install: &Install, json: bool) -> Result<()> {
    let client = clients::named(&install.client).map_err(|why| usage(why.into()))?;
    let file = match &install.project {
        Some(folder) => project_file(client, folder)?,
        None => client.user_file()?,
    };
    let kept = Kept::take(&file)?;
    if let Some(folder) = &install.project
        && !kept.is_in(&absolute(folder)?)
    {
        let (file, folder, real) = (file.display(), folder.display(), kept.path.display());
        return Err(format!("{file} leads out of {folder}, to {real}: mend the link").into());
    }
    let text = kept.text.as_deref().unwrap_or_default();
    let all = client.format.read(text).map_err(|why| {
        let hint = "nothing was written: mend the file, or move it away, and try again";
        format!("{} cannot be read: {why}\n{hint}", kept.path.display())
    })?;
    let servers = &all[client.servers];
    let change = match &install.remove {
        Some(name) => removal(client, &kept, servers, name)?,
        None => addition(client, &kept, servers, install)?,
    };
    let changed = change.text != text;
    let is_client_there = kept.path.parent().is_some_and(Path::is_dir);
    let backup = match changed && !install.dry_run {
        true => {
            let readers = if install.project.is_some() { Readers::Usual } else { Readers::Own };
            kept.replace(&change.text, readers)?
        }
        false => None,
    };
    if json {
        return Ok(print::json(&json!({
            "client": client.id,
            "file": kept.path,
            "name": change.name,
            "entry": change.entry,
            "changed": changed,
            "backup": backup,
            "dryRun": install.dry_run,
        }))?);
    }
    tell(client, install, &kept, &change, backup.as_deref())?;
    if !is_client_there && install.project.is_none() {
        let name = client.name;
        print::aside(&format!("\nIts folder was not there: is {name} installed on this machine?"));
    }
    Ok(())
}

fn project_file(client: &Client, folder: &Path) -> Result<PathBuf> {
    let missing = format!("{} has no file for a project: leave --project out", client.name);
    let folder = absolute(folder)?;
    client.project_file(&folder).ok_or_else(|| usage(missing.into()))
}

/// The whole path of a folder that is there.
pub(super) fn absolute(folder: &Path) -> Result<PathBuf> {
    let whole = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    if !whole.is_dir() {
        return Err(format!("{} is no folder", whole.display()).into());
    }
    // Windows has a way to write paths that few programs read.
    let plain = whole.to_str().and_then(|path| path.strip_prefix(r"\\?\").map(PathBuf::from));
    Ok(plain.unwrap_or(whole))
}

/// How a client starts the server of a folder: a program, and its words.
pub(super) fn command(folder: &Path) -> Result<(String, Vec<String>)> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| format!("{} is not UTF-8, which clients cannot write", path.display()))
    };
    let program = text(&std::env::current_exe()?)?;
    Ok((program, vec!["serve".to_owned(), text(&absolute(folder)?)?, "--stdio".to_owned()]))
}

/// Opens a folder, as the server would.
pub(super) fn open(folder: &Path) -> Result<Scripts> {
    Ok(Scripts::folder(absolute(folder)?).command(std::env::current_exe()?).open()?)
}

fn addition(client: &Client, kept: &Kept, servers: &Value, install: &Install) -> Result<Change> {
    let scripts = open(&install.folder)?;
    let has = |name: &&str| scripts.root().join(name).exists();
    if scripts.programs().borrow().is_empty() && !PARTS.iter().any(has) {
        let folder = install.folder.display();
        let hint = "name the folder of your scripts, or begin one with `zcp new`";
        return Err(usage(format!("{folder} has nothing to offer: {hint}").into()));
    }
    let name = match &install.name {
        Some(name) if client.safe_name(name) != *name => {
            let safe = client.safe_name(name);
            let why = format!("{} would not take the name `{name}`: use `{safe}`", client.name);
            return Err(usage(why.into()));
        }
        Some(name) => name.clone(),
        None => client.safe_name(&scripts.name()),
    };
    let env = install.env.iter().map(|text| {
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let env: BTreeMap<_, _> =
        env.collect::<std::result::Result<_, String>>().map_err(|why| usage(why.into()))?;
    let (program, args) = command(&install.folder)?;
    let wanted = client.entry(&name, &program, &args, &env);
    let there = servers.get(&name).filter(|there| !there.is_null());
    let entry = match there {
        Some(there) if !is_ours(client, there, &program) => {
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
    scripts.mistakes().borrow().iter().for_each(|why| print::aside(&format!("left out: {why}")));
    let tools = counted(scripts.catalog().borrow().count(ListKind::Tools), "tools");
    let words = match (there.is_some(), text == before) {
        (_, true) => format!("{} has {name} already, just like this ({tools})", client.name),
        (true, false) => format!("{} now starts {name} in another way ({tools})", client.name),
        (false, false) => format!("{} now has {name} ({tools})", client.name),
    };
    Ok(Change { name, entry: entry.into(), text, words })
}

fn removal(client: &Client, kept: &Kept, servers: &Value, name: &str) -> Result<Change> {
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
    Ok(Change { name: name.to_owned(), entry: there.clone(), text, words })
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

fn tell(
    client: &Client,
    install: &Install,
    kept: &Kept,
    change: &Change,
    backup: Option<&Path>,
) -> Result<()> {
    let before = kept.text.as_deref().unwrap_or_default();
    let changed = change.text != before;
    if install.dry_run && changed {
        print::aside(&format!("{} would be changed like this:\n", kept.path.display()));
        print::changes(before, &change.text)?;
        print::aside("\nNothing was written.");
        return Ok(());
    }
    let mut rows = vec![("file", kept.path.display().to_string())];
    rows.extend(backup.map(|path| ("as it was", path.display().to_string())));
    print::facts(&change.words, &rows)?;
    let again = match &install.project {
        Some(folder) => {
            let folder = folder.to_string_lossy();
            format!(" --project {}", shell_words::quote(&folder))
        }
        None => String::new(),
    };
    match &install.remove {
        None => print::words(&format!(
            "\nNext: {}\nTo take it out again: zcp install {}{again} --remove {}",
            client.next, client.id, change.name
        ))?,
        Some(_) => print::words(&format!("\nStart {} again if it runs.", client.name))?,
    }
    Ok(())
}
