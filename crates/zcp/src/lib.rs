#![doc = include_str!("docs/crate.md")]
// What a part uses that is not built is unused without it.
#![cfg_attr(
    not(all(
        feature = "http",
        feature = "ws",
        feature = "metrics",
        feature = "sqlite",
        feature = "redis"
    )),
    allow(dead_code, unused_imports)
)]

mod auth;
mod clock;
pub mod operate;
mod protocol;
mod runtime;
mod seal;
mod server;
mod shares;
mod shutdown;
pub mod store;
mod sync;
mod transport;

pub use ::http;
pub use auth::{Caller, PeerAddress, Principal, Scopes, View};
pub use protocol::mcp::Mcp;
pub use runtime::{
    Runtime, Service,
    ask::{Answer, Visit},
    call::{Call, Complete, Fault, ListKind, Listing, Offered, Op, Outcome},
    catalog::Catalog,
    changes::Change,
    complete::{Completer, Typed},
    ctx::Ctx,
    error::{CallError, Result},
    extract::{Args, FromCall, State, Uri},
    gate::{Gate, GatedCall, Notes},
    handler::Handler,
    input::Input,
    layer,
    offer::IntoOffer,
    output::{IntoOutput, Json, Output},
    prompt::{IntoPrompt, Prompt},
    provider::{Live, Provider},
    rate::RateLimit,
    resource::{Contents, IntoContents, Resource},
    roots::RootChanges,
    signature::Signature,
    skill::Skill,
    tasks::{End, Task, TaskOp, Tasks},
    template::{TemplateError, UriTemplate},
    tool::Tool,
};
pub use schemars;
pub use seal::KeyRing;
pub use server::{Error, Server};
pub use shutdown::shutdown_signal;
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "http")]
pub use transport::http::{Endpoint, Http};
pub use transport::{
    Transport,
    stdio::{Pipe, Stdio},
};
#[cfg(feature = "macros")]
pub use zcp_macros::{prompt, resource, tool};
pub use zcp_wire as wire;
pub use zcp_wire::mcp::{
    CacheScope,
    content::{Annotations, Content, ResourceContents, Role},
    lifecycle::Icon,
    logging::Level,
    prompts::PromptMessage,
    sampling::{CreateMessage, SamplingMessage},
};

/// What the macros write.
#[doc(hidden)]
pub mod __private {
    pub use crate::runtime::{
        extract::{describe, take},
        offer::{Described, Offers},
    };
}

/// A name nobody can guess: 192 random bits as text.
pub fn random_name() -> String {
    token()
}

pub(crate) fn token() -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.encode(seal::random::<24>())
}
