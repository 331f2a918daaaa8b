//! Tools that go on as tasks: at once, always, or after a question.

use serde_json::{Value, json};
use std::time::Duration;
use zcp::{CallError, Ctx, Result, Server, tool};

/// Greets at once.
#[tool(read_only)]
async fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Takes a while for something that must not be done twice.
#[tool(long_running)]
async fn slow_once(seconds: f64, ctx: Ctx) -> String {
    ctx.progress(0.0, seconds);
    tokio::time::sleep(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0))).await;
    format!("done once, in {seconds} seconds")
}

/// Fails after a while.
#[tool(only_as_task)]
async fn failing_job() -> Result<String> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err(CallError::new("the job failed, as it always does"))
}

/// Is refused after a while.
#[tool(long_running)]
async fn protocol_error_job() -> Result<String> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    Err(CallError::Denied { scope: "jobs:finish".into() })
}

fn confirm() -> Value {
    json!({ "properties": { "confirm": { "type": "boolean" } }, "required": ["confirm"] })
}

/// Deletes a file, if the user agrees.
#[tool(long_running)]
async fn confirm_delete(filename: String, ctx: Ctx) -> Result<String> {
    let question = format!("Delete {filename}?");
    let answer: Value = ctx.ask_with("confirm", &question, confirm()).await?.accepted()?;
    Ok(match answer["confirm"] == true {
        true => format!("{filename} deleted"),
        false => format!("{filename} kept"),
    })
}

/// Asks two things at once.
#[tool(long_running)]
async fn multi_input(ctx: Ctx) -> Result<String> {
    let name = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let (name, agreed) = tokio::join!(
        ctx.ask_with::<Value>("name", "Who are you?", name),
        ctx.ask_with::<Value>("confirm", "Shall we?", confirm()),
    );
    let (name, agreed) = (name?.accepted()?, agreed?.accepted()?);
    Ok(format!("{}: {}", name["name"], agreed["confirm"]))
}

/// Asks first, and goes on as a task.
#[tool]
async fn test_tool_with_task(ctx: Ctx) -> Result<String> {
    let form = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let answer: Value = ctx.ask_with("user_name", "Who are you?", form).await?.accepted()?;
    ctx.detach();
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(format!("Hello, {}!", answer["name"].as_str().unwrap_or("stranger")))
}

pub(crate) fn offer(server: Server) -> Server {
    server
        .tool(greet)
        .tool(slow_once)
        .tool(failing_job)
        .tool(protocol_error_job)
        .tool(confirm_delete)
        .tool(multi_input)
        .tool(test_tool_with_task)
}
