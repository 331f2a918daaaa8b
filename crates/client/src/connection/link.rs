//! An open link to a server, and who is at its other end.

use super::{client_profile::Settings, dialect::Dialect};
use crate::{
    error::Result,
    request::round_trip::{Options, RoundTrip},
    transport::{Fate, Headers, Opened},
};
use ::http::Extensions;
use serde_json::{Map, Value};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use zcp_wire::{
    Method, MethodName, Peer, Revision,
    mcp::{capabilities::ServerCapabilities, lifecycle::Implementation},
};

/// Who is at the other end. Names are for display only.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Server {
    /// What is spoken.
    pub revision: Revision,
    /// Who it says it is.
    pub info: Option<Implementation>,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
}

impl Server {
    /// Whether a method is one of the revision that is spoken.
    pub(crate) fn has(&self, method: Method) -> bool {
        method.is_in(self.revision)
    }
}

/// An open link to a server, and what is spoken on it. It is closed when this is dropped.
pub(crate) struct Link {
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) opened: Opened,
    pub(crate) server: Server,
    pub(crate) dialect: Box<dyn Dialect>,
    lost: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn new(
        opened: Opened,
        server: Server,
        dialect: Box<dyn Dialect>,
        lost: Arc<AtomicBool>,
    ) -> Self {
        Self { peer: opened.peer.clone(), opened, server, dialect, lost }
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends one request, and waits for its answer.
    pub(super) async fn send(
        &self,
        settings: &Settings,
        method: &MethodName,
        mut params: Map<String, Value>,
        options: &Options,
        fate: &Fate,
    ) -> Result<Map<String, Value>> {
        let id = settings.ids.next();
        let headers = self.dialect.prepare(settings, method, &mut params, &id);
        let mut extensions = Extensions::new();
        extensions.insert(Headers(headers));
        let round_trip = RoundTrip {
            handlers: &settings.handlers,
            peer: &*self.peer,
            questions: self.dialect.questions(),
            options,
            fate,
        };
        round_trip.send(id, method.clone(), &params, extensions).await
    }
}
