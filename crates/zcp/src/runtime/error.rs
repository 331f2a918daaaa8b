//! Why a handler did not finish.

use serde_json::Value;
use std::fmt;
use zcp_wire::RpcError;

/// What handlers return: `?` works on any error.
pub type Result<T, E = CallError> = std::result::Result<T, E>;

/// Why a handler did not finish. `?` makes one of any error; a tool's reaches the model as text.
#[derive(Debug)]
pub enum CallError {
    /// It failed, and this is why.
    Failed(String),
    /// The caller gave something this cannot work with, and this is why.
    Invalid(String),
    /// What was asked for is not there.
    NotFound(String),
    /// It waits for answers. `Ctx::ask` makes this; a handler only passes it on.
    Paused,
    /// It needs a capability this client did not declare. `Ctx::ask` makes this.
    MissingCapability(Value),
    /// The user must visit a page before the call can be made.
    VisitFirst(super::ask::Visit),
    /// An error of the protocol, with a code of the handler's own. A model does not see it.
    Rpc(Box<RpcError>),
    /// The caller may not do this without a scope.
    Denied {
        /// What would be enough.
        scope: String,
    },
}

impl CallError {
    /// A failure with a message for the model.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// What was asked for is not there.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::NotFound(what.to_string())
    }
}

impl<E: std::error::Error> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Invalid(why) => f.write_str(why),
            Self::NotFound(what) => write!(f, "not found: {what}"),
            Self::Paused => f.write_str("waiting for an answer"),
            Self::MissingCapability(required) => {
                write!(f, "this client cannot do what this needs: {required}")
            }
            Self::VisitFirst(visit) => write!(f, "{}: visit {} first", visit.message, visit.page),
            Self::Rpc(error) => f.write_str(&error.message),
            Self::Denied { scope } => write!(f, "not allowed without the scope `{scope}`"),
        }
    }
}
