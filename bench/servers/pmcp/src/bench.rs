//! The tools, as pmcp's handlers.

use async_trait::async_trait;
use bench_shared::{filler_tools, tool_count};
use pmcp::{
    RequestHandlerExtra, Server, ToolHandler,
    server::ToolOutput,
    types::{
        CallToolResult, Content, ServerCapabilities, ToolInfo,
        protocol::{LATEST_PROTOCOL_VERSION, PROTOCOL_VERSION_2026_07_28, ProtocolVersion},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

/// A server with all the tools, of both revisions.
pub(crate) fn server() -> Result<Server, Box<dyn std::error::Error>> {
    let versions = [LATEST_PROTOCOL_VERSION, PROTOCOL_VERSION_2026_07_28];
    let mut builder = Server::builder()
        .name("bench")
        .version("0")
        .capabilities(ServerCapabilities::tools_only())
        .with_supported_protocol_versions(versions.map(|version| ProtocolVersion(version.into())))
        .tool("echo", Echo)
        .tool("add", Add);
    for shown in filler_tools(tool_count()) {
        let info: ToolInfo = serde_json::from_value(shown)?;
        builder = builder.tool(info.name.clone(), Filler { info });
    }
    Ok(builder.build()?)
}

struct Echo;

#[derive(Deserialize)]
struct EchoArguments {
    text: String,
}

#[async_trait]
impl ToolHandler for Echo {
    async fn handle(&self, arguments: Value, _: RequestHandlerExtra) -> pmcp::Result<Value> {
        let arguments: EchoArguments = serde_json::from_value(arguments)?;
        Ok(arguments.text.into())
    }

    /// A plain value would be sent as JSON, with quotes around the text.
    async fn handle_output(
        &self,
        arguments: Value,
        _: RequestHandlerExtra,
    ) -> pmcp::Result<ToolOutput> {
        let arguments: EchoArguments = serde_json::from_value(arguments)?;
        Ok(ToolOutput::Result(CallToolResult::new(vec![Content::text(arguments.text)])))
    }

    fn metadata(&self) -> Option<ToolInfo> {
        let description = "Echo the text back to the caller.".to_owned();
        let schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": "Text to echo" } },
            "required": ["text"],
        });
        Some(ToolInfo::new("echo", Some(description), schema))
    }
}

struct Add;

#[derive(Deserialize)]
struct AddArguments {
    a: i64,
    b: i64,
}

#[async_trait]
impl ToolHandler for Add {
    async fn handle(&self, arguments: Value, _: RequestHandlerExtra) -> pmcp::Result<Value> {
        let AddArguments { a, b } = serde_json::from_value(arguments)?;
        Ok(json!({ "sum": a + b }))
    }

    fn metadata(&self) -> Option<ToolInfo> {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
            "required": ["a", "b"],
        });
        let mut info = ToolInfo::new("add", Some("Add two integers.".to_owned()), schema);
        info.output_schema = Some(json!({
            "type": "object",
            "properties": { "sum": { "type": "integer" } },
            "required": ["sum"],
        }));
        Some(info)
    }
}

struct Filler {
    info: ToolInfo,
}

#[async_trait]
impl ToolHandler for Filler {
    async fn handle(&self, _: Value, _: RequestHandlerExtra) -> pmcp::Result<Value> {
        Ok("ok".into())
    }

    fn metadata(&self) -> Option<ToolInfo> {
        Some(self.info.clone())
    }
}
