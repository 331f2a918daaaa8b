//! `zcp lock`: shows what mounted servers say of themselves, and accepts it.

use crate::{errors::usage, mounts, print, project, questions};
use serde_json::json;
use std::{error::Error, io::IsTerminal, path::PathBuf};
use zcp_gateway::LockFile;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What a mounted server says of its tools reaches the model. A tool that is new or has changed is
offered once it is in zcp.lock.

Examples:
  zcp lock ./my-tools            show what has changed, and ask whether you agree to it
  zcp lock ./my-tools --yes      show it, and agree to it without a question
  zcp lock ./my-tools --check    only look: an error if something has changed"
)]
pub(crate) struct Lock {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Write nothing.
    #[arg(long)]
    pub(crate) check: bool,

    /// Agree without being asked, for scripts.
    #[arg(long, short, conflicts_with = "check")]
    pub(crate) yes: bool,
}

pub(crate) async fn run(typed: &Lock, json: bool) -> Result<(), Box<dyn Error>> {
    let scripts = project::folder(&typed.folder)?;
    let path = mounts::lock_file(&scripts);
    let before = match typed.check {
        true => LockFile::read(path)?,
        // One that cannot be read is written anew.
        false => LockFile::read(&path).unwrap_or_else(|_| LockFile::empty(path)),
    };
    let now = mounts::listed(&scripts).await?;
    let differences = now.since(&before);
    scripts.processes().end().await;
    let is_agreed = !typed.check && (typed.yes || differences.is_empty());
    if json {
        print::json(&json!({ "differences": differences, "written": is_agreed }))?;
    } else {
        for one in &differences {
            print::words(&print::visible(&one.to_string()))?;
            let said =
                |side: &LockFile| side.said(one).map(|said| print::visible(&said.to_string()));
            match (said(&before), said(&now)) {
                (Some(before), Some(now)) => print::word_changes(&before, &now)?,
                (Some(before), None) => print::words(&format!("  - {before}"))?,
                (None, Some(now)) => print::words(&format!("  + {now}"))?,
                (None, None) => (),
            }
        }
    }
    if typed.check {
        return match differences.is_empty() {
            true => Ok(()),
            false => {
                Err("mounted servers differ from zcp.lock: `zcp lock` accepts the changes".into())
            }
        };
    }
    if !is_agreed && !agreed(json)? {
        return Err("nothing was written: zcp.lock is as it was".into());
    }
    now.write()?;
    if !json {
        print::words(match differences.is_empty() {
            true => "Nothing has changed.",
            false => "zcp.lock has it now: keep it with the project.",
        })?;
    }
    Ok(())
}

/// Asks whether the changes are accepted. Without a terminal, `--yes` says so.
fn agreed(json: bool) -> Result<bool, Box<dyn Error>> {
    if json || !std::io::stdin().is_terminal() {
        let why = "nothing was written: look at the changes, and accept them with `zcp lock --yes`";
        return Err(usage(why.into()));
    }
    Ok(questions::yes("Accept these changes? A model reads them. [y/N] ")?)
}

#[cfg(test)]
mod tests {
    use crate::print;

    #[test]
    fn nothing_that_a_model_reads_is_hidden_from_people() {
        assert_eq!(
            print::visible("a\u{e0041}b\u{200b}\u{1b}[2J é"),
            "a\\u{e0041}b\\u{200b}\\u{1b}[2J é"
        );
    }
}
