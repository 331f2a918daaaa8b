//! Which sessions this process opened, and which of them go when there are too many.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

/// Sessions that were opened and never used, of all peers. Opening one costs a client nothing.
const UNUSED: usize = 8 * 1024;
/// The same of one address.
const UNUSED_OF_ONE: usize = 1024;

/// Sessions that are looked at for one that may go.
const TRIES: usize = 64;

/// The sessions that this process opened. What it holds of each is its name.
pub(super) struct Opened {
    max: usize,
    all: Queue,
    unused: HashMap<Option<IpAddr>, Queue, foldhash::fast::RandomState>,
    /// Whose the unused ones are.
    peers: HashMap<Arc<str>, Option<IpAddr>, foldhash::fast::RandomState>,
}

impl Opened {
    pub(super) fn new(max: usize) -> Self {
        Self { max, all: Queue::default(), unused: HashMap::default(), peers: HashMap::default() }
    }

    /// Notes a session that was opened; gives those that must go for it, or itself. `is_busy` says
    /// which are in use just now: they stay.
    pub(super) fn add(
        &mut self,
        id: &Arc<str>,
        peer: Option<IpAddr>,
        is_busy: impl Fn(&str) -> bool,
    ) -> Vec<Arc<str>> {
        let mut gone = vec![];
        let own = self.unused.entry(peer).or_default();
        if peer.is_some() && own.len() >= UNUSED_OF_ONE {
            gone.extend(own.pop());
        }
        own.push(id.clone());
        self.peers.insert(id.clone(), peer);
        if self.peers.len() - gone.len() > UNUSED
            && let Some(most) = self.unused.values_mut().max_by_key(|queue| queue.len())
        {
            gone.extend(most.pop());
        }
        if self.all.len() < self.max {
            self.all.push(id.clone());
        } else {
            // Without one that may go, the new one does.
            let idle = self.all.pop_unless(is_busy);
            idle.is_some().then(|| self.all.push(id.clone()));
            gone.push(idle.unwrap_or_else(|| id.clone()));
        }
        gone.iter().for_each(|id| self.remove(id));
        gone
    }

    /// A session was used.
    pub(super) fn used(&mut self, id: &str) {
        let Some(peer) = self.peers.remove(id) else { return };
        let Some(own) = self.unused.get_mut(&peer) else { return };
        own.remove(id);
        if own.len() == 0 {
            self.unused.remove(&peer);
        }
    }

    /// A session has ended.
    pub(super) fn remove(&mut self, id: &str) {
        self.used(id);
        self.all.remove(id);
    }
}

/// Names in the order they came, of which any can be taken out.
#[derive(Default)]
struct Queue {
    order: VecDeque<Arc<str>>,
    present: HashSet<Arc<str>, foldhash::fast::RandomState>,
}

impl Queue {
    fn len(&self) -> usize {
        self.present.len()
    }

    fn push(&mut self, id: Arc<str>) {
        self.present.insert(id.clone());
        self.order.push_back(id);
    }

    fn pop(&mut self) -> Option<Arc<str>> {
        self.pop_unless(|_| false)
    }

    /// The first that is not to stay; those that are go to the end.
    fn pop_unless(&mut self, stays: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let mut tries = TRIES.min(self.present.len());
        while let Some(id) = self.order.pop_front() {
            if !self.present.contains(&id) {
                continue;
            }
            if !stays(&id) {
                self.present.remove(&id);
                return Some(id);
            }
            self.order.push_back(id);
            tries -= 1;
            if tries == 0 {
                break;
            }
        }
        None
    }

    fn remove(&mut self, id: &str) {
        self.present.remove(id);
        // What was taken out stays in the order for a while, but never makes up most of it.
        if self.order.len() > 2 * self.present.len() + 16 {
            self.order.retain(|id| self.present.contains(id));
            self.order.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> Arc<str> {
        n.to_string().into()
    }

    #[test]
    fn one_address_loses_its_own_unused_sessions_first() {
        let mut opened = Opened::new(100_000);
        let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        assert!(opened.add(&id(0), other, |_| false).is_empty());
        for n in 1..=UNUSED_OF_ONE {
            assert!(opened.add(&id(n), one, |_| false).is_empty());
        }
        opened.used("1");
        assert!(opened.add(&id(9001), one, |_| false).is_empty());
        assert_eq!(opened.add(&id(9002), one, |_| false), [id(2)]);
    }

    #[test]
    fn unused_sessions_of_all_peers_are_limited() {
        let mut opened = Opened::new(100_000);
        let gone: usize = (0..3 * UNUSED).map(|n| opened.add(&id(n), None, |_| false).len()).sum();
        assert_eq!(gone, 2 * UNUSED);
        assert_eq!(opened.peers.len(), UNUSED);
    }

    #[test]
    fn the_oldest_idle_session_goes_when_there_are_too_many() {
        let mut opened = Opened::new(3);
        for n in 0..3 {
            assert!(opened.add(&id(n), None, |_| false).is_empty());
            opened.used(&n.to_string());
        }
        assert_eq!(opened.add(&id(3), None, |id| id == "0"), [id(1)]);
        opened.remove("2");
        assert!(opened.add(&id(4), None, |_| false).is_empty());
        assert_eq!(opened.add(&id(5), None, |_| true), [id(5)], "all others are busy");
    }

    #[test]
    fn ended_sessions_leave_nothing_behind() {
        let mut opened = Opened::new(1000);
        for n in 0..10_000 {
            opened.add(&id(n), None, |_| false);
            opened.remove(&n.to_string());
        }
        assert!(
            opened.all.order.len() <= 32 && opened.unused.is_empty() && opened.peers.is_empty()
        );
    }
}
