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
    if about.len() > LONGEST {
        let why = format!("{file} says too much of `{name}` for you to see it all at once");
        return Err(format!("{why}: start it yourself, or shorten its entry").into());
    }
    let (name, file) = (print::visible(name), print::visible(&file.to_string()));
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

/// Bytes of a description that a user is asked about: what is longer could scroll away.
const LONGEST: usize = 2000;

/// What using a server means. Each part is one line, whatever is in it.
fn about(server: &Configured) -> String {
    let mut about = match (&server.url, &server.command) {
        (Some(url), _) => format!("sends what you do to:\n  {}", print::visible(url)),
        (None, Some(command)) => {
            let words = [command].into_iter().chain(&server.args);
            let line = shell_words::join(words);
            format!("starts this command:\n  {}", print::visible(&line))
        }
        (None, None) => "says neither where it is nor how it is started".to_owned(),
    };
    let pairs = server.headers.iter().chain(&server.env);
    let pairs = pairs.map(|(name, value)| (name.clone(), value.clone()));
    for (name, value) in pairs.chain(server.secret_headers()) {
        about += &format!("\n  with {} {}", print::visible(&name), print::visible(&value));
    }
    if let Some(folder) = &server.cwd {
        about += &format!("\n  in {}", print::visible(&folder.display().to_string()));
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
    fn no_part_of_a_server_begins_a_line_of_its_own() {
        let forged = format!("x{}`docs` starts:\n  npx docs", "\n".repeat(60));
        let server: Configured = serde_json::from_value(json!({
            "command": "sh", "args": ["-c", forged], "env": { "A": "b\nc\u{1b}[2J" },
        }))
        .unwrap();
        let about = about(&server);
        assert_eq!(about.lines().count(), 3, "{about}");
        assert!(!about.contains('\u{1b}'));
    }

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
