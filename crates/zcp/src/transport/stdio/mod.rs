//! Standard input and output: one message a line.

mod own;

use super::{
    DRAIN, Transport,
    converse::Conversation,
    outbox::{Inbox, outbox},
};
use crate::{
    protocol::mcp::{Mcp, shared},
    runtime::Runtime,
};
use bytes::{Buf, BytesMut};
use http::Extensions;
use std::{future::pending, io, sync::Arc};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    RpcError,
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
        let own = own::take()?;
        converse(Mcp::new(runtime), own.input, own.output, own.unread, stop).await
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
        converse(Mcp::new(runtime), self.input, self.output, pending(), stop).await
    }
}

/// One conversation over a pair of byte streams. `unread` tells that nobody reads the output.
async fn converse(
    mcp: Mcp,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    unread: impl Future<Output = ()> + Send,
    stop: CancellationToken,
) -> io::Result<()> {
    let (outbox, inbox) = outbox();
    let conversation = Conversation::new(mcp.clone(), outbox);
    conversation.tell_changes().await;
    let mut writer = Writer { output, pending: BytesMut::new() };
    let served = tokio::select! {
        served = serve(&conversation, input, &inbox, &mut writer) => served,
        () = stop.cancelled() => Ok(()),
    };
    // What was asked before the end is answered, as long as anybody reads the answers.
    mcp.hear_no_more();
    conversation.tracker.close();
    let drained = tokio::time::timeout(DRAIN, conversation.tracker.wait());
    let written = tokio::select! {
        _ = drained => Ok(()),
        () = unread => Err(io::ErrorKind::BrokenPipe.into()),
        written = writer.write_as_they_come(&inbox), if served.is_ok() => written,
    };
    let last = async {
        served.and(written)?;
        while writer.fill(&inbox) {
            writer.write().await?;
        }
        Ok(())
    };
    goodbye(tokio::time::timeout(DRAIN, last).await.unwrap_or(Ok(())))
}

/// Reads messages and writes answers by turns until the input ends. A client that does not read is
/// not read from either, once enough waits for it.
async fn serve(
    conversation: &Conversation,
    mut input: impl AsyncRead + Send + Unpin,
    inbox: &Inbox,
    writer: &mut Writer<impl AsyncWrite + Send + Unpin>,
) -> io::Result<()> {
    let mut lines = Lines::new(LONGEST);
    let nothing = shared(Extensions::new());
    loop {
        inbox.attend();
        let mut all_taken = false;
        while !inbox.is_full() && !all_taken {
            match lines.next_line() {
                Some(line) => take(conversation, line, &nothing),
                None => all_taken = true,
            }
        }
        let is_full = writer.fill_to(inbox, FULL);
        let waits = !writer.pending.is_empty();
        tokio::select! {
            biased;
            // What was read is answered before more is waited for.
            written = writer.write(), if waits => written?,
            // No more is read than is taken: the end must not come before the last line.
            read = input.read_buf(lines.buffer()), if all_taken && !is_full => {
                if read? == 0 {
                    break;
                }
            }
            true = inbox.ready(), if !waits => (),
        }
    }
    if let Some(line) = lines.finish() {
        take(conversation, line, &nothing);
    }
    Ok(())
}

/// Bytes that may wait for a client to read them.
const FULL: usize = 256 * 1024;

/// The way out.
struct Writer<O> {
    output: O,
    /// What was taken from the inbox and is not written yet.
    pending: BytesMut,
}

impl<O: AsyncWrite + Unpin> Writer<O> {
    fn take(&mut self, text: &str) {
        self.pending.reserve(text.len() + 1);
        self.pending.extend_from_slice(text.as_bytes());
        self.pending.extend_from_slice(b"\n");
    }

    /// Takes what waits, up to a number of bytes; true when there are as many.
    fn fill_to(&mut self, inbox: &Inbox, enough: usize) -> bool {
        while self.pending.len() < enough {
            let Some(text) = inbox.pop() else { return false };
            self.take(&text);
        }
        true
    }

    /// Takes what waits; false when there is nothing to write.
    fn fill(&mut self, inbox: &Inbox) -> bool {
        self.fill_to(inbox, FULL);
        !self.pending.is_empty()
    }

    /// Writes a part of what was taken, and flushes after the last.
    async fn write(&mut self) -> io::Result<()> {
        let written = self.output.write(&self.pending).await?;
        if written == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.pending.advance(written);
        if self.pending.is_empty() {
            self.output.flush().await?;
        }
        Ok(())
    }

    /// Writes until that fails.
    async fn write_as_they_come(&mut self, inbox: &Inbox) -> io::Result<()> {
        loop {
            if self.fill(inbox) {
                self.write().await?;
            } else if !inbox.ready().await {
                return Ok(());
            }
        }
    }
}

/// A client that no longer reads has said goodbye.
fn goodbye(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}

fn take(conversation: &Conversation, line: Line, extensions: &Arc<Extensions>) {
    match line {
        Line::Text(text) => conversation.receive(text, extensions),
        Line::TooLong => {
            let why = format!("a line may have {LONGEST} bytes at most");
            conversation.refuse(RpcError::invalid_request(why));
        }
    }
}
