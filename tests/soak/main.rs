//! What must not grow without end, and what must not be lost however long it takes. Slow, so it has a
//! part of its own: `./test soak`.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

mod clients;
mod growth;
mod heard;
mod thousand;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What this process holds, in KiB: not what its allocator keeps for later.
fn held() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated.saturating_sub(stats.bytes_deallocated) / 1024) as u64
}
