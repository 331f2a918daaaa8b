//! Tools that take their time: with progress, cancelled, or fetched later.

use schemars::JsonSchema;
use serde::Serialize;
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

/// How often calls with a label were started, and how many of them are running.
#[derive(Clone, Copy, Default, JsonSchema, Serialize)]
struct Counts {
    started: u32,
    running: u32,
}

/// The counts of the labels that were started last.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<VecDeque<(String, Counts)>>>);

impl Runs {
    /// Counts a call as started, and as running until the guard is dropped.
    fn begin(&self, label: &str) -> Running {
        self.change(label, |counts| {
            counts.started += 1;
            counts.running += 1;
        });
        Running { label: label.into(), runs: self.clone() }
    }

    fn change(&self, label: &str, change: impl FnOnce(&mut Counts)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counts)) = all.iter_mut().find(|(known, _)| known == label) {
            return change(counts);
        }
        let mut counts = Counts::default();
        change(&mut counts);
        all.push_back((label.into(), counts));
        if all.len() > 1000 {
            all.pop_front();
        }
    }

    fn counts(&self, label: &str) -> Counts {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|(known, _)| known == label);
        known.map(|(_, counts)| *counts).unwrap_or_default()
    }
}

/// A call that is running.
struct Running {
    label: String,
    runs: Runs,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runs.change(&self.label, |counts| counts.running = counts.running.saturating_sub(1));
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
    runs: State<Runs>,
    ctx: Ctx,
) -> String {
    let label = label.unwrap_or_default();
    let _running = runs.0.begin(&label);
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

/// How often slow_compute was started with a label, and how many of those calls are running.
#[tool(read_only)]
async fn test_runs(
    /// The label of the calls.
    label: String,
    runs: State<Runs>,
) -> Json<Counts> {
    Json(runs.0.counts(&label))
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
        .state(Runs::default())
        .tool(slow_compute)
        .tool(test_cancelled_labels)
        .tool(test_runs)
        .tool(test_reconnection)
}
