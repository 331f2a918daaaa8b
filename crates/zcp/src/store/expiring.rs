//! A map whose entries may have an end, and which gives back the memory of those that passed it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

/// A map of this capacity is left as it is.
const SMALL: usize = 64;

/// Values by key. An expired one is never returned, and is found again without a search: `ends`
/// holds exactly the keys that have an end, soonest first.
#[derive(Debug)]
pub(super) struct Expiring<T> {
    held: HashMap<Arc<str>, Held<T>, foldhash::fast::RandomState>,
    ends: BTreeSet<(Instant, Arc<str>)>,
}

#[derive(Debug)]
struct Held<T> {
    value: T,
    end: Option<Instant>,
}

impl<T> Default for Expiring<T> {
    fn default() -> Self {
        Self { held: HashMap::default(), ends: BTreeSet::new() }
    }
}

impl<T> Expiring<T> {
    /// The value of a key. Call [`Expiring::take_expired`] first to forget one that has ended.
    pub(super) fn get(&self, key: &str, now: Instant) -> Option<&T> {
        self.held.get(key).filter(|held| !held.has_ended(now)).map(|held| &held.value)
    }

    /// The keys that have a value.
    pub(super) fn keys(&self, now: Instant) -> Vec<String> {
        let held = self.held.iter().filter(|(_, held)| !held.has_ended(now));
        held.map(|(key, _)| key.to_string()).collect()
    }

    /// The value of a key, made if it is missing, with a new end.
    pub(super) fn renew(
        &mut self,
        key: &str,
        end: Option<Instant>,
        make: impl FnOnce() -> T,
    ) -> &mut T {
        let key = match self.held.get_key_value(key) {
            Some((key, _)) => key.clone(),
            None => Arc::from(key),
        };
        let held =
            self.held.entry(key.clone()).or_insert_with(|| Held { value: make(), end: None });
        if held.end != end {
            if let Some(old) = held.end {
                self.ends.remove(&(old, key.clone()));
            }
            if let Some(end) = end {
                self.ends.insert((end, key));
            }
            held.end = end;
        }
        &mut held.value
    }

    /// Forgets a key.
    pub(super) fn remove(&mut self, key: &str) -> Option<T> {
        let (key, held) = self.held.remove_entry(key)?;
        if let Some(end) = held.end {
            self.ends.remove(&(end, key));
        }
        self.give_back();
        Some(held.value)
    }

    /// Forgets a key if it has ended.
    pub(super) fn take_expired(&mut self, key: &str, now: Instant) -> Option<T> {
        if !self.held.get(key)?.has_ended(now) {
            return None;
        }
        self.remove(key)
    }

    /// Forgets the key that ended first, if any has.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<T> {
        let (end, key) = self.ends.first()?;
        if now < *end {
            return None;
        }
        let key = key.clone();
        self.remove(&key)
    }

    // A map never shrinks by itself. Halving at an eighth keeps the cost of a removal constant
    // on average.
    fn give_back(&mut self) {
        let length = self.held.len();
        if SMALL < self.held.capacity() && length < self.held.capacity() / 8 {
            self.held.shrink_to(length * 2);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.ends.is_empty() && self.held.capacity() <= SMALL
    }
}

impl<T> Held<T> {
    fn has_ended(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| end <= now)
    }
}
