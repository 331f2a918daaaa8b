//! Why something did not work, for whoever can do something about it.

use std::{fmt, time::Duration};
use zcp_wire::{
    RpcError,
    error::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND},
    mcp::tools::CallToolResult,
    status,
};

/// Why something did not work.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The server refused, and says why.
    Refused(RpcError),
    /// The tool ran and failed; what it says is for the model.
    Tool(Box<CallToolResult>),
    /// The server could not be reached, or went away.
    Lost(Failure),
    /// It took too long.
    Late(Late),
    /// The server said something the protocol does not allow.
    Invalid(String),
    /// The server wants something this client was not made for.
    Unable(String),
}

/// How long was waited, for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Late {
    /// The time that was given.
    pub after: Duration,
    /// What is known of the other side.
    pub about: Option<String>,
}

/// What a result comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request got no message for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The other side is not there, or no longer; what is known of it.
    Gone(String),
    /// It answered with a status, and not with a message.
    Status {
        /// Of HTTP.
        status: u16,
        /// What came with it, cut to a length for people.
        text: String,
    },
    /// The connection was lost before the other side confirmed that it has the request, which it may
    /// have carried out. The conversation goes on.
    Unconfirmed(String),
    /// It wants a token, and none could be had; why not.
    Denied(String),
    /// It answered, and the answer is over a limit of this client: which one. The connection is
    /// kept, and sending the request again would not help.
    TooLong(String),
}

impl Failure {
    /// The status, if that was the answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Gone(_) | Self::Unconfirmed(_) | Self::Denied(_) | Self::TooLong(_) => None,
        }
    }

    /// Whether the same request may be answered later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Gone(_) | Self::Unconfirmed(_) => true,
            Self::Status { status, .. } => status::may_pass(*status),
            Self::Denied(_) | Self::TooLong(_) => false,
        }
    }
}

impl Error {
    /// The code the server refused with.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Refused(error) => Some(error.code),
            _ => None,
        }
    }

    /// Whether what was asked for is not there: resources have had two codes for that.
    pub fn is_not_found(&self) -> bool {
        matches!(self.code(), Some(RESOURCE_NOT_FOUND | INVALID_PARAMS | METHOD_NOT_FOUND))
    }

    pub(crate) fn invalid(why: impl fmt::Display) -> Self {
        Self::Invalid(why.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the server refused: {error}"),
            Self::Tool(result) => write!(f, "the tool failed: {}", text_of(result)),
            Self::Lost(failure) => failure.fmt(f),
            Self::Late(Late { after, about: None }) => write!(f, "no answer within {after:?}"),
            Self::Late(Late { after, about: Some(about) }) => {
                write!(f, "no answer within {after:?}: {about}")
            }
            Self::Invalid(why) => write!(f, "the server does not keep to the protocol: {why}"),
            Self::Unable(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) | Self::Unconfirmed(why) | Self::TooLong(why) => f.write_str(why),
            Self::Denied(why) => write!(f, "not authorized: {why}"),
            Self::Status { status: 401, .. } => {
                f.write_str("the server wants a token: show one in an `Authorization` header")
            }
            Self::Status { status, text } if text.is_empty() => {
                write!(f, "the server answered with status {status}")
            }
            Self::Status { status, text } => {
                write!(f, "the server answered with status {status}: {text}")
            }
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

/// The words of a result.
pub(crate) fn text_of(result: &CallToolResult) -> String {
    let words = result.content.iter().filter_map(|content| content.as_text());
    words.collect::<Vec<_>>().join("\n")
}
