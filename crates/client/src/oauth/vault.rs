//! Tokens and registrations between runs: in files that only their user can read.

use crate::support::own_files;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::{
    fs::{File, TryLockError},
    io,
    path::PathBuf,
    time::Duration,
};

/// How often it is looked whether somebody else has finished.
const LOOK: Duration = Duration::from_millis(20);

/// A folder in which tokens are kept between runs, for all programs of a user that share it. Each
/// is renewed by one of them at a time.
#[derive(Debug, Clone)]
pub struct Vault {
    folder: PathBuf,
}

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kept<'a> {
    /// The token for a server.
    Token(&'a str),
    /// The client that an issuer knows.
    Client(&'a str),
    /// The issuer that credentials for a server are shown to.
    Issuer(&'a str),
}

impl Vault {
    /// The vault in a folder, which is made when something is kept in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn file(&self, what: Kept<'_>, ending: &str) -> PathBuf {
        let (kind, of) = match what {
            Kept::Token(server) => ("token", server),
            Kept::Client(issuer) => ("client", issuer),
            Kept::Issuer(server) => ("issuer", server),
        };
        let digest = Sha256::digest(of);
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{kind}-{name}.{ending}"))
    }

    pub(super) fn load<T: DeserializeOwned>(&self, what: Kept<'_>) -> Option<T> {
        let text = std::fs::read(self.file(what, "json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn save<T: Serialize>(&self, what: Kept<'_>, value: &T) -> io::Result<()> {
        own_files::replace(&self.file(what, "json"), &serde_json::to_vec(value)?)
    }

    pub(super) fn remove(&self, what: Kept<'_>) -> io::Result<()> {
        match std::fs::remove_file(self.file(what, "json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the turn to change something; it ends when what this gives is dropped, and with
    /// the process.
    pub(super) async fn lock(&self, what: Kept<'_>) -> io::Result<File> {
        own_files::make_folder(&self.folder)?;
        let file = own_files::own(&self.file(what, "lock"))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}
