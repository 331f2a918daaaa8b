//! Middleware: layers around every operation, written as async functions.
//!
//! A layer sees every [`Op`](crate::Op) before it happens and its [`Outcome`] afterwards. It may
//! end the operation itself, change it, or measure it. [`from_fn`] makes a layer of an async
//! function; any tower layer around a [`Service`] works, too. Both are added with
//! [`Server::layer`](crate::Server::layer).

use super::{
    Service,
    call::{Call, Fault, Outcome},
    error::CallError,
    failed,
};
use futures_util::future::BoxFuture;
use std::{
    convert::Infallible,
    error::Error,
    fmt,
    future::Future,
    task::{Context, Poll},
};
use tower::ServiceExt;

/// Creates a layer from an async function of the call and the rest of the way.
///
/// The function returns an [`Outcome`], or a `Result` of one with an error that `?` converts into
/// [`CallError`]. [`CallError::Denied`] and the like reach the client as they are; other errors are
/// internal errors, which are logged and not shown.
///
/// A closure that captures something clones it for each call: `move |call, next| { let seen =
/// seen.clone(); async move { … } }`.
///
/// ```
/// use zcp::{Call, CallError, Op, Outcome, Result, Server, layer::{self, Next}};
///
/// /// Only callers with a name may call tools.
/// async fn named_only(call: Call, next: Next) -> Result<Outcome> {
///     if matches!(call.op, Op::CallTool { .. }) && call.ctx.principal().is_anonymous() {
///         return Err(CallError::Denied { scope: "tools".into() });
///     }
///     Ok(next.run(call).await)
/// }
///
/// let server = Server::new("demo")
///     .layer(layer::from_fn(named_only))
///     .layer(layer::from_fn(async |call, next| next.run(call).await));
/// # server.build().unwrap();
/// ```
pub fn from_fn<F, Fut>(function: F) -> FromFn<F>
where
    F: Fn(Call, Next) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    FromFn(function)
}

/// What a layer made with [`from_fn`] may return.
#[diagnostic::on_unimplemented(
    message = "a layer cannot return `{Self}`",
    note = "return `Outcome`, or a `Result<Outcome, E>` whose error is an error or `CallError`"
)]
pub trait IntoOutcome {
    /// Makes the outcome of an operation, given by its label.
    fn into_outcome(self, op: &'static str) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self, _: &'static str) -> Outcome {
        self
    }
}

impl<E: Into<CallError>> IntoOutcome for Result<Outcome, E> {
    fn into_outcome(self, op: &'static str) -> Outcome {
        self.unwrap_or_else(|error| failed("operation", op, error.into()))
    }
}

/// The outcome of an operation whose layer gave an error: the fault, if it is one, or an internal
/// error.
pub(crate) fn fault(op: &'static str, error: Box<dyn Error + Send + Sync>) -> Outcome {
    match error.downcast::<Fault>() {
        Ok(fault) => Outcome::Fault(*fault),
        Err(error) => failed("operation", op, CallError::Internal(error)),
    }
}

/// The rest of the way: the layers further in, and the server itself.
#[derive(Debug, Clone)]
pub struct Next(Service);

impl Next {
    /// Runs the operation.
    pub async fn run(self, call: Call) -> Outcome {
        match self.0.oneshot(call).await {
            Ok(outcome) => outcome,
            Err(never) => match never {},
        }
    }
}

/// A layer made with [`from_fn`].
#[derive(Clone, Copy)]
pub struct FromFn<F>(F);

impl<F: Clone> tower::Layer<Service> for FromFn<F> {
    type Service = Layered<F>;

    fn layer(&self, inner: Service) -> Layered<F> {
        Layered { function: self.0.clone(), inner }
    }
}

/// A service behind a layer made with [`from_fn`].
#[derive(Clone)]
pub struct Layered<F> {
    function: F,
    inner: Service,
}

impl<F, Fut> tower::Service<Call> for Layered<F>
where
    F: Fn(Call, Next) -> Fut,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    type Response = Outcome;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Outcome, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // `Next` waits for the inner service: not every call reaches it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let op = call.op.label();
        let running = (self.function)(call, Next(self.inner.clone()));
        Box::pin(async move { Ok(running.await.into_outcome(op)) })
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FromFn").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Layered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").finish_non_exhaustive()
    }
}
