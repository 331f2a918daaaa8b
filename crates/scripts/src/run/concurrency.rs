//! Concurrency and rate limits for scripts.

use super::fair_pool::{Held, Pool};
use crate::manifest::{Limits, time_of};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use zcp::{CallError, Ctx, Result, wire::sync::lock};

/// Default maximum number of scripts that run at the same time.
const RUNNING: usize = 64;
/// Default maximum number of scripts that wait for an answer at the same time.
const WAITING: usize = 256;
/// Default time a script waits for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(15 * 60);
/// The longest time a script can wait for an answer.
const MOST_ANSWER_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How many scripts of a server there may be. Together this is how many runs have processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Scripts that run. Further ones wait to be started.
    pub(crate) running: usize,
    /// Scripts that were started and wait for an answer of their client. Further ones are not
    /// allowed to ask.
    pub(crate) waiting: usize,
    /// How long a script waits for an answer unless it says so itself.
    pub(crate) answer_time: Duration,
}

impl Bounds {
    /// Reads the bounds from an environment. `also` is another variable for the number of running
    /// scripts. A value that is no number counts as unset.
    pub(crate) fn of(env: &BTreeMap<String, String>, also: &str) -> Self {
        let number = |names: &[&str], otherwise| {
            let said = names.iter().find_map(|name| env.get(*name)?.trim().parse().ok());
            said.filter(|most| (1..=Semaphore::MAX_PERMITS).contains(most)).unwrap_or(otherwise)
        };
        let time = env.get("ZCP_ANSWER_TIMEOUT").and_then(|said| time_of(said).ok());
        Self {
            running: number(&["ZCP_MAX_CONCURRENT_SCRIPTS", also], RUNNING),
            waiting: number(&["ZCP_MAX_WAITING_SCRIPTS"], WAITING),
            answer_time: time.unwrap_or(ANSWER_TIME).min(MOST_ANSWER_TIME),
        }
    }
}

/// The slots there are for scripts, and the limits of each tool.
#[derive(Debug)]
pub(crate) struct Concurrency {
    bounds: Bounds,
    running: Arc<Pool>,
    waiting: Arc<Pool>,
    tools: Mutex<HashMap<PathBuf, Weak<ToolLimiter>>>,
}

/// A slot of one script: among those that run or, while a user thinks, among those that wait.
#[derive(Debug)]
pub(crate) struct Slot {
    bounds: Bounds,
    running: Arc<Pool>,
    waiting: Arc<Pool>,
    /// Whose share it counts for.
    caller: Arc<str>,
    /// A place of one of the two.
    held: Mutex<Option<Held>>,
}

/// The limits of one tool: how many calls at the same time, and how many per minute. Reading the
/// folder again does not reset them.
#[derive(Debug)]
pub(crate) struct ToolLimiter {
    concurrency: Option<usize>,
    rate: Option<u32>,
    calls: Option<Arc<Pool>>,
    tokens: Mutex<Tokens>,
}

/// A token bucket: a call takes one token.
#[derive(Debug)]
struct Tokens {
    left: f64,
    counted_at: Instant,
}

impl Concurrency {
    /// The slots for all tools together.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            running: Pool::new(bounds.running),
            waiting: Pool::new(bounds.waiting),
            tools: Mutex::default(),
        }
    }

    /// Waits for a slot among the scripts that run, for the caller of a call. What runs for nobody in
    /// particular has a share of its own.
    pub(crate) async fn slot(&self, ctx: Option<&Ctx>) -> Result<Slot> {
        let slot = Slot {
            bounds: self.bounds,
            running: self.running.clone(),
            waiting: self.waiting.clone(),
            caller: ctx.map_or_else(String::new, Ctx::share).into(),
            held: Mutex::default(),
        };
        slot.resume().await?;
        Ok(slot)
    }

    /// The limiter of a tool: the one it has already, unless its limits have changed.
    pub(crate) fn limiter(&self, tool: &Path, limits: &Limits) -> Arc<ToolLimiter> {
        let mut tools = lock(&self.tools);
        let known = tools.get(tool).and_then(Weak::upgrade);
        let same = |limiter: &Arc<ToolLimiter>| {
            (limiter.concurrency, limiter.rate) == (limits.concurrency, limits.rate)
        };
        if let Some(limiter) = known.filter(same) {
            return limiter;
        }
        tools.retain(|_, limiter| limiter.strong_count() > 0);
        let limiter = Arc::new(ToolLimiter::new(limits.concurrency, limits.rate));
        tools.insert(tool.to_path_buf(), Arc::downgrade(&limiter));
        limiter
    }
}

impl Slot {
    fn hold(&self, place: Held) {
        let before = lock(&self.held).replace(place);
        drop(before);
    }

    /// Gives the slot to another script and takes one among those that wait, unless too many do.
    pub(crate) fn park(&self) -> Result<()> {
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

    /// Waits for a slot among those that run. One among those that wait is held until then.
    pub(crate) async fn resume(&self) -> Result<()> {
        self.hold(self.running.take(&self.caller).await.ok_or_else(|| stopping(()))?);
        Ok(())
    }

    /// How long an answer is waited for: as the script wishes, up to the maximum.
    pub(crate) fn answer_time(&self, wish: Option<Duration>) -> Duration {
        wish.unwrap_or(self.bounds.answer_time).min(MOST_ANSWER_TIME)
    }
}

impl ToolLimiter {
    fn new(concurrency: Option<usize>, rate: Option<u32>) -> Self {
        let calls = concurrency.map(Pool::new);
        let left = rate.map_or(0.0, f64::from);
        let tokens = Mutex::new(Tokens { left, counted_at: Instant::now() });
        Self { concurrency, rate, calls, tokens }
    }

    /// Waits until fewer calls are under way than the tool's limit. The next place is that of the
    /// caller who has fewest.
    pub(crate) async fn acquire(&self, ctx: &Ctx) -> Result<Option<Held>> {
        let Some(calls) = &self.calls else { return Ok(None) };
        let place = calls.take(&ctx.share().into()).await;
        place.map(Some).ok_or_else(|| stopping(()))
    }

    /// Takes a token for one call. If there is none, the error says how long until the next.
    pub(crate) fn take_token(&self) -> Result<(), Duration> {
        let Some(rate) = self.rate else { return Ok(()) };
        let per_minute = f64::from(rate.max(1));
        let mut tokens = lock(&self.tokens);
        let grown = tokens.counted_at.elapsed().as_secs_f64() * per_minute / 60.0;
        tokens.left = (tokens.left + grown).min(per_minute);
        tokens.counted_at = Instant::now();
        if tokens.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - tokens.left) * 60.0 / per_minute));
        }
        tokens.left -= 1.0;
        Ok(())
    }
}

fn stopping<E>(_: E) -> CallError {
    CallError::new("the server is stopping")
}
