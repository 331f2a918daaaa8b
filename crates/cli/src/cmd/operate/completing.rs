//! `zcp __complete`: what a word could be that is being typed, for the scripts of shells.

use crate::{
    client_config::{client_servers, clients::CLIENTS},
    cmd::Args,
    print,
};
use clap::{Arg, Command, CommandFactory};
use std::{collections::BTreeSet, error::Error, path::Path};
use zcp::{ListKind, Provider};
use zcp_scripts::Scripts;

/// Words as they stand on the command line, up to the one that is being typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Completing {
    #[arg(last = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// Prints a word a line. What cannot be known completes nothing.
pub(crate) async fn run(completing: &Completing) -> Result<(), Box<dyn Error>> {
    let root = Args::command();
    let Some(typed) = Typed::read(&root, &completing.words) else { return Ok(()) };
    let begun = completing.words.last().map(String::as_str).unwrap_or_default();
    let known = known(&typed).await;
    let fit: Vec<&str> =
        known.iter().map(String::as_str).filter(|word| is_plain(word, begun)).collect();
    match fit.is_empty() {
        true => Ok(()),
        false => Ok(print::words(&fit.join("\n"))?),
    }
}

/// Whether a word begins as what was typed, and means nothing to a shell: others wrote it.
fn is_plain(word: &str, begun: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_-.:@/+=,%".contains(c);
    word.starts_with(begun) && word.chars().all(plain)
}

/// What stands before the word that is being typed.
#[derive(Debug, Default, PartialEq)]
struct Typed {
    command: String,
    /// Words that are no options and no values of options.
    words: Vec<String>,
    /// The folder that `--in` names.
    folder: Option<String>,
    /// The option whose value is being typed.
    option: Option<String>,
}

impl Typed {
    fn read(root: &Command, words: &[String]) -> Option<Self> {
        let (_, before) = words.split_last()?;
        let (command, rest) = before.split_first()?;
        let about = root.find_subcommand(command)?;
        let mut typed = Self { command: command.clone(), ..Self::default() };
        let mut option: Option<String> = None;
        for word in rest {
            match (option.take(), word.strip_prefix("--")) {
                (Some(name), _) if name == "in" => typed.folder = Some(word.clone()),
                (Some(_), _) => (),
                (None, Some(name)) if takes_value(root, about, name) => {
                    option = Some(name.to_owned());
                }
                (None, _) if word.starts_with('-') => (),
                (None, _) => typed.words.push(word.clone()),
            }
        }
        typed.option = option;
        Some(typed)
    }
}

/// Whether the word after an option belongs to it.
fn takes_value(root: &Command, command: &Command, name: &str) -> bool {
    let is_it = |arg: &&Arg| arg.get_long() == Some(name);
    let found = command.get_arguments().find(is_it).or_else(|| root.get_arguments().find(is_it));
    found.is_some_and(|arg| arg.get_action().takes_values())
}

/// What could stand there.
async fn known(typed: &Typed) -> BTreeSet<String> {
    let clients = || CLIENTS.iter().map(|client| client.id.to_owned());
    match (typed.command.as_str(), typed.option.as_deref(), typed.words.len()) {
        ("config", Some("client"), _) => clients().collect(),
        (_, Some(_), _) => BTreeSet::new(),
        ("install", None, _) => clients().chain(["all".to_owned()]).collect(),
        ("run", None, 0) => offered(typed.folder.as_deref().unwrap_or("."), ListKind::Tools).await,
        ("call" | "describe" | "list", None, 1) => offered(&typed.words[0], ListKind::Tools).await,
        ("prompt" | "complete", None, 1) => offered(&typed.words[0], ListKind::Prompts).await,
        (
            "call" | "describe" | "list" | "prompt" | "complete" | "read" | "ping" | "lint"
            | "login" | "logout",
            None,
            0,
        ) => client_servers::all().into_iter().map(|one| one.name).collect(),
        _ => BTreeSet::new(),
    }
}

/// What a folder offers. Nothing of it runs.
async fn offered(folder: &str, kind: ListKind) -> BTreeSet<String> {
    if !Path::new(folder).is_dir() {
        return BTreeSet::new();
    }
    let Ok(scripts) = Scripts::folder(folder).open() else { return BTreeSet::new() };
    let names = scripts.catalog().borrow().names(kind).map(str::to_owned).collect();
    scripts.processes().end().await;
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_their_values_are_told_from_words() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let read = |line: &str| Typed::read(&Args::command(), &words(line)).unwrap();
        let typed = read("run --in kit --dry-run greet na");
        assert_eq!((typed.words, typed.folder), (vec!["greet".into()], Some("kit".into())));
        assert_eq!(read("config kit --client c").option.as_deref(), Some("client"));
        assert_eq!(read("call ").words, Vec::<String>::new());
        assert!(Typed::read(&Args::command(), &words("nothing x")).is_none());
    }
}
