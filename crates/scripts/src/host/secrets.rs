//! Secrets by reference: `secret://env/NAME`, `file/PATH`, `cmd/COMMAND`, `keychain/SERVICE/ACCOUNT`.
//!
//! A file of a project says where a secret is and not what it is. It is fetched when a script
//! needs it. `redact` removes it from what the script shows.

use super::{Environment, Host};
use crate::{
    call_files,
    manifest::secret_reference::SCHEME,
    run::{exit_status, sandbox::spots},
    spawn,
};
use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{process::Command, time::timeout};

/// How long a command may take to tell a secret.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest file that is a secret.
const LARGEST: u64 = 1024 * 1024;

/// The files that a secret is in, or that tell it, if a value refers to one. Headers have it behind
/// other words.
pub(crate) fn files(value: &str, root: &Path) -> Vec<PathBuf> {
    let reference = value.find(SCHEME).map(|at| &value[at + SCHEME.len()..]);
    match reference.and_then(|reference| reference.split_once('/')) {
        Some(("file", path)) => vec![root.join(path)],
        Some(("cmd", line)) => {
            paths(&shell_words::split(line).unwrap_or_default(), root, Path::exists)
        }
        _ => vec![],
    }
}

/// What a command line may run or read, as far as its words say: those with a slash that are not
/// there yet, parts of them that count, and modules after `-m`.
pub(crate) fn paths(words: &[String], folder: &Path, counts: fn(&Path) -> bool) -> Vec<PathBuf> {
    let is_end = |c: char| c.is_whitespace() || "'\";|&()<>=,`".contains(c);
    let mut all = vec![];
    for (at, word) in words.iter().enumerate() {
        let whole = word.contains('/').then(|| folder.join(word));
        all.extend(whole.filter(|path| counts(path) || !path.exists()));
        let parts = word.split(is_end).filter(|part| !part.is_empty());
        all.extend(parts.map(|part| folder.join(part)).filter(|path| counts(path)));
        if at > 0 && words[at - 1] == "-m" {
            all.extend(word.split('.').next().map(|module| folder.join(module)));
        }
    }
    // A folder above says nothing of what is used in it.
    all.retain(|path| !spots::resolved(folder).starts_with(spots::resolved(path)));
    all
}

/// The secret a reference names. What went wrong says which, and never what. Paths and command lines
/// are for the log alone.
pub(crate) async fn fetch(reference: &str, host: &Host, root: &Path) -> Result<String, String> {
    let environment = &host.environment;
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
    if files(reference, root).iter().any(|path| host.may_be_written(path)) {
        return Err(missing("a script in a sandbox may have written what tells it"));
    }
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
        false => Err(format!("the command failed: {}", exit_status::words(output.status, ""))),
    }
}
