//! Which era servers are of: found out once, and remembered for a while.

use crate::support::clock::now;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use zcp_wire::{revision::Era, sync::lock};

/// How long a server is taken for old. It may be a new one by then, and would not say so.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);
/// How long it is taken for new.
const NEW: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Servers that are remembered at most.
const MOST: usize = 1000;

/// Which era servers are of. Clients that share one ask each server once; with a file, so do
/// programs that run one after another.
#[derive(Clone, Default)]
pub struct Eras(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: Mutex<BTreeMap<String, Verdict>>,
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Verdict {
    is_old: bool,
    /// When it was found out, in seconds since 1970.
    at: u64,
}

impl Verdict {
    fn is_over(self) -> bool {
        let limit = if self.is_old { OLD } else { NEW };
        // What comes from the future is of a clock that was wrong.
        let age = now().checked_sub(self.at);
        age.is_none_or(|age| age > limit.as_secs())
    }
}

impl Eras {
    /// Remembers in a file. One that is not there, or cannot be read, knows nothing.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let known = Mutex::new(serde_json::from_str(&text).unwrap_or_default());
        Self(Arc::new(Inner { known, file: Some(file) }))
    }

    pub(crate) fn get(&self, server: &str) -> Option<Era> {
        let known = lock(&self.0.known);
        let verdict = known.get(server).filter(|verdict| !verdict.is_over())?;
        Some(if verdict.is_old { Era::Handshake } else { Era::Stateless })
    }

    pub(crate) fn learn(&self, server: String, era: Era) {
        if self.get(&server) == Some(era) {
            return;
        }
        let verdict = Verdict { is_old: era == Era::Handshake, at: now() };
        self.change(|known| {
            known.retain(|_, verdict| !verdict.is_over());
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(server, verdict);
        });
    }

    pub(crate) fn forget(&self, server: &str) {
        self.change(|known| {
            known.remove(server);
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Verdict>)) {
        let mut known = lock(&self.0.known);
        change(&mut known);
        if let Some(file) = &self.0.file
            && let Ok(text) = serde_json::to_string(&*known)
            && let Err(error) = crate::support::own_files::replace(file, text.as_bytes())
        {
            tracing::debug!("what was found out is not kept: {}: {error}", file.display());
        }
    }
}

impl fmt::Debug for Eras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eras").field("file", &self.0.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_believed_for_a_while() {
        let eras = Eras::default();
        eras.learn("a".into(), Era::Handshake);
        assert_eq!(eras.get("a"), Some(Era::Handshake));
        let age = |by: u64, is_old| {
            let verdict = Verdict { is_old, at: now() - by };
            eras.0.known.lock().unwrap().insert("a".into(), verdict);
        };
        age(OLD.as_secs() + 1, true);
        assert_eq!(eras.get("a"), None);
        age(OLD.as_secs() + 1, false);
        assert_eq!(eras.get("a"), Some(Era::Stateless));
        eras.forget("a");
        assert_eq!(eras.get("a"), None);
    }
}
