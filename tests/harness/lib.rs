//! What whole-path tests are written with: servers on real wires, messages as JSON.
#![expect(clippy::needless_pass_by_value, reason = "tests read best with `json!(..)` in place")]

pub mod actor;
pub mod away;
pub mod examples;
#[path = "../../crates/zcp/examples/everything/server/mod.rs"]
mod fixture;
pub mod folder;
#[cfg(doctest)]
mod guides;
pub mod http;
pub mod issuer;
mod lined;
pub mod matching;
pub mod memory;
pub mod pipe;
pub mod project;
pub mod redis;
pub mod relay;
pub mod replica;
pub mod rich;
pub mod script;
pub mod socket;
pub mod sse2024;
pub mod talk;
pub mod unix;
pub mod wire;

use serde_json::{Value, json};
use std::time::Duration;
use zcp::Server;

/// How long a test waits for something: long, because a machine that runs all tests is busy.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The newest revision.
pub const NEWEST: &str = "2026-07-28";
/// The revisions that begin with a handshake.
pub const HANDSHAKES: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Every capability a client can declare.
pub fn all_capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "roots": {},
        "sampling": { "tools": {}, "context": {} } })
}

/// The fixture server, as an example has it.
pub fn everything() -> Server {
    fixture::everything()
}

/// A request.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A notification.
pub fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// The response to a request of the server's.
pub fn response(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A stateless request: the parameters, and the `_meta` of a client that can do everything.
pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> Value {
    modern_as(id, method, params, all_capabilities())
}

/// A stateless request of a client with some capabilities. Members of `params._meta` win.
pub fn modern_as(
    id: impl Into<Value>,
    method: &str,
    mut params: Value,
    capabilities: Value,
) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    if let (Some(own), Some(all)) = (params["_meta"].as_object(), meta.as_object_mut()) {
        all.extend(own.clone());
    }
    params["_meta"] = meta;
    request(id, method, params)
}

/// The `initialize` of a client that can do everything.
pub fn initialize(id: impl Into<Value>, version: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    request(
        id,
        "initialize",
        json!({ "protocolVersion": version, "capabilities": all_capabilities(), "clientInfo": client }),
    )
}

/// A call of a tool.
pub fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// The first text of a tool's result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}
