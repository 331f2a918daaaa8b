//! What 2026-07-28 added: `resultType`, cache hints, the server's name on every result, output
//! of any JSON kind, headers made of arguments, tasks as an extension.

use crate::mcp::{Body, InputRequest, Reply, ResultType, tasks::EXTENSION};
use serde_json::Value;

pub(super) fn reply(reply: &mut Reply) {
    let is_new_task = reply.result_type.take() == Some(ResultType::Task);
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
        Body::Task(task) => {
            let task = Box::new(task.as_ref().clone().older());
            reply.body = match is_new_task {
                true => Body::CreatedTask { task },
                false => Body::OlderTask(task),
            };
        }
        Body::Initialize(result) => drop(result.capabilities.extensions.remove(EXTENSION)),
        _ => (),
    }
}

/// What this revision took away: how a tool may be run, and tasks outside their extension.
pub(super) fn without_what_ended(reply: &mut Reply) {
    match &mut reply.body {
        Body::Tools(tools) => tools.items.iter_mut().for_each(|tool| tool.execution = None),
        Body::Discover(result) => result.capabilities.tasks = None,
        _ => (),
    }
}

/// Elicitations by page had an id, which the server's side mints when it asks.
pub(super) fn question(_: &mut InputRequest) {}
