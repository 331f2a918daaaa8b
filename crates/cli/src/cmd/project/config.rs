//! `zcp config`: what a folder's settings come to, and what clients need to start its server.

use super::install::{absolute, command, open};
use crate::{
    client_config::{clients, edit::At},
    errors::usage,
    findings, print,
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
};
use zcp::{ListKind, Provider};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp config ./my-tools                    what its settings come to
  zcp config ./my-tools --client cursor    what to write into Cursor's file
  zcp config ./my-tools --wrapper          a script that starts the server")]
pub(crate) struct Config {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Show what this client's file needs.
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,

    /// Print a script that starts the server, for clients that want one file.
    #[arg(long, conflicts_with = "client")]
    pub(crate) wrapper: bool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) async fn run(config: &Config, json: bool) -> Result<()> {
    match &config.client {
        _ if config.wrapper => wrapper(&config.folder, json),
        Some(client) => snippet(&config.folder, client, json),
        None => settings(&config.folder, json),
    }
}

fn settings(folder: &Path, json: bool) -> Result<()> {
    let scripts = open(folder)?;
    let folder = absolute(folder)?;
    let counts = {
        let catalog = scripts.catalog();
        let catalog = catalog.borrow();
        [
            ("tools", ListKind::Tools),
            ("resources", ListKind::Resources),
            ("templates", ListKind::Templates),
            ("prompts", ListKind::Prompts),
            ("skills", ListKind::Skills),
        ]
        .map(|(name, kind)| (name, catalog.count(kind)))
    };
    let (settings, mistakes) = (scripts.settings(), scripts.mistakes().borrow().clone());
    if json {
        let offers: Map<String, Value> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
        return Ok(print::json(&json!({
            "folder": folder,
            "kind": scripts.kind(),
            "offers": offers,
            "settings": settings,
            "mistakes": mistakes,
        }))?);
    }
    let offers = counts.iter().filter(|(_, count)| *count > 0);
    let offers: Vec<String> = offers.map(|(name, count)| counted(*count, name)).collect();
    let offers = if offers.is_empty() { "nothing".to_owned() } else { offers.join(", ") };
    print::facts(
        &scripts.name(),
        &[
            ("folder", folder.display().to_string()),
            ("kind", scripts.kind().to_owned()),
            ("offers", offers),
        ],
    )?;
    print::words("")?;
    let rows: Vec<_> = settings
        .iter()
        .map(|setting| (setting.name.to_owned(), spoken(&setting.value), setting.from.as_str()))
        .collect();
    let width = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(name, value, from)| (name, format!("{value:<width$}  {from}")))
        .collect();
    print::table("Settings", &rows)?;
    findings::lines(&scripts).iter().for_each(|line| print::aside(line));
    Ok(())
}

/// So many of something that is named as many are.
pub(super) fn counted(count: usize, many: &str) -> String {
    match count {
        1 => format!("1 {}", many.trim_end_matches('s')),
        count => format!("{count} {many}"),
    }
}

/// A value in a few words.
fn spoken(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = match value {
        Value::Null => "—".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        Value::Array(all) => all.iter().map(spoken).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What to write into a client's file.
fn snippet(folder: &Path, client: &str, json: bool) -> Result<()> {
    let client = clients::named(client).map_err(|why| usage(why.into()))?;
    let name = client.safe_name(&open(folder)?.name());
    let (program, args) = command(folder)?;
    let entry = client.entry(&name, &program, &args, &BTreeMap::new());
    let text = client.format.set("", At { table: client.servers, name: &name }, &entry)?;
    let file = client.user_file()?;
    let project = client.project_file(Path::new(""));
    if json {
        return Ok(print::json(&json!({
            "client": client.id,
            "file": file,
            "projectFile": project,
            "name": name,
            "entry": entry,
            "text": text,
        }))?);
    }
    print::words(&text)?;
    let or = project.map(|file| format!(", or {} of a project", file.display()));
    print::aside(&format!(
        "\nThis goes into {}{}.\n`zcp install {} {}` writes it there.",
        file.display(),
        or.unwrap_or_default(),
        client.id,
        shell_words::quote(&args[1])
    ));
    Ok(())
}

/// A script that becomes the server.
fn wrapper(folder: &Path, json: bool) -> Result<()> {
    open(folder)?;
    let (program, args) = command(folder)?;
    let words = shell_words::join([program].iter().chain(&args));
    let text = format!("#!/bin/sh\nexec {words} \"$@\"\n");
    match json {
        true => Ok(print::json(&json!({ "text": text }))?),
        false => Ok(print::words(&text)?),
    }
}
