//! Where this program keeps what it is to remember.

use std::{env, path::PathBuf};
use zcp_client::{Eras, Vault};

/// A variable of the environment.
#[expect(clippy::disallowed_methods, reason = "this is the command")]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// A folder of the user's, by its variable or its usual place; none for a user without a home.
fn folder(name: &str, usual: &str, mac: &str) -> Option<PathBuf> {
    let own = variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = if cfg!(target_os = "macos") { mac } else { usual };
    let home = || env::home_dir().filter(|home| home.is_absolute());
    Some(own.or_else(|| Some(home()?.join(usual)))?.join("zcp"))
}

fn data() -> Option<PathBuf> {
    folder("XDG_DATA_HOME", ".local/share", "Library/Application Support")
}

/// Tokens of servers the user has logged in to.
pub(crate) fn vault() -> Option<Vault> {
    data().map(|data| Vault::new(data.join("tokens")))
}

/// What the user has agreed to.
pub(crate) fn agreed() -> Option<PathBuf> {
    data().map(|data| data.join("agreed.json"))
}

/// What is known of servers' ages.
pub(crate) fn eras() -> Eras {
    let cache = folder("XDG_CACHE_HOME", ".cache", "Library/Caches");
    cache.map_or_else(Eras::default, |cache| Eras::at(cache.join("eras.json")))
}
