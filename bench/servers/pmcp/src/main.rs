//! The pmcp server of the benchmark. Its path is `/`, and over HTTP it serves both revisions at once.

mod bench;

use axum::serve::ListenerExt;
use bench_shared::{Mode, Wire, one_thread};
use pmcp::server::{
    axum_router::{RouterConfig, concurrent_router_with_config},
    streamable_http_server::StreamableHttpServerConfig,
};
use std::{error::Error, sync::Arc};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let wire = Wire::from_args(std::env::args().skip(1))?;
    one_thread()?.block_on(async {
        match wire {
            Wire::Stdio => Ok(bench::server()?.run_stdio().await?),
            Wire::Http { port, mode } => http(port, mode).await,
        }
    })
}

/// Its own listener would delay what it sends, and its documented router serves one request at a time.
async fn http(port: u16, mode: Mode) -> Result<(), Box<dyn Error>> {
    let config = RouterConfig { server_config: config(mode), ..RouterConfig::default() };
    let router = concurrent_router_with_config(Arc::new(bench::server()?), config);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

/// Answers are plain JSON, and nothing is kept for clients that would resume a stream.
fn config(mode: Mode) -> StreamableHttpServerConfig {
    match mode {
        Mode::Modern => StreamableHttpServerConfig::stateless(),
        Mode::Session => StreamableHttpServerConfig {
            enable_json_response: true,
            event_store: None,
            ..StreamableHttpServerConfig::default()
        },
    }
}
