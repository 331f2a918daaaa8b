//! What differs between the two eras, as one trait with an implementation for each. It is chosen
//! when a connection is opened; all other code uses the connection's `Dialect`.

mod handshake;
mod stateless;

pub(super) use handshake::Handshake;
pub(super) use stateless::Stateless;

use super::{Connection, changes::Changes, client_profile::Settings};
use crate::{
    error::{Error, Result},
    transport::Fate,
};
use ::http::{HeaderMap, HeaderValue};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use zcp_wire::{
    Id, MethodName, Revision, header,
    mcp::{subscriptions::Filter, tools::Tool},
    mirror::Mirrored,
    revision::{Era, Questions},
};

/// How one era does what both can do.
pub(crate) trait Dialect: Send + Sync {
    /// Writes a request's `_meta`, and gives its headers.
    fn prepare(
        &self,
        settings: &Settings,
        method: &MethodName,
        params: &mut Map<String, Value>,
        id: &Id,
    ) -> HeaderMap;

    /// How the server asks for input.
    fn questions(&self) -> Questions;

    /// The arguments of a tool that are sent as headers too; an error if nobody can send them.
    fn header_arguments(&self, tool: &Tool) -> Result<Vec<Mirrored>, String>;

    /// What makes a request that failed worth sending again.
    fn recovery(&self, error: &Error, fate: &Fate) -> Option<Recovery>;

    /// Follows what changes at the server.
    fn listen(
        &self,
        connection: Arc<Connection>,
        filter: Filter,
    ) -> BoxFuture<'static, Result<Changes>>;

    /// Who makes a call a task, and where its result is.
    fn tasks(&self) -> TaskDesign;
}

/// What makes a request that failed worth sending again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// A new session: the server does not know this one, and has not looked at the request.
    Reopen,
    /// A new list of tools: what is known of the tool's headers is out of date.
    ListTools,
}

/// The two designs of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskDesign {
    /// The client asks for a task, and waits for its result with `tasks/result`.
    Requested,
    /// The server makes a call a task. Its state holds its questions and its result.
    Decided,
}

/// The dialect of a revision.
pub(super) fn of(revision: Revision) -> Box<dyn Dialect> {
    match revision.era() {
        Era::Handshake => Box::new(Handshake { revision }),
        Era::Stateless => Box::new(Stateless { revision }),
    }
}

/// The header that every request of a revision has.
pub(super) fn version_header(revision: Revision) -> HeaderMap {
    let version = HeaderValue::from_static(revision.as_str());
    HeaderMap::from_iter([(header::PROTOCOL_VERSION.clone(), version)])
}

/// The `_meta` of a request. Its progress is reported under its id.
fn meta_of<'a>(params: &'a mut Map<String, Value>, id: &Id) -> Option<&'a mut Map<String, Value>> {
    let meta = params.entry("_meta").or_insert_with(|| json!({})).as_object_mut()?;
    meta.insert("progressToken".into(), json!(id));
    Some(meta)
}
