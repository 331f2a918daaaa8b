//! What somebody else wrote down is used when the user has agreed to it.

use crate::{
    client_config::{
        client_servers::Configured,
        user_files::{self, Over, Readers},
    },
    home, print, questions,
};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    error::Error,
    fs,
    io::{self, Write},
    path::Path,
};

/// Asks the user before a server of a project's file is used for the first time, and again when
/// anything about it has changed. What stands for something else is shown as it is written.
pub(crate) fn ask(name: &str, server: &Configured, is_agreed: bool) -> Result<(), Box<dyn Error>> {
    let Some(file) = server.found_here.as_ref().filter(|_| !is_agreed) else { return Ok(()) };
    let digest = digest(server)?;
    let place = home::agreed();
    let mut agreed = place.as_deref().map(agreed).unwrap_or_default();
    if agreed.contains(&digest) {
        return Ok(());
    }
    let (file, about) = (file.display(), about(server));
    if !io::IsTerminal::is_terminal(&io::stdin()) {
        let hint = "look at it, and add --agree to use it";
        return Err(format!("`{name}` of {file} {about}\n{hint}").into());
    }
    print::aside(&format!("`{name}` of {file} {about}"));
    if !questions::yes("Use it, now and from now on? [y/N] ")? {
        return Err("it was not used".into());
    }
    agreed.insert(digest);
    place.map_or(Ok(()), |place| keep(&place, &agreed))?;
    Ok(())
}

/// What using a server means.
fn about(server: &Configured) -> String {
    let mut about = match (&server.url, &server.command) {
        (Some(url), _) => format!("sends what you do to:\n  {url}"),
        (None, Some(command)) => {
            let words = [command].into_iter().chain(&server.args);
            format!("starts this command:\n  {}", shell_words::join(words))
        }
        (None, None) => "says neither where it is nor how it is started".to_owned(),
    };
    let pairs = server.headers.iter().chain(&server.env);
    pairs.for_each(|(name, value)| about += &format!("\n  with {name} {value}"));
    for (name, value) in server.secret_headers() {
        about += &format!("\n  with {name} {value}");
    }
    if let Some(folder) = &server.cwd {
        about += &format!("\n  in {}", folder.display());
    }
    about
}

/// What is agreed to: everything about the server, in this folder.
fn digest(server: &Configured) -> Result<String, Box<dyn Error>> {
    let folder = std::env::current_dir()?;
    let all = format!("{}\n{}", folder.display(), serde_json::to_string(server)?);
    Ok(Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn agreed(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn keep(file: &Path, agreed: &BTreeSet<String>) -> io::Result<()> {
    fs::create_dir_all(user_files::folder_of(file))?;
    let text = serde_json::to_string(agreed)?;
    user_files::whole(file, Readers::Own, Over::Anything, |file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_that_are_sent_are_named() {
        let server: Configured = serde_json::from_value(json!({
            "url": "https://example.com",
            "env_http_headers": { "X-Key": "AWS_SECRET" },
            "bearer_token_env_var": "GITHUB_TOKEN",
        }))
        .unwrap();
        let about = about(&server);
        assert!(about.contains("\n  with X-Key ${AWS_SECRET}"), "{about}");
        assert!(about.contains("\n  with Authorization Bearer ${GITHUB_TOKEN}"), "{about}");
    }
}
