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

/// The sessions that this process opened. What it holds of each is its name and its peer.
pub(super) struct Opened {
    max: usize,
    peers: HashMap<Option<IpAddr>, Peer, foldhash::fast::RandomState>,
    /// Whose each is.
    owners: HashMap<Arc<str>, Option<IpAddr>, foldhash::fast::RandomState>,
    unused: usize,
}

/// The sessions of one peer.
#[derive(Default)]
struct Peer {
    all: Queue,
    unused: Queue,
}

impl Opened {
    pub(super) fn new(max: usize) -> Self {
        Self { max, peers: HashMap::default(), owners: HashMap::default(), unused: 0 }
    }

    /// Notes a session that was opened; gives those that must go for it, or itself. `is_busy` says
    /// which are in use just now: they stay. Whoever has most loses one.
    pub(super) fn add(
        &mut self,
        id: &Arc<str>,
        peer: Option<IpAddr>,
        is_busy: impl Fn(&str) -> bool,
    ) -> Vec<Arc<str>> {
        let own = self.peers.entry(peer).or_default();
        own.all.push(id.clone());
        own.unused.push(id.clone());
        self.owners.insert(id.clone(), peer);
        self.unused += 1;
        let mut gone = vec![];
        // This machine's own addresses may be a proxy's, behind which there are many.
        let is_one = peer.is_some_and(|peer| !peer.is_loopback());
        if is_one && own.unused.len() > UNUSED_OF_ONE {
            gone.extend(own.unused.first());
        } else if self.unused > UNUSED {
            let most = self.peers.values_mut().max_by_key(|peer| peer.unused.len());
            gone.extend(most.and_then(|most| most.unused.first()));
        }
        gone.iter().for_each(|id| self.remove(id));
        if self.owners.len() > self.max {
            let most = self.peers.values_mut().max_by_key(|peer| peer.all.len());
            let idle =
                most.and_then(|most| most.all.first_unless(|one| one == &**id || is_busy(one)));
            let idle = idle.unwrap_or_else(|| id.clone());
            self.remove(&idle);
            gone.push(idle);
        }
        gone
    }

    /// A session was used.
    pub(super) fn used(&mut self, id: &str) {
        let own = self.owners.get(id).and_then(|peer| self.peers.get_mut(peer));
        if own.is_some_and(|own| own.unused.remove(id)) {
            self.unused -= 1;
        }
    }

    /// A session has ended.
    pub(super) fn remove(&mut self, id: &str) {
        self.used(id);
        let Some(peer) = self.owners.remove(id) else { return };
        let Some(own) = self.peers.get_mut(&peer) else { return };
        own.all.remove(id);
        if own.all.len() == 0 {
            self.peers.remove(&peer);
        }
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

    fn first(&mut self) -> Option<Arc<str>> {
        self.first_unless(|_| false)
    }

    /// The first that is not to stay; those that are go to the end.
    fn first_unless(&mut self, stays: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let mut tries = TRIES.min(self.present.len());
        while tries > 0
            && let Some(id) = self.order.pop_front()
        {
            if !self.present.contains(&id) {
                continue;
            }
            if !stays(&id) {
                self.order.push_front(id.clone());
                return Some(id);
            }
            self.order.push_back(id);
            tries -= 1;
        }
        None
    }

    /// Takes one out; false if it was not there.
    fn remove(&mut self, id: &str) -> bool {
        let was_there = self.present.remove(id);
        // What was taken out stays in the order for a while, but never makes up most of it.
        if self.order.len() > 2 * self.present.len() + 16 {
            self.order.retain(|id| self.present.contains(id));
            self.order.shrink_to_fit();
        }
        was_there
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
        assert_eq!((opened.owners.len(), opened.unused), (UNUSED, UNUSED));
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
    fn whoever_has_most_sessions_loses_one() {
        let mut opened = Opened::new(10);
        let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        opened.add(&id(0), other, |_| false);
        for n in 1..10 {
            opened.add(&id(n), one, |_| false);
            opened.used(&n.to_string());
        }
        assert_eq!(opened.add(&id(10), one, |_| false), [id(1)]);
        assert_eq!(opened.add(&id(11), other, |_| false), [id(2)]);
    }

    #[test]
    fn ended_sessions_leave_nothing_behind() {
        let mut opened = Opened::new(1000);
        for n in 0..10_000 {
            opened.add(&id(n), None, |_| false);
            opened.remove(&n.to_string());
        }
        assert!(opened.owners.is_empty() && opened.peers.is_empty() && opened.unused == 0);
    }
}
