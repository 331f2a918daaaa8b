//! What a stateless request's headers must say: the same as its body.

use crate::runtime::Runtime;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::borrow::Cow;
use zcp_wire::{
    Method, MethodName, RpcError,
    header::{self, METHOD, NAME, PARAM_PREFIX, PROTOCOL_VERSION, Repeated, decode},
    params::{Params, text},
};

/// Whether the version's header is there, and then says the same. Its absence is refused by
/// `check_names`, after an unsupported version.
pub(super) fn check_version(headers: &HeaderMap, version: &str) -> Result<bool, RpcError> {
    match only(headers, &PROTOCOL_VERSION)? {
        None => Ok(false),
        Some(header) => same("MCP-Protocol-Version", &plain(header), version).map(|()| true),
    }
}

pub(super) fn check_names(
    headers: &HeaderMap,
    says_version: bool,
    method: &MethodName,
    params: &Params<'_>,
) -> Result<(), RpcError> {
    if !says_version {
        return Err(missing("MCP-Protocol-Version"));
    }
    let header = only(headers, &METHOD)?.ok_or_else(|| missing("Mcp-Method"))?;
    same("Mcp-Method", &plain(header), method)?;
    let Some(member) = method.known().and_then(Method::name_header_of) else { return Ok(()) };
    let named = text(member.as_str(), params.naming(member))?;
    let header = only(headers, &NAME)?.ok_or_else(|| missing("Mcp-Name"))?;
    same("Mcp-Name", &decoded(&NAME, header)?, &named)
}

fn same(name: &str, header: &str, body: &str) -> Result<(), RpcError> {
    if header == body { Ok(()) } else { Err(differs(name, header, body)) }
}

/// Arguments the tool's schema marks with `x-mcp-header` must be repeated as headers.
pub(super) fn check_mirrored(
    headers: &HeaderMap,
    runtime: &Runtime,
    tool: &str,
    args: Option<&str>,
) -> Result<(), RpcError> {
    let catalog = runtime.catalog();
    if !catalog.mirrors() {
        return Ok(());
    }
    let Some(tool) = catalog.find_tool(tool).filter(|tool| !tool.mirrored.is_empty()) else {
        return Ok(());
    };
    let args: Value =
        serde_json::from_str(args.unwrap_or("{}")).map_err(RpcError::invalid_params)?;
    for mirrored in &tool.mirrored {
        let given = mirrored.path.iter().try_fold(&args, |value, name| value.get(name));
        let name = format!("{PARAM_PREFIX}{}", mirrored.header);
        let header = match HeaderName::try_from(&name) {
            Ok(name) => only(headers, &name)?.map(|value| decoded(&name, value)).transpose()?,
            Err(_) => None,
        };
        let expected = match given {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let header = header.ok_or_else(|| missing(&name))?;
        let same = header == expected || (mirrored.integer && same_number(&header, &expected));
        if !same {
            return Err(differs(&name, &header, &expected));
        }
    }
    Ok(())
}

/// `42`, `42.0` and `4.2e1` are one number; two large ones that a float cannot tell apart are two.
fn same_number(left: &str, right: &str) -> bool {
    fn whole(text: &str) -> Option<i128> {
        let (digits, zeros) = text.split_once('.').unwrap_or((text, ""));
        zeros.bytes().all(|byte| byte == b'0').then(|| digits.parse().ok())?
    }
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left == right,
        _ => matches!((left.parse::<f64>(), right.parse::<f64>()), (Ok(l), Ok(r)) if l == r),
    }
}

/// The one value of a header: given twice, it says nothing a proxy would agree on.
fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, RpcError> {
    header::only(headers, name)
        .map_err(|Repeated| RpcError::header_mismatch(format!("header `{name}` is given twice")))
}

/// A header whose text is meant as it is.
fn plain(header: &HeaderValue) -> Cow<'_, str> {
    match header.to_str() {
        Ok(text) => Cow::Borrowed(text.trim_matches([' ', '\t'])),
        Err(_) => String::from_utf8_lossy(header.as_bytes()),
    }
}

/// A header whose text may be coded.
fn decoded<'a>(name: &HeaderName, header: &'a HeaderValue) -> Result<Cow<'a, str>, RpcError> {
    decode(header.as_bytes()).ok_or_else(|| {
        RpcError::header_mismatch(format!("header `{name}` is neither plain text nor valid Base64"))
    })
}

fn missing(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` is missing"))
}

fn differs(name: &str, header: &str, body: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` says `{header}`, but the body `{body}`"))
}
