//! What changes while the server runs.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use zcp::{Catalog, Ctx, Live, Prompt, Resource, Result, Server, State, Tool, tool};

/// How often each kind of offer has changed.
#[derive(Clone)]
struct Changing {
    live: Live,
    tools: Arc<AtomicU64>,
    prompts: Arc<AtomicU64>,
    watched: Arc<AtomicU64>,
}

impl Changing {
    fn show(&self) {
        let tool = format!("The tools changed {} times.", self.tools.load(Ordering::SeqCst));
        let prompt = format!("The prompts changed {} times.", self.prompts.load(Ordering::SeqCst));
        let catalog = Catalog::default()
            .tool(Tool::new("test_changing_tool", async || "I change").description(tool))
            .prompt(Prompt::new("test_changing_prompt", async || "I change").description(prompt));
        self.live.set(catalog);
    }
}

/// Changes the list of tools.
#[tool]
async fn test_trigger_tool_change(changing: State<Changing>) -> &'static str {
    changing.tools.fetch_add(1, Ordering::SeqCst);
    changing.show();
    "The tools changed."
}

/// Changes the list of prompts.
#[tool]
async fn test_trigger_prompt_change(changing: State<Changing>) -> &'static str {
    changing.prompts.fetch_add(1, Ordering::SeqCst);
    changing.show();
    "The prompts changed."
}

/// Changes test://watched-resource.
#[tool]
async fn test_trigger_resource_update(changing: State<Changing>, ctx: Ctx) -> Result<&'static str> {
    changing.watched.fetch_add(1, Ordering::SeqCst);
    ctx.updated("test://watched-resource").await?;
    Ok("The resource changed.")
}

async fn watched(changing: State<Changing>) -> String {
    format!("Changed {} times.", changing.watched.load(Ordering::SeqCst))
}

pub(crate) fn offer(server: Server) -> Server {
    let changing = Changing {
        live: Live::default(),
        tools: Arc::default(),
        prompts: Arc::default(),
        watched: Arc::default(),
    };
    changing.show();
    let watched = Resource::new("test://watched-resource", watched)
        .name("watched-resource")
        .description("Changes when test_trigger_resource_update is called.")
        .mime_type("text/plain")
        .watched();
    server
        .provide(changing.live.clone())
        .state(changing)
        .tool(test_trigger_tool_change)
        .tool(test_trigger_prompt_change)
        .tool(test_trigger_resource_update)
        .resource(watched)
}
