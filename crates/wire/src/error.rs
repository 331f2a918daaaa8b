//! The error object of a response, and the table of codes MCP uses.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The body is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a message this side may receive.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method in this revision, or it is not offered here.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method's parameters are wrong; also an unknown tool, prompt, resource or cursor.
pub const INVALID_PARAMS: i64 = -32602;
/// The server failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// No such resource: until 2025-11-25 only.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A page must be visited first: 2025-11-25 only.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// A header is missing or does not say what the body says: since 2026-07-28.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability its client did not declare: since 2026-07-28.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The request names a revision this server does not speak: since 2026-07-28.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// A layer does not allow the request: HTTP's number for the same.
pub const DENIED: i64 = 403;
/// There is no room for the request now: HTTP's number for the same.
pub const BUSY: i64 = 429;

/// Maximum length of an error object whose details are read, in bytes: as a tree they take many
/// times the memory of their text.
const DETAILED: usize = 64 * 1024;

/// Why a request got no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// One of this module's codes, or an application's own outside -32768..-32000.
    pub code: i64,
    /// One sentence for the person who reads the client's log.
    pub message: String,
    /// Machine-readable details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Reads an error object of a peer, without its details where it is larger than 64 KiB.
    pub(crate) fn read(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Brief {
            code: i64,
            message: String,
        }
        let brief = |Brief { code, message }| Self::new(code, message);
        let read = match text.len() <= DETAILED {
            true => serde_json::from_str(text).ok(),
            false => serde_json::from_str(text).ok().map(brief),
        };
        read.unwrap_or_else(|| Self::internal("an error without code and message"))
    }

    /// An error without details.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with details.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// -32700.
    pub fn parse(why: impl std::fmt::Display) -> Self {
        Self::new(PARSE_ERROR, format!("not valid JSON: {why}"))
    }

    /// -32600.
    pub fn invalid_request(why: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, why)
    }

    /// -32601.
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(200).collect();
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {shown}"))
    }

    /// -32602.
    pub fn invalid_params(why: impl std::fmt::Display) -> Self {
        Self::new(INVALID_PARAMS, why.to_string())
    }

    /// -32603.
    pub fn internal(why: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, why)
    }

    /// -32020.
    pub fn header_mismatch(why: impl Into<String>) -> Self {
        Self::new(HEADER_MISMATCH, why)
    }

    /// -32021, with the capabilities that would have been enough.
    pub fn missing_capability(required: &Value) -> Self {
        Self::new(MISSING_CLIENT_CAPABILITY, "the client did not declare a capability this needs")
            .with_data(json!({ "requiredCapabilities": required }))
    }

    /// -32022, with the versions to choose from.
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        Self::new(
            UNSUPPORTED_PROTOCOL_VERSION,
            format!("unsupported protocol version: {requested}"),
        )
        .with_data(json!({ "supported": supported, "requested": requested }))
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_details_of_an_error_are_left_out() {
        for (zeros, kept) in [(10, true), (DETAILED, false)] {
            let data = vec!["0"; zeros].join(",");
            let error = RpcError::read(&format!(r#"{{"code":7,"message":"no","data":[{data}]}}"#));
            assert_eq!((error.code, error.message.as_str()), (7, "no"));
            assert_eq!(error.data.is_some(), kept);
        }
    }
}
