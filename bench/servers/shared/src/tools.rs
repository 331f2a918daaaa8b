//! The tools that fill a server's list besides `echo` and `add`.

use serde_json::Value;

const TOOLS: &str = include_str!("../../../tools.json");
const DEFAULT_COUNT: usize = 100;
/// `echo` and `add`, which every server has of its own.
const WORKING: usize = 2;

/// How many tools to offer in all: what the environment's `TOOLS` says, or 100.
#[expect(clippy::disallowed_methods, reason = "this is the servers' command line")]
pub fn tool_count() -> usize {
    std::env::var("TOOLS").ok().and_then(|count| count.parse().ok()).unwrap_or(DEFAULT_COUNT)
}

/// The tools besides `echo` and `add` of a server with `count` in all, as `tools/list` shows them.
/// Those of tools.json come first; then they come again, with a number to their name.
pub fn filler_tools(count: usize) -> Vec<Value> {
    let mut tools: Vec<Value> = serde_json::from_str(TOOLS).expect("tools.json is a list");
    tools.drain(..WORKING);
    let (fillers, wanted) = (tools.len(), count.saturating_sub(WORKING));
    for at in fillers..wanted {
        let again = numbered(&tools[at % fillers], at / fillers);
        tools.push(again);
    }
    tools.truncate(wanted);
    tools
}

/// A copy of the tool, of so many.
fn numbered(tool: &Value, round: usize) -> Value {
    let mut tool = tool.clone();
    let name = tool["name"].as_str().expect("a tool has a name");
    tool["name"] = format!("{name}_{}", round + 1).into();
    tool
}
