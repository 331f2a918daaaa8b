//! The ten-line server. Run it: `cargo run -p zcp --example add`

use zcp::{Stdio, server, tool};

/// Add two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    server!("demo").tool(add).serve(Stdio).await
}
