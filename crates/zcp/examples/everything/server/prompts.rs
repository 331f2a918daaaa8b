//! Prompts: plain, with arguments, with rich content, and one that asks.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use zcp::{Args, Content, Ctx, Prompt, PromptMessage, ResourceContents, Result, Server, prompt};

/// A prompt without arguments.
#[prompt]
async fn test_simple_prompt() -> &'static str {
    "This is a simple prompt for testing."
}

/// A prompt with two arguments.
#[prompt]
async fn test_prompt_with_arguments(
    /// The first.
    arg1: String,
    /// The second.
    arg2: String,
) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

/// A prompt that holds a resource.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    /// What the resource is called.
    resource_uri: String,
}

async fn with_embedded_resource(Args(embedded): Args<Embedded>) -> Vec<PromptMessage> {
    let text = "Embedded resource content for testing.";
    let resource = ResourceContents::text(embedded.resource_uri, "text/plain", text);
    vec![
        PromptMessage::user(Content::embed(resource)),
        PromptMessage::user("Please process the embedded resource above."),
    ]
}

/// A prompt that holds a picture.
#[prompt]
async fn test_prompt_with_image() -> Vec<PromptMessage> {
    vec![
        PromptMessage::user(Content::image(super::tools::PNG, "image/png")),
        PromptMessage::user("Please analyze the image above."),
    ]
}

/// A prompt that asks the user first.
#[prompt]
async fn test_input_required_result_prompt(ctx: Ctx) -> Result<String> {
    let form =
        json!({ "properties": { "context": { "type": "string" } }, "required": ["context"] });
    let answer: Value =
        ctx.ask_with("user_context", "What is this about?", form).await?.accepted()?;
    Ok(format!("Tell me about {}", answer["context"]))
}

pub(crate) fn offer(server: Server) -> Server {
    let with_arguments = Prompt::from_fn(test_prompt_with_arguments)
        .complete("arg1", ["paris", "park", "party"])
        .complete("arg2", ["london", "lisbon"]);
    server
        .prompt(test_simple_prompt)
        .prompt(with_arguments)
        .prompt(Prompt::new("test_prompt_with_embedded_resource", with_embedded_resource))
        .prompt(test_prompt_with_image)
        .prompt(test_input_required_result_prompt)
}
