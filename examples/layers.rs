//! Layers around every call: a limit, and a stopwatch. Run it: `cargo run -p zcp --example layers`

use std::{
    convert::Infallible,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower::Service;
use zcp::{Call, Outcome, RateLimit, Server, Stdio, runtime, tool};

/// Says on standard error how long each operation took.
#[derive(Clone)]
struct Stopwatch(runtime::Service);

impl Service<Call> for Stopwatch {
    type Response = Outcome;
    type Error = Infallible;
    type Future = <runtime::Service as Service<Call>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    #[expect(clippy::print_stderr, reason = "this is what it is for")]
    fn call(&mut self, call: Call) -> Self::Future {
        let (what, began) = (call.op.label(), Instant::now());
        let work = self.0.call(call);
        Box::pin(async move {
            let outcome = work.await;
            eprintln!("{what} took {:?}", began.elapsed());
            outcome
        })
    }
}

/// Think for a moment.
#[tool(read_only)]
async fn think() -> &'static str {
    tokio::time::sleep(Duration::from_millis(100)).await;
    "I am."
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("layers")
        .tool(think)
        .call_timeout(Duration::from_secs(10))
        .layer(RateLimit::per_second(5.0).burst(10.0))
        // Added last, so it runs first: it also measures what the limit refuses.
        .layer(tower::layer::layer_fn(Stopwatch))
        .serve(Stdio)
        .await
}
