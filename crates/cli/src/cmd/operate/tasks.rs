//! `zcp tasks`: what the servers of a store are busy with.

use super::store;
use crate::{cmd::operate::store::Kept, print};
use serde_json::{Value, json};
use std::{
    error::Error,
    sync::Arc,
    time::{Duration, SystemTime},
};
use zcp::{End, Task, operate, store::Browse, wire::mcp::tools::CallToolResult};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  zcp tasks ls --data ./state
  zcp tasks show bX9… --store redis://127.0.0.1/
  zcp tasks cancel bX9… --data ./state")]
pub(crate) enum TasksCommand {
    /// List them, oldest first.
    #[command(after_help = "Examples:
  zcp tasks ls --data ./state
  zcp tasks ls --store redis://127.0.0.1/ --json")]
    Ls(Kept),
    /// Show one: what it asks, what it came to.
    #[command(after_help = "Examples:
  zcp tasks show bX9… --data ./state")]
    Show(OneTask),
    /// Give one up: whichever server runs it stops.
    #[command(after_help = "Examples:
  zcp tasks cancel bX9… --data ./state")]
    Cancel(OneTask),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneTask {
    /// Its id, or the beginning of it.
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) kept: Kept,
}

pub(crate) async fn list(kept: &Kept, json: bool) -> Result<(), Box<dyn Error>> {
    let tasks = operate::tasks(store::existing(kept)?).await?;
    if json {
        return Ok(print::json(&tasks.iter().map(for_programs).collect::<Vec<_>>())?);
    }
    if tasks.is_empty() {
        return Ok(print::words("No tasks.")?);
    }
    let row = |task: &Task| {
        let why = task.message.as_ref().filter(|_| task.end.is_some());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        (print::beginning(&task.id), for_people(task) + &why)
    };
    let rows: Vec<_> = tasks.iter().map(row).collect();
    Ok(print::table("Tasks", &rows)?)
}

pub(crate) async fn show(one: &OneTask, json: bool) -> Result<(), Box<dyn Error>> {
    let task = find(store::existing(&one.kept)?, &one.id).await?;
    if json {
        return Ok(print::json(&for_programs(&task))?);
    }
    print::words(&format!("{}: {}", task.id, for_people(&task)))?;
    for (key, question) in &task.asked {
        print::words(&format!("it asks `{key}`: {}", question.to_value()["params"]))?;
    }
    match &task.end {
        Some(End::Tool(output)) => Ok(print::content(&output.content)?),
        Some(End::Fault(fault)) => Ok(print::words(&fault.to_string())?),
        None => Ok(()),
    }
}

pub(crate) async fn cancel(one: &OneTask, json: bool) -> Result<(), Box<dyn Error>> {
    let store = store::existing(&one.kept)?;
    let task = find(store.clone(), &one.id).await?;
    if task.status.is_over() {
        return Err(format!("the task is over: {}", task.status.as_str()).into());
    }
    let task = operate::cancel_task(store, &task.id).await?.ok_or("the task has just expired")?;
    match json {
        true => print::json(&for_programs(&task))?,
        false => print::words(&format!("{} is {}.", task.id, task.status.as_str()))?,
    }
    Ok(())
}

/// The one task whose id begins so.
async fn find(store: Arc<dyn Browse>, beginning: &str) -> Result<Task, Box<dyn Error>> {
    if let Some(task) = operate::task(store.clone(), beginning).await? {
        return Ok(task);
    }
    let beginning = beginning.trim_end_matches('…');
    let mut found = operate::tasks(store).await?;
    found.retain(|task| task.id.starts_with(beginning));
    match found.len() {
        0 => Err(format!("no task's id begins with `{beginning}`: see zcp tasks ls").into()),
        1 => Ok(found.remove(0)),
        several => Err(format!("{several} tasks' ids begin with `{beginning}`: say more").into()),
    }
}

fn for_programs(task: &Task) -> Value {
    let time = |at| humantime::format_rfc3339_millis(at).to_string();
    let (result, error) = match &task.end {
        Some(End::Tool(output)) => {
            let result = CallToolResult {
                content: output.content.clone(),
                structured_content: output.structured.clone(),
                is_error: output.is_error,
                meta: Some(output.meta.clone()).filter(|meta| !meta.is_empty()),
            };
            (json!(result), Value::Null)
        }
        Some(End::Fault(fault)) => (Value::Null, json!(fault.to_string())),
        None => (Value::Null, Value::Null),
    };
    let asked = task.asked.iter().map(|(key, question)| (key.clone(), question.to_value()));
    json!({
        "id": task.id,
        "tool": task.tool,
        "principal": task.owner,
        "status": task.status,
        "message": task.message,
        "created": time(task.created),
        "updated": time(task.updated),
        "ttlMs": task.ttl.as_millis(),
        "asks": asked.collect::<serde_json::Map<_, _>>(),
        "result": result,
        "error": error,
    })
}

fn for_people(task: &Task) -> String {
    let age = SystemTime::now().duration_since(task.created).unwrap_or_default();
    let age = humantime::format_duration(Duration::from_secs(age.as_secs()));
    let mut about = format!("{} {}, begun {age} ago", task.tool, task.status.as_str());
    if !task.owner.is_empty() {
        about += &format!(" by {}", task.owner);
    }
    // Why it ended is said with its end.
    if let Some(message) = task.message.as_ref().filter(|_| task.end.is_none()) {
        about += &format!(": {message}");
    }
    about
}
