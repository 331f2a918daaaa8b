//! The short `PATH` of clients that are started from a desktop, and what is not found on it.

use super::{open, wish::Source};
use crate::client_config::clients::Client;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// What every desktop finds.
const SHORT: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Says which programs a client may not find that was started from a desktop.
pub(super) fn note(client: &Client, source: &Source) -> Option<String> {
    let programs: Vec<PathBuf> = match source {
        Source::Folder(folder) => {
            let scripts = open(folder).ok()?;
            let programs = scripts.programs();
            let programs = programs.borrow();
            let own = std::env::current_exe().ok();
            let by = programs.iter().filter_map(|one| {
                one.by.clone().ok().filter(|by| *by != one.script && Some(by) != own.as_ref())
            });
            by.collect()
        }
        Source::Command(words) => {
            words.iter().take(1).filter_map(|word| which::which(word).ok()).collect()
        }
        Source::Url(_) => vec![],
    };
    let is_far = |path: &&PathBuf| {
        !path.parent().is_some_and(|folder| SHORT.iter().any(|short| Path::new(short) == folder))
    };
    let far: BTreeSet<String> =
        programs.iter().filter(is_far).map(|path| path.display().to_string()).collect();
    if far.is_empty() {
        return None;
    }
    let far = far.into_iter().collect::<Vec<_>>().join(", ");
    let short = SHORT.join(":");
    Some(format!(
        "{} may start servers with a short PATH, such as {short}, and then not find {far}. To write \
         the PATH of this shell into the file: --env \"PATH=$PATH\"",
        client.name
    ))
}
