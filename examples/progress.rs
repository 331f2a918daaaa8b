//! Progress, logs, and being cancelled. Run it: `cargo run -p zcp --example progress`

use serde_json::json;
use std::time::Duration;
use zcp::{Ctx, Level, Result, Server, Stdio, tool};

/// Something that must be put right however the work ends.
struct Oven;

impl Drop for Oven {
    #[expect(clippy::print_stderr, reason = "this is what it is for")]
    fn drop(&mut self) {
        eprintln!("the oven is off");
    }
}

/// Bake some loaves, one after the other.
#[tool]
async fn bake(loaves: u32, ctx: Ctx) -> String {
    // Cancelling drops this function where it waits, and the oven with it.
    let _oven = Oven;
    for loaf in 0..loaves {
        ctx.progress_with(loaf.into(), f64::from(loaves), &format!("loaf {}", loaf + 1));
        tokio::time::sleep(Duration::from_millis(500)).await;
        ctx.log(Level::Info, json!({ "baked": loaf + 1 }));
    }
    ctx.progress(loaves.into(), f64::from(loaves));
    format!("{loaves} loaves")
}

/// Count to a number.
#[tool(read_only)]
async fn count(to: u64, ctx: Ctx) -> Result<u64> {
    // A thread cannot be dropped: it has to be told when to stop.
    let stop = ctx.cancellation();
    let counting = move || (0..to).take_while(|_| !stop.is_cancelled()).count() as u64;
    Ok(tokio::task::spawn_blocking(counting).await?)
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("bakery").tool(bake).tool(count).serve(Stdio).await
}
