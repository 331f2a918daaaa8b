//! Secrets by reference: `secret://env/NAME`, `file/PATH`, `cmd/COMMAND`, `keychain/SERVICE/ACCOUNT`.
//!
//! A file of a project says where a secret is and not what it is. It is fetched when a script
//! needs it. `redact` removes it from what the script shows.

use super::Environment;
use crate::{call_files, run::exit_status, spawn};
use std::{io, path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

/// How such a reference begins.
const SCHEME: &str = "secret://";
/// How long a command may take to tell a secret.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest file that is a secret.
const LARGEST: u64 = 1024 * 1024;

/// Whether a value is a reference.
pub(crate) fn is_reference(value: &str) -> bool {
    value.starts_with(SCHEME)
}

/// The secret a reference names. What went wrong says which, and never what. Paths and command lines
/// are for the log alone.
pub(crate) async fn fetch(
    reference: &str,
    environment: &Environment,
    root: &Path,
) -> Result<String, String> {
    let missing = |why: &str| {
        let shown = match reference.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')) {
            Some((kind @ ("cmd" | "file"), _)) => format!("{SCHEME}{kind}/…"),
            _ => reference.to_owned(),
        };
        tracing::warn!("the secret `{reference}` cannot be had: {why}");
        format!("the secret `{shown}` cannot be had: {why}")
    };
    let (kind, rest) = reference
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(|| missing("say env, file, cmd or keychain, and which"))?;
    let secret = match kind {
        "env" => {
            environment.get(rest).map(str::to_owned).ok_or_else(|| missing("no such variable"))?
        }
        "file" => {
            let path = root.join(rest);
            let read = move || call_files::read_text(&path, LARGEST);
            let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other);
            read.flatten().map_err(|error| missing(&error.kind().to_string()))?
        }
        "cmd" => {
            let words = shell_words::split(rest).map_err(|_| missing("it is no command line"))?;
            told(&words, environment, root).await.map_err(|why| missing(&why))?
        }
        "keychain" => {
            let (service, account) = rest.split_once('/').unwrap_or((rest, ""));
            let words = keychain(service, account);
            told(&words, environment, root).await.map_err(|why| missing(&why))?
        }
        _ => return Err(missing("say env, file, cmd or keychain")),
    };
    match secret.trim_end_matches(['\r', '\n']) {
        "" => Err(missing("it is empty")),
        secret => Ok(secret.to_owned()),
    }
}

/// The command that asks the system's keeper of secrets.
fn keychain(service: &str, account: &str) -> Vec<String> {
    let words: &[&str] = match cfg!(target_os = "macos") {
        true => &["security", "find-generic-password", "-w", "-s", service, "-a", account],
        false => &["secret-tool", "lookup", "service", service, "account", account],
    };
    words.iter().map(|&word| word.to_owned()).collect()
}

/// What a command prints.
async fn told(words: &[String], environment: &Environment, root: &Path) -> Result<String, String> {
    let (program, args) = words.split_first().ok_or("the command is empty")?;
    let program = which::which_in(program, Some(environment.path()), root)
        .map_err(|_| "its program is not in PATH")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(root).kill_on_drop(true).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = spawn::child(&mut command).map_err(|error| error.to_string())?;
    let output = timeout(PATIENCE, child.wait_with_output()).await;
    let output = output.map_err(|_| "the command takes too long")?;
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|_| "it is no text".to_owned()),
        false => Err(format!("the command failed: {}", exit_status::words(output.status))),
    }
}
