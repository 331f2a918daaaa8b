//! The era of `initialize` and sessions, until 2025-11-25.

use super::{Dialect, Recovery, TaskDesign, meta_of, version_header};
use crate::{
    connection::{Connection, changes::Changes, client_profile::Settings, subscribe},
    error::{Error, Failure, Result},
    transport::Fate,
};
use ::http::HeaderMap;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::sync::Arc;
use zcp_wire::{
    Id, MethodName, Revision,
    mcp::{subscriptions::Filter, tools::Tool},
    mirror::{self, Mirrored},
    revision::Questions,
    status,
};

/// A revision that is spoken in sessions.
pub(in crate::connection) struct Handshake {
    pub(in crate::connection) revision: Revision,
}

impl Dialect for Handshake {
    fn prepare(
        &self,
        _: &Settings,
        _: &MethodName,
        params: &mut Map<String, Value>,
        id: &Id,
    ) -> HeaderMap {
        meta_of(params, id);
        version_header(self.revision)
    }

    fn questions(&self) -> Questions {
        Questions::AsRequests
    }

    /// No request sends them, so a mistake in them does no harm.
    fn header_arguments(&self, tool: &Tool) -> Result<Vec<Mirrored>, String> {
        Ok(mirror::find(&tool.input_schema).unwrap_or_default())
    }

    fn recovery(&self, _: &Error, fate: &Fate) -> Option<Recovery> {
        let status = fate.get().and_then(Failure::status);
        (status == Some(status::NO_SESSION.as_u16())).then_some(Recovery::Reopen)
    }

    fn listen(
        &self,
        connection: Arc<Connection>,
        filter: Filter,
    ) -> BoxFuture<'static, Result<Changes>> {
        Box::pin(subscribe::open(connection, filter))
    }

    fn tasks(&self) -> TaskDesign {
        TaskDesign::Requested
    }
}
