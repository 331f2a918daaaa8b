//! Where this program keeps what it is to remember.

use std::{env, path::PathBuf};
use zcp_client::{Eras, Vault};

/// A variable of the environment.
#[expect(clippy::disallowed_methods, reason = "this is the command")]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// A folder of the user's, by its variable or its usual place.
fn folder(name: &str, usual: &str, mac: &str) -> PathBuf {
    let own = self::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = if cfg!(target_os = "macos") { mac } else { usual };
    let base = own.unwrap_or_else(|| env::home_dir().unwrap_or_default().join(usual));
    base.join("zcp")
}

fn data() -> PathBuf {
    folder("XDG_DATA_HOME", ".local/share", "Library/Application Support")
}

/// Tokens of servers the user has logged in to.
pub(crate) fn vault() -> Vault {
    Vault::new(data().join("tokens"))
}

/// Commands the user has agreed to.
pub(crate) fn agreed() -> PathBuf {
    data().join("agreed.json")
}

/// What is known of servers' ages.
pub(crate) fn eras() -> Eras {
    Eras::at(folder("XDG_CACHE_HOME", ".cache", "Library/Caches").join("eras.json"))
}
