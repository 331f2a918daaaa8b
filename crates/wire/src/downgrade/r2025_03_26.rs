//! What 2025-03-26 added: audio, tool annotations, the `completions` capability.

use crate::mcp::{Body, InputRequest, Reply};

pub(super) fn reply(reply: &mut Reply) {
    match &mut reply.body {
        Body::Initialize(result) => result.capabilities.completions = None,
        Body::Tools(list) => list.items.iter_mut().for_each(|tool| tool.annotations = None),
        Body::CallTool(result) => {
            result.content.iter_mut().for_each(|content| content.audio_as_resource());
        }
        Body::GetPrompt(result) => {
            result.messages.iter_mut().for_each(|message| message.content.audio_as_resource());
        }
        _ => (),
    }
}

pub(super) fn question(question: &mut InputRequest) {
    if let InputRequest::Sample(sample) = question {
        for message in &mut sample.messages {
            message.content.iter_mut().for_each(|content| content.audio_as_text());
        }
    }
}
