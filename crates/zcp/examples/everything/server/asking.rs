//! Tools that ask: the user, the client's model, the client. One handler for both eras.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zcp::{Answer, CreateMessage, Ctx, Result, Server, Visit, tool};

fn text_form(name: &str) -> Value {
    json!({ "properties": { name: { "type": "string" } }, "required": [name] })
}

/// Asks the client's model.
#[tool]
async fn test_sampling(prompt: String, ctx: Ctx) -> Result<String> {
    let answer = ctx.sample("model", CreateMessage::new(prompt, 100)).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

/// Needs a client whose model can be asked.
#[tool]
async fn test_missing_capability(ctx: Ctx) -> Result<String> {
    Ok(ctx.sample("model", CreateMessage::new("Are you there?", 10)).await?.text())
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Person {
    /// How you are called.
    username: String,
    /// Where to write to.
    email: String,
}

/// Asks the user.
#[tool]
async fn test_elicitation(message: String, ctx: Ctx) -> Result<String> {
    Ok(match ctx.ask::<Person>("person", &message).await? {
        Answer::Accept(person) => {
            format!("User response: action=accept, content={}", serde_json::to_string(&person)?)
        }
        Answer::Decline => "User response: action=decline".into(),
        Answer::Cancel => "User response: action=cancel".into(),
    })
}

/// Reports progress, then asks the user.
#[tool]
async fn test_streaming_elicitation(ctx: Ctx) -> Result<String> {
    ctx.progress(1.0, 2.0);
    let answer = ctx.ask_with::<Value>("name", "Who are you?", text_form("name")).await?;
    Ok(format!("Answer: {answer:?}"))
}

/// A form with defaults of every kind.
#[tool]
async fn test_elicitation_sep1034_defaults(ctx: Ctx) -> Result<String> {
    let form = json!({ "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true }
    }, "required": [] });
    let answer = ctx.ask_with::<Value>("defaults", "Please review", form).await?;
    Ok(format!("Elicitation completed: {answer:?}"))
}

/// A form with choices of every kind.
#[tool]
async fn test_elicitation_sep1330_enums(ctx: Ctx) -> Result<String> {
    let titled = json!([{ "const": "value1", "title": "First" }, { "const": "value2", "title": "Second" },
        { "const": "value3", "title": "Third" }]);
    let form = json!({ "properties": {
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"] },
        "untitledMulti": { "type": "array", "items": { "type": "string",
            "enum": ["option1", "option2", "option3"] } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } }
    }, "required": [] });
    let answer = ctx.ask_with::<Value>("choices", "Please choose", form).await?;
    Ok(format!("Elicitation completed: {answer:?}"))
}

/// Sends the user to a page.
#[tool]
async fn test_elicitation_page(ctx: Ctx) -> Result<String> {
    let visit = Visit::new("Please sign in", "https://example.com/sign-in");
    Ok(match ctx.visit("page", &visit).await? {
        Answer::Accept(_) => "User response: action=accept".into(),
        Answer::Decline => "User response: action=decline".into(),
        Answer::Cancel => "User response: action=cancel".into(),
    })
}

/// Lists the folders the client works in.
#[tool]
async fn test_list_roots(ctx: Ctx) -> Result<String> {
    Ok(serde_json::to_string(&ctx.roots("roots").await?)?)
}

async fn name(ctx: &Ctx) -> Result<String> {
    let form = text_form("name");
    let name: Value = ctx.ask_with("user_name", "What is your name?", form).await?.accepted()?;
    Ok(name["name"].as_str().unwrap_or_default().to_owned())
}

/// Asks for a name.
#[tool]
async fn test_input_required_result_elicitation(ctx: Ctx) -> Result<String> {
    Ok(format!("Hello, {}!", name(&ctx).await?))
}

/// Asks the model.
#[tool]
async fn test_input_required_result_sampling(ctx: Ctx) -> Result<String> {
    let question = CreateMessage::new("What is the capital of France?", 100);
    Ok(ctx.sample("capital_question", question).await?.text())
}

/// Asks for the client's folders.
#[tool]
async fn test_input_required_result_list_roots(ctx: Ctx) -> Result<String> {
    Ok(format!("{:?}", ctx.roots("client_roots").await?))
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// Asks for a confirmation.
#[tool]
async fn test_input_required_result_request_state(ctx: Ctx) -> Result<String> {
    let answer = ctx.ask::<Confirm>("confirm", "Go on?").await?;
    Ok(format!("state-ok {answer:?}"))
}

/// Asks for a confirmation whose state must not be changed.
#[tool]
async fn test_input_required_result_tampered_state(ctx: Ctx) -> Result<String> {
    let answer = ctx.ask::<Confirm>("confirm", "Go on?").await?;
    Ok(format!("untouched {answer:?}"))
}

/// Asks the user, the model and the client at once.
#[tool]
async fn test_input_required_result_multiple_inputs(ctx: Ctx) -> Result<String> {
    let greeting = CreateMessage::new("Write a greeting.", 100);
    let (name, greeting, roots) =
        tokio::join!(name(&ctx), ctx.sample("greeting", greeting), ctx.roots("client_roots"));
    Ok(format!("{} {} ({} roots)", greeting?.text(), name?, roots?.len()))
}

/// Asks twice, the second question after the first answer.
#[tool]
async fn test_input_required_result_multi_round(ctx: Ctx) -> Result<String> {
    let first: Value = ctx.ask_with("step1", "Your name?", text_form("name")).await?.accepted()?;
    let second: Value =
        ctx.ask_with("step2", "Your colour?", text_form("color")).await?.accepted()?;
    Ok(format!("{} likes {}", first["name"], second["color"]))
}

/// Asks only what this client can answer.
#[tool]
async fn test_input_required_result_capabilities(ctx: Ctx) -> Result<String> {
    let asks_user = ctx.client().form();
    let asks_model = ctx.client().sampling();
    let (user, model) =
        tokio::join!(async { if asks_user { Some(name(&ctx).await) } else { None } }, async {
            let question = CreateMessage::new("Say hello.", 20);
            if asks_model { Some(ctx.sample("hello", question).await) } else { None }
        });
    let (user, model) = (user.transpose()?, model.transpose()?);
    Ok(format!("{user:?} {:?}", model.map(|answer| answer.text())))
}

pub(crate) fn offer(server: Server) -> Server {
    server
        .tool(test_sampling)
        .tool(test_missing_capability)
        .tool(test_elicitation)
        .tool(test_streaming_elicitation)
        .tool(test_elicitation_sep1034_defaults)
        .tool(test_elicitation_sep1330_enums)
        .tool(test_elicitation_page)
        .tool(test_list_roots)
        .tool(test_input_required_result_elicitation)
        .tool(test_input_required_result_sampling)
        .tool(test_input_required_result_list_roots)
        .tool(test_input_required_result_request_state)
        .tool(test_input_required_result_tampered_state)
        .tool(test_input_required_result_multiple_inputs)
        .tool(test_input_required_result_multi_round)
        .tool(test_input_required_result_capabilities)
}
