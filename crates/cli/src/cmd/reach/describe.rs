//! `zcp describe`: all that a server says of one tool.

use super::{
    list,
    tool_line::{arguments, signature},
};
use crate::{
    errors::usage,
    nearest, print,
    target::{self, Target},
};
use std::error::Error;
use zcp_client::wire::mcp::tools::Tool;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp describe ./my-tools greet
  zcp describe https://example.com/mcp search --json")]
pub(crate) struct Describe {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which tool. Without one, the tools are listed.
    pub(crate) tool: Option<String>,
}

pub(crate) async fn run(describe: Describe, json: bool) -> Result<(), Box<dyn Error>> {
    let client = target::reach(&describe.target, json).await?;
    let Some(tool) = &describe.tool else {
        list::only_tools(&client, json).await?;
        client.close().await;
        return Ok(());
    };
    let tools = client.list_tools().await?;
    client.close().await;
    one(&tools, tool, [], json)
}

/// Shows one of a server's tools. `others` are words that could have stood in the place of its name.
pub(super) fn one<const N: usize>(
    tools: &[Tool],
    name: &str,
    others: [&str; N],
    json: bool,
) -> Result<(), Box<dyn Error>> {
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        let known = tools.iter().map(|tool| tool.name.as_str());
        let hint = nearest::hint(name, known.chain(others));
        return Err(usage(format!("there is no tool `{name}`: {hint}").into()));
    };
    match json {
        true => print::json(tool)?,
        false => show(tool)?,
    }
    Ok(())
}

fn show(tool: &Tool) -> std::io::Result<()> {
    print::words(&signature(tool))?;
    for text in tool.title.iter().chain(&tool.description) {
        print::words(&format!("\n{text}"))?;
    }
    let rows: Vec<(String, String)> = arguments(&tool.input_schema)
        .into_iter()
        .map(|one| {
            let needed = match (&one.default, one.is_required) {
                (Some(default), _) => format!("default {default}"),
                (None, true) => "required".to_owned(),
                (None, false) => "optional".to_owned(),
            };
            let about = match one.description.is_empty() {
                true => String::new(),
                false => format!(". {}", one.description),
            };
            (one.name, format!("{}, {needed}{about}", one.kind))
        })
        .collect();
    print::words("")?;
    if !rows.is_empty() {
        print::table("arguments", &rows)?;
    }
    let facts = facts(tool);
    if !facts.is_empty() {
        print::facts("hints", &facts)?;
    }
    Ok(())
}

/// What the tool says of its effects.
fn facts(tool: &Tool) -> Vec<(&'static str, String)> {
    let mut all = vec![];
    if let Some(hints) = &tool.annotations {
        let said = [
            ("read-only", hints.read_only_hint),
            ("destructive", hints.destructive_hint),
            ("idempotent", hints.idempotent_hint),
            ("open world", hints.open_world_hint),
        ];
        let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        all.extend(said.into_iter().filter_map(|(name, value)| Some((name, word(value?)))));
    }
    all.extend(tool.execution.iter().map(|one| ("as a task", one.task_support.clone())));
    all
}
