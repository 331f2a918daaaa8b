//! The tools, under rmcp's macros.

use bench_shared::{filler_tools, tool_count};
use rmcp::{
    Json, ServerHandler,
    handler::server::{
        router::tool::{ToolRoute, ToolRouter},
        tool::ToolCallContext,
        wrapper::Parameters,
    },
    model::{
        CallToolResult, ContentBlock, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    },
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The handler. Sharing one saves a copy of the router for each request.
pub(crate) struct Bench {
    tool_router: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
struct EchoArguments {
    /// Text to echo
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct AddArguments {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[tool_router]
impl Bench {
    pub(crate) fn new() -> serde_json::Result<Self> {
        let mut tool_router = Self::tool_router();
        for shown in filler_tools(tool_count()) {
            tool_router.add_route(filler(shown)?);
        }
        Ok(Self { tool_router })
    }

    #[tool(description = "Echo the text back to the caller.")]
    async fn echo(&self, Parameters(arguments): Parameters<EchoArguments>) -> String {
        arguments.text
    }

    #[tool(description = "Add two integers.")]
    async fn add(&self, Parameters(arguments): Parameters<AddArguments>) -> Json<Sum> {
        Json(Sum { sum: arguments.a + arguments.b })
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Bench {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }
}

fn filler(shown: Value) -> serde_json::Result<ToolRoute<Bench>> {
    let tool: Tool = serde_json::from_value(shown)?;
    Ok(ToolRoute::new_dyn(tool, |_: ToolCallContext<'_, Bench>| {
        Box::pin(async { Ok(CallToolResult::success(vec![ContentBlock::text("ok")]).into()) })
    }))
}
