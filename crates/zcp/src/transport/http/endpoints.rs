//! Pages for those who operate the server.

use super::{
    Endpoint, Shared,
    json_answer::{json, with_type},
};
use crate::{protocol::mcp::versions, runtime::call::ListKind};
use ::http::StatusCode;
use axum::{body::Body, extract::State, response::Response};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use zcp_wire::json;

/// How long the store may take to show that it is there.
const STORE: Duration = Duration::from_secs(2);

/// The process is alive.
pub(super) async fn health() -> Response {
    with_type(StatusCode::OK, "text/plain", Body::from("ok\n"))
}

/// The server takes requests; not when it is about to go, or cannot reach its store.
pub(super) async fn ready(State(http): State<Arc<Shared>>) -> Response {
    let unready = |why: String| {
        with_type(StatusCode::SERVICE_UNAVAILABLE, "text/plain", Body::from(why + "\n"))
    };
    if http.closing.is_cancelled() {
        return unready("closing".to_owned());
    }
    match tokio::time::timeout(STORE, http.runtime.store.get("ready")).await {
        Ok(Ok(_)) => with_type(StatusCode::OK, "text/plain", Body::from("ready\n")),
        Ok(Err(error)) => unready(error.for_clients().to_owned()),
        Err(_) => unready("the store does not answer".to_owned()),
    }
}

/// Who this is, what it speaks, and digests of what it offers. Instructions are for those who may
/// open a conversation.
pub(super) async fn metadata(State(http): State<Arc<Shared>>) -> Response {
    let catalog = http.runtime.catalog();
    let digests = [
        ("tools", ListKind::Tools),
        ("prompts", ListKind::Prompts),
        ("resources", ListKind::Resources),
        ("resourceTemplates", ListKind::Templates),
        ("skills", ListKind::Skills),
    ];
    let digests: serde_json::Map<_, _> = digests
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), catalog.digest(*kind).into()))
        .collect();
    let addresses = [
        (Endpoint::Mcp, "mcp", "/mcp"),
        (Endpoint::WebSocket, "websocket", "/ws"),
        (Endpoint::Sse, "sse", "/sse"),
    ];
    let addresses = addresses.iter().filter(|(endpoint, ..)| http.endpoints.contains(endpoint));
    let addresses: serde_json::Map<_, _> =
        addresses.map(|(_, name, path)| ((*name).to_owned(), (*path).into())).collect();
    let page = json!({
        "serverInfo": http.runtime.info,
        "protocolVersions": versions(&http.runtime),
        "endpoints": addresses,
        "digests": digests,
    });
    json(StatusCode::OK, json::text(&page))
}

/// Numbers, for Prometheus.
pub(super) async fn metrics(State(http): State<Arc<Shared>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    with_type(StatusCode::OK, kind, Body::from(http.runtime.numbers()))
}
