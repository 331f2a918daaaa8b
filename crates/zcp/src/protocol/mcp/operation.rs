//! The operation of a method that both eras have, read from its parameters.

use super::Mcp;
use crate::{
    auth::Caller,
    runtime::call::{Complete, ListKind, Op},
};
use bytestring::ByteString;
use http::Extensions;
use std::{borrow::Cow, collections::BTreeMap};
use zcp_wire::{
    Method, Request, RpcError,
    mcp::completion::{Argument, Context, Reference},
    params::{Params, member, optional_text, text},
};

/// The operation of a method both eras have.
pub(super) fn operation(
    mcp: &Mcp,
    method: Method,
    request: &Request,
    params: &Params<'_>,
    extensions: &Extensions,
) -> Result<Op, RpcError> {
    let list = |kind| {
        let cursor = optional_text("cursor", params.cursor)?;
        let after = cursor.map(|cursor| {
            let view = Caller::of(extensions).view();
            super::lists::open_cursor(&mcp.runtime, kind, &view, &cursor)
        });
        Ok(Op::List { kind, after: after.transpose()? })
    };
    match method {
        Method::ListTools => list(ListKind::Tools),
        Method::ListPrompts => list(ListKind::Prompts),
        Method::ListResources => list(ListKind::Resources),
        Method::ListTemplates => list(ListKind::Templates),
        Method::ListSkills => list(ListKind::Skills),
        Method::GetSkill => Ok(Op::GetSkill { uri: text("uri", params.uri)?.into_owned() }),
        Method::ReadFolder => {
            let cursor = optional_text("cursor", params.cursor)?;
            let open = |cursor| super::lists::open_folder_cursor(&mcp.runtime, cursor);
            let after = cursor.as_deref().map(open).transpose()?;
            Ok(Op::ReadFolder { uri: text("uri", params.uri)?.into_owned(), after })
        }
        Method::CallTool => Ok(Op::CallTool {
            name: shared(request, text("name", params.name)?),
            args: params.arguments.map(|raw| object(request, raw)).transpose()?,
        }),
        Method::ReadResource => Ok(Op::ReadResource { uri: text("uri", params.uri)?.into_owned() }),
        Method::GetPrompt => Ok(Op::GetPrompt {
            name: text("name", params.name)?.into_owned(),
            args: params
                .arguments
                .map_or(Ok(BTreeMap::new()), |raw| member("arguments", Some(raw)))?,
        }),
        Method::Complete => {
            let argument: Argument = member("argument", params.argument)?;
            let context: Context = match params.context {
                Some(context) => member("context", Some(context))?,
                None => Context::default(),
            };
            Ok(Op::Complete(Complete {
                reference: member::<Reference>("ref", params.reference)?,
                argument: argument.name,
                value: argument.value,
                context: context.arguments,
            }))
        }
        _ => Err(RpcError::method_not_found(&request.method)),
    }
}

/// A text, shared with the request's where it is in there as it is meant.
fn shared(request: &Request, text: Cow<'_, str>) -> ByteString {
    match (text, &request.params) {
        (Cow::Borrowed(text), Some(params)) => params.slice_ref(text),
        (text, _) => text.into_owned().into(),
    }
}

/// An object's text, shared with the request's.
fn object(request: &Request, raw: &str) -> Result<ByteString, RpcError> {
    match &request.params {
        Some(params) if raw.starts_with('{') => Ok(params.slice_ref(raw)),
        _ => Err(RpcError::invalid_params("`arguments` must be an object")),
    }
}
