//! Commands that reach a server as a client does.

pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod describe;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod ping;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod result;
pub(crate) mod tool_line;
