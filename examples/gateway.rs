//! Another server's tools beside your own. Run it: `cargo run -p zcp-gateway --example gateway`

use zcp::{Mcp, Server, Stdio, tool};
use zcp_gateway::{Gateway, Mount};

/// Add two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Say hello.
#[tool]
async fn hello() -> &'static str {
    "Hello."
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gateway = Gateway::builder().mount("other", Mount::endpoint(other()?)).build()?;
    // The other server's tool is `other_hello` here.
    Server::new("gateway").tool(add).provide(gateway.clone()).serve(Stdio).await?;
    gateway.close().await;
    Ok(())
}

/// A server in this process. Most are commands or URLs: `Mount::command(["uvx", "mcp-server-time"])`.
fn other() -> Result<Mcp, zcp::Error> {
    Ok(Mcp::new(Server::new("other").tool(hello).build()?))
}
