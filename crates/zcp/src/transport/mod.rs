//! Bytes to frames and back. Knows no method.

pub(crate) mod converse;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod outbox;
pub(crate) mod stdio;
pub(crate) mod weight;

use crate::runtime::Runtime;
use std::{future::Future, io, time::Duration};
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
