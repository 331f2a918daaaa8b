//! Why a handler did not finish.

use serde_json::Value;
use std::{error::Error, fmt};
use zcp_wire::RpcError;

/// What handlers return. `?` works on any error: see [`CallError`].
pub type Result<T, E = CallError> = std::result::Result<T, E>;

/// Why a handler did not finish.
///
/// `?` converts everything that is `Into<Box<dyn Error + Send + Sync>>`: types that implement
/// [`std::error::Error`], `Box<dyn Error + Send + Sync>`, `anyhow::Error`, and text. Such an error
/// is [internal](Self::Internal): the model and the client are told that the call failed, and the
/// error with its sources is logged by `tracing` at the error level. Errors that the model should
/// read are made with [`CallError::new`], or of an internal one with [`expose`](Self::expose).
///
/// ```
/// use zcp::{CallError, Result};
///
/// fn port(text: &str) -> Result<u16> {
///     let port: u16 = text.parse().map_err(CallError::new)?; // the model reads why
///     let used = std::fs::read_to_string("/var/lib/ports")?; // the log says why
///     if used.lines().any(|used| used == text) {
///         return Err(CallError::new(format!("port {port} is taken: choose another")));
///     }
///     Ok(port)
/// }
/// # let _ = port("0");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// It failed, and this is why: text for the model.
    Failed(String),
    /// It failed, and why is for the log only. `?` makes this.
    Internal(Box<dyn Error + Send + Sync>),
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
    /// Creates a failure with a message for the model.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// Shows the text of an internal error to the model, without its sources. Leaves other errors
    /// as they are.
    #[must_use]
    pub fn expose(self) -> Self {
        match self {
            Self::Internal(error) => Self::Failed(error.to_string()),
            other => other,
        }
    }

    /// What was asked for is not there.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::NotFound(what.to_string())
    }
}

// Not `E: Error`: neither `Box<dyn Error>` nor `anyhow::Error` is one. `CallError` itself must not
// become one either, or this would overlap with `From<T> for T`.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::Internal(error.into())
    }
}

/// An error and what caused it, in one line.
pub(crate) fn with_sources(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Invalid(why) => f.write_str(why),
            Self::Internal(error) => error.fmt(f),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outer")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn every_kind_of_error_can_be_passed_on() {
        fn any<E>(error: E) -> Result<()>
        where
            CallError: From<E>,
        {
            Err(error)?
        }
        let boxed: Box<dyn Error + Send + Sync> = "boxed".into();
        for failed in [any(io::Error::other("io")), any(boxed), any("text"), any("a".to_owned())] {
            assert!(matches!(failed, Err(CallError::Internal(_))));
        }
        assert!(matches!(any(CallError::not_found("it")), Err(CallError::NotFound(_))));
    }

    #[test]
    fn an_exposed_error_is_text_for_the_model() {
        let error = CallError::from(Outer(io::Error::other("inner")));
        assert!(matches!(error.expose(), CallError::Failed(text) if text == "outer"));
    }

    #[test]
    fn the_log_names_all_causes() {
        assert_eq!(with_sources(&Outer(io::Error::other("inner"))), "outer: inner");
    }
}
