//! A limit on how often each caller may call.

use super::{
    call::{Call, Fault, Op, Outcome},
    ctx::Ctx,
};
use crate::{
    auth::{PeerAddress, Principal, network},
    store::{If, Store},
    sync::lock,
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, Ready, ready};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, atomic::Ordering},
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// Callers remembered before those whose buckets are full again are forgotten.
const CALLERS: usize = 10_000;
/// How often a call tries to be counted among others that are counted at the same time.
const TRIES: usize = 16;

/// A layer that lets each caller make so many calls a second, and a burst more.
///
/// ```
/// use zcp::{RateLimit, Server};
///
/// let server = Server::new("demo").layer(RateLimit::per_second(20.0).burst(40.0));
/// # server.build().unwrap();
/// ```
#[derive(Clone)]
pub struct RateLimit {
    rate: f64,
    burst: f64,
    each_tool: bool,
    buckets: Arc<Mutex<HashMap<Counted, Bucket>>>,
    store: Option<Arc<dyn Store>>,
}

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Counted {
    who: Who,
    /// Each tool by itself, if that is so.
    tool: Option<String>,
}

impl Counted {
    /// Where a store counts them.
    fn key(&self) -> String {
        let all = format!("{:?}", (&self.who, &self.tool));
        let digest = Sha256::digest(all);
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("rate/{name}")
    }
}

/// Who is counted: anonymous callers by their address, and by their session where the transport
/// knows no address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    Principal(Principal),
    Address(IpAddr),
    Session(Arc<str>),
    Anonymous,
}

impl Who {
    fn of(ctx: &Ctx) -> Self {
        match (ctx.principal(), ctx.get::<PeerAddress>(), &ctx.about().conversation) {
            (principal, _, _) if !principal.is_anonymous() => Self::Principal(principal.clone()),
            (_, Some(PeerAddress(address)), _) => Self::Address(network(address.ip())),
            (_, None, Some(conversation)) => Self::Session(conversation.name()),
            (_, None, None) => Self::Anonymous,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    /// So many calls a second for each caller.
    pub fn per_second(rate: f64) -> Self {
        let rate = rate.max(f64::MIN_POSITIVE);
        let burst = rate.max(1.0);
        Self { rate, burst, each_tool: false, buckets: Arc::default(), store: None }
    }

    /// So many at once, after a quiet time.
    #[must_use]
    pub fn burst(self, burst: f64) -> Self {
        Self { burst: burst.max(1.0), ..self }
    }

    /// Counts each tool by itself.
    #[must_use]
    pub fn each_tool(self) -> Self {
        Self { each_tool: true, ..self }
    }

    /// Counts together with all servers that use the same store. While it cannot be reached, each
    /// counts by itself.
    #[must_use]
    pub fn shared(self, store: Arc<dyn Store>) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Counts a call of whoever made this one, or says how long until there is room for it. For
    /// limits on something else than whole operations.
    pub async fn admit(&self, ctx: &Ctx) -> Result<(), Duration> {
        let counted = Counted { who: Who::of(ctx), tool: None };
        match &self.store {
            Some(store) => self.take_shared(&**store, counted).await,
            None => self.take(counted),
        }
    }

    /// What a call counts as; nothing if it is not counted.
    fn counted(&self, call: &Call) -> Option<Counted> {
        if call.ctx.about().is_counted.load(Ordering::Relaxed) {
            return None;
        }
        let tool = match &call.op {
            // Whoever made a call may always stop it, and answer what it asks.
            Op::Cancel { .. } | Op::Answer { .. } | Op::Close => return None,
            // Only tools that are there: a caller can think of any number of names.
            Op::CallTool { name, .. } if self.each_tool => {
                let catalog = call.ctx.about().runtime.catalog();
                catalog.find_tool(name).map(|tool| tool.info.name.clone())
            }
            _ => None,
        };
        Some(Counted { who: Who::of(&call.ctx), tool })
    }

    /// Takes a token, or says how long until there is one.
    fn take(&self, counted: Counted) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = lock(&self.buckets);
        let fill = |bucket: &Bucket| {
            let earned = now.duration_since(bucket.filled).as_secs_f64() * self.rate;
            (bucket.tokens + earned).min(self.burst)
        };
        if buckets.len() >= CALLERS && !buckets.contains_key(&counted) {
            buckets.retain(|_, bucket| fill(bucket) < self.burst);
            // All of them are in use. The caller who used least of its limit is forgotten, so that
            // no number of callers can lock out a new one.
            let fullest =
                |one: &(_, &Bucket), other: &(_, &Bucket)| fill(one.1).total_cmp(&fill(other.1));
            if buckets.len() >= CALLERS
                && let Some(least) =
                    buckets.iter().max_by(fullest).map(|(counted, _)| counted.clone())
            {
                buckets.remove(&least);
            }
        }
        let full = Bucket { tokens: self.burst, filled: now };
        let bucket = buckets.entry(counted).or_insert(full);
        let tokens = fill(bucket);
        let enough = tokens >= 1.0;
        *bucket = Bucket { tokens: if enough { tokens - 1.0 } else { tokens }, filled: now };
        if enough {
            return Ok(());
        }
        let wait = Duration::try_from_secs_f64((1.0 - tokens) / self.rate);
        Err(wait.unwrap_or(Duration::MAX))
    }

    /// The same, counted in the store: by the time at which the bucket will be full again.
    async fn take_shared(&self, store: &dyn Store, counted: Counted) -> Result<(), Duration> {
        let key = counted.key();
        let step = 1.0 / self.rate;
        for _ in 0..TRIES {
            let Ok(held) = store.get(&key).await else { return self.take(counted) };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = now.as_secs_f64();
            let full = held.as_ref().and_then(|held| held.value[..].try_into().ok());
            let full = full.map_or(now, f64::from_le_bytes).max(now) + step;
            let early = full - now - self.burst * step;
            // A rounding error is not worth a wait.
            if early > step * 1e-6 {
                return Err(Duration::try_from_secs_f64(early).unwrap_or(Duration::MAX));
            }
            let when = held.map_or(If::Absent, |held| If::Version(held.version));
            let ttl = Duration::try_from_secs_f64(full - now + 1.0).ok();
            let value = Bytes::copy_from_slice(&full.to_le_bytes());
            match store.put(&key, value, when, ttl).await {
                Ok(true) => return Ok(()),
                Ok(false) => (),
                Err(_) => return self.take(counted),
            }
        }
        // So many at once are too many.
        Err(Duration::try_from_secs_f64(step).unwrap_or(Duration::MAX))
    }
}

impl<S> tower::Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { inner, limit: self.clone() }
    }
}

