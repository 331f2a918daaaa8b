//! What is said on the wire: frames, revisions, messages, and the one trait both ends share.
//! No I/O, no tasks, no clock.
//!
//! With the specification open, the file name is the page name: [`mcp`] has one module a page,
//! [`downgrade`] one file a revision.

pub mod address;
pub mod downgrade;
pub mod error;
pub mod frame;
pub mod header;
pub mod id;
pub mod json;
pub mod line;
pub mod mcp;
pub mod message;
pub mod meta;
pub mod method;
pub mod mirror;
pub mod params;
pub mod peer;
pub mod pending;
pub mod revision;
pub mod sse;
pub mod status;
#[doc(hidden)]
pub mod sync;

pub use bytestring::ByteString;
pub use error::RpcError;
pub use frame::{Frame, Malformed, Notification, Request, Response, ResultText};
pub use id::Id;
pub use message::{Batch, Message};
pub use method::{Method, MethodName};
pub use peer::{Frames, Peer};
pub use revision::Revision;
