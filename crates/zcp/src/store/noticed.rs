//! A store whose absence is noticed: the log says when it goes away and when it is back.

use super::{Bound, Entry, If, Store, StoreError, StoreResult};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture, stream::BoxStream};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Another store, and whether its last answer was one.
pub(crate) struct Noticed {
    store: Arc<dyn Store>,
    is_away: AtomicBool,
    /// Is told whether it is there when that changes.
    tell: Box<dyn Fn(bool) + Send + Sync>,
}

impl Noticed {
    pub(crate) fn new(store: Arc<dyn Store>, tell: impl Fn(bool) + Send + Sync + 'static) -> Self {
        Self { store, is_away: AtomicBool::new(false), tell: Box::new(tell) }
    }

    fn notice<T>(&self, answer: StoreResult<T>) -> StoreResult<T> {
        let is_away = matches!(answer, Err(StoreError::Unavailable(_)));
        if self.is_away.load(Ordering::Relaxed) == is_away
            || self.is_away.swap(is_away, Ordering::Relaxed) == is_away
        {
            return answer;
        }
        (self.tell)(!is_away);
        match &answer {
            Err(StoreError::Unavailable(why)) => tracing::error!("the store went away: {why}"),
            _ => tracing::warn!("the store is back"),
        }
        answer
    }
}

impl Store for Noticed {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        self.store.get(key).map(|answer| self.notice(answer)).boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        self.store.put(key, value, condition, ttl).map(|answer| self.notice(answer)).boxed()
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        self.store.remove(key).map(|answer| self.notice(answer)).boxed()
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        self.store.append(log, value, bound, ttl).map(|answer| self.notice(answer)).boxed()
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        self.store.after(log, position).map(|answer| self.notice(answer)).boxed()
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        self.store.watch(log)
    }
}
