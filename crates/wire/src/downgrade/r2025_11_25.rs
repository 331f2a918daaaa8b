//! What 2025-11-25 added: icons, descriptions of implementations, `execution`, tasks, elicitation by
//! page and its `mode`, sampling with tools.

use crate::mcp::{Body, InputRequest, Reply};
use serde_json::Value;

pub(super) fn reply(reply: &mut Reply) {
    match &mut reply.body {
        Body::Initialize(result) => {
            let info = &mut result.server_info;
            (info.icons, info.description, info.website_url) = (vec![], None, None);
            result.capabilities.tasks = None;
        }
        Body::Tools(list) => {
            for tool in &mut list.items {
                tool.icons = vec![];
                tool.execution = None;
            }
        }
        Body::Prompts(list) => list.items.iter_mut().for_each(|prompt| prompt.icons = vec![]),
        Body::Resources(list) => list.items.iter_mut().for_each(|item| item.icons = vec![]),
        Body::Templates(list) => list.items.iter_mut().for_each(|item| item.icons = vec![]),
        Body::CallTool(result) => {
            result.content.iter_mut().for_each(|content| content.drop_icons());
        }
        Body::GetPrompt(result) => {
            result.messages.iter_mut().for_each(|message| message.content.drop_icons());
        }
        _ => (),
    }
}

pub(super) fn question(question: &mut InputRequest) {
    match question {
        InputRequest::Elicit(elicit) => {
            elicit.mode = None;
            let fields =
                elicit.requested_schema.as_mut().and_then(|form| form.get_mut("properties"));
            let fields = fields.and_then(Value::as_object_mut).into_iter();
            fields.flat_map(|fields| fields.values_mut()).for_each(name_choices);
        }
        InputRequest::Sample(sample) => {
            (sample.tools, sample.tool_choice) = (None, None);
            sample.messages.iter_mut().for_each(|message| message.content.as_one_block());
        }
        InputRequest::Roots(_) => (),
    }
}

/// A choice with titles was `enum` with `enumNames`.
fn name_choices(field: &mut Value) {
    let Some(field) = field.as_object_mut() else { return };
    let Some(Value::Array(choices)) = field.remove("oneOf") else { return };
    let all = |key| choices.iter().map(|choice| choice[key].clone()).collect::<Value>();
    field.insert("enum".into(), all("const"));
    field.insert("enumNames".into(), all("title"));
}
