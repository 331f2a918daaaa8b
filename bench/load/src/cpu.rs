//! What the server, this program and the rest of the machine are doing, from /proc.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::{fs, time::Instant};

/// A tick of /proc/stat, in nanoseconds.
const TICK: u64 = 10_000_000;

/// CPU time between two moments.
pub struct Meter {
    server: u32,
    since: Instant,
    start: Times,
}

/// Nanoseconds of CPU time.
struct Times {
    server: u64,
    own: u64,
    machine: u64,
}

/// What was used meanwhile.
pub struct Usage {
    pub seconds: f64,
    server: f64,
    own: f64,
    machine: f64,
}

impl Meter {
    pub fn start(server: u32) -> Self {
        Self { server, start: Times::now(server), since: Instant::now() }
    }

    pub fn stop(&self) -> Usage {
        let seconds = self.since.elapsed().as_secs_f64();
        let now = Times::now(self.server);
        let between = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1e9;
        Usage {
            seconds,
            server: between(self.start.server, now.server),
            own: between(self.start.own, now.own),
            machine: between(self.start.machine, now.machine),
        }
    }
}

impl Usage {
    /// Cores kept busy by neither the server nor this program.
    ///
    /// It may be slightly negative: /proc/stat counts ticks, the rest is exact.
    pub fn other_cores(&self) -> f64 {
        self.cores(self.machine - self.server - self.own)
    }

    fn cores(&self, seconds: f64) -> f64 {
        round(seconds / self.seconds, 3)
    }

    /// Cores kept busy, and the server's microseconds for each of `count` things.
    pub fn report(&self, count: u64) -> Value {
        json!({
            "server_us": round(self.server * 1e6 / count.max(1) as f64, 3),
            "server_cores": self.cores(self.server),
            "loader_cores": self.cores(self.own),
            "other_cores": self.other_cores(),
        })
    }
}

impl Times {
    fn now(server: u32) -> Self {
        Self { server: process(server), own: own(), machine: machine() }
    }
}

/// All threads of this process, also those that ended.
fn own() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// All threads of a process. Those that ended are not counted.
fn process(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let time = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(time).sum()
}

/// All processes together: user, nice, system, irq, softirq and steal time.
fn machine() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().skip(1).flat_map(str::parse).collect();
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|column| ticks.get(*column));
    busy.sum::<u64>() * TICK
}

/// The memory a process holds, in KiB.
pub fn resident_kb(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A number with so many decimals.
pub fn round(number: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (number * scale).round() / scale
}
