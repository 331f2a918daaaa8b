//! The wires: stdio, and HTTP either through axum as documented or straight on hyper.

use crate::bench::Bench;
use bench_shared::{Mode, Wire, one_thread};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ServiceExt,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use std::{error::Error, io, sync::Arc};
use tokio::net::TcpListener;

type Service = StreamableHttpService<Arc<Bench>, LocalSessionManager>;

/// Serves what the command line asks for, as rmcp's documentation does it.
pub fn run_default() -> Result<(), Box<dyn Error>> {
    run(async |listener, mode| with_axum(listener, service(config(mode))?).await)
}

/// Serves what the command line asks for, with all that makes rmcp faster.
pub fn run_best() -> Result<(), Box<dyn Error>> {
    run(async |listener, mode| {
        let quiet = config(mode).with_sse_keep_alive(None).with_sse_retry(None);
        with_hyper(listener, service(quiet)?).await
    })
}

fn run(http: impl AsyncFnOnce(TcpListener, Mode) -> io::Result<()>) -> Result<(), Box<dyn Error>> {
    let wire = Wire::from_args(std::env::args().skip(1))?;
    one_thread()?.block_on(async {
        match wire {
            Wire::Stdio => stdio().await,
            Wire::Http { port, mode } => {
                let listener = TcpListener::bind(("127.0.0.1", port)).await?;
                Ok(http(listener, mode).await?)
            }
        }
    })
}

async fn stdio() -> Result<(), Box<dyn Error>> {
    Bench::new()?.serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}

/// Answers are plain JSON where rmcp can: with sessions, it always answers with an event stream.
fn config(mode: Mode) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(mode == Mode::Session)
        .with_json_response(mode == Mode::Modern)
}

fn service(config: StreamableHttpServerConfig) -> io::Result<Service> {
    let bench = Arc::new(Bench::new()?);
    let sessions = Arc::new(LocalSessionManager::default());
    Ok(StreamableHttpService::new(move || Ok(bench.clone()), sessions, config))
}

async fn with_axum(listener: TcpListener, service: Service) -> io::Result<()> {
    use axum::serve::ListenerExt;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await
}

#[expect(clippy::disallowed_methods, reason = "connections live as long as the process")]
async fn with_hyper(listener: TcpListener, service: Service) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service),
        );
    }
}
