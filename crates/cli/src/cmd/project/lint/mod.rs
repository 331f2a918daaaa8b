//! `zcp lint`: what models and clients will stumble over in a server's tools, and what they cost.

mod portable;

use super::{options, validate};
use crate::{
    findings::{self, Finding},
    print, project,
    target::{self, Target},
};
use serde_json::{Value, json};
use std::{collections::HashMap, error::Error, path::Path};
use zcp_client::wire::mcp::tools::Tool;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp lint .
  zcp lint ./my-tools --strict
  zcp lint https://example.com/mcp")]
pub(crate) struct Lint {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Warnings count as mistakes.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What some model APIs allow of a tool's name, with what clients put before it.
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;
/// Tokens a tool may cost, and all of them together, before somebody should look.
const DEAR: usize = 500;
const ALL_DEAR: usize = 10_000;

pub(crate) async fn run(lint: Lint, json: bool) -> Result<(), Box<dyn Error>> {
    let client = target::reach(&lint.target, json).await?;
    let server = client.server().info.map(|info| info.name).unwrap_or_default();
    let mut tools = client.list_tools().await?;
    client.close().await;
    let is_folder = Path::new(&lint.target.server).is_dir();
    let found = tools.iter().flat_map(|tool| of(tool, &server, is_folder));
    let mut findings: Vec<Finding> = found.collect();
    findings.extend(same(&tools));
    findings.extend(of_folder(&lint.target.server).await?);
    tools.sort_by_key(|tool| std::cmp::Reverse(tokens(tool)));
    let all: usize = tools.iter().map(tokens).sum();
    if all > ALL_DEAR {
        let why = format!("cost {all} tokens before the first question is asked");
        let fix = "shorten descriptions, or serve fewer: zcp.toml says `enabled = false`";
        findings.push(Finding::warning("all tools", why).fix(fix));
    }
    if json {
        let cost = |tool: &Tool| json!({ "tool": tool.name, "tokens": tokens(tool) });
        let costs: Vec<Value> = tools.iter().map(cost).collect();
        let counted = json!({ "tokenizer": "o200k_base", "total": all, "tools": costs });
        print::json(&json!({ "server": server, "cost": counted, "findings": findings }))?;
    } else {
        let row = |tool: &Tool| (tool.name.clone(), format!("{:>5} tokens", tokens(tool)));
        print::table("what they cost", &tools.iter().map(row).collect::<Vec<_>>())?;
        findings::show(&findings)?;
    }
    let several = if tools.len() == 1 { "tool" } else { "tools" };
    let fine = format!(
        "{} {several}, {all} tokens as OpenAI's o200k counts them; other models count a little differently.",
        tools.len()
    );
    findings::verdict(&findings, lint.strict, &fine, json)
}

/// What only the scripts of a folder show.
async fn of_folder(server: &str) -> Result<Vec<Finding>, Box<dyn Error>> {
    if !Path::new(server).is_dir() {
        return Ok(vec![]);
    }
    let scripts = project::folder(Path::new(server))?;
    let of = |program| validate::warnings(program).chain(options::undeclared(program));
    let found = scripts.programs().borrow().iter().flat_map(of).collect();
    scripts.processes().end().await;
    Ok(found)
}

/// What a model is shown of a tool, in tokens.
fn tokens(tool: &Tool) -> usize {
    let shown = json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    });
    tiktoken_rs::o200k_base_singleton().encode_ordinary(&shown.to_string()).len()
}

fn of(tool: &Tool, server: &str, is_folder: bool) -> Vec<Finding> {
    let mut found = vec![];
    let mut warn = |why: String, fix: &str| {
        found.push(Finding::warning(&tool.name, why).fix(fix));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !tool.name.chars().all(plain) {
        warn(
            "has a name that OpenAI and Anthropic refuse".to_owned(),
            "use letters, digits, _ and - only",
        );
    }
    let length = format!("mcp__{server}__{}", tool.name).chars().count();
    if length > LONGEST_NAME {
        let why = format!("is {length} characters long as clients name it, and {LONGEST_NAME} fit");
        warn(why, "shorten its name or the server's");
    }
    let description = tool.description.as_deref().unwrap_or_default().trim();
    match description.chars().count() {
        0 => warn(
            "has no description: the model has only its name to go by".to_owned(),
            match is_folder {
                true => "say what it does, and when to use it, in the comment at its top",
                false => "say what it does, and when to use it",
            },
        ),
        1..15 => warn(
            format!("says very little of itself: \"{description}\""),
            "say what it does, and when to use it",
        ),
        length if length > LONGEST_DESCRIPTION => warn(
            format!(
                "has a description of {length} characters; some clients cut it at {LONGEST_DESCRIPTION}"
            ),
            "keep what the model needs to choose it",
        ),
        _ => (),
    }
    if description.contains("(The model reads this sentence") {
        warn("still says what `zcp new` wrote".to_owned(), "say what it does, and when to use it");
    }
    let silent = silent(&tool.input_schema);
    if !silent.is_empty() {
        let why = format!("says nothing of {}", silent.join(", "));
        let fix = match is_folder {
            true => "a few words for each argument: @param NAME TYPE words",
            false => "a few words for each argument: its `description` in the input schema",
        };
        warn(why, fix);
    }
    let cost = tokens(tool);
    if cost > DEAR {
        warn(
            format!("costs {cost} tokens in every conversation"),
            "shorten its description and schema",
        );
    }
    found.extend(portable::check(&tool.input_schema).into_iter().map(|wrong| {
        let finding = match wrong.is_fatal {
            true => Finding::error(&tool.name, wrong.why),
            false => Finding::warning(&tool.name, wrong.why),
        };
        finding.fix(wrong.fix)
    }));
    found
}

/// Arguments that nothing is said of.
fn silent(schema: &Value) -> Vec<String> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let is_silent = |schema: &Value| {
        schema["description"].as_str().unwrap_or_default().is_empty()
            && schema["title"].as_str().unwrap_or_default().is_empty()
            && schema.get("enum").is_none()
    };
    properties
        .filter(|(_, schema)| is_silent(schema))
        .map(|(name, _)| format!("`{name}`"))
        .collect()
}

/// Tools a model cannot tell apart.
fn same(tools: &[Tool]) -> Vec<Finding> {
    let mut by_words: HashMap<&str, &str> = HashMap::new();
    let mut found = vec![];
    for tool in tools {
        let Some(words) = tool.description.as_deref().filter(|text| !text.is_empty()) else {
            continue;
        };
        if let Some(first) = by_words.insert(words, &tool.name) {
            let why = format!("says the same of itself as `{first}`: a model cannot choose");
            found.push(Finding::warning(&tool.name, why).fix("say how they differ"));
        }
    }
    found
}
