//! Tools that take their time: with progress, cancelled, or fetched later.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use zcp::{Ctx, Json, Server, State, tool};

/// The labels of the last calls that were cancelled.
#[derive(Clone, Default)]
struct Cancelled(Arc<Mutex<VecDeque<String>>>);

/// Notes its label unless the work got done.
struct Noted {
    label: String,
    done: bool,
    cancelled: Cancelled,
}

impl Drop for Noted {
    fn drop(&mut self) {
        if !self.done {
            let mut labels = self.cancelled.0.lock().unwrap_or_else(PoisonError::into_inner);
            labels.push_back(std::mem::take(&mut self.label));
            if labels.len() > 1000 {
                labels.pop_front();
            }
        }
    }
}

/// Computes for a while, and says how far it is.
#[tool(long_running, idempotent)]
async fn slow_compute(
    /// How long.
    seconds: f64,
    /// What to call it.
    label: Option<String>,
    cancelled: State<Cancelled>,
    ctx: Ctx,
) -> String {
    let label = label.unwrap_or_default();
    let mut noted = Noted { label: label.clone(), done: false, cancelled: cancelled.0 };
    let steps = (seconds.clamp(0.0, 3600.0) * 10.0) as u32;
    for step in 0..steps {
        ctx.progress_with(f64::from(step), f64::from(steps), &label);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    noted.done = true;
    format!("{label}: computed for {seconds} seconds")
}

/// Which calls of slow_compute were cancelled.
#[tool(read_only)]
async fn test_cancelled_labels(cancelled: State<Cancelled>) -> Json<Vec<String>> {
    let labels = cancelled.0.0.lock().unwrap_or_else(PoisonError::into_inner);
    Json(labels.iter().cloned().collect())
}

/// Lets the client go, and has its answer ready when it comes back.
#[tool]
async fn test_reconnection(ctx: Ctx) -> &'static str {
    ctx.release(Duration::from_millis(500));
    tokio::time::sleep(Duration::from_millis(100)).await;
    "Reconnection test completed"
}

pub(crate) fn offer(server: Server) -> Server {
    server
        .state(Cancelled::default())
        .tool(slow_compute)
        .tool(test_cancelled_labels)
        .tool(test_reconnection)
}
