//! Header names, and how a value that HTTP cannot carry as it is travels in one.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

/// The revision a request is made in.
pub static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Which session of the handshake era a request belongs to.
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The request's method.
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt, resource or task the request names.
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What precedes a mirrored argument's header name.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// Where a broken event stream is to go on.
pub static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// A header is given more than once: those who read it may not agree on what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated;

/// The one value of a header.
///
/// # Errors
///
/// The header is given more than once.
pub fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Repeated> {
    // Nearly always no header at all is repeated.
    if headers.len() == headers.keys_len() {
        return Ok(headers.get(name));
    }
    let mut all = headers.get_all(name).iter();
    let first = all.next();
    if all.next().is_some() { Err(Repeated) } else { Ok(first) }
}

/// The header text for a value: itself, or Base64 between markers when HTTP would change it.
pub fn encode(value: &str) -> Cow<'_, str> {
    let blank = |c: char| c == ' ' || c == '\t';
    let changed = value.starts_with(blank) || value.ends_with(blank);
    let marked = value.starts_with(OPEN) && value.ends_with(CLOSE);
    if !changed && !marked && value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(value)))
}

/// The value a header carries; nothing when its markers hold no valid Base64 of UTF-8, or its
/// bytes are not visible ASCII.
pub fn decode(header: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(header).ok()?.trim_matches([' ', '\t']);
    if !text.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte)) {
        return None;
    }
    let Some(coded) = text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) else {
        return Some(Cow::Borrowed(text));
    };
    String::from_utf8(STANDARD.decode(coded).ok()?).ok().map(Cow::Owned)
}

/// Whether `name` may follow `Mcp-Param-`: a token of RFC 9110.
pub fn is_token(name: &str) -> bool {
    let special = b"!#$%&'*+-.^_`|~";
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || special.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_the_trip() {
        for value in ["", "plain", "in ner", " lead", "tail\t", "größe", "a\nb", "=?base64?eA==?="]
        {
            assert_eq!(decode(encode(value).as_bytes()).as_deref(), Some(value), "{value:?}");
        }
    }

    #[test]
    fn bad_base64_is_refused_and_other_markers_are_literal() {
        assert_eq!(decode(b"=?base64?eA=?="), None);
        assert_eq!(decode(b"=?base64?e*==?="), None);
        assert_eq!(decode(b"=?BASE64?eA==?=").as_deref(), Some("=?BASE64?eA==?="));
        assert_eq!(decode(b"  spaced  ").as_deref(), Some("spaced"));
    }
}
