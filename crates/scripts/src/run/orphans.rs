//! Orphans: the first process of a container is made the parent of every process whose own parent has
//! ended, and nobody else reaps those when they end.

use super::proc_stat::{Identity, own_id, processes};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tokio::signal::unix::{SignalKind, signal};

/// What started a process reaps it at once. One that is still there after this has nobody.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// Reaps orphans for as long as this is polled, if this is the first process of a container.
pub(crate) async fn reap() {
    if own_id() != 1 {
        return;
    }
    let mut ended = match signal(SignalKind::child()) {
        Ok(ended) => ended,
        Err(error) => {
            tracing::warn!("processes that ended may stay in the list of processes: {error}");
            return;
        }
    };
    let mut dead = HashMap::new();
    while ended.recv().await.is_some() {
        loop {
            tokio::time::sleep(LOOK).await;
            let known = std::mem::take(&mut dead);
            match tokio::task::spawn_blocking(move || looked(&known)).await {
                Ok(left) => dead = left,
                Err(_) => return,
            }
            if dead.is_empty() {
                break;
            }
        }
    }
}

/// Looks at all dead children once, and reaps those that were dead long ago. Gives the others, with
/// the time they were first seen.
fn looked(known: &HashMap<Identity, Instant>) -> HashMap<Identity, Instant> {
    let own = own_id();
    let mut left = HashMap::new();
    for process in processes().into_iter().filter(|one| one.is_dead && one.parent == own) {
        let since = known.get(&process.identity()).copied().unwrap_or_else(Instant::now);
        let Some(id) = Pid::from_raw(process.id).filter(|_| since.elapsed() >= PATIENCE) else {
            left.insert(process.identity(), since);
            continue;
        };
        let _ = waitpid(Some(id), WaitOptions::NOHANG);
    }
    left
}
