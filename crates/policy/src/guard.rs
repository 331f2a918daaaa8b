//! The gate that enforces a policy, and whoever is told of calls.

use crate::{
    decision::{Reach, is_read_only},
    guarded_call::Record,
    observed::Observed,
    policy::Policy,
    told::{Told, is_logged},
};
use futures_util::{FutureExt, future::BoxFuture};
use std::sync::{Arc, Mutex};
use tokio::sync::{broadcast, watch};
use zcp::{Gate, GatedCall, Output, Result, wire::mcp::tools::Tool, wire::sync::lock};

/// Enforces a [`Policy`] in front of a server's tools: `Server::gate(guard)`. Cheap to clone; all
/// clones enforce the same policy and write the same audit log.
///
/// Each call is also an event of `tracing` at the info level, with the target `zcp::calls`.
#[derive(Debug, Clone)]
pub struct Guard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    policy: Mutex<Arc<Policy>>,
    version: watch::Sender<u64>,
    told: Arc<Told>,
}

impl Default for Guard {
    /// Allows everything, until it is [set](Guard::set) to something else.
    fn default() -> Self {
        Self::new(Policy::default())
    }
}

impl Guard {
    /// Enforces a policy.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(Shared {
            policy: Mutex::new(Arc::new(policy)),
            version: watch::Sender::new(0),
            told: Arc::default(),
        }))
    }

    /// Enforces another policy from now on. Clients are told if their tools change. Limits of rules
    /// go on counting if the rules are the same.
    pub fn set(&self, policy: Policy) {
        let mut current = lock(&self.0.policy);
        *current = Arc::new(policy.continuing(&current));
        drop(current);
        self.0.version.send_modify(|version| *version += 1);
    }

    /// Returns the policy now.
    pub fn policy(&self) -> Arc<Policy> {
        lock(&self.0.policy).clone()
    }

    /// Returns every call from now on, as it ends. Whoever does not keep up misses the oldest;
    /// while nobody looks on, it costs nothing.
    pub fn observe(&self) -> broadcast::Receiver<Arc<Observed>> {
        self.0.told.calls.subscribe()
    }

    /// Waits until the audit log is written to its end, for at most five seconds. For when the
    /// server has stopped.
    pub async fn close(&self) {
        self.0.told.log.close().await;
    }
}

impl Gate for Guard {
    fn offers(&self, tool: &Tool) -> bool {
        self.policy().reach(&tool.name, is_read_only(tool)) == Reach::Callable
    }

    fn call(self: Arc<Self>, call: GatedCall) -> BoxFuture<'static, Result<Output>> {
        let policy = self.policy();
        match policy.is_set() || self.0.told.is_observed() || is_logged() {
            true => Record::new(self.0.told.clone(), policy, &call).make(call).boxed(),
            false => call.run().boxed(),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }
}
