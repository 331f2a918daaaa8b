//! Connections: accepted, limited, and drained at the end.

use super::Limits;
use crate::{runtime::metrics::Counted, transport::DRAIN};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use prometheus_client::metrics::gauge::Gauge;
use std::{
    future::Future,
    io,
    os::unix::fs::FileTypeExt,
    path::Path,
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Where connections come from.
trait Listener: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Everything a listener needs to serve.
pub(super) struct Serving {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
    pub(super) connections: Gauge<i64, AtomicI64>,
}

impl Serving {
    pub(super) async fn tcp(self, listener: TcpListener) -> io::Result<()> {
        self.accept(listener).await
    }

    pub(super) async fn unix(self, path: &Path) -> io::Result<()> {
        // A socket nobody answers is what an earlier server left behind.
        let socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let served = self.accept(listener).await;
        let _ = std::fs::remove_file(path);
        served
    }

    async fn accept(self, listener: impl Listener) -> io::Result<()> {
        let slots = Arc::new(Semaphore::new(self.limits.connections));
        loop {
            let slot = tokio::select! {
                slot = slots.clone().acquire_owned() => slot.map_err(io::Error::other)?,
                () = self.stop.cancelled() => break,
            };
            let stream = tokio::select! {
                stream = listener.next() => stream,
                () = self.stop.cancelled() => break,
            };
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => {
                    // Out of files, or a connection that died before it was taken.
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let counted = Counted::new(&self.connections);
            let service = TowerToHyperService::new(self.router.clone());
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                // Also how long a connection may wait for its next request.
                .header_read_timeout(self.limits.read * 2)
                .max_buf_size(self.limits.headers)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            let stop = self.stop.clone();
            self.tracker.spawn(async move {
                let _held = (slot, counted);
                let mut connection = std::pin::pin!(connection);
                let ended = tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = stop.cancelled() => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
            });
        }
        self.tracker.close();
        if tokio::time::timeout(DRAIN, self.tracker.wait()).await.is_err() {
            tracing::warn!("stopped with work under way: it took longer than {DRAIN:?} to end");
        }
        Ok(())
    }
}
