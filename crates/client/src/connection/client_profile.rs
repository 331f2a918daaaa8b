//! What a client is like: what it says of itself, what it remembers and how long it waits.

use super::eras::Eras;
use crate::{
    request::{
        cache::Cache,
        change::Change,
        handlers::Handlers,
        known_tools::KnownTools,
        round_trip::{Ids, Options},
    },
    support::deadline::Timeouts,
};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::sync::broadcast;
use zcp_wire::{
    Revision,
    mcp::{capabilities::ClientCapabilities, lifecycle::Implementation, logging::Level},
};

/// Maximum number of changes queued for a listener. Beyond it, it gets one [`Change::All`].
const CHANGES: usize = 256;

/// What a client is like.
pub(crate) struct Settings {
    pub(crate) info: Implementation,
    /// Whether stateless servers are told `info`.
    pub(crate) say_info: bool,
    pub(crate) handlers: Handlers,
    pub(crate) extensions: Map<String, Value>,
    pub(crate) timeouts: Timeouts,
    /// How long a server that has to be started may take to answer the first question.
    pub(crate) probe: Duration,
    /// How often a request may be answered with questions.
    pub(crate) rounds: usize,
    /// The only revision to use; without one it is detected.
    pub(crate) only: Option<Revision>,
    pub(crate) stateless: Revision,
    pub(crate) level: Option<Level>,
    pub(crate) ids: Ids,
    pub(crate) changes: broadcast::Sender<Change>,
    /// Whether calls that go on as tasks are followed.
    pub(crate) tasks: bool,
    pub(crate) eras: Eras,
    pub(crate) cache: Cache,
    pub(crate) tools: KnownTools,
}

impl Settings {
    pub(crate) fn new(info: Implementation) -> Self {
        let timeouts =
            Timeouts { idle: Duration::from_secs(60), total: Duration::from_secs(60 * 60) };
        Self {
            info,
            say_info: true,
            handlers: Handlers::default(),
            extensions: Map::new(),
            timeouts,
            probe: Duration::from_secs(5),
            rounds: 16,
            only: None,
            stateless: Revision::LATEST,
            level: None,
            ids: Ids::default(),
            changes: broadcast::Sender::new(CHANGES),
            tasks: false,
            eras: Eras::default(),
            cache: Cache::default(),
            tools: KnownTools::default(),
        }
    }

    /// What the server is told this side can do, in the handshake of a session or with a request.
    pub(crate) fn capabilities(&self, in_session: bool) -> ClientCapabilities {
        let mut all = self.handlers.answers.capabilities(in_session);
        if !self.extensions.is_empty() {
            all.0.insert("extensions".into(), Value::Object(self.extensions.clone()));
        }
        all
    }

    /// Something changed at the server: what was kept of it is forgotten, and whoever listens is
    /// told.
    pub(crate) fn changed(&self, change: Change) {
        self.forget(&change);
        let _ = self.changes.send(change);
    }

    /// Forgets what may no longer be so.
    pub(crate) fn forget(&self, change: &Change) {
        self.cache.forget(change);
        if matches!(change, Change::Tools | Change::All) {
            self.tools.doubt();
        }
    }

    /// The options of a request that has none of its own.
    pub(crate) fn options(&self) -> Options {
        Options { timeouts: self.timeouts, on_progress: None }
    }
}
