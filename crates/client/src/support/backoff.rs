//! Waiting times before something is tried again.

use std::time::Duration;

/// About that time, but not the same for all clients that wait.
pub(crate) fn jittered(time: Duration) -> Duration {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    time.mul_f64(0.75 + f64::from(byte[0]) / 512.0)
}
