//! Concurrency limits for tasks: how many run, how many wait, and a share of both for each caller.

use super::Tasks;
use crate::sync::lock;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one process.
pub(super) struct Slots {
    places: Arc<Places>,
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
    /// The most tasks of one caller, running or waiting.
    most_of_one: usize,
    /// When so many tasks are there, the rest of the places is for callers with few tasks.
    crowded: usize,
    /// How many that is.
    few: usize,
}

struct Places {
    free: Arc<Semaphore>,
    /// The most running tasks of one caller.
    running_of_one: usize,
    // A std mutex: never held across an await.
    callers: Mutex<Callers>,
}

#[derive(Default)]
struct Callers {
    by_name: HashMap<Arc<str>, Caller>,
    /// Tasks of all of them.
    tasks: usize,
}

/// A caller who has tasks here.
struct Caller {
    tasks: usize,
    free: Arc<Semaphore>,
}

/// Why there is no place for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// Too many tasks wait.
    All,
    /// The caller has too many.
    Caller,
}

/// A task's place: the caller's share it counts for, and whether it may run.
pub(super) struct Slot {
    pub(super) seat: Seat,
    pub(super) turn: Turn,
}

/// When a task may run.
pub(super) enum Turn {
    Now(Permit),
    Later(Waiting),
}

/// A task that may run: counted for its caller, and for all.
pub(super) struct Permit {
    _of_caller: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// One task that waits.
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A task that counts for its caller, for as long as this is there.
pub(super) struct Seat {
    places: Arc<Places>,
    caller: Arc<str>,
    /// The caller's places among those that run.
    free: Arc<Semaphore>,
}

impl Seat {
    /// A place for a task that is to run at once.
    fn now(&self) -> Option<Permit> {
        let of_caller = self.free.clone().try_acquire_owned().ok()?;
        let of_all = self.places.free.clone().try_acquire_owned().ok()?;
        Some(Permit { _of_caller: of_caller, _of_all: of_all })
    }

    /// Waits for a place: the caller's own first, so that whoever has none to spare does not keep
    /// one from others.
    pub(super) async fn turn(&self) -> Permit {
        let of_caller = self.free.clone().acquire_owned().await;
        let of_all = self.places.free.clone().acquire_owned().await;
        match (of_caller, of_all) {
            (Ok(of_caller), Ok(of_all)) => Permit { _of_caller: of_caller, _of_all: of_all },
            // Nobody closes them.
            _ => std::future::pending().await,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut callers = lock(&self.places.callers);
        callers.tasks -= 1;
        if let Some(caller) = callers.by_name.get_mut(&self.caller) {
            caller.tasks -= 1;
            if caller.tasks == 0 {
                callers.by_name.remove(&self.caller);
            }
        }
    }
}

impl Slots {
    pub(super) fn new(settings: &Tasks) -> Self {
        let all = settings.max_concurrent.min(Semaphore::MAX_PERMITS);
        let places = settings.max_concurrent.saturating_add(settings.max_queued);
        let most_of_one = settings.max_per_caller.unwrap_or((places / 4).max(1));
        // Whoever says how many one caller may have has decided how the places are shared.
        let crowded = match settings.max_per_caller {
            Some(_) => usize::MAX,
            None => places - places / 4,
        };
        let running_of_one = match settings.max_per_caller {
            Some(most) => most.clamp(1, all),
            None => (all / 4).max(1),
        };
        Self {
            places: Arc::new(Places {
                free: Arc::new(Semaphore::new(all)),
                running_of_one,
                callers: Mutex::default(),
            }),
            waiting: Arc::default(),
            most_waiting: settings.max_queued,
            most_of_one,
            crowded,
            few: places / 64,
        }
    }

    /// A place for a task that is to run at once.
    pub(super) fn now(&self, caller: &str) -> Option<(Seat, Permit)> {
        let seat = self.seat(caller, self.most_of_one)?;
        let permit = seat.now()?;
        Some((seat, permit))
    }

    /// A place now or later, if neither the caller nor all together have too many.
    pub(super) fn take(&self, caller: &str) -> Result<Slot, Full> {
        let seat = self.seat(caller, self.most_of_one).ok_or(Full::Caller)?;
        if let Some(permit) = seat.now() {
            return Ok(Slot { seat, turn: Turn::Now(permit) });
        }
        if self.waiting.load(Ordering::Relaxed) >= self.most_waiting {
            return Err(Full::All);
        }
        Ok(Slot { seat, turn: Turn::Later(self.wait()) })
    }

    /// A place for a task that was accepted elsewhere, however many there are.
    pub(super) fn accepted(&self, caller: &str) -> Option<Slot> {
        let seat = self.seat(caller, usize::MAX)?;
        let turn = seat.now().map_or_else(|| Turn::Later(self.wait()), Turn::Now);
        Some(Slot { seat, turn })
    }

    /// Counts one that waits.
    pub(super) fn wait(&self) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.waiting.clone())
    }

    fn seat(&self, caller: &str, most: usize) -> Option<Seat> {
        let mut callers = lock(&self.places.callers);
        let name = match callers.by_name.get_key_value(caller) {
            Some((name, _)) => name.clone(),
            None => Arc::from(caller),
        };
        let most = match most != usize::MAX && callers.tasks >= self.crowded {
            true => most.min(self.few.max(1)),
            false => most,
        };
        let known = callers.by_name.entry(name.clone()).or_insert_with(|| Caller {
            tasks: 0,
            free: Arc::new(Semaphore::new(self.places.running_of_one)),
        });
        if known.tasks >= most {
            return None;
        }
        known.tasks += 1;
        let free = known.free.clone();
        callers.tasks += 1;
        Some(Seat { places: self.places.clone(), caller: name, free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_callers_with_many_tasks_leave_places_for_others() {
        let slots = Slots::new(&Tasks::default());
        let mut held = vec![];
        for caller in ["a", "b", "c", "d", "e", "f"] {
            while let Ok(slot) = slots.take(caller) {
                held.push(slot);
            }
        }
        for caller in 0..10 {
            let slot = slots.take(&caller.to_string());
            held.push(slot.unwrap_or_else(|full| panic!("{caller}: {full:?}")));
        }
    }
}
