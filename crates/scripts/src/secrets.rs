//! Secrets by reference: `secret://env/NAME`, `file/PATH`, `cmd/COMMAND`, `keychain/SERVICE/ACCOUNT`.
//!
//! A file of a project says where a secret is and not what it is. It is fetched when a script
//! needs it, and what the script shows of it is made unreadable.

use crate::{host::Host, spawn};
use serde_json::Value;
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};
use zcp::{
    Content, Output,
    wire::mcp::content::{Kind, TextOrBlob},
};

/// How such a reference begins.
const SCHEME: &str = "secret://";
/// How long a command may take to tell a secret.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shorter ones would be found in everything.
const SHORTEST: usize = 4;
/// What is shown instead.
const HIDDEN: &str = "[secret]";

/// Whether a value is a reference.
pub(crate) fn is_reference(value: &str) -> bool {
    value.starts_with(SCHEME)
}

/// The secret a reference names. What went wrong says which, and never what.
pub(crate) async fn fetch(reference: &str, host: &Host, root: &Path) -> Result<String, String> {
    let missing = |why: &str| format!("the secret `{reference}` cannot be had: {why}");
    let (kind, rest) = reference
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(|| missing("say env, file, cmd or keychain, and which"))?;
    let secret = match kind {
        "env" => host.env(rest).map(str::to_owned).ok_or_else(|| missing("no such variable"))?,
        "file" => tokio::fs::read_to_string(root.join(rest))
            .await
            .map_err(|error| missing(&error.kind().to_string()))?,
        "cmd" => {
            let words = shell_words::split(rest).map_err(|_| missing("it is no command line"))?;
            told(&words, host, root).await.map_err(|why| missing(&why))?
        }
        "keychain" => {
            let (service, account) = rest.split_once('/').unwrap_or((rest, ""));
            let words = keychain(service, account);
            told(&words, host, root).await.map_err(|why| missing(&why))?
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
async fn told(words: &[String], host: &Host, root: &Path) -> Result<String, String> {
    let (program, args) = words.split_first().ok_or("the command is empty")?;
    let program = which::which_in(program, Some(host.path()), root)
        .map_err(|_| format!("`{program}` is not in PATH"))?;
    let mut command = Command::new(program);
    command.args(args).current_dir(root).kill_on_drop(true).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = spawn::child(&mut command).map_err(|error| error.to_string())?;
    let output = timeout(PATIENCE, child.wait_with_output()).await;
    let output = output.map_err(|_| "the command takes too long")?;
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|_| "it is no text".to_owned()),
        false => Err(format!("the command failed: {}", crate::answer::how(output.status))),
    }
}

/// Makes secrets unreadable in a value.
pub(crate) fn hide_value(value: &mut Value, secrets: &[String]) {
    hide_in(value, &|text| hide_text(text, secrets));
}

/// The same in a text.
pub(crate) fn hide_text(text: &mut String, secrets: &[String]) {
    let mut secrets: Vec<&String> = secrets.iter().filter(|one| one.len() >= SHORTEST).collect();
    // One may be the beginning of another.
    secrets.sort_by_key(|one| std::cmp::Reverse(one.len()));
    for secret in secrets {
        if text.contains(secret.as_str()) {
            *text = text.replace(secret.as_str(), HIDDEN);
        }
    }
}

/// The same in a text that was cut: what it ends with may be the beginning of a secret.
pub(crate) fn hide_cut(text: &mut String, secrets: &[String]) {
    hide_text(text, secrets);
    for secret in secrets.iter().filter(|one| one.len() >= SHORTEST) {
        let mut beginnings = secret.char_indices().map(|(at, _)| &secret[..at]).rev();
        if let Some(beginning) = beginnings.find(|one| one.len() > 1 && text.ends_with(one)) {
            text.truncate(text.len() - beginning.len());
            text.push_str(HIDDEN);
        }
    }
}

/// Makes secrets unreadable in what a script shows.
pub(crate) fn hide(output: &mut Output, secrets: &[String]) {
    if secrets.is_empty() {
        return;
    }
    let hide = |text: &mut String| hide_text(text, secrets);
    for Content { kind, .. } in &mut output.content {
        match kind {
            Kind::Text { text } => hide(text),
            Kind::Resource { resource } => {
                if let TextOrBlob::Text(text) = &mut resource.data {
                    hide(text);
                }
            }
            _ => (),
        }
    }
    output.structured.iter_mut().for_each(|value| hide_in(value, &hide));
    output.meta.values_mut().for_each(|value| hide_in(value, &hide));
}

fn hide_in(value: &mut Value, hide: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => hide(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, hide)),
        Value::Object(members) => members.values_mut().for_each(|member| hide_in(member, hide)),
        _ => (),
    }
}
