//! `zcp completions` and `zcp man`: this command, for shells and for readers.

use crate::{cmd::Args, print};
use clap::{Command, CommandFactory};
use clap_complete::aot;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use serde_json::json;
use std::{error::Error, io};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp completions bash > ~/.local/share/bash-completion/completions/zcp
  zcp completions zsh > \"${fpath[1]}/_zcp\"
  zcp completions fish > ~/.config/fish/completions/zcp.fish")]
pub(crate) struct Completions {
    /// Which shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// A shell whose completions are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

/// Prints what a shell needs to complete this command's words.
pub(crate) fn completions(completions: &Completions, json: bool) -> Result<(), Box<dyn Error>> {
    let mut command = Args::command();
    let mut text = vec![];
    match completions.shell {
        Shell::Bash => aot::generate(aot::Bash, &mut command, "zcp", &mut text),
        Shell::Zsh => aot::generate(aot::Zsh, &mut command, "zcp", &mut text),
        Shell::Fish => aot::generate(aot::Fish, &mut command, "zcp", &mut text),
        Shell::Powershell => aot::generate(aot::PowerShell, &mut command, "zcp", &mut text),
        Shell::Elvish => aot::generate(aot::Elvish, &mut command, "zcp", &mut text),
    }
    let text = with_names(completions.shell, &String::from_utf8_lossy(&text));
    Ok(written(text.as_bytes(), json)?)
}

/// With what only this command knows when a word is typed: tools, clients, servers.
fn with_names(shell: Shell, text: &str) -> String {
    match shell {
        Shell::Bash => format!("{text}{}", include_str!("../../../templates/completions.bash")),
        Shell::Zsh => {
            let (own, more) = ("_zcp \"$@\"", include_str!("../../../templates/completions.zsh"));
            let text = text.replace(own, "_zcp_and_names \"$@\"");
            let text = text.replace("compdef _zcp zcp", "compdef _zcp_and_names zcp");
            // What is called has to be there before.
            match text.rfind("\nif [ \"$funcstack[1]\"") {
                Some(end) => format!("{}\n{more}{}", &text[..end], &text[end..]),
                None => text,
            }
        }
        Shell::Fish => format!("{text}{}", include_str!("../../../templates/completions.fish")),
        Shell::Powershell | Shell::Elvish => text.to_owned(),
    }
}

/// Prints one page of the manual, with a section for each command.
pub(crate) fn man(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(written(&page(Args::command())?, json)?)
}

fn written(text: &[u8], json: bool) -> io::Result<()> {
    match json {
        true => print::json(&json!({ "text": String::from_utf8_lossy(text) })),
        false => print::bytes(text),
    }
}

fn page(mut command: Command) -> io::Result<Vec<u8>> {
    command.build();
    let mut text = vec![];
    let whole = Man::new(command.clone()).manual("Model Context Protocol");
    whole.render_title(&mut text)?;
    whole.render_name_section(&mut text)?;
    whole.render_synopsis_section(&mut text)?;
    whole.render_description_section(&mut text)?;
    whole.render_options_section(&mut text)?;
    for one in shown(&command) {
        section(one, &mut text)?;
    }
    further(&command, "SH", &mut text)?;
    Ok(plain(&String::from_utf8_lossy(&text)).into_bytes())
}

/// With letters that not every reader of manuals knows written as it wants them.
fn plain(text: &str) -> String {
    let written = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => format!("\\[u{:04X}]", u32::from(c)),
    };
    text.chars().map(written).collect()
}

/// The commands a person is told of, also those of commands that have some.
fn shown(command: &Command) -> Vec<&Command> {
    let told = command.get_subcommands().filter(|one| !one.is_hide_set());
    let told = told.filter(|one| one.get_name() != "help");
    told.flat_map(|one| match one.has_subcommands() {
        true => shown(one),
        false => vec![one],
    })
    .collect()
}

/// One command: what it is for, how it is called, its options and examples.
fn section(command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut heading = Roff::new();
    heading.control("SH", [name.as_str()]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    heading.text([roman(about)]);
    heading.to_writer(text)?;
    // What every command has is said once, at the top.
    let own = command.clone().mut_args(|arg| {
        let is_common = arg.is_global_set() || arg.get_id() == "help";
        arg.hide(is_common)
    });
    let man = Man::new(own);
    let mut parts = vec![];
    man.render_synopsis_section(&mut parts)?;
    if command.get_arguments().any(|arg| !arg.is_global_set() && arg.get_id() != "help") {
        man.render_options_section(&mut parts)?;
    }
    let parts = String::from_utf8_lossy(&parts).replace("\n.SH ", "\n.SS ");
    text.extend(parts.bytes());
    further(command, "SS", text)
}

/// What stands at the foot of a command's help, line by line as it is there.
fn further(command: &Command, level: &str, text: &mut Vec<u8>) -> io::Result<()> {
    let Some(help) = command.get_after_help() else { return Ok(()) };
    let mut roff = Roff::new();
    roff.control(level, ["NOTES"]);
    roff.control("nf", []);
    for line in help.to_string().lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.to_writer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_are_not_in_the_manual() {
        let told = Command::new("told").about("Something to tell.");
        let command = Command::new("it")
            .subcommand(told)
            .subcommand(Command::new("secret").hide(true).about("Nobody knows."));
        let text = String::from_utf8(page(command).unwrap()).unwrap();
        assert!(text.contains("Something to tell."), "{text}");
        assert!(!text.contains("secret") && !text.contains("Nobody knows."), "{text}");
    }
}
