//! A call without a wire, for tests and tools. Run it: `cargo run -p zcp --example in_process`

use serde_json::{Value, json};
use std::error::Error;
use zcp::{
    Mcp, Server, tool,
    wire::{Frame, Id, Peer, Request},
};

/// Add two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Sends a request, and gives its result.
async fn ask(server: &impl Peer, method: &str, mut params: Value) -> Result<Value, Box<dyn Error>> {
    // What every request of 2026-07-28 says about itself.
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = Frame::Request(Request {
        id: Id::number(1),
        method: method.into(),
        params: Some(params.to_string().into()),
    });
    let answer = server.send(request, Default::default()).response().await;
    let answer = answer.ok_or("the call was cancelled")?;
    Ok(serde_json::from_str(&answer.result?)?)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "this is what it is for")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Mcp::new(Server::new("demo").tool(add).build()?);
    let params = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
    let result = ask(&server, "tools/call", params).await?;
    println!("1 + 2 = {}", result["content"][0]["text"].as_str().unwrap_or("?"));
    Ok(())
}
