//! What happened, counted: for Prometheus.

use super::call::{Fault, Op, Outcome};
use crate::sync::lock;
use bytestring::ByteString;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge, histogram::Histogram, info::Info},
    registry::Registry,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicI64},
    time::Instant,
};

/// How many there are of something.
pub(crate) type Gauge = gauge::Gauge<i64, AtomicI64>;

type Labels = [(&'static str, &'static str); 2];
type OpLabel = [(&'static str, &'static str); 1];
type Named = [(&'static str, String); 1];
type NamedOutcome = [(&'static str, String); 2];
type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// Tools with numbers of their own. Others are counted together.
const TOOLS: usize = 500;
/// What the others are called.
const OTHER: &str = "other";

fn seconds() -> Histogram {
    Histogram::new([0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
}

/// How an operation may end.
const OUTCOMES: [&str; 5] = ["ok", "error", "refused", "paused", "cancelled"];
const CANCELLED: usize = 4;

/// The counters of one runtime.
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<Labels, Counter>,
    /// The counters of `calls` that were used, where they are found without hashing their labels.
    known: [[OnceLock<Counter>; OUTCOMES.len()]; Op::LABELS.len()],
    seconds: Seconds<OpLabel>,
    /// The histograms of `seconds` that were used.
    known_seconds: [OnceLock<Histogram>; Op::LABELS.len()],
    tools: Tools,
    running: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) store: Gauge,
    mounts: Family<Named, Gauge>,
}

/// The numbers of each tool.
struct Tools {
    calls: Family<NamedOutcome, Counter>,
    seconds: Seconds<Named>,
    // A std mutex: never held across an await.
    known: Mutex<HashMap<ByteString, Arc<ToolNumbers>, foldhash::fast::RandomState>>,
}

struct ToolNumbers {
    name: String,
    calls: [OnceLock<Counter>; OUTCOMES.len()],
    seconds: Histogram,
}

impl Tools {
    /// The numbers of a tool; none of one that is not there.
    fn find(&self, name: &ByteString, is_there: impl FnOnce() -> bool) -> Option<Arc<ToolNumbers>> {
        let known = lock(&self.known);
        let (found, is_full) = (known.get(name).cloned(), known.len() >= TOOLS);
        drop(known);
        if found.is_some() || !is_there() {
            return found;
        }
        // A text of its own: this one is a part of a message.
        let key = ByteString::from(if is_full { OTHER } else { name });
        let labels = [("tool", key.to_string())];
        let seconds = self.seconds.get_or_create(&labels).clone();
        let numbers = ToolNumbers { name: key.to_string(), calls: Default::default(), seconds };
        Some(lock(&self.known).entry(key).or_insert_with(|| Arc::new(numbers)).clone())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let tools = Tools {
            calls: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            known: Mutex::default(),
        };
        let mut all = Self {
            registry: Registry::with_prefix("zcp"),
            calls: Family::default(),
            known: Default::default(),
            seconds: Family::new_with_constructor(seconds),
            known_seconds: Default::default(),
            tools,
            running: Gauge::default(),
            sessions: Gauge::default(),
            streams: Gauge::default(),
            connections: Gauge::default(),
            store: Gauge::default(),
            mounts: Family::default(),
        };
        // Until it is found to be away.
        all.store.set(1);
        let registry = &mut all.registry;
        registry.register("calls", "Operations that ended, by how", all.calls.clone());
        registry.register("call_seconds", "How long operations took", all.seconds.clone());
        let tools = &all.tools;
        registry.register("tool_calls", "Calls of tools, by how they ended", tools.calls.clone());
        registry.register("tool_seconds", "How long calls of tools took", tools.seconds.clone());
        registry.register("calls_running", "Operations under way", all.running.clone());
        registry.register("sessions", "Open sessions", all.sessions.clone());
        registry.register("streams", "Open event streams", all.streams.clone());
        registry.register("connections", "Open connections", all.connections.clone());
        registry.register("store_up", "Whether the store is there", all.store.clone());
        registry.register("mount_up", "Whether a mounted server is there", all.mounts.clone());
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of zcp", version);
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

    /// Notes which mounted servers are there.
    pub(crate) fn mounted(&self, name: String, is_up: bool) {
        self.mounts.get_or_create(&[("mount", name)]).set(is_up.into());
    }

    /// An operation begins; it is counted when it ends, or was given up when this is dropped.
    pub(crate) fn begin(&self, op: &Op, has_tool: impl FnOnce(&str) -> bool) -> Timing<'_> {
        self.running.inc();
        let tool = match op {
            Op::CallTool { name, .. } => self.tools.find(name, || has_tool(name)),
            _ => None,
        };
        let (op, began) = (op.kind(), Instant::now());
        Timing { metrics: self, op, tool, began, outcome: CANCELLED }
    }
}

/// An operation under way.
pub(crate) struct Timing<'a> {
    metrics: &'a Metrics,
    op: usize,
    tool: Option<Arc<ToolNumbers>>,
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
        let Self { metrics, op, began, outcome, .. } = *self;
        let took = began.elapsed().as_secs_f64();
        let labels = [("op", Op::LABELS[op]), ("outcome", OUTCOMES[outcome])];
        let count = || metrics.calls.get_or_create(&labels).clone();
        metrics.known[op][outcome].get_or_init(count).inc();
        let labels = [("op", Op::LABELS[op])];
        let seconds = || metrics.seconds.get_or_create(&labels).clone();
        metrics.known_seconds[op].get_or_init(seconds).observe(took);
        if let Some(tool) = &self.tool {
            let labels = || [("tool", tool.name.clone()), ("outcome", OUTCOMES[outcome].into())];
            let count = || metrics.tools.calls.get_or_create(&labels()).clone();
            tool.calls[outcome].get_or_init(count).inc();
            tool.seconds.observe(took);
        }
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
