//! `zcp install`: a server, written into the configuration of clients.

mod client_entry;
mod short_path;
mod wish;

use crate::{
    client_config::{
        clients::Client,
        user_files::{Kept, Readers},
    },
    errors::usage,
    print,
};
use client_entry::Change;
use serde_json::{Value, json};
use std::{
    error::Error,
    path::{Path, PathBuf},
};
use wish::{Source, Wish};
use zcp_scripts::Scripts;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Clients: claude-code, claude-desktop, cursor, vscode, windsurf, zed, gemini, codex, goose, cline,
or all that are on this machine: all.

Examples:
  zcp install claude-code ./my-tools
  zcp install cursor codex ./my-tools
  zcp install all
  zcp install claude-code https://example.com/mcp
  zcp install zed 'npx -y @modelcontextprotocol/server-memory'
  zcp install cursor ./my-tools --name tools --env REGION=eu
  zcp install claude-desktop ./my-tools --dry-run
  zcp install zed --remove my-tools"
)]
pub(crate) struct Install {
    /// Which clients, and then a folder of scripts, a URL, or a command line in quotes. Default: the
    /// current folder.
    #[arg(required = true, value_name = "CLIENT… [SERVER]")]
    pub(crate) words: Vec<String>,

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
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "env"])]
    pub(crate) remove: Option<String>,

    /// Show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) fn run(install: &Install, json: bool) -> Result<()> {
    let wish = Wish::read(install).map_err(|why| usage(why.into()))?;
    if let [client] = wish.clients[..] {
        let told = one(client, install, &wish, json)?;
        return if json { Ok(print::json(&told)?) } else { Ok(()) };
    }
    let (mut all, mut failed) = (vec![], vec![]);
    for client in &wish.clients {
        match one(client, install, &wish, json) {
            Ok(told) => all.push(told),
            Err(why) => {
                print::aside(&format!("{}: {why}", client.name));
                failed.push(client.id);
                all.push(json!({ "client": client.id, "error": why.to_string() }));
            }
        }
    }
    if json {
        print::json(&all)?;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("nothing was written for {}", failed.join(", ")).into()),
    }
}

/// Writes the file of one client. Gives what was done, for programs.
fn one(client: &'static Client, install: &Install, wish: &Wish, json: bool) -> Result<Value> {
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
        Some(name) => client_entry::removal(client, &kept, servers, name)?,
        None => client_entry::addition(client, &kept, servers, install, &wish.source)?,
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
        return Ok(json!({
            "client": client.id,
            "file": kept.path,
            "name": change.name,
            "entry": change.entry,
            "changed": changed,
            "backup": backup,
            "dryRun": install.dry_run,
            "notes": change.notes,
        }));
    }
    tell(client, install, wish, &kept, &change, backup.as_deref())?;
    if !is_client_there && install.project.is_none() {
        let name = client.name;
        print::aside(&format!("\nIts folder was not there: is {name} installed on this machine?"));
    }
    change.notes.iter().for_each(|note| print::aside(&format!("\n{note}")));
    Ok(Value::Null)
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

fn tell(
    client: &Client,
    install: &Install,
    wish: &Wish,
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
    let is_ours = matches!(wish.source, Source::Folder(_));
    match &install.remove {
        None if !is_ours => print::words(&format!(
            "\nNext: {}\nTo take it out again, remove `{}` from that file.",
            client.next, change.name
        ))?,
        None => print::words(&format!(
            "\nNext: {}\nTo take it out again: zcp install {}{again} --remove {}",
            client.next, client.id, change.name
        ))?,
        Some(_) => print::words(&format!("\nStart {} again if it runs.", client.name))?,
    }
    Ok(())
}
