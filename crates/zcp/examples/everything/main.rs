//! Everything the official conformance suite looks for, and a little more: a normal user of the
//! public API.
//!
//! `cargo run --release -p zcp --example everything -- --http 127.0.0.1:8787` (or `--stdio`). With the
//! features `sqlite` and `redis`, state is in `--data FILE` or `--store redis://…`.

mod server;

use std::{net::SocketAddr, path::PathBuf};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
#[cfg(feature = "redis")]
use zcp::store::redis::Redis;
#[cfg(feature = "sqlite")]
use zcp::store::sqlite::Sqlite;
use zcp::{Http, Server, Stdio};
#[cfg(any(feature = "redis", feature = "sqlite"))]
use zcp::{
    KeyRing,
    store::{Store, StoreResult},
};

/// State and keys in a store, which may be shared by several of these.
#[cfg(any(feature = "redis", feature = "sqlite"))]
async fn kept_in(store: impl Store, server: Server) -> StoreResult<Server> {
    let keys = KeyRing::kept_in(&store).await?;
    Ok(server.store(store).keys(keys))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut stdio, mut http, mut unix) = (None, None, None);
    let mut server = server::everything();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--stdio" => stdio = Some(Stdio),
            "--http" => http = Some(Http::new(value()?.parse::<SocketAddr>()?)),
            "--unix" => unix = Some(Http::unix(PathBuf::from(value()?))),
            #[cfg(feature = "sqlite")]
            "--data" => server = kept_in(Sqlite::open(value()?)?, server).await?,
            #[cfg(feature = "redis")]
            "--store" => server = kept_in(Redis::new(&value()?)?, server).await?,
            "--page-size" => server = server.page_size(value()?.parse()?),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    if stdio.is_none() && http.is_none() && unix.is_none() {
        return Err("say where: --http 127.0.0.1:8787, --unix PATH or --stdio".into());
    }

    let stop = CancellationToken::new();
    let mut terminated = signal(SignalKind::terminate())?;
    let serving = server.serve_until((stdio, http, unix), stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return Ok(served?),
        _ = terminated.recv() => stop.cancel(),
    }
    Ok(serving.await?)
}
