//! Standard input and output: one message a line.

use super::{
    DRAIN, Transport,
    converse::{Conversation, OUTBOX},
    own_stdio,
};
use crate::{protocol::mcp::Mcp, runtime::Runtime};
use bytestring::ByteString;
use http::Extensions;
use std::io;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;
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
        let own = own_stdio::take()?;
        converse(Mcp::new(runtime), own.input, own.output, stop).await
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
        // What was read is answered in the same turn.
        biased;
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
