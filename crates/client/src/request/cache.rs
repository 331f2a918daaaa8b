//! Results that may be used again, for as long as their server says.

use super::change::Change;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};
use zcp_wire::{ByteString, Method, json::text, mcp::subscriptions::covers, sync::lock};

/// Bytes that are kept at most, names and what each entry takes beside its text included.
const LARGEST: usize = 16 * 1024 * 1024;
const ENTRY: usize = 256;
/// The longest anything is kept, whatever its server says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Methods whose results may be kept, and the member of their params that tells them apart.
const KEPT: &[(Method, &str)] = &[
    (Method::ListTools, "cursor"),
    (Method::ListPrompts, "cursor"),
    (Method::ListResources, "cursor"),
    (Method::ListTemplates, "cursor"),
    (Method::ReadResource, "uri"),
];

/// Results that may be used again. Clients of one server may share one: what the server marks
/// `public` is kept for all of them, everything else for the one it was told.
#[derive(Clone, Default)]
pub struct Cache(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    /// How often something was forgotten: what was asked before is not kept afterwards.
    forgotten: u64,
    clients: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    method: Method,
    which: Option<String>,
    /// Whom it was told; none if it is for all.
    whom: Option<Whom>,
}

/// A client, as one server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Whom {
    pub(crate) client: u64,
    pub(crate) principal: u64,
}

struct Entry {
    text: ByteString,
    end: Instant,
}

/// A result that was looked for, and may be kept when it comes.
pub(crate) struct Wanted {
    method: Method,
    which: Option<String>,
    whom: Whom,
    forgotten: u64,
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.0)
    }

    /// A number that no other client of this cache has.
    pub(crate) fn join(&self) -> u64 {
        let mut kept = self.lock();
        kept.clients += 1;
        kept.clients
    }

    /// What a request would be answered with; or how to keep its answer, if it may be.
    pub(crate) fn look(
        &self,
        method: Option<Method>,
        params: &Map<String, Value>,
        whom: Whom,
    ) -> Result<Map<String, Value>, Option<Wanted>> {
        let Some((method, member)) = KEPT.iter().copied().find(|(kept, _)| Some(*kept) == method)
        else {
            return Err(None);
        };
        let which = params.get(member).and_then(Value::as_str).map(str::to_owned);
        let mut kept = self.lock();
        for whom in [Some(whom), None] {
            let key = Key { method, which: which.clone(), whom };
            if let Some(text) = kept.fresh(&key)
                && let Ok(result) = serde_json::from_str(text)
            {
                return Ok(result);
            }
        }
        Err(Some(Wanted { method, which, whom, forgotten: kept.forgotten }))
    }

    /// Keeps an answer for as long as its server says.
    pub(crate) fn keep(&self, wanted: Wanted, result: &Map<String, Value>) {
        let time = result.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
        let Some(time) = time.filter(|time| !time.is_zero()) else { return };
        let is_public = result.get("cacheScope").and_then(Value::as_str) == Some("public");
        let Wanted { method, which, whom, forgotten } = wanted;
        let key = Key { method, which, whom: (!is_public).then_some(whom) };
        let entry = Entry { text: text(result), end: Instant::now() + time.min(LONGEST) };
        let mut kept = self.lock();
        if kept.forgotten == forgotten {
            kept.insert(key, entry);
        }
    }

    /// Forgets what may no longer be so.
    pub(crate) fn forget(&self, change: &Change) {
        let mut kept = self.lock();
        kept.forgotten += 1;
        kept.retain(|key, _| match change {
            Change::Tools => key.method != Method::ListTools,
            Change::Prompts => key.method != Method::ListPrompts,
            Change::Resources => {
                !matches!(key.method, Method::ListResources | Method::ListTemplates)
            }
            Change::Resource(uri) => {
                let read = key.which.as_deref().filter(|_| key.method == Method::ReadResource);
                read.is_none_or(|read| !covers(read, uri) && !covers(uri, read))
            }
            Change::Task(_) => true,
            Change::All => false,
        });
    }

    /// Forgets the pages of a list.
    pub(crate) fn forget_list(&self, method: Method) {
        let mut kept = self.lock();
        kept.forgotten += 1;
        kept.retain(|key, _| key.method != method);
    }
}

impl Kept {
    fn fresh(&mut self, key: &Key) -> Option<&str> {
        if self.entries.get(key)?.end <= Instant::now() {
            self.bytes -= size(key, &self.entries.remove(key)?);
            return None;
        }
        self.entries.get(key).map(|entry| &*entry.text)
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        let bytes = size(&key, &entry);
        if bytes > LARGEST {
            return;
        }
        if self.bytes + bytes > LARGEST {
            let now = Instant::now();
            self.retain(|_, entry| entry.end > now);
        }
        if self.bytes + bytes > LARGEST {
            self.retain(|_, _| false);
        }
        if let Some(old) = self.entries.remove(&key) {
            self.bytes -= size(&key, &old);
        }
        self.bytes += bytes;
        self.entries.insert(key, entry);
    }

    fn retain(&mut self, stays: impl Fn(&Key, &Entry) -> bool) {
        self.entries.retain(|key, entry| stays(key, entry));
        self.bytes = self.entries.iter().map(|(key, entry)| size(key, entry)).sum();
    }
}

fn size(key: &Key, entry: &Entry) -> usize {
    ENTRY + key.which.as_ref().map_or(0, String::len) + entry.text.len()
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("entries", &self.lock().entries.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_as_well_as_texts() {
        let mut kept = Kept::default();
        let insert = |kept: &mut Kept, which: String| {
            let key = Key { method: Method::ReadResource, which: Some(which), whom: None };
            let entry = Entry { text: "{}".into(), end: Instant::now() + LONGEST };
            kept.insert(key, entry);
        };
        insert(&mut kept, "x".repeat(LARGEST));
        assert_eq!((kept.entries.len(), kept.bytes), (0, 0));
        for number in 0..25 {
            insert(&mut kept, format!("{number}{}", "x".repeat(LARGEST / 10)));
            assert!(kept.bytes <= LARGEST);
        }
        assert!(kept.entries.len() < 10);
        (0..3).for_each(|_| insert(&mut kept, "same".into()));
        kept.retain(|key, _| key.which.as_deref() == Some("same"));
        assert_eq!(kept.bytes, ENTRY + "same".len() + "{}".len());
    }
}
