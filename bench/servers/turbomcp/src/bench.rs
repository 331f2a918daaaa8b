//! The tools, as its `#[server]` macro would make them if their schemas were given.

use bench_shared::{filler_tools, tool_count};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{collections::HashMap, sync::Arc};
use turbomcp::{
    CallToolContext, Implementation, IntoCallToolResult, Json, ListToolsContext, McpError,
    McpResult, McpServerCore, WithTools,
    neutral::{CallToolParams, CallToolResult, ListParams, ListToolsResult, Tool, ToolAnnotations},
};

/// The server; a clone is made for each request.
#[derive(Clone)]
pub(crate) struct Bench {
    tools: Arc<[Tool]>,
    places: Arc<HashMap<String, usize>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let fillers = filler_tools(tool_count()).into_iter().map(filler);
        let tools: Arc<[Tool]> = [echo_tool(), add_tool()].into_iter().chain(fillers).collect();
        let names = tools.iter().map(|tool| tool.name.clone());
        let places = Arc::new(names.zip(0..).collect());
        Self { tools, places }
    }
}

impl McpServerCore for Bench {
    fn server_info(&self) -> Implementation {
        Implementation::new("bench", "0")
    }
}

impl WithTools for Bench {
    async fn lookup_tool(&self, _: &ListToolsContext, name: String) -> McpResult<Option<Tool>> {
        Ok(self.places.get(&name).map(|place| self.tools[*place].clone()))
    }

    async fn list_tools(&self, _: &ListToolsContext, _: ListParams) -> McpResult<ListToolsResult> {
        Ok(ListToolsResult::new(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        _: &CallToolContext,
        CallToolParams { name, arguments, .. }: CallToolParams,
    ) -> McpResult<CallToolResult> {
        match name.as_str() {
            "echo" => echo(read(arguments)?).into_call_tool_result(),
            "add" => add(&read(arguments)?).into_call_tool_result(),
            _ => "ok".into_call_tool_result(),
        }
    }
}

#[derive(Deserialize)]
struct EchoArguments {
    text: String,
}

#[derive(Deserialize)]
struct AddArguments {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> McpResult<T> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| McpError::invalid_params(error.to_string()))
}

fn echo(arguments: EchoArguments) -> String {
    arguments.text
}

fn add(arguments: &AddArguments) -> Json<Sum> {
    Json(Sum { sum: arguments.a + arguments.b })
}

fn echo_tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "text": { "type": "string", "description": "Text to echo" } },
        "required": ["text"],
    });
    Tool::new("echo", schema).with_description("Echo the text back to the caller.")
}

fn add_tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
    });
    let output = json!({
        "type": "object",
        "properties": { "sum": { "type": "integer" } },
        "required": ["sum"],
    });
    Tool::new("add", schema).with_description("Add two integers.").with_output_schema(output)
}

fn filler(mut shown: Value) -> Tool {
    let schema = shown["inputSchema"].take();
    let text = |key: &str| shown[key].as_str().unwrap_or_default();
    let hint = |key: &str| shown["annotations"][key].as_bool();

    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = hint("readOnlyHint");
    hints.destructive_hint = hint("destructiveHint");
    hints.idempotent_hint = hint("idempotentHint");
    hints.open_world_hint = hint("openWorldHint");
    Tool::new(text("name"), schema)
        .with_title(text("title"))
        .with_description(text("description"))
        .with_annotations(hints)
}
