//! Tools that show the client's model more than words, or give it a tool.

use super::tools::{PNG, WAV};
use serde_json::json;
use zcp::{
    Content, CreateMessage, Ctx, Result, Role, SamplingMessage, Server, tool,
    wire::mcp::{content::Kind, sampling::OneOrMany},
};

/// Shows the client's model a picture and a sound, and passes on what it answers.
#[tool]
async fn test_sampling_media(ctx: Ctx) -> Result<Vec<Content>> {
    let mut question = CreateMessage::new("Draw what you see and hear.", 100);
    let media = [Content::image(PNG, "image/png"), Content::audio(WAV, "audio/wav")];
    question.messages.extend(media.map(SamplingMessage::user));
    let answer = ctx.sample("media", question).await?;
    Ok(answer.content.iter().cloned().collect())
}

/// Lets the client's model use a tool, and passes on what it says then.
#[tool]
async fn test_sampling_tools(ctx: Ctx) -> Result<String> {
    let mut question = CreateMessage::new("How warm is it in Oslo?", 100);
    let thermometer = json!({ "name": "thermometer", "description": "How warm a place is.",
        "inputSchema": { "type": "object", "properties": { "place": { "type": "string" } },
            "required": ["place"] } });
    question.tools = Some(vec![serde_json::from_value(thermometer)?]);
    let answer = ctx.sample("wish", question.clone()).await?;
    let used: Vec<Content> = answer.content.iter().filter_map(measured).collect();
    if used.is_empty() {
        return Ok(answer.text());
    }
    let said = |role, content| SamplingMessage { role, content, meta: None };
    question.messages.push(said(Role::Assistant, answer.content));
    question.messages.push(said(Role::User, OneOrMany::Many(used)));
    Ok(ctx.sample("result", question).await?.text())
}

/// What the thermometer says to a model that uses it.
fn measured(content: &Content) -> Option<Content> {
    let Kind::ToolUse { id, input, .. } = &content.kind else { return None };
    let measured = format!("21.5 degrees in {}", input["place"].as_str().unwrap_or_default());
    let result = Kind::ToolResult {
        tool_use_id: id.clone(),
        content: vec![Content::text(measured)],
        structured_content: None,
        is_error: false,
    };
    Some(result.into())
}

pub(crate) fn offer(server: Server) -> Server {
    server.tool(test_sampling_media).tool(test_sampling_tools)
}
