//! Who calls, and what is decided about a call.

use crate::rule_limits::RuleLimits;
use std::sync::Arc;
use zcp::{Ctx, Principal, wire::mcp::tools::Tool};

/// How much is remembered of what a client calls itself.
const LONGEST_NAME: usize = 256;

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// What its client calls itself; empty if it does not say.
    pub(crate) client: String,
    pub(crate) principal: Principal,
}

impl Caller {
    /// Whoever made a call.
    pub(crate) fn of(ctx: &Ctx) -> Self {
        let client = ctx.client_info().map(|info| info.name).unwrap_or_default();
        let client = client.chars().take(LONGEST_NAME).collect();
        Self { client, principal: ctx.principal().clone() }
    }
}

/// What a policy says of a call.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) action: Action,
    /// What decided.
    pub(crate) rule: String,
    /// In the operator's words.
    pub(crate) message: Option<String>,
    /// How often, and how many at a time.
    pub(crate) limits: Option<Arc<RuleLimits>>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    Deny,
    /// If the user says yes.
    Ask,
}

/// Whether a tool can be called at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By somebody, with some arguments.
    Callable,
    /// By nobody. Callers are told why.
    Denied,
    /// By nobody. Callers are told that there is no such tool.
    Hidden,
}

/// An argument's name as policies compare names: letters are upper case, everything else but digits
/// is `_`. Scripts get arguments as variables of these names, where `Path` and `path` are one.
pub fn argument_key(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(upper).collect()
}

/// Whether a tool says that it changes nothing.
pub(crate) fn is_read_only(tool: &Tool) -> bool {
    tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint == Some(true))
}
