//! How many bytes this process has written under keys of one kind, of all clients together.

use crate::{clock, sync::lock};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

/// What each key counts for at least, however little is written: its name is held here, too.
const LEAST: usize = 512;
/// Of so many of an owner's that were written longest ago, the largest goes.
const OLDEST: usize = 64;

/// Keys and how much was written under each, within a total.
#[derive(Debug)]
pub(crate) struct Written {
    max: usize,
    // A std mutex: never held across an await.
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    by_name: HashMap<Arc<str>, Key, foldhash::fast::RandomState>,
    /// In the order of their last writes.
    by_write: BTreeMap<u64, Arc<str>>,
    /// Those that expire: when, and their last write.
    by_end: BTreeSet<(u64, u64)>,
    /// The keys of each owner; those whose owner is not known are nobody's.
    by_owner: HashMap<Arc<str>, Owned, foldhash::fast::RandomState>,
    /// Owners by the bytes of their keys; of equals, the one with the oldest key comes last.
    by_bytes: BTreeSet<(usize, Reverse<u64>, Arc<str>)>,
    writes: u64,
    total: usize,
}

/// The keys of one owner.
#[derive(Debug, Default)]
struct Owned {
    bytes: usize,
    /// In the order of their last writes.
    by_write: BTreeMap<u64, Arc<str>>,
}

impl Owned {
    /// Where an owner stands among others.
    fn rank(&self, owner: &Arc<str>) -> Option<(usize, Reverse<u64>, Arc<str>)> {
        let (oldest, _) = self.by_write.first_key_value()?;
        Some((self.bytes, Reverse(*oldest), owner.clone()))
    }
}

#[derive(Debug)]
struct Key {
    bytes: usize,
    write: u64,
    /// In milliseconds since 1970.
    ends: Option<u64>,
    /// Whose share it counts for.
    owner: Arc<str>,
}

/// Bytes that are added under a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Added<'a> {
    pub(crate) bytes: usize,
    /// What the key holds at most.
    pub(crate) most: usize,
    /// When it expires, in milliseconds since 1970.
    pub(crate) ends: u64,
    pub(crate) owner: &'a str,
}

/// A part of the total that one owner of keys may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share<'a> {
    pub(crate) owner: &'a str,
    pub(crate) max: usize,
}

impl Written {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, keys: Mutex::default() }
    }

    /// Notes bytes that were added under a key. Gives the keys that must go for them; this one
    /// stays.
    pub(crate) fn add(&self, name: &str, added: Added<'_>) -> Vec<Arc<str>> {
        let mut keys = self.lock();
        let bytes = (keys.bytes(name).max(LEAST) + added.bytes).min(added.most);
        keys.set(name, bytes, Some(added.ends), Some(added.owner));
        keys.surplus(self.max)
    }

    /// Notes what a key of an owner holds from now on, and when it expires. Gives the keys that must
    /// go for it; this one stays.
    pub(crate) fn set(&self, name: &str, bytes: usize, ends: u64, owner: &str) -> Vec<Arc<str>> {
        let mut keys = self.lock();
        keys.set(name, bytes, Some(ends), Some(owner));
        keys.surplus(self.max)
    }

    /// Notes what a key holds from now on, and when it expires, whatever the total is.
    pub(crate) fn note(&self, name: &str, bytes: usize, ends: Option<u64>) {
        self.lock().set(name, bytes, ends, None);
    }

    /// Notes what a key is to hold, unless it grows beyond the total or the share of its owner;
    /// false if it does.
    pub(crate) fn try_set(
        &self,
        name: &str,
        bytes: usize,
        ends: Option<u64>,
        share: Share<'_>,
    ) -> bool {
        let mut keys = self.lock();
        keys.remove_expired();
        let (before, after) = (keys.bytes(name), bytes.max(LEAST));
        let own = keys.bytes_of(share.owner, name);
        let fits = keys.total - before + after <= self.max && own + after <= share.max;
        if after > before && !fits {
            return false;
        }
        keys.set(name, bytes, ends, Some(share.owner));
        true
    }

    /// A key expires at another time, if it is known.
    pub(crate) fn extend(&self, name: &str, ends: u64) {
        let mut keys = self.lock();
        let bytes = keys.bytes(name);
        if bytes > 0 {
            keys.set(name, bytes, Some(ends), None);
        }
    }

    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        self.lock().total
    }

    /// Nothing is under a key any more.
    pub(crate) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        lock(&self.keys)
    }
}

impl Keys {
    fn bytes(&self, name: &str) -> usize {
        self.by_name.get(name).map_or(0, |key| key.bytes)
    }

    /// What all other keys of an owner hold.
    fn bytes_of(&self, owner: &str, except: &str) -> usize {
        let all = self.by_owner.get(owner).map_or(0, |owned| owned.bytes);
        let key = self.by_name.get(except).filter(|key| *key.owner == *owner);
        all - key.map_or(0, |key| key.bytes)
    }

    /// A key stays its owner's, unless another one is named.
    fn set(&mut self, name: &str, bytes: usize, ends: Option<u64>, owner: Option<&str>) {
        self.remove_expired();
        let known = self.by_name.get_key_value(name);
        let known = known.map(|(name, key)| (name.clone(), key.owner.clone()));
        self.remove(name);
        self.writes += 1;
        let (name, known) = known.unwrap_or_else(|| (name.into(), Arc::default()));
        let owner = owner.filter(|owner| **owner != *known).map_or(known, Arc::from);
        let (write, bytes) = (self.writes, bytes.max(LEAST));
        self.total += bytes;
        self.by_write.insert(write, name.clone());
        self.by_end.extend(ends.map(|ends| (ends, write)));
        self.change(&owner, |owned| {
            owned.bytes += bytes;
            owned.by_write.insert(write, name.clone());
        });
        self.by_name.insert(name, Key { bytes, write, ends, owner });
    }

