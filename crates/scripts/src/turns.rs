//! Who may run now: so many scripts of a server at once, so many calls of a tool at once and a minute.

use crate::manifest::Limits;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use zcp::{CallError, Result};

/// The places there are for scripts that run, and the turns of each tool.
#[derive(Debug)]
pub(crate) struct Places {
    places: Arc<Semaphore>,
    tools: Mutex<HashMap<PathBuf, Weak<Turns>>>,
}

/// A place, for as long as this is held. It is left to others while a user thinks.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

/// The turns of a tool. They stay what they are when its folder is looked at again.
#[derive(Debug)]
pub(crate) struct Turns {
    concurrency: Option<usize>,
    rate: Option<u32>,
    at_once: Semaphore,
    /// Calls that are left, and when that was so.
    left: Mutex<(f64, Instant)>,
}

impl Places {
    /// So many places for all tools together.
    pub(crate) fn new(at_once: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(at_once)), tools: Mutex::default() }
    }

    /// Waits for a place.
    pub(crate) async fn place(&self) -> Result<Place> {
        let place = Place { of: self.places.clone(), held: Mutex::default() };
        place.take().await?;
        Ok(place)
    }

    /// The turns of a tool with limits.
    pub(crate) fn turns(&self, tool: &Path, limits: &Limits) -> Arc<Turns> {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tools.get(tool).and_then(Weak::upgrade);
        let same = |turns: &Arc<Turns>| {
            (turns.concurrency, turns.rate) == (limits.concurrency, limits.rate)
        };
        if let Some(turns) = known.filter(same) {
            return turns;
        }
        tools.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Turns::new(limits.concurrency, limits.rate));
        tools.insert(tool.to_path_buf(), Arc::downgrade(&turns));
        turns
    }
}

impl Place {
    /// Leaves it to others.
    pub(crate) fn leave(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Waits for one again.
    pub(crate) async fn take(&self) -> Result<()> {
        let permit = self.of.clone().acquire_owned().await.map_err(stopping)?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        Ok(())
    }
}

impl Turns {
    fn new(concurrency: Option<usize>, rate: Option<u32>) -> Self {
        let at_once = Semaphore::new(concurrency.unwrap_or(Semaphore::MAX_PERMITS));
        let left = Mutex::new((rate.map_or(0.0, f64::from), Instant::now()));
        Self { concurrency, rate, at_once, left }
    }

    /// Waits until a call is not one too many at once.
    pub(crate) async fn next(&self) -> Result<SemaphorePermit<'_>> {
        self.at_once.acquire().await.map_err(stopping)
    }

    /// How long to wait for the next call, if it is not now.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let a_minute = f64::from(self.rate?.max(1));
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = left.1.elapsed().as_secs_f64() * a_minute / 60.0;
        *left = ((left.0 + grown).min(a_minute), Instant::now());
        if left.0 >= 1.0 {
            left.0 -= 1.0;
            return None;
        }
        Some(Duration::from_secs_f64((1.0 - left.0) * 60.0 / a_minute))
    }
}

fn stopping<E>(_: E) -> CallError {
    CallError::new("the server is stopping")
}
