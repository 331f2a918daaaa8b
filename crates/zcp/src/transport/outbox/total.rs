//! How many bytes wait in all outboxes of one process. Where they are too many, the outbox with most
//! gives way.

use super::Shared;
use crate::sync::lock;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak, atomic::Ordering},
};

/// Bytes beyond those that each outbox has free.
const ALL: usize = 256 * 1024 * 1024;

/// The outboxes of one process in which much waits.
#[derive(Default)]
pub(super) struct Outboxes(Mutex<Large>);

#[derive(Default)]
struct Large {
    /// By their addresses in memory: each leaves before it is dropped, when nothing waits in it.
    by_place: HashMap<usize, (usize, Weak<Shared>), foldhash::fast::RandomState>,
    total: usize,
}

impl Large {
    fn remove(&mut self, place: usize) -> Option<Weak<Shared>> {
        let (bytes, outbox) = self.by_place.remove(&place)?;
        self.total -= bytes;
        Some(outbox)
    }
}

fn place(outbox: &Shared) -> usize {
    std::ptr::from_ref(outbox).addr()
}

impl Outboxes {
    /// Notes what an outbox holds. Gives those that have to give way, which do not count any more.
    pub(super) fn set(&self, outbox: &Arc<Shared>, bytes: usize) -> Vec<Arc<Shared>> {
        let mut large = lock(&self.0);
        large.remove(place(outbox));
        if bytes == 0 || outbox.gives_way.load(Ordering::Relaxed) {
            return vec![];
        }
        large.total += bytes;
        large.by_place.insert(place(outbox), (bytes, Arc::downgrade(outbox)));
        let mut largest = vec![];
        while large.total > ALL
            && let Some((place, _)) = large.by_place.iter().max_by_key(|(_, (bytes, _))| bytes)
        {
            let place = *place;
            largest.extend(large.remove(place).and_then(|outbox| outbox.upgrade()));
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FREE, counted_outbox};
    use super::*;

    fn text(bytes: usize) -> bytestring::ByteString {
        "x".repeat(bytes).into()
    }

    #[test]
    fn the_fullest_outbox_gives_way() {
        let runtime = crate::Server::new("test").build().unwrap();
        let all = runtime.shelf::<Outboxes>();
        let total = || lock(&all.0).total;
        let (small, _small) = counted_outbox(&runtime, true);
        small.push(text(FREE));
        assert_eq!(total(), 0);
        let (kept, kept_in) = counted_outbox(&runtime, true);
        let half = text(ALL / 2);
        kept.push(half.clone());
        kept.push(half.clone());
        assert_eq!(total(), ALL - FREE);
        let (other, other_in) = counted_outbox(&runtime, false);
        other.push(text(FREE * 2));
        assert_eq!(total(), ALL);
        other.push(text(1));
        // It gives way, and what waits in it can be written down.
        assert!(kept.0.gives_way.load(Ordering::Relaxed));
        assert_eq!(total(), FREE + 1);
        while kept_in.pop().is_some() {}
        assert!(kept_in.goes_on() && total() == FREE + 1);
        // What is on its way out counts, too.
        kept.push(half.clone());
        kept_in.pop();
        assert_eq!(total(), ALL / 2 + 1);
        drop((kept, kept_in));
        assert_eq!(total(), FREE + 1);
        // Without anybody who keeps it, it is dropped.
        other.push(half.clone());
        other.push(half);
        assert!(!other_in.goes_on() && other_in.pop().is_none());
        assert_eq!((total(), lock(&all.0).by_place.len()), (0, 0));
    }
}
