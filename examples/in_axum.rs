//! Part of an axum program. Run it: `cargo run -p zcp --example in_axum -- 127.0.0.1:8788`
//! and talk to <http://127.0.0.1:8788/mcp>

use axum::{Router, routing::get};
use std::{error::Error, net::SocketAddr};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zcp::{Http, Server, shutdown_signal, tool};

/// Greet somebody.
#[tool(read_only)]
async fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("say where: 127.0.0.1:8788")?;
    let address: SocketAddr = address.parse()?;
    let closing = CancellationToken::new();

    let runtime = Server::new("greeter").tool(greet).build()?;
    // The address tells the Host and Origin guard whether this is a local server.
    let mcp = Http::new(address).into_router(runtime, closing.clone());
    let app = Router::new().route("/", get(async || "Greetings are at /mcp.")).merge(mcp);

    let stopped = async move {
        shutdown_signal().await;
        closing.cancel(); // ends the streams that would never end by themselves
    };
    let listener = TcpListener::bind(address).await?;
    Ok(axum::serve(listener, app).with_graceful_shutdown(stopped).await?)
}
