//! `zcp call`: one call of a tool.

use super::{
    list,
    result::{self, Shown},
    tool_line::arguments,
};
use crate::{
    cmd::project::run,
    errors::usage,
    nearest, print,
    target::{self, Target},
};
use serde_json::{Map, Value};
use std::{
    error::Error,
    io::{IsTerminal, Read},
    path::{Path, PathBuf},
};
use zcp_client::wire::mcp::tools::{CallToolResult, Tool};

#[derive(Debug, clap::Args)]
#[command(after_help = "Arguments are strings where the tool's schema says so, and JSON otherwise.

Examples:
  zcp call https://example.com/mcp add a=1 b=2
  zcp call 'uvx mcp-server-time' get_current_time timezone=UTC
  zcp call memory create_entities --args @entities.json
  zcp call ./my-tools                     the tools it has
  zcp call ./my-tools chart -o chart.png  and its picture as a file")]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which tool. Without one, the tools are listed.
    pub(crate) tool: Option<String>,

    /// Arguments.
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,

    /// All arguments as a JSON object: the text itself, @FILE, or - for standard input.
    #[arg(long = "args", value_name = "JSON")]
    pub(crate) whole: Option<String>,

    /// Call it as a task where the server can, and follow it to its end.
    #[arg(long)]
    pub(crate) task: bool,

    /// Write what it gives to this file: an image or other bytes as they are, otherwise the text.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) async fn run(call: Call, json: bool) -> Result<(), Box<dyn Error>> {
    let whole = whole(call.whole.as_deref()).map_err(usage)?;
    let client = target::reach(&call.target, json).await?;
    let Some(name) = &call.tool else {
        list::only_tools(&client, json).await?;
        client.close().await;
        return Ok(());
    };
    // What the tool wants decides what is meant by `a=1`; older servers may not list it.
    let tools = client.list_tools().await.unwrap_or_default();
    let tool = tools.iter().find(|tool| tool.name == *name);
    let args = Value::Object(filled(whole, &call.args, tool).map_err(usage)?);
    let mut made = client.tool(name).args(args.clone());
    if call.task {
        made = made.as_task();
    }
    let folder = Path::new(&call.target.server);
    let made = followed(made, json).await;
    call.target.check_answers()?;
    let result = match made {
        Err(error) if tool.is_none() && error.is_not_found() && folder.is_dir() => {
            return Err(run::unknown(folder, name, &tools)?);
        }
        result => result.inspect_err(|error| {
            if tool.is_none() && !json {
                let known = tools.iter().map(|tool| tool.name.as_str());
                suggest(error, name, known);
            }
        })?,
    };
    let is_whole = call.target.is_started_here();
    let shown = Shown { json, file: call.output, is_whole, is_run: false };
    result::show(&client, &result, &shown).await?;
    client.close().await;
    match result.is_error {
        true => Err(result::failure(&result, tool, &args, false)),
        false => Ok(()),
    }
}

/// Names what was probably meant, if the server refused a name that it does not list.
pub(crate) fn suggest<'a>(
    error: &zcp_client::Error,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) {
    let mut known = known.peekable();
    if error.is_not_found() && known.peek().is_some() {
        print::aside(&format!("hint: {}", nearest::hint(name, known)));
    }
}

/// Makes a call, and shows how far it is.
pub(crate) async fn followed(
    mut made: zcp_client::Call<'_>,
    json: bool,
) -> Result<CallToolResult, zcp_client::Error> {
    if !json && std::io::stderr().is_terminal() {
        made = made.on_state(|state| print::state(&state));
    }
    let result = made.send().await;
    if !json {
        print::no_progress();
    }
    result
}

/// What was given as a whole, and what was given by name.
pub(crate) fn filled(
    mut whole: Map<String, Value>,
    named: &[String],
    tool: Option<&Tool>,
) -> Result<Map<String, Value>, Box<dyn Error>> {
    for text in named {
        let (name, value) = pair(text, tool)?;
        if let Some(tool) = tool {
            is_known(&name, tool)?;
        }
        whole.insert(name, value);
    }
    Ok(whole)
}

/// Whether a tool that names its arguments has one of this name.
fn is_known(name: &str, tool: &Tool) -> Result<(), Box<dyn Error>> {
    let known = tool.input_schema["properties"].as_object();
    let Some(known) = known.filter(|known| !known.is_empty()) else { return Ok(()) };
    let takes_more =
        !matches!(tool.input_schema.get("additionalProperties"), None | Some(Value::Bool(false)));
    if takes_more || known.contains_key(name) {
        return Ok(());
    }
    let hint = nearest::hint(name, known.keys().map(String::as_str));
    Err(format!("`{}` has no argument `{name}`: {hint}", tool.name).into())
}

/// All arguments, from where it is said they are.
pub(crate) fn whole(text: Option<&str>) -> Result<Map<String, Value>, Box<dyn Error>> {
    let Some(text) = text else { return Ok(Map::new()) };
    let text = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
        None if text == "-" => {
            let mut all = String::new();
            std::io::stdin().read_to_string(&mut all)?;
            all
        }
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("--args is no JSON object: {error}").into())
}

/// `name=value`: text where the tool wants text, otherwise JSON, otherwise text.
fn pair(text: &str, tool: Option<&Tool>) -> Result<(String, Value), Box<dyn Error>> {
    let (name, value) = text.split_once('=').ok_or_else(|| match tool {
        Some(tool) => nameless(text, tool),
        None => format!("`{text}` is not NAME=VALUE"),
    })?;
    let kind = tool.map(|tool| &tool.input_schema["properties"][name]["type"]);
    let value = match kind.and_then(Value::as_str) {
        Some("string") => value.into(),
        _ => serde_json::from_str(value).unwrap_or_else(|_| value.into()),
    };
    Ok((name.to_owned(), value))
}

/// What to write instead of a value without a name.
fn nameless(text: &str, tool: &Tool) -> String {
    let known = arguments(&tool.input_schema);
    let meant = known.iter().find(|one| one.is_required).or(known.first());
    match meant {
        Some(one) => {
            let value = shell_words::quote(text);
            format!("`{text}` is not NAME=VALUE: write `{}={value}`", one.name)
        }
        None => format!("`{text}` is not NAME=VALUE, and `{}` takes no arguments yet", tool.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_schema_decides_what_is_meant() {
        let schema =
            json!({ "properties": { "id": { "type": "string" }, "n": { "type": "integer" } } });
        let tool = Tool { input_schema: schema, ..Tool::default() };
        let value = |text: &str| pair(text, Some(&tool)).unwrap().1;
        assert_eq!(value("id=42"), json!("42"));
        assert_eq!(value("n=42"), json!(42));
        assert_eq!(value("other=[1,2]"), json!([1, 2]));
        assert_eq!(value("other=a=b"), json!("a=b"));
        assert!(pair("no", Some(&tool)).is_err());
        let filled = |text: &str| filled(Map::new(), &[text.to_owned()], Some(&tool));
        assert!(filled("id=1").is_ok());
        let why = filled("idd=1").expect_err("there is none").to_string();
        assert!(why.contains("did you mean `id`?"), "{why}");
    }
}
