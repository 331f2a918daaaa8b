//! Connections: accepted, limited, and drained at the end.

use super::{
    Door, Limits,
    connection_slots::Slots,
    idle::{self, Connected, Watch},
    open_files,
};
use crate::{
    runtime::metrics::{Counted, Gauge},
    transport::DRAIN,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    fmt::Display,
    fs,
    future::{Future, poll_fn},
    io::{self, Write},
    net::SocketAddr,
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::Path,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream},
    sync::OwnedSemaphorePermit,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a peer with too many connections is told.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
    Retry-After: 1\r\nContent-Type: text/plain\r\nContent-Length: 46\r\n\r\n\
    too many connections: close some, or try later";

/// How many connections wait while others are accepted.
const BACKLOG: u32 = 1024;

/// Where connections come from.
trait Listener: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and the address it comes from if there is one.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<SocketAddr>)>> + Send;

    /// Ends a connection with a word, if it can be said at once.
    fn refuse(stream: Self::Stream);
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        let (stream, address) = self.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, Some(address)))
    }

    fn refuse(stream: TcpStream) {
        let _ = stream.into_std().and_then(|mut stream| stream.write(TOO_MANY));
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Option<SocketAddr>)> {
        Ok((self.accept().await?.0, None))
    }

    fn refuse(stream: UnixStream) {
        let _ = stream.into_std().and_then(|mut stream| stream.write(TOO_MANY));
    }
}

/// Everything a listener needs to serve.
pub(super) struct Serving {
    pub(super) door: Door,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
    pub(super) connections: Gauge,
}

impl Serving {
    pub(super) async fn tcp(self, listener: TcpListener) -> io::Result<()> {
        self.accept(listener).await
    }

    pub(super) async fn unix(self, path: &Path, mode: u32) -> io::Result<()> {
        // A socket nobody answers is what an earlier server left behind.
        let socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused) {
            fs::remove_file(path)?;
        }
        let listener = listen(path, mode);
        let listener = listener.map_err(|error| cannot_listen(path.display(), &error))?;
        let ours = identity(path)?;
        let served = self.accept(listener).await;
        // Another server may have replaced it meanwhile.
        if identity(path).is_ok_and(|now| now == ours) {
            let _ = fs::remove_file(path);
        }
        served
    }

    async fn accept<L: Listener>(self, listener: L) -> io::Result<()> {
        let files = open_files::raise_to(self.limits.connections);
        let slots = Slots::new(&self.limits, files);
        let (connected, mut failures) = (Connected::default(), Failures::default());
        let mut timer = idle::timer(&self.limits);
        loop {
            let next = tokio::select! {
                next = next(&listener, &slots) => next,
                _ = timer.tick() => {
                    connected.tick();
                    slots.report();
                    failures.report();
                    continue;
                }
                () = self.stop.cancelled() => break,
            };
            match next {
                Ok((stream, address, permit)) => match slots.admit(permit, address) {
                    Some(slot) => {
                        let held = (slot, Counted::new(&self.connections));
                        self.spawn(stream, connected.add(address, held));
                    }
                    None => L::refuse(stream),
                },
                // Out of files, or a connection that died before it was taken.
                Err(error) => {
                    failures.note(&error);
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
        watch: Arc<Watch>,
    ) {
        let (door, watched) = (self.door.clone(), watch.clone());
        let service = service_fn(move |request| door.clone().answer(request, watched.clone()));
        let mut connection = http1::Builder::new()
            .max_buf_size(self.limits.headers)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
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
        });
    }
}

/// Connections that could not be accepted: the first is logged at once, and others by their number.
#[derive(Default)]
struct Failures {
    is_known: bool,
    others: usize,
}

impl Failures {
    fn note(&mut self, error: &io::Error) {
        match std::mem::replace(&mut self.is_known, true) {
            false => tracing::warn!("a connection could not be accepted: {error}"),
            true => self.others += 1,
        }
    }

    fn report(&mut self) {
        if self.others > 0 {
            tracing::warn!("{} more connections could not be accepted", self.others);
        }
        *self = Self::default();
    }
}

/// The next connection, when there is room for one.
async fn next<L: Listener>(
    listener: &L,
    slots: &Slots,
) -> io::Result<(L::Stream, Option<SocketAddr>, OwnedSemaphorePermit)> {
    let permit = slots.free().await?;
    let (stream, address) = listener.next().await?;
    Ok((stream, address, permit))
}

/// The same error, with the address or the path of the socket.
pub(super) fn cannot_listen(on: impl Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {on}: {error}"))
}

/// A Unix socket with these permissions, from the first moment anybody can connect to it.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    let wanted = fs::Permissions::from_mode(mode);
    // On Linux the file gets the mode of its socket. Elsewhere it is set before `listen`, and
    // until then nobody can connect.
    if let Ok(file) = socket.as_fd().try_clone_to_owned() {
        let _ = fs::File::from(file).set_permissions(wanted.clone());
    }
    socket.bind(path)?;
    if fs::symlink_metadata(path)?.mode() & 0o777 != mode & 0o777 {
        fs::set_permissions(path, wanted)?;
    }
    socket.listen(BACKLOG)
}

/// What tells a file from another of the same name.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}
