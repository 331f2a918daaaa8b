//! What 2026-07-28 added: `resultType`, cache hints, the server's name on every result, output
//! of any JSON kind, headers made of arguments.

use crate::mcp::{Body, InputRequest, Reply};
use serde_json::Value;

pub(super) fn reply(reply: &mut Reply) {
    reply.result_type = None;
    reply.cache = None;
    reply.meta.server_info = None;
    match &mut reply.body {
        // Until now structured output was an object; another kind stays readable as text.
        Body::CallTool(result) => {
            result.structured_content = result.structured_content.take().filter(Value::is_object);
        }
        Body::Tools(tools) => {
            for tool in &mut tools.items {
                let object =
                    |schema: &Value| schema.get("type").is_some_and(|kind| kind == "object");
                tool.output_schema = tool.output_schema.take().filter(object);
            }
        }
        _ => (),
    }
}

/// What this revision took away: how a tool may be run.
pub(super) fn without_what_ended(reply: &mut Reply) {
    if let Body::Tools(tools) = &mut reply.body {
        tools.items.iter_mut().for_each(|tool| tool.execution = None);
    }
}

/// Elicitations by page had an id, which the server's side mints when it asks.
pub(super) fn question(_: &mut InputRequest) {}
