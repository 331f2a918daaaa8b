//! Layers around every call: a limit, and a stopwatch. Run it: `cargo run -p zcp --example layers`

use std::time::{Duration, Instant};
use zcp::{Call, Outcome, RateLimit, Server, Stdio, layer, layer::Next, tool};

/// Prints on standard error how long each operation took.
#[expect(clippy::print_stderr, reason = "this is what it is for")]
async fn stopwatch(call: Call, next: Next) -> Outcome {
    let (what, began) = (call.op.label(), Instant::now());
    let outcome = next.run(call).await;
    eprintln!("{what} took {:?}", began.elapsed());
    outcome
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
        // Added last, so it runs first: it also measures what the limit rejects.
        .layer(layer::from_fn(stopwatch))
        .serve(Stdio)
        .await
}
