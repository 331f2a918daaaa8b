//! `_meta`: what a message says about itself.

use crate::{
    RpcError,
    json::{Reader, fill, read_members},
    mcp::logging::Level,
};
use std::borrow::Cow;

/// The revision a request is made in; its presence is what makes a request modern.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the requesting client can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the requesting client is, for display.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// From which level on the request's log messages are wanted.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub use crate::mcp::{SERVER_INFO, SUBSCRIPTION_ID};

/// A request's `_meta`, still in the request's own text.
#[derive(Debug, Default)]
pub struct Meta<'a> {
    /// See [`PROTOCOL_VERSION`].
    pub version: Option<&'a str>,
    /// See [`CLIENT_CAPABILITIES`].
    pub capabilities: Option<&'a str>,
    /// See [`CLIENT_INFO`].
    pub client_info: Option<&'a str>,
    /// See [`LOG_LEVEL`].
    pub log_level: Option<&'a str>,
    /// What the request's progress is to be reported under.
    pub progress_token: Option<&'a str>,
    /// The W3C trace the request is part of.
    pub traceparent: Option<&'a str>,
    /// The W3C trace's vendor state.
    pub tracestate: Option<&'a str>,
    /// The W3C baggage.
    pub baggage: Option<&'a str>,
}

impl<'a> Meta<'a> {
    /// Reads `_meta` where it is in a message. Nothing when it is not an object.
    pub(crate) fn read(&mut self, reader: &mut Reader<'a>) -> Option<Result<(), String>> {
        let twice = read_members(reader, |reader, name| match self.place(name) {
            Some(place) => fill(place, reader.value()?),
            None => reader.value().map(|_| true),
        })?;
        Some(match twice {
            None => Ok(()),
            Some(name) => Err(format!("`_meta`: `{name}` is there twice")),
        })
    }

    fn place<'b>(&'b mut self, name: &str) -> Option<&'b mut Option<&'a str>> {
        Some(match name {
            PROTOCOL_VERSION => &mut self.version,
            CLIENT_CAPABILITIES => &mut self.capabilities,
            CLIENT_INFO => &mut self.client_info,
            LOG_LEVEL => &mut self.log_level,
            "progressToken" => &mut self.progress_token,
            "traceparent" => &mut self.traceparent,
            "tracestate" => &mut self.tracestate,
            "baggage" => &mut self.baggage,
            _ => return None,
        })
    }

    /// The wanted log level.
    pub fn level(&self) -> Result<Option<Level>, RpcError> {
        let Some(raw) = self.log_level else {
            return Ok(None);
        };
        serde_json::from_str(raw).map(Some).map_err(|_| {
            RpcError::invalid_params(format!(
                "`{LOG_LEVEL}` must be one of {}",
                Level::NAMES.join(", ")
            ))
        })
    }

    /// The trace the request is part of, if its keys are well-formed.
    pub fn trace(&self) -> Option<Trace> {
        let parent = text(self.traceparent)?;
        if !is_traceparent(&parent) {
            return None;
        }
        let plain = |raw| text(raw).filter(|text| is_list(text));
        Some(Trace {
            parent: parent.into_owned(),
            state: plain(self.tracestate).map(Cow::into_owned),
            baggage: plain(self.baggage).map(Cow::into_owned),
        })
    }
}

/// A W3C trace context, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// `version-trace-span-flags`.
    pub parent: String,
    /// Vendor state, as it came.
    pub state: Option<String>,
    /// Baggage, as it came.
    pub baggage: Option<String>,
}

fn text(raw: Option<&str>) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw?).ok()
}

/// Whether the text is a list of `key=value`, as `tracestate` and `baggage` are.
fn is_list(text: &str) -> bool {
    let visible = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let pair = |member: &str| {
        member.trim().split_once('=').is_some_and(|(key, _)| !key.is_empty() && !key.contains(' '))
    };
    text.len() <= 8192 && visible && text.split(',').all(pair)
}

/// Whether the text is a `traceparent` of W3C Trace Context.
pub fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts[..] else {
        return false;
    };
    hex(version, 2)
        && version != "ff"
        && hex(trace, 32)
        && hex(span, 16)
        && hex(flags, 2)
        && trace.bytes().any(|b| b != b'0')
        && span.bytes().any(|b| b != b'0')
}
