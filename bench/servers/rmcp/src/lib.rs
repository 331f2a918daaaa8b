//! The rmcp servers of the benchmark: the same tools, served in the usual way or in the fastest.

mod bench;
mod serve;

pub use serve::{run_best, run_default};
