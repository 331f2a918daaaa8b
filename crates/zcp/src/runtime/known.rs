//! What is known of a call before it runs.

use super::{
    Runtime,
    ctx::Conversation,
    stop::{Release, Stop},
    tasks::Wish,
};
use crate::auth::Caller;
use bytestring::ByteString;
use http::Extensions;
use std::{
    any::Any,
    fmt,
    sync::{Arc, atomic::AtomicBool},
};
use tokio::sync::Notify;
use zcp_wire::{
    mcp::{capabilities::ClientCapabilities, lifecycle::Implementation},
    meta::Trace,
};

/// What is known of a call before it runs.
pub(crate) struct About {
    /// Who calls.
    pub caller: Caller,
    /// The conversation that the call is part of, if it is part of one.
    pub(crate) conversation: Option<Arc<dyn Conversation>>,
    /// What the caller's client can do.
    pub client: Arc<ClientCapabilities>,
    /// Who its client said it is when the conversation began.
    pub client_info: Option<Arc<Implementation>>,
    /// The trace the call is part of.
    pub trace: Option<Box<Trace>>,
    /// JSON text of the request's parameters.
    pub params: Option<ByteString>,
    /// Whether the call was stopped.
    pub stop: Stop,
    /// What the wire and its layers left for the call.
    pub extensions: Arc<Extensions>,
    /// How the wire is told to let the client go, where it can.
    pub(crate) release: Option<Release>,
    /// What its caller thinks of tasks.
    pub task: Wish,
    /// How the call says that nobody needs to wait for it, where it may.
    pub(crate) detach: Option<Arc<Notify>>,
    /// Rate limits have counted the message: what else is decided about it is not counted again.
    pub(crate) is_counted: AtomicBool,
    /// What runs the call.
    pub runtime: Runtime,
}

impl About {
    /// Nothing is known.
    pub(crate) fn of(runtime: Runtime) -> Self {
        Self {
            caller: Caller::ANONYMOUS,
            conversation: None,
            client: Arc::default(),
            client_info: None,
            trace: None,
            params: None,
            stop: Stop::default(),
            extensions: Arc::default(),
            release: None,
            task: Wish::default(),
            detach: None,
            is_counted: AtomicBool::new(false),
            runtime,
        }
    }

    /// The same, for work that does not stop with the call.
    pub(crate) fn beside(&self) -> Self {
        Self {
            caller: self.caller.clone(),
            conversation: self.conversation.clone(),
            client: self.client.clone(),
            client_info: self.client_info.clone(),
            trace: self.trace.clone(),
            params: self.params.as_ref().and_then(|params| self.detached(params, MAX_PARAMS)),
            extensions: self.without_room(),
            ..Self::of(self.runtime.clone())
        }
    }

    /// A part of the call's message for work that does not stop with the call: copied if the
    /// message is large, so that the rest of it is not kept. None if it has more bytes than `most`.
    pub(crate) fn detached(&self, part: &ByteString, most: usize) -> Option<ByteString> {
        match self.extensions.get::<Room>().is_some() {
            false => Some(part.clone()),
            true => (part.len() <= most).then(|| ByteString::from(&**part)),
        }
    }

    fn without_room(&self) -> Arc<Extensions> {
        if self.extensions.get::<Room>().is_none() {
            return self.extensions.clone();
        }
        let mut rest = Extensions::clone(&self.extensions);
        rest.remove::<Room>();
        Arc::new(rest)
    }
}

/// Bytes of a large message's parameters that [`Ctx::params`](crate::Ctx::params) gives in a task.
const MAX_PARAMS: usize = 64 * 1024;

/// The room that a call's message takes of the transport's limits, for as long as this is in the
/// call's extensions.
#[derive(Clone)]
pub(crate) struct Room(
    #[expect(dead_code, reason = "it is held")] pub(crate) Arc<dyn Any + Send + Sync>,
);

impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("About").field("caller", &self.caller).finish_non_exhaustive()
    }
}
