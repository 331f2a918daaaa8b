//! A limit on how often each caller may call.

use super::call::{Call, Fault, Outcome};
use crate::auth::Principal;
use futures_util::future::{Either, Ready, ready};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;

/// Callers remembered before those whose buckets are full again are forgotten.
const CALLERS: usize = 10_000;

/// A layer that lets each caller make so many calls a second, and a burst more.
///
/// ```
/// use zcp::{RateLimit, Server};
///
/// let server = Server::new("demo").layer(RateLimit::per_second(20.0).burst(40.0));
/// # server.build().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct RateLimit {
    rate: f64,
    burst: f64,
    buckets: Arc<Mutex<HashMap<Principal, Bucket>>>,
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
        Self { rate, burst: rate.max(1.0), buckets: Arc::default() }
    }

    /// So many at once, after a quiet time.
    #[must_use]
    pub fn burst(self, burst: f64) -> Self {
        Self { burst: burst.max(1.0), ..self }
    }

    /// Takes a token, or says how long until there is one.
    fn take(&self, caller: &Principal) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let fill = |bucket: &Bucket| {
            let earned = now.duration_since(bucket.filled).as_secs_f64() * self.rate;
            (bucket.tokens + earned).min(self.burst)
        };
        if buckets.len() >= CALLERS {
            buckets.retain(|_, bucket| fill(bucket) < self.burst);
        }
        let full = Bucket { tokens: self.burst, filled: now };
        let bucket = buckets.entry(caller.clone()).or_insert(full);
        let tokens = fill(bucket);
        let enough = tokens >= 1.0;
        *bucket = Bucket { tokens: if enough { tokens - 1.0 } else { tokens }, filled: now };
        if enough {
            return Ok(());
        }
        let wait = Duration::try_from_secs_f64((1.0 - tokens) / self.rate);
        Err(wait.unwrap_or(Duration::MAX))
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

impl<S: tower::Service<Call, Response = Outcome>> tower::Service<Call> for Limited<S> {
    type Response = Outcome;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Outcome, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        match self.limit.take(call.ctx.principal()) {
            Ok(()) => Either::Left(self.inner.call(call)),
            Err(wait) => {
                let why = format!("too many calls: try again in {:.1} seconds", wait.as_secs_f64());
                Either::Right(ready(Ok(Outcome::Fault(Fault::Busy(why)))))
            }
        }
    }
}
