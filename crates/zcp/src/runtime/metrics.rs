//! What happened, counted: for Prometheus.

use super::call::{Fault, Op, Outcome};
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge, histogram::Histogram},
    registry::Registry,
};
use std::{
    fmt,
    sync::{Arc, OnceLock, atomic::AtomicI64},
    time::Instant,
};

/// How many there are of something.
pub(crate) type Gauge = gauge::Gauge<i64, AtomicI64>;

type Labels = [(&'static str, &'static str); 2];

/// How an operation may end.
const OUTCOMES: [&str; 5] = ["ok", "error", "refused", "paused", "cancelled"];
const CANCELLED: usize = 4;

/// The counters of one runtime.
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<Labels, Counter>,
    /// The counters of `calls` that were used, where they are found without hashing their labels.
    known: [[OnceLock<Counter>; OUTCOMES.len()]; Op::LABELS.len()],
    seconds: Histogram,
    running: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) connections: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0];
        let mut all = Self {
            registry: Registry::with_prefix("zcp"),
            calls: Family::default(),
            known: Default::default(),
            seconds: Histogram::new(buckets),
            running: Gauge::default(),
            sessions: Gauge::default(),
            streams: Gauge::default(),
            connections: Gauge::default(),
        };
        let registry = &mut all.registry;
        registry.register("calls", "Operations that ended, by how", all.calls.clone());
        registry.register("call_seconds", "How long operations took", all.seconds.clone());
        registry.register("calls_running", "Operations under way", all.running.clone());
        registry.register("sessions", "Open sessions", all.sessions.clone());
        registry.register("streams", "Open event streams", all.streams.clone());
        registry.register("connections", "Open connections", all.connections.clone());
        all
    }
}

impl Metrics {
    /// The text Prometheus reads.
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }

    /// An operation begins; it is counted when it ends, or was given up when this is dropped.
    pub(crate) fn begin(&self, op: &Op) -> Timing<'_> {
        self.running.inc();
        Timing { metrics: self, op: op.kind(), began: Instant::now(), outcome: CANCELLED }
    }
}

/// An operation under way.
pub(crate) struct Timing<'a> {
    metrics: &'a Metrics,
    op: usize,
    began: Instant,
    outcome: usize,
}

impl Timing<'_> {
    pub(crate) fn end(mut self, outcome: &Outcome) {
        self.outcome = match outcome {
            Outcome::Tool(output) if output.is_error => 1,
            Outcome::Paused => 3,
            Outcome::Fault(Fault::Failed(_)) => 1,
            Outcome::Fault(_) => 2,
            _ => 0,
        };
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        let Self { metrics, op, began, outcome } = *self;
        let labels = [("op", Op::LABELS[op]), ("outcome", OUTCOMES[outcome])];
        let count = || metrics.calls.get_or_create(&labels).clone();
        metrics.known[op][outcome].get_or_init(count).inc();
        metrics.seconds.observe(began.elapsed().as_secs_f64());
        metrics.running.dec();
    }
}

/// Counts one for as long as it lives.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Arc<Self> {
        gauge.inc();
        Arc::new(Self(gauge.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}
