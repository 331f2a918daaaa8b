//! What else decides about calls, beside the rules: a program of a project, say.

use futures_util::future::BoxFuture;
use std::fmt;
use zcp::{
    Ctx,
    wire::{RpcError, mcp::tools::Tool},
};

/// Decides about calls that the rules do not deny.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Decides about a call of a tool, which is described as clients see it.
    fn judge<'a>(&'a self, tool: &'a Tool, ctx: &'a Ctx) -> BoxFuture<'a, Judged>;

    /// What decides, as the audit log names it.
    fn name(&self) -> &str;
}

/// What a [`Judge`] decided.
#[derive(Debug)]
#[non_exhaustive]
pub enum Judged {
    /// The call may be made.
    Allowed,
    /// It may not, with words for the model.
    Denied(String),
    /// It may not, with an error of its own for the client.
    Refused(Box<RpcError>),
}
