//! Concurrency and rate limits for scripts.

use crate::{
    manifest::{Limits, time_of},
    shares::{Held, Pool},
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};
use zcp::{CallError, Ctx, Result};

/// Scripts that run at the same time, unless something is said.
const RUNNING: usize = 64;
/// Scripts that wait for an answer at the same time, unless something is said.
const WAITING: usize = 256;
/// How long they wait, unless something is said.
const ANSWER_TIME: Duration = Duration::from_secs(15 * 60);
/// The same, whatever is said.
const MOST_ANSWER_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How many scripts of a server there may be. Together this is how many runs have processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Scripts that run. More than these wait to be started.
    pub(crate) running: usize,
    /// Scripts that were started and wait for an answer of their client. More than these are not
    /// allowed to ask.
    pub(crate) waiting: usize,
    /// How long an answer is waited for unless the script says.
    pub(crate) answer_time: Duration,
}

impl Bounds {
    /// What is set in an environment. What is no number there is as if it were not said.
    pub(crate) fn of(env: &BTreeMap<String, String>) -> Self {
        let number = |names: &[&str], otherwise| {
            let said = names.iter().find_map(|name| env.get(*name)?.trim().parse().ok());
            said.filter(|most| (1..=Semaphore::MAX_PERMITS).contains(most)).unwrap_or(otherwise)
        };
        let time = env.get("ZCP_ANSWER_TIMEOUT").and_then(|said| time_of(said).ok());
        Self {
            running: number(
                &["ZCP_MAX_CONCURRENT_SCRIPTS", "MCPBASH_MAX_CONCURRENT_REQUESTS"],
                RUNNING,
            ),
            waiting: number(&["ZCP_MAX_WAITING_SCRIPTS"], WAITING),
            answer_time: time.unwrap_or(ANSWER_TIME).min(MOST_ANSWER_TIME),
        }
    }
}

/// The places there are for scripts, and the turns of each tool.
#[derive(Debug)]
pub(crate) struct Places {
    bounds: Bounds,
    running: Arc<Pool>,
    waiting: Arc<Pool>,
    tools: Mutex<HashMap<PathBuf, Weak<Turns>>>,
}

/// A place among those that run or, while a user thinks, among those that wait.
#[derive(Debug)]
pub(crate) struct Place {
    bounds: Bounds,
    running: Arc<Pool>,
    waiting: Arc<Pool>,
    /// Whose share it counts for.
    caller: Arc<str>,
    /// Of one of the two.
    held: Mutex<Option<Held>>,
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
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            running: Pool::new(bounds.running),
            waiting: Pool::new(bounds.waiting),
            tools: Mutex::default(),
        }
    }

    /// Waits for a place among those that run, for the caller of a call. What runs for nobody in
    /// particular has a share of its own.
    pub(crate) async fn place(&self, ctx: Option<&Ctx>) -> Result<Place> {
        let place = Place {
            bounds: self.bounds,
            running: self.running.clone(),
            waiting: self.waiting.clone(),
            caller: ctx.map_or_else(String::new, Ctx::share).into(),
            held: Mutex::default(),
        };
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
    fn hold(&self, place: Held) {
        let before = self.held.lock().unwrap_or_else(PoisonError::into_inner).replace(place);
        drop(before);
    }

    /// Leaves it to others for one among those that wait, unless too many do.
    pub(crate) fn leave(&self) -> Result<()> {
        let Some(place) = self.waiting.take_now(&self.caller) else {
            let why = match self.waiting.is_full() {
                true => format!("{} scripts of this server wait", self.bounds.waiting),
                false => "too many scripts of this caller wait".to_owned(),
            };
            let why = format!("{why} for an answer, which is its limit: try again later");
            return Err(CallError::new(why));
        };
        self.hold(place);
        Ok(())
    }

    /// Waits for one among those that run. One among those that wait is held until then.
    pub(crate) async fn take(&self) -> Result<()> {
        self.hold(self.running.take(&self.caller).await.ok_or_else(|| stopping(()))?);
        Ok(())
    }

    /// How long an answer is waited for: as the script wishes, within bounds.
    pub(crate) fn answer_time(&self, wish: Option<Duration>) -> Duration {
        wish.unwrap_or(self.bounds.answer_time).min(MOST_ANSWER_TIME)
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
