//! Ways to a server. Each moves frames, and knows no method.

pub mod http;
pub mod process;
pub mod sse2024;
pub mod switchboard;
pub mod ws;

use crate::error::{Failure, Result};
use ::http::HeaderMap;
use futures_util::future::BoxFuture;
use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp_wire::Peer;

/// A way to a server. Anything frames can be sent to is one, and so is what has to be started or
/// reached first.
pub trait Endpoint: Send + Sync + 'static {
    /// Opens the way. Called again when the other side has to be started anew.
    fn open(&self) -> BoxFuture<'_, Result<Opened>>;

    /// What it means when the other side says nothing.
    fn silence(&self) -> Silence {
        Silence::Outage
    }

    /// Another way to the same server, for when it knows nothing newer.
    fn older(&self) -> Option<Box<dyn Endpoint>> {
        None
    }
}

/// What it means when a server does not answer the first question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It is too old to know the question.
    Age,
    /// It is not there.
    Outage,
}

impl<P: Peer + Clone> Endpoint for P {
    fn open(&self) -> BoxFuture<'_, Result<Opened>> {
        let opened = Opened { peer: Arc::new(self.clone()), end: End::default() };
        Box::pin(std::future::ready(Ok(opened)))
    }
}

/// An open way.
pub struct Opened {
    /// Where frames are sent to.
    pub peer: Arc<dyn Peer>,
    /// What is to be done when nobody sends any more.
    pub end: End,
}

/// The tasks that keep a way open. They stop when this is dropped.
#[derive(Debug, Default)]
pub struct End {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl End {
    /// Runs a task until it ends by itself; the token tells it that it is time.
    pub fn spawn<F>(&self, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task(self.stop.clone()));
    }

    /// Stops the tasks, and waits until they have tidied up.
    pub async fn wait(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Why a request's frames ended without a response: sent along with the request, and filled in by
/// the way it took.
#[derive(Debug, Clone, Default)]
pub struct Fate(Arc<OnceLock<Failure>>);

impl Fate {
    /// Notes what happened; the first note counts.
    pub fn set(&self, failure: Failure) {
        let _ = self.0.set(failure);
    }

    /// What happened, if it was noted.
    pub fn get(&self) -> Option<&Failure> {
        self.0.get()
    }

    pub(crate) fn gone(&self, why: impl Into<String>) {
        self.set(Failure::Gone(why.into()));
    }
}

/// What a request says about itself, for ways that have headers.
#[derive(Debug, Clone, Default)]
pub struct Headers(pub HeaderMap);

/// The request opens a conversation: whatever was remembered of the last one is forgotten.
#[derive(Debug, Clone, Copy)]
pub struct Opening;

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}
