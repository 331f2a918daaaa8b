//! Places of one process that are shared among owners: principals, networks or sessions.

use crate::sync::lock;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// Places of one kind. One owner may have a quarter of them, and when three quarters are taken, a
/// 64th: whoever comes later finds room.
pub(crate) struct Shares {
    all: usize,
    // A std mutex: never held across an await.
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    total: usize,
    by_owner: HashMap<Arc<str>, usize>,
}

/// Places that are taken, until this is dropped.
pub(crate) struct Places {
    taken: Arc<Mutex<Taken>>,
    owner: Arc<str>,
    count: usize,
}

impl Shares {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, taken: Arc::default() }
    }

    /// Takes places for an owner; none if there is no room for them.
    pub(crate) fn take(&self, owner: &str, count: usize) -> Option<Places> {
        let mut taken = lock(&self.taken);
        let own = taken.by_owner.get(owner).copied().unwrap_or(0);
        let is_crowded = taken.total >= self.all / 4 * 3;
        let share = self.all / if is_crowded { 64 } else { 4 };
        if taken.total + count > self.all || own + count > share.max(1) {
            return None;
        }
        taken.total += count;
        let known = taken.by_owner.get_key_value(owner).map(|(name, _)| name.clone());
        let owner = known.unwrap_or_else(|| owner.into());
        *taken.by_owner.entry(owner.clone()).or_default() += count;
        Some(Places { taken: self.taken.clone(), owner, count })
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.total -= self.count;
        if let Some(own) = taken.by_owner.get_mut(&self.owner) {
            *own -= self.count;
            if *own == 0 {
                taken.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_has_a_quarter_and_later_ones_find_room() {
        let shares = Shares::new(640);
        let mut held: Vec<Places> = vec![];
        let take = |owner: &str| shares.take(owner, 1);
        for owner in ["a", "b", "c", "d"] {
            held.extend((0..1000).map_while(|_| take(owner)));
        }
        // Three have a quarter each; the fourth came when three quarters were taken.
        assert_eq!(held.len(), 3 * 160 + 10);
        assert!(take("d").is_none() && take("e").is_some());
        assert!(shares.take("f", 11).is_none() && shares.take("f", 10).is_some());
        drop(held);
        assert!(lock(&shares.taken).by_owner.is_empty());
        assert_eq!(lock(&shares.taken).total, 0);
    }
}