    fn remove(&mut self, name: &str) {
        let Some(key) = self.by_name.remove(name) else { return };
        self.total -= key.bytes;
        self.by_write.remove(&key.write);
        if let Some(ends) = key.ends {
            self.by_end.remove(&(ends, key.write));
        }
        self.change(&key.owner, |owned| {
            owned.bytes -= key.bytes;
            owned.by_write.remove(&key.write);
        });
    }

    /// Changes what an owner has.
    fn change(&mut self, owner: &Arc<str>, change: impl FnOnce(&mut Owned)) {
        let owned = self.by_owner.entry(owner.clone()).or_default();
        if let Some(rank) = owned.rank(owner) {
            self.by_bytes.remove(&rank);
        }
        change(owned);
        match owned.rank(owner) {
            Some(rank) => drop(self.by_bytes.insert(rank)),
            None => drop(self.by_owner.remove(owner)),
        }
    }

    fn remove_expired(&mut self) {
        let now = clock::now_ms();
        while let Some((ends, write)) = self.by_end.first().copied()
            && ends <= now
        {
            self.by_end.remove(&(ends, write));
            if let Some(name) = self.by_write.get(&write).cloned() {
                self.remove(&name);
            }
        }
    }

    /// Removes keys until the rest is within the total.
    fn surplus(&mut self, max: usize) -> Vec<Arc<str>> {
        let mut gone = vec![];
        while self.total > max
            && let Some(name) = self.first_to_go()
        {
            self.remove(&name);
            gone.push(name);
        }
        gone
    }

    /// Of the owner who has most, the largest of the keys that were written longest ago. Never the one
    /// that was written last.
    fn first_to_go(&self) -> Option<Arc<str>> {
        self.by_bytes.iter().rev().find_map(|(.., owner)| {
            let owned = &self.by_owner.get(owner)?.by_write;
            let old = owned.range(..self.writes).take(OLDEST).map(|(_, name)| name);
            // Of several that are equally large, the oldest.
            old.min_by_key(|name| Reverse(self.bytes(name))).cloned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn the_largest_old_key_goes_first() {
        let written = Written::new(10_000);
        let later = clock::now_ms() + 60_000;
        let add =
            |name, bytes| written.add(name, Added { bytes, most: 5000, ends: later, owner: "" });
        assert!(add("small", 10).is_empty());
        assert!(add("a", 4000).is_empty());
        assert!(add("a", 4000).is_empty(), "it holds 5000 at most");
        assert!(add("b", 3500).is_empty());
        assert_eq!(add("c", 3000), names(&["a"]));
        for one in ["small", "b", "c"] {
            written.remove(one);
        }
        assert!(add("d", 5000).is_empty());
        for _ in 0..1000 {
            add("d", 1);
        }
        assert_eq!(written.lock().by_write.len(), 1);
        assert_eq!(written.lock().total, 5000);
    }

    #[test]
    fn of_equally_large_keys_the_oldest_goes_and_what_has_expired_does_not_count() {
        let written = Written::new(10_000);
        let later = clock::now_ms() + 60_000;
        let set = |name, bytes, ends| written.set(name, bytes, ends, "");
        assert!(set("expired", 9000, clock::now_ms()).is_empty());
        assert!(set("first", 4000, later).is_empty());
        assert!(set("second", 4000, later).is_empty());
        assert_eq!(set("third", 4000, later), names(&["first"]));
        assert!(set("second", 100, later).is_empty(), "it is smaller now");
        let keys = written.lock();
        assert_eq!((keys.total, keys.by_end.len(), keys.by_name.len()), (4512, 2, 2));
    }

    #[test]
    fn logs_that_have_expired_do_not_count() {
        let written = Written::new(10_000);
        let add =
            |name, ends| written.add(name, Added { bytes: 9000, most: 9000, ends, owner: "" });
        assert!(add("expired", clock::now_ms()).is_empty());
        assert!(add("new", clock::now_ms() + 60_000).is_empty());
        assert_eq!(written.lock().total, 9000);
    }

    #[test]
    fn whoever_has_most_loses_first_however_many_keys_others_have() {
        let written = Written::new(100_000);
        let later = clock::now_ms() + 60_000;
        for number in 0..100 {
            let (name, owner) = (format!("small-{number}"), format!("owner-{number}"));
            assert!(written.set(&name, 600, later, &owner).is_empty());
        }
        for number in 0..100 {
            for gone in written.set(&format!("large-{number}"), 30_000, later, "greedy") {
                assert!(gone.starts_with("large-"), "{gone}");
            }
        }
        // The last one stays, whatever it is; then the greedy one has nothing else to lose.
        assert_eq!(written.set("last", 600, later, "owner-0"), names(&[]));
        assert!(written.total() <= 100_000);
    }

    #[test]
    fn one_owner_has_a_share_of_the_total() {
        let written = Written::new(10_000);
        let set =
            |name, bytes, owner| written.try_set(name, bytes, None, Share { owner, max: 4000 });
        assert!(set("a", 2000, "ann") && set("b", 2000, "ann"));
        assert!(!set("c", 1000, "ann") && !set("a", 2001, "ann"));
        assert!(set("a", 1000, "ann") && set("c", 1000, "ann") && set("d", 4000, "bob"));
        written.note("b", 3000, None);
        assert!(!set("a", 1001, "ann"), "it stays ann's");
        for name in ["a", "b", "c", "d"] {
            written.remove(name);
        }
        let keys = written.lock();
        assert!(keys.by_owner.is_empty() && keys.by_bytes.is_empty());
    }
}
