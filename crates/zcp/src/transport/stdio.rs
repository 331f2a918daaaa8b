//! Standard input and output: one message a line.

use super::{
    DRAIN, Transport,
    converse::{Conversation, OUTBOX},
};
use crate::{protocol::mcp::Mcp, runtime::Runtime};
use bytes::Bytes;
use bytestring::ByteString;

use http::Extensions;
use std::io::{self, BufRead};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::{io::StreamReader, sync::CancellationToken};
use zcp_wire::{
    Peer, RpcError,
    line::{Line, Lines},
};

/// Bytes one line may have.
const LONGEST: usize = 16 * 1024 * 1024;

/// Standard input and output. Nothing but protocol lines reaches the client, whatever handlers
/// print: their output goes to standard error. The end of input ends the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stdio;

impl Transport for Stdio {
    async fn serve(self, runtime: Runtime, stop: CancellationToken) -> io::Result<()> {
        let output = take_stdout()?;
        converse(Mcp::new(runtime), stdin(), output, stop).await
    }
}

/// Any pair of byte streams, one message a line: a socket, a pipe, a test.
#[derive(Debug)]
pub struct Pipe<I, O> {
    /// Where the client's lines come from.
    pub input: I,
    /// Where the server's lines go to.
    pub output: O,
}

impl<I, O> Transport for Pipe<I, O>
where
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    async fn serve(self, runtime: Runtime, stop: CancellationToken) -> io::Result<()> {
        converse(Mcp::new(runtime), self.input, self.output, stop).await
    }
}

/// Standard input, read by a thread of its own: one that waits for input must not keep the
/// process from ending, as a thread of the runtime would.
fn stdin() -> impl AsyncRead + Send + Unpin {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(4);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let chunk = match stdin.fill_buf() {
                Ok([]) => return,
                Ok(bytes) => Ok(Bytes::copy_from_slice(bytes)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let (length, failed) = (chunk.as_ref().map_or(0, Bytes::len), chunk.is_err());
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
            stdin.consume(length);
        }
    });
    let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    });
    StreamReader::new(Box::pin(chunks))
}

/// The protocol's own handle on standard output; the public one becomes standard error.
#[cfg(unix)]
fn take_stdout() -> io::Result<tokio::fs::File> {
    let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(tokio::fs::File::from_std(own.into()))
}

#[cfg(not(unix))]
fn take_stdout() -> io::Result<tokio::io::Stdout> {
    Ok(tokio::io::stdout())
}

/// One conversation over a pair of byte streams.
async fn converse(
    mcp: Mcp,
    mut input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(OUTBOX);
    let conversation = Conversation::new(mcp.clone(), Extensions::new(), sender.clone());
    let mut writer = std::pin::pin!(write(receiver, output));
    let told = async {
        let mut events = mcp.events();
        while let Some(frame) = events.next().await {
            let _ = sender.send(frame.to_text()).await;
        }
        std::future::pending::<()>().await;
    };
    let read = async {
        let mut lines = Lines::new(LONGEST);
        while input.read_buf(lines.buffer()).await? > 0 {
            while let Some(line) = lines.next_line() {
                take(&conversation, line).await;
            }
        }
        if let Some(line) = lines.finish() {
            take(&conversation, line).await;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        ended = read => ended?,
        () = told => (),
        () = stop.cancelled() => (),
        written = &mut writer => return goodbye(written),
    }
    // What was asked before the end is answered.
    mcp.hear_no_more();
    conversation.tracker.close();
    let drained = tokio::time::timeout(DRAIN, conversation.tracker.wait());
    tokio::select! {
        _ = drained => (),
        written = &mut writer => return goodbye(written),
    }
    drop((conversation, sender));
    goodbye(tokio::time::timeout(DRAIN, writer).await.unwrap_or(Ok(())))
}

/// A client that no longer reads has said goodbye.
fn goodbye(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}

async fn take(conversation: &Conversation, line: Line) {
    match line {
        Line::Text(text) => conversation.receive(text).await,
        Line::TooLong => {
            let why = format!("a line may have {LONGEST} bytes at most");
            conversation.refuse(RpcError::invalid_request(why)).await;
        }
    }
}

/// Writes what waits, and flushes when nothing more does.
async fn write(
    mut inbox: mpsc::Receiver<ByteString>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(8 * 1024);
    while let Some(text) = inbox.recv().await {
        buffer.extend_from_slice(text.as_bytes());
        buffer.push(b'\n');
        while buffer.len() < 64 * 1024 {
            let Ok(text) = inbox.try_recv() else { break };
            buffer.extend_from_slice(text.as_bytes());
            buffer.push(b'\n');
        }
        output.write_all(&buffer).await?;
        output.flush().await?;
        buffer.clear();
        buffer.shrink_to(64 * 1024);
    }
    Ok(())
}
