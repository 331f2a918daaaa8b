//! What a stateless request's headers must say: the same as its body.

use crate::runtime::Runtime;
use http::HeaderMap;
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;
use zcp_wire::{
    RpcError,
    header::{METHOD, NAME, PARAM_PREFIX, PROTOCOL_VERSION, decode},
    params::{Params, text},
};

/// Which member of the parameters a method's `Mcp-Name` repeats.
const NAMED_BY: &[Named] = &[
    Named { method: "tools/call", member: "name", of: |params| params.name },
    Named { method: "prompts/get", member: "name", of: |params| params.name },
    Named { method: "resources/read", member: "uri", of: |params| params.uri },
];

struct Named {
    method: &'static str,
    member: &'static str,
    of: for<'a> fn(&Params<'a>) -> Option<&'a RawValue>,
}

pub(super) fn check_version(headers: &HeaderMap, version: &str) -> Result<(), RpcError> {
    match plain(headers, PROTOCOL_VERSION) {
        None => Ok(()), // Refused by `check_names`, after an unsupported version.
        Some(header) if header == version => Ok(()),
        Some(header) => Err(differs("MCP-Protocol-Version", &header, version)),
    }
}

pub(super) fn check_names(
    headers: &HeaderMap,
    method: &str,
    params: &Params<'_>,
) -> Result<(), RpcError> {
    if !headers.contains_key(PROTOCOL_VERSION) {
        return Err(missing("MCP-Protocol-Version"));
    }
    let header = plain(headers, METHOD).ok_or_else(|| missing("Mcp-Method"))?;
    if header != method {
        return Err(differs("Mcp-Method", &header, method));
    }
    let Some(row) = NAMED_BY.iter().find(|row| row.method == method) else { return Ok(()) };
    let named = text(row.member, (row.of)(params))?;
    let header = value(headers, NAME)?.ok_or_else(|| missing("Mcp-Name"))?;
    if header != named {
        return Err(differs("Mcp-Name", &header, &named));
    }
    Ok(())
}

/// Arguments the tool's schema marks with `x-mcp-header` must be repeated as headers.
pub(super) fn check_mirrored(
    headers: &HeaderMap,
    runtime: &Runtime,
    tool: &str,
    args: Option<&str>,
) -> Result<(), RpcError> {
    let catalog = runtime.catalog();
    let Some(tool) = catalog.find_tool(tool).filter(|tool| !tool.mirrored.is_empty()) else {
        return Ok(());
    };
    let args: Value =
        serde_json::from_str(args.unwrap_or("{}")).map_err(RpcError::invalid_params)?;
    for mirrored in &tool.mirrored {
        let given = mirrored.path.iter().try_fold(&args, |value, name| value.get(name));
        let name = format!("{PARAM_PREFIX}{}", mirrored.header);
        let header = value(headers, &name)?;
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

/// A header whose text is meant as it is.
fn plain<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    // Given twice, it says nothing a proxy would agree on.
    if headers.get_all(name).iter().nth(1).is_some() {
        return Some(Cow::Borrowed("(given twice)"));
    }
    let text = String::from_utf8_lossy(headers.get(name)?.as_bytes());
    Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches([' ', '\t'])),
        owned => owned,
    })
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<Cow<'a, str>>, RpcError> {
    if headers.get_all(name).iter().nth(1).is_some() {
        return Err(RpcError::header_mismatch(format!("header `{name}` is given twice")));
    }
    let Some(header) = headers.get(name) else {
        return Ok(None);
    };
    decode(header.as_bytes()).map(Some).ok_or_else(|| {
        RpcError::header_mismatch(format!("header `{name}` is neither plain text nor valid Base64"))
    })
}

fn missing(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` is missing"))
}

fn differs(name: &str, header: &str, body: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` says `{header}`, but the body `{body}`"))
}
