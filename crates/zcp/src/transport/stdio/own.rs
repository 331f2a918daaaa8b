//! Standard input and output as the protocol's own: nothing else in the process reads or writes
//! them any more. Pipes and sockets, which is what clients start servers with, are waited for
//! like any connection; a thread stands in for files and terminals.

use futures_util::future::BoxFuture;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// The protocol's own input and output.
pub(super) struct OwnStdio {
    pub(super) input: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) output: Box<dyn AsyncWrite + Send + Unpin>,
    /// Nobody reads the output any more, as far as the system tells.
    pub(super) unread: BoxFuture<'static, ()>,
    /// Puts both back into the mode they were in: whoever started the server may share them.
    _restore: Vec<Restore>,
}

use platform::Restore;
pub(super) use platform::take;

#[cfg(unix)]
mod platform {
    use super::{OwnStdio, io, thread};
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
    use std::{
        fs::File,
        os::{fd::OwnedFd, unix::net},
    };
    use tokio::{
        io::Interest,
        net::{UnixStream, unix::pipe},
    };

    /// Takes both. The public ones become nothing to read, and standard error.
    pub(in super::super) fn take() -> io::Result<OwnStdio> {
        let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        let restore = vec![Restore::of(&input)?, Restore::of(&output)?];
        let watched = output.try_clone()?;
        Ok(OwnStdio {
            unread: Box::pin(unread(watched)),
            input: match kind(&input)? {
                FileType::Fifo => Box::new(pipe::Receiver::from_owned_fd(input)?),
                FileType::Socket => Box::new(socket(input)?),
                _ => Box::new(thread::reader(File::from(input))),
            },
            output: match kind(&output)? {
                FileType::Fifo => Box::new(pipe::Sender::from_owned_fd(output)?),
                FileType::Socket => Box::new(socket(output)?),
                _ => Box::new(tokio::fs::File::from_std(File::from(output))),
            },
            _restore: restore,
        })
    }

    /// Waits until the other end of a pipe or socket is closed; for ever with anything else.
    async fn unread(output: OwnedFd) {
        let closed = match kind(&output) {
            Ok(FileType::Fifo) => pipe_closed(output).await,
            Ok(FileType::Socket) => socket_closed(output).await,
            _ => Ok(false),
        };
        if !closed.unwrap_or_default() {
            std::future::pending().await
        }
    }

    async fn pipe_closed(output: OwnedFd) -> io::Result<bool> {
        Ok(pipe::Sender::from_owned_fd(output)?.ready(Interest::ERROR).await?.is_error())
    }

    async fn socket_closed(output: OwnedFd) -> io::Result<bool> {
        let socket = socket(output)?;
        // Nothing comes this way but the end; which ends, is told to those who ask for both.
        socket.ready(Interest::READABLE).await?;
        Ok(socket.ready(Interest::READABLE | Interest::WRITABLE).await?.is_write_closed())
    }

    fn kind(file: &OwnedFd) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
    }

    fn socket(file: OwnedFd) -> io::Result<UnixStream> {
        let socket = net::UnixStream::from(file);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    }

    /// The mode of a file, set again when this is dropped.
    pub(super) struct Restore {
        file: OwnedFd,
        mode: OFlags,
    }

    impl Restore {
        fn of(file: &OwnedFd) -> io::Result<Self> {
            Ok(Self { file: file.try_clone()?, mode: fcntl_getfl(file)? })
        }
    }

    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = fcntl_setfl(&self.file, self.mode);
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use super::{OwnStdio, io, thread};

    pub(in super::super) fn take() -> io::Result<OwnStdio> {
        let input = Box::new(thread::reader(io::stdin()));
        let output = Box::new(tokio::io::stdout());
        Ok(OwnStdio { input, output, unread: Box::pin(std::future::pending()), _restore: vec![] })
    }

    pub(super) struct Restore;
}

mod thread {
    use bytes::Bytes;
    use std::io::{self, BufRead, BufReader, Read};
    use tokio::{io::AsyncRead, sync::mpsc};
    use tokio_util::io::StreamReader;

    /// Input read by a thread of its own: one that waits for input must not keep the process from
    /// ending, as a thread of the runtime would.
    pub(super) fn reader(input: impl Read + Send + 'static) -> impl AsyncRead + Send + Unpin {
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(4);
        std::thread::spawn(move || {
            let mut input = BufReader::new(input);
            loop {
                let chunk = match input.fill_buf() {
                    Ok([]) => return,
                    Ok(bytes) => Ok(Bytes::copy_from_slice(bytes)),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let (length, failed) = (chunk.as_ref().map_or(0, Bytes::len), chunk.is_err());
                if sender.blocking_send(chunk).is_err() || failed {
                    return;
                }
                input.consume(length);
            }
        });
        let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
            Some((receiver.recv().await?, receiver))
        });
        StreamReader::new(Box::pin(chunks))
    }
}
