//! Commands that somebody else wrote down are started when the user has agreed to them.

use crate::{config::Configured, home, print, questions};
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, error::Error, fs, io, path::Path};

/// Asks the user before the command of a project's file is started for the first time, and again
/// when it has changed.
pub(crate) fn ask(name: &str, server: &Configured, is_agreed: bool) -> Result<(), Box<dyn Error>> {
    let (Some(file), Some(command)) = (&server.found_here, &server.command) else { return Ok(()) };
    if is_agreed {
        return Ok(());
    }
    let line = shell_words::join([command].into_iter().chain(&server.args));
    let digest = digest(&line, server);
    let mut agreed = agreed(&home::agreed());
    if agreed.contains(&digest) {
        return Ok(());
    }
    if !io::IsTerminal::is_terminal(&io::stdin()) {
        let file = file.display();
        let hint = "look at it, and add --agree to start it";
        return Err(format!("`{name}` of {file} starts `{line}`: {hint}").into());
    }
    let env: Vec<_> = server.env.keys().map(String::as_str).collect();
    let env = if env.is_empty() { String::new() } else { format!("\n  with {}", env.join(", ")) };
    let about = format!("`{name}` of {} starts this command:\n  {line}{env}", file.display());
    print::aside(&about);
    if !questions::yes("Start it, now and from now on? [y/N] ")? {
        return Err("it was not started".into());
    }
    agreed.insert(digest);
    keep(&home::agreed(), &agreed)?;
    Ok(())
}

/// What is agreed to: this command, in this environment, in this folder.
fn digest(line: &str, server: &Configured) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let all = format!("{}\n{line}\n{:?}\n{:?}", folder.display(), server.env, server.cwd);
    Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn agreed(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn keep(file: &Path, agreed: &BTreeSet<String>) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, serde_json::to_string(agreed)?)
}