/// What [`RateLimit`] wraps.
#[derive(Debug, Clone)]
pub struct Limited<S> {
    inner: S,
    limit: RateLimit,
}

type Answered<E> = Result<Outcome, E>;

impl<S> tower::Service<Call> for Limited<S>
where
    S: tower::Service<Call, Response = Outcome> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Outcome;
    type Error = S::Error;
    type Future = Either<
        Either<S::Future, Ready<Answered<S::Error>>>,
        BoxFuture<'static, Answered<S::Error>>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let Some(counted) = self.limit.counted(&call) else {
            return Either::Left(Either::Left(self.inner.call(call)));
        };
        let Some(store) = self.limit.store.clone() else {
            return Either::Left(match self.limit.take(counted) {
                Ok(()) => Either::Left(self.inner.call(call)),
                Err(wait) => Either::Right(ready(Ok(busy(wait)))),
            });
        };
        // The one that is ready makes the call; the clone takes its place.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let limit = self.limit.clone();
        Either::Right(Box::pin(async move {
            match limit.take_shared(&*store, counted).await {
                Ok(()) => inner.call(call).await,
                Err(wait) => Ok(busy(wait)),
            }
        }))
    }
}

fn busy(wait: Duration) -> Outcome {
    let why = format!("too many calls: try again in {:.1} seconds", wait.as_secs_f64());
    Outcome::Fault(Fault::Busy { why, wait: Some(wait) })
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("rate", &self.rate)
            .field("burst", &self.burst)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: usize) -> Counted {
        Counted { who: Who::Principal(Principal::new(number.to_string())), tool: None }
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_lock_out_no_new_one() {
        let limit = RateLimit::per_second(0.001).burst(2.0);
        for number in 0..CALLERS {
            limit.take(caller(number)).expect("its first call");
            limit.take(caller(number)).expect("its second call");
        }
        assert!(limit.take(caller(0)).is_err(), "the limit of one who is known holds");
        for number in CALLERS..CALLERS + 3 {
            limit.take(caller(number)).expect("a new caller");
        }
        assert_eq!(limit.buckets.lock().expect("nothing panicked").len(), CALLERS);
    }
}
