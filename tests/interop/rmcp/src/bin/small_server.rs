//! A small server made with rmcp: `stdio`, or `http PORT`.

use std::{env, error::Error};

use rmcp::{
    ErrorData, Json, RoleServer, ServerHandler, ServiceExt,
    handler::server::wrapper::Parameters,
    model::{
        Implementation, ListResourcesResult, PaginatedRequestParams, PromptMessage,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
        ResourceContents, Role, ServerCapabilities, ServerConfig,
    },
    prompt, prompt_handler, prompt_router,
    service::RequestContext,
    tool, tool_handler, tool_router,
    transport::{
        stdio,
        streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

const TEXT: &str = "small://text";

struct Small;

#[derive(Deserialize, JsonSchema)]
struct Terms {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    result: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Guest {
    name: String,
}

#[tool_router]
impl Small {
    #[tool(description = "Add two numbers.")]
    fn add(&self, Parameters(Terms { a, b }): Parameters<Terms>) -> Json<Sum> {
        Json(Sum { result: a + b })
    }

    #[tool(description = "Always fails.")]
    fn fail(&self) -> Result<String, String> {
        Err("as it should".into())
    }
}

#[prompt_router]
impl Small {
    #[prompt]
    async fn greet(&self, Parameters(Guest { name }): Parameters<Guest>) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, format!("Greet {name}."))]
    }
}

#[tool_handler]
#[prompt_handler]
impl ServerHandler for Small {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("small-rmcp", "1"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(TEXT, "text")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != TEXT {
            return Err(ErrorData::resource_not_found("no such resource", None));
        }
        let contents = vec![ResourceContents::text("some text", TEXT)];
        Ok(ReadResourceResult::new(contents).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("stdio"), None) => {
            Small.serve(stdio()).await?.waiting().await?;
        }
        (Some("http"), Some(port)) => {
            let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
            let sessions = LocalSessionManager::default();
            let service =
                StreamableHttpService::new(|| Ok(Small), sessions.into(), Default::default());
            let routes = axum::Router::new().nest_service("/mcp", service);
            axum::serve(listener, routes).await?;
        }
        _ => return Err("use `stdio` or `http PORT`".into()),
    }
    Ok(())
}
