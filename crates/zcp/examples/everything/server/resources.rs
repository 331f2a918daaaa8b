//! Resources: text, bytes, and a family.

use serde_json::json;
use zcp::{Contents, Json, Resource, Server, resource};

/// A text that never changes.
#[resource("test://static-text", name = "static-text", mime_type = "text/plain")]
async fn static_text() -> &'static str {
    "This is the content of the static text resource."
}

/// A picture that never changes.
#[resource("test://static-binary", name = "static-binary", mime_type = "image/png")]
async fn static_binary() -> Contents {
    Contents::Bytes(super::tools::PNG.to_vec())
}

/// Data of an id.
#[resource("test://template/{id}/data", name = "template", mime_type = "application/json")]
async fn template(id: String) -> Json<serde_json::Value> {
    Json(json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }))
}

pub(crate) fn offer(server: Server) -> Server {
    server
        .resource(static_text)
        .resource(static_binary)
        .resource(Resource::from_fn(template).complete("id", ["123", "124", "456"]))
}
