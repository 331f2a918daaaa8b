//! A fixed number of places, shared fairly among callers.
//!
//! A caller may take three quarters of them. A place that becomes free goes to the waiting caller
//! who has the fewest, so that whoever asks for many waits behind whoever asks for one.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::oneshot;
use zcp::wire::sync::lock;

/// A pool of fewer places than this is not divided.
const DIVIDED: usize = 8;

/// The places.
#[derive(Debug)]
pub(crate) struct Pool {
    most: usize,
    most_of_one: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    callers: HashMap<Arc<str>, Caller>,
    /// The number of the next one who waits.
    next: u64,
}

/// A caller who has places or waits for some.
#[derive(Debug, Default)]
struct Caller {
    taken: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Held>)>,
}

/// A place of a caller, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    pool: Arc<Pool>,
    caller: Arc<str>,
}

/// One who waits, until this is dropped.
struct Waiting<'a> {
    pool: &'a Pool,
    caller: &'a Arc<str>,
    number: u64,
}

impl Pool {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let kept = if most < DIVIDED { 0 } else { most / 4 };
        Arc::new(Self { most, most_of_one: most - kept, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether there is no place for anybody.
    pub(crate) fn is_full(&self) -> bool {
        self.state().taken >= self.most
    }

    /// A place, if there is one for this caller now.
    pub(crate) fn take_now(self: &Arc<Self>, caller: &Arc<str>) -> Option<Held> {
        let mut state = self.state();
        let taken = state.callers.get(caller).map_or(0, |known| known.taken);
        if state.taken >= self.most || taken >= self.most_of_one {
            return None;
        }
        state.taken += 1;
        state.callers.entry(caller.clone()).or_default().taken += 1;
        Some(Held { pool: self.clone(), caller: caller.clone() })
    }

    /// Waits for a place. Whoever stops waiting loses nothing but their turn.
    pub(crate) async fn take(self: &Arc<Self>, caller: &Arc<str>) -> Option<Held> {
        let (sender, receiver) = oneshot::channel();
        let waiting = {
            let mut state = self.state();
            let number = state.next;
            state.next += 1;
            let known = state.callers.entry(caller.clone()).or_default();
            known.waiting.push_back((number, sender));
            Waiting { pool: self, caller, number }
        };
        self.serve();
        let held = receiver.await.ok();
        drop(waiting);
        held
    }

    /// Gives free places to those who wait.
    fn serve(self: &Arc<Self>) {
        loop {
            let next = self.state().next_served(self.most, self.most_of_one);
            let Some((caller, sender)) = next else { return };
            // One that nobody takes is free again when it is dropped.
            let _ = sender.send(Held { pool: self.clone(), caller });
        }
    }
}

impl State {
    /// Takes a place for the next one in turn: who has the fewest, and of those who waits longest.
    fn next_served(
        &mut self,
        most: usize,
        most_of_one: usize,
    ) -> Option<(Arc<str>, oneshot::Sender<Held>)> {
        if self.taken >= most {
            return None;
        }
        let turn = |caller: &Caller| {
            let first = caller.waiting.front().filter(|_| caller.taken < most_of_one)?;
            Some((caller.taken, first.0))
        };
        let waiting = self.callers.iter().filter_map(|(name, one)| Some((turn(one)?, name)));
        let name = waiting.min().map(|(_, name)| name.clone())?;
        let caller = self.callers.get_mut(&name)?;
        let (_, sender) = caller.waiting.pop_front()?;
        caller.taken += 1;
        self.taken += 1;
        Some((name, sender))
    }

    /// Forgets a caller who has nothing and waits for nothing.
    fn forget(&mut self, name: &Arc<str>) {
        let is_idle = |caller: &Caller| caller.taken == 0 && caller.waiting.is_empty();
        if self.callers.get(name).is_some_and(is_idle) {
            self.callers.remove(name);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        {
            let mut state = self.pool.state();
            state.taken -= 1;
            if let Some(caller) = state.callers.get_mut(&self.caller) {
                caller.taken -= 1;
            }
            state.forget(&self.caller);
        }
        self.pool.serve();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if let Some(caller) = state.callers.get_mut(self.caller)
            && let Ok(at) = caller.waiting.binary_search_by_key(&self.number, |(number, _)| *number)
        {
            caller.waiting.remove(at);
        }
        state.forget(self.caller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::pin::pin;

    #[tokio::test]
    async fn one_caller_takes_three_quarters_of_the_places() {
        let pool = Pool::new(8);
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        let held: Vec<Held> = (0..6).map(|_| pool.take_now(&one).unwrap()).collect();
        assert!(pool.take_now(&one).is_none());
        assert!(poll!(pin!(pool.take(&one))).is_pending());
        let others: Vec<Held> = (0..2).map(|_| pool.take_now(&other).unwrap()).collect();
        assert!(pool.take_now(&other).is_none());
        drop((held, others));
        assert!(pool.state().callers.is_empty(), "nobody is remembered: {pool:?}");
    }

    #[tokio::test]
    async fn a_free_place_goes_to_whoever_has_fewest() {
        let pool = Pool::new(2);
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        let first = pool.take(&one).await.unwrap();
        let _second = pool.take(&one).await.unwrap();
        let mut many = pin!(pool.take(&one));
        assert!(poll!(many.as_mut()).is_pending());
        let mut quick = pin!(pool.take(&other));
        assert!(poll!(quick.as_mut()).is_pending());
        drop(first);
        assert!(poll!(many.as_mut()).is_pending());
        drop(quick.await.unwrap());
        assert!(many.await.is_some());
    }

    #[tokio::test]
    async fn whoever_stops_waiting_leaves_nothing_behind() {
        let pool = Pool::new(1);
        let caller = Arc::from("one");
        let held = pool.take(&caller).await.unwrap();
        assert!(poll!(pin!(pool.take(&caller))).is_pending());
        assert!(pool.state().callers[&caller].waiting.is_empty());
        let mut waits = Box::pin(pool.take(&caller));
        assert!(poll!(waits.as_mut()).is_pending());
        drop(held);
        // It has a place that it never took.
        drop(waits);
        assert!(pool.take_now(&caller).is_some());
    }
}
