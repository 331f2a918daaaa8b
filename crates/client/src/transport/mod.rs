//! Ways to a server. Each moves frames, and knows no method.

mod answered;
mod heard;
mod http;
mod outbox;
mod passed_env;
mod process;
mod sse2024;
mod switchboard;
mod ws;

pub use http::Http;
pub use process::Process;
pub use sse2024::Sse2024;
pub use ws::Ws;

use crate::{
    error::{Error, Failure, Late, Result},
    support::deadline::Pause,
};
use ::http::HeaderMap;
use futures_util::future::BoxFuture;
use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp_wire::Peer;

/// Maximum number of messages a server may send in one batch.
const BATCH: usize = 1024;
/// Maximum length of one message of a server, in bytes, unless an endpoint says otherwise.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// A way to a server. Anything frames can be sent to is one, and so is what has to be started or
/// reached first.
pub trait Endpoint: Send + Sync + 'static {
    /// Opens the way. Called again when the other side has to be started anew.
    fn open(&self) -> BoxFuture<'_, Result<Opened>>;

    /// What it means when the other side says nothing.
    fn silence(&self) -> Silence {
        Silence::Outage
    }

    /// What the server is known by, for what is remembered of it; none if it is not to be. It
    /// carries no secrets.
    fn name(&self) -> Option<String> {
        None
    }

    /// Changes when the server may see somebody else in this client.
    fn principal(&self) -> u64 {
        0
    }

    /// Another way to the same server, for when it knows nothing newer.
    fn older(&self) -> Option<Box<dyn Endpoint>> {
        None
    }
}

/// What it means when a server does not answer the first question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Silence {
    /// It is too old to know the question.
    Age,
    /// It is not there.
    Outage,
}

impl<P: Peer + Clone> Endpoint for P {
    fn open(&self) -> BoxFuture<'_, Result<Opened>> {
        let opened =
            Opened { peer: Arc::new(self.clone()), end: End::default(), ends_with_events: false };
        Box::pin(std::future::ready(Ok(opened)))
    }
}

/// An open way.
pub struct Opened {
    /// Where frames are sent to.
    pub peer: Arc<dyn Peer>,
    /// What is to be done when nobody sends any more.
    pub end: End,
    /// The way is lost when its events end.
    pub ends_with_events: bool,
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

/// What becomes of a request: sent along with it, and filled in by the way it took.
#[derive(Clone, Default)]
pub struct Fate(Arc<Told>);

#[derive(Default)]
struct Told {
    failure: OnceLock<Failure>,
    witness: OnceLock<Witness>,
    with_user: Pause,
}

/// Says what is known of the other side, for errors.
pub type Witness = Arc<dyn Fn() -> String + Send + Sync>;

impl Fate {
    /// Notes why the frames ended without a response; the first note counts.
    pub fn set(&self, failure: Failure) {
        let _ = self.0.failure.set(failure);
    }

    /// Why the frames ended without a response, if it was noted.
    pub fn get(&self) -> Option<&Failure> {
        self.0.failure.get()
    }

    pub(crate) fn gone(&self, why: impl Into<String>) {
        self.set(Failure::Gone(why.into()));
    }

    /// Notes who can tell more of the other side.
    pub fn witnessed_by(&self, witness: Witness) {
        let _ = self.0.witness.set(witness);
    }

    /// What is known of the other side, if somebody knows.
    pub fn story(&self) -> Option<String> {
        self.0.witness.get().map(|witness| witness())
    }

    /// Adds what is known of the other side to an error of this request.
    pub(crate) fn annotate(&self, error: Error) -> Error {
        match (error, self.story()) {
            (Error::Late(late), about) => Error::Late(Late { about, ..late }),
            (Error::Invalid(why), Some(story)) => Error::Invalid(format!("{why}; {story}")),
            (error, _) => error,
        }
    }

    /// The request waits for the user, until what this gives is dropped: the server's time stands
    /// still.
    pub fn with_user(&self) -> WithUser {
        self.0.with_user.begin();
        WithUser(self.clone())
    }

    pub(crate) fn pause(&self) -> &Pause {
        &self.0.with_user
    }
}

/// A request waits for the user.
#[derive(Debug)]
#[must_use = "the server's time goes on when this is dropped"]
pub struct WithUser(Fate);

impl Drop for WithUser {
    fn drop(&mut self) {
        self.0.0.with_user.end();
    }
}

impl fmt::Debug for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fate").field(&self.get()).finish()
    }
}

/// Said by a way itself, where the server's words may have been missed.
pub(crate) const GAP: &str = "zcp/gap";

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
