//! Bytes to frames and back. Knows no method.

pub(crate) mod converse;
pub mod http;
pub mod stdio;
pub mod ws;

use crate::runtime::Runtime;
use std::{
    future::Future,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long work under way may take to finish once a wire is told to stop.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Something that serves until told to stop, or until its peer is gone.
pub trait Transport: Send + 'static {
    /// Serves. Returns when `stop` is cancelled and what was under way has ended.
    fn serve(
        self,
        runtime: Runtime,
        stop: CancellationToken,
    ) -> impl Future<Output = io::Result<()>> + Send;
}

impl<A: Transport> Transport for Vec<A> {
    async fn serve(self, runtime: Runtime, stop: CancellationToken) -> io::Result<()> {
        let all = self.into_iter().map(|one| one.serve(runtime.clone(), stop.clone()));
        futures_util::future::try_join_all(all).await.map(drop)
    }
}

impl<A: Transport> Transport for Option<A> {
    async fn serve(self, runtime: Runtime, stop: CancellationToken) -> io::Result<()> {
        match self {
            Some(one) => one.serve(runtime, stop).await,
            None => Ok(()),
        }
    }
}

macro_rules! tuples {
    ($([$($name:ident)*])*) => {$(
        #[expect(non_snake_case, reason = "a wire is named as its type")]
        impl<$($name: Transport),*> Transport for ($($name,)*) {
            async fn serve(self, runtime: Runtime, stop: CancellationToken) -> io::Result<()> {
                let ($($name,)*) = self;
                tokio::try_join!($($name.serve(runtime.clone(), stop.clone()),)*).map(drop)
            }
        }
    )*};
}
tuples!([A B] [A B C] [A B C D]);

/// A call's wish to let its client go, heard by a wire whose clients can come back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Release(Arc<(Notify, Mutex<Option<Duration>>)>);

impl Release {
    /// Lets the client go; it comes back after `retry`.
    pub(crate) fn now(&self, retry: Duration) {
        *self.0.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(retry);
        self.0.0.notify_one();
    }

    /// Waits for the wish.
    pub(crate) async fn wished(&self) -> Duration {
        loop {
            if let Some(retry) = self.0.1.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return retry;
            }
            self.0.0.notified().await;
        }
    }
}
