//! The ZCP server of the benchmark, written as its guide says.

use bench_shared::{Wire, filler_tools, one_thread, tool_count};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::error::Error;
use std::time::Duration;
use zcp::{
    Ctx, Http, Json, Live, Server, Stdio, Tasks, Tool,
    store::{StoreError, redis::Redis, sqlite::Sqlite},
    tool,
};

/// Serves what the command line asks for, until the end.
pub fn run() -> Result<(), Box<dyn Error>> {
    let wire = Wire::from_args(std::env::args().skip(1))?;
    one_thread()?.block_on(async {
        let server = kept(server())?;
        match wire {
            Wire::Stdio => server.serve(Stdio).await,
            // Both kinds of clients are served at once.
            Wire::Http { port, .. } => server.serve(Http::new(([127, 0, 0, 1], port))).await,
        }
    })?;
    Ok(())
}

/// State where the variable `STORE` says: a file, or a Redis.
fn kept(server: Server) -> Result<Server, zcp::Error> {
    let Ok(place) = std::env::var("STORE") else { return Ok(server) };
    let failed = |error: StoreError| zcp::Error::Io(std::io::Error::other(error));
    let server = match place.as_str() {
        "memory" => server,
        url if url.starts_with("redis") => server.store(Redis::new(url).map_err(failed)?),
        file => server.store(Sqlite::open(file).map_err(failed)?),
    };
    Ok(server.tool(later).tool(events).tasks(Tasks::default().max_concurrent(100_000)))
}

/// Becomes a task that is done at once.
#[tool(long_running)]
async fn later() -> &'static str {
    "done"
}

/// Says so many times how far it is.
#[tool]
async fn events(count: u32, ctx: Ctx) -> String {
    for event in 0..count {
        ctx.progress(f64::from(event), f64::from(count));
        tokio::time::sleep(Duration::from_millis(12)).await;
    }
    "done".to_owned()
}

fn server() -> Server {
    let count = tool_count();
    let server = Server::new("bench")
        // As the other servers do: a page holds all, and clients may listen for changes.
        .page_size(count)
        .provide(Live::default())
        .tool(echo)
        .tool(add);
    filler_tools(count).into_iter().map(filler).fold(server, Server::tool)
}

/// Echo the text back to the caller.
#[tool]
async fn echo(
    /// Text to echo
    text: String,
) -> String {
    text
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// Add two integers.
#[tool]
async fn add(a: i64, b: i64) -> Json<Sum> {
    Json(Sum { sum: a + b })
}

fn filler(mut shown: Value) -> Tool {
    let text = |key: &str| shown[key].as_str().unwrap_or_default();
    let hint = |key: &str| shown["annotations"][key] == true;

    let mut tool = Tool::new(text("name"), async || "ok")
        .title(text("title"))
        .description(text("description"))
        .destructive(hint("destructiveHint"))
        .open_world(hint("openWorldHint"));
    if hint("readOnlyHint") {
        tool = tool.read_only();
    }
    if hint("idempotentHint") {
        tool = tool.idempotent();
    }
    tool.input_schema(shown["inputSchema"].take())
}
