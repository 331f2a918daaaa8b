//! The turbomcp server of the benchmark. It serves both revisions at once.

mod bench;

use axum::serve::ListenerExt;
use bench::Bench;
use bench_shared::{Wire, one_thread};
use std::{error::Error, io, sync::Arc};
use tokio::net::TcpListener;
use turbomcp::{
    IntoServerBuilder, LegacySessionAdapter, ServeConfig, SessionStore,
    http::{HttpConfig, router},
    serve_stdio_with,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// More than it will see. By default it forgets the oldest sessions beyond 4096, and refuses what
/// comes in while 1024 streams or calls are under way.
const MANY: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let wire = Wire::from_args(std::env::args().skip(1))?;
    one_thread()?.block_on(async {
        match wire {
            Wire::Stdio => stdio().await,
            Wire::Http { port, .. } => Ok(http(port).await?),
        }
    })
}

async fn stdio() -> Result<(), Box<dyn Error>> {
    let dispatcher = Bench::new().into_server().with_tools().build();
    let config = ServeConfig { max_in_flight: MANY, ..ServeConfig::default() };
    Ok(serve_stdio_with(LegacySessionAdapter::new(dispatcher), config).await?)
}

/// What its `run_http` does, on a listener of our own that sends without delay.
async fn http(port: u16) -> io::Result<()> {
    let sessions = Arc::new(SessionStore::with_capacity(MANY));
    let server = Bench::new().into_server().with_tools().with_session_backend(sessions);
    let dispatcher = server.build();
    let terminator = Arc::new(dispatcher.session_terminator());
    let config =
        HttpConfig::new().max_concurrent_requests(MANY).with_session_terminator(terminator);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router(dispatcher, config)).await
}
