//! Connections: accepted, limited, and drained at the end.

use super::{
    Door, Limits,
    watch::{self, Connected, Watch},
};
use crate::{runtime::metrics::Counted, transport::DRAIN};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::gauge::Gauge;
use std::{
    future::{Future, poll_fn},
    io,
    os::unix::fs::FileTypeExt,
    path::Path,
    pin::Pin,
    sync::{Arc, atomic::AtomicI64},
    task::Poll,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
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
    pub(super) door: Door,
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
        let connected = Connected::default();
        let mut timer = watch::timer(&self.limits);
        loop {
            let stream = tokio::select! {
                stream = next(&listener, &slots) => stream,
                _ = timer.tick() => {
                    connected.tick();
                    continue;
                }
                () = self.stop.cancelled() => break,
            };
            match stream {
                Ok((stream, slot)) => self.spawn(stream, slot, connected.add()),
                // Out of files, or a connection that died before it was taken.
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        connected.stop();
        self.tracker.close();
        if tokio::time::timeout(DRAIN, self.tracker.wait()).await.is_err() {
            tracing::warn!("stopped with work under way: it took longer than {DRAIN:?} to end");
        }
        Ok(())
    }

    fn spawn(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        slot: OwnedSemaphorePermit,
        watch: Arc<Watch>,
    ) {
        let (door, watched) = (self.door.clone(), watch.clone());
        let service = service_fn(move |request| door.clone().answer(request, watched.clone()));
        let mut connection = http1::Builder::new()
            .max_buf_size(self.limits.headers)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let held = (slot, Counted::new(&self.connections));
        self.tracker.spawn(async move {
            let ended = poll_fn(|context| {
                if watch.is_idle(context) {
                    return Poll::Ready(Ok(()));
                }
                if watch.is_stopping() {
                    Pin::new(&mut connection).graceful_shutdown();
                }
                Pin::new(&mut connection).poll(context)
            });
            if let Err(error) = ended.await {
                tracing::debug!("a connection ended: {error}");
            }
            drop(held);
        });
    }
}

/// The next connection, when there is room for one.
async fn next<L: Listener>(
    listener: &L,
    slots: &Arc<Semaphore>,
) -> io::Result<(L::Stream, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.map_err(io::Error::other)?;
    Ok((listener.next().await?, slot))
}
