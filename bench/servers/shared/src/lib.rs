//! What every Rust server of the benchmark needs.

mod tools;
mod wire;

pub use tools::{filler_tools, tool_count};
pub use wire::{Mode, Wire};

use std::io;
use tokio::runtime::{Builder, Runtime};

/// The runtime a server is compared on: one thread.
pub fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
