//! What 2025-11-25 added: icons, descriptions of implementations, `execution`, elicitation by
//! page and its `mode`, sampling with tools.

use crate::mcp::{Body, InputRequest, Reply, sampling::OneOrMany};

pub(super) fn reply(reply: &mut Reply) {
    match &mut reply.body {
        Body::Initialize(result) => {
            let info = &mut result.server_info;
            (info.icons, info.description, info.website_url) = (vec![], None, None);
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
        InputRequest::Elicit(elicit) => elicit.mode = None,
        InputRequest::Sample(sample) => {
            (sample.tools, sample.tool_choice) = (None, None);
            for message in &mut sample.messages {
                if let OneOrMany::Many(blocks) = &mut message.content
                    && let Some(first) = blocks.pop()
                {
                    message.content = OneOrMany::One(first);
                }
            }
        }
        InputRequest::Roots(_) => (),
    }
}
