//! What 2025-06-18 added: structured output, titles, links to resources, `lastModified`,
//! `_meta` on everything listed.

use crate::mcp::{Body, InputRequest, Reply, content::Content};

pub(super) fn reply(reply: &mut Reply) {
    match &mut reply.body {
        Body::Initialize(result) => result.server_info.title = None,
        Body::Tools(list) => {
            for tool in &mut list.items {
                // 2025-03-26 still has a place for the title.
                if let Some(title) = tool.title.take() {
                    tool.annotations.get_or_insert_default().title.get_or_insert(title);
                }
                tool.output_schema = None;
                tool.meta = None;
            }
        }
        Body::Prompts(list) => {
            for prompt in &mut list.items {
                (prompt.title, prompt.meta) = (None, None);
                prompt.arguments.iter_mut().for_each(|argument| argument.title = None);
            }
        }
        Body::Resources(list) => {
            for item in &mut list.items {
                (item.title, item.meta) = (None, None);
                item.annotations.iter_mut().for_each(|notes| notes.last_modified = None);
            }
        }
        Body::Templates(list) => {
            for item in &mut list.items {
                (item.title, item.meta) = (None, None);
                item.annotations.iter_mut().for_each(|notes| notes.last_modified = None);
            }
        }
        Body::CallTool(result) => {
            result.structured_content = None;
            result.content.iter_mut().for_each(content);
        }
        Body::GetPrompt(result) => {
            result.messages.iter_mut().for_each(|message| content(&mut message.content));
        }
        Body::ReadResource(result) => result.contents.iter_mut().for_each(|item| item.meta = None),
        _ => (),
    }
}

fn content(content: &mut Content) {
    content.link_as_text();
    content.meta = None;
    content.annotations.iter_mut().for_each(|notes| notes.last_modified = None);
}

/// Elicitation came with this revision; whoever asks an older client is told so before.
pub(super) fn question(_: &mut InputRequest) {}
