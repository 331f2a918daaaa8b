//! The way between a script and the server that is not its output: two pipes, a line a message.

use rustix::{
    io::fcntl_dupfd_cloexec,
    pipe::{PipeFlags, pipe_with},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::{Receiver, Sender},
};
use zcp::wire::line::{Line, Lines};

/// Numbers below are the script's own: shells use them freely.
const FIRST: i32 = 200;
/// The longest line.
const LONGEST: usize = 1024 * 1024;
/// Limits, in bytes and in reads, for the channel after the script has ended: a process that keeps
/// writing must not block the server.
const MOST_REST: usize = 1024 * 1024;
const MOST_READS: usize = 1024;

/// The server's ends.
#[derive(Debug)]
pub(crate) struct Channel {
    from: Receiver,
    to: Sender,
    lines: Lines,
}

/// The script's ends, on their way to it.
#[derive(Debug)]
pub(crate) struct Ends {
    out: OwnedFd,
    answers: OwnedFd,
}

impl Channel {
    pub(crate) fn new() -> io::Result<(Self, Ends)> {
        let (from, out) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answers, to) = pipe_with(PipeFlags::CLOEXEC)?;
        let ends = Ends {
            out: fcntl_dupfd_cloexec(&out, FIRST)?,
            answers: fcntl_dupfd_cloexec(&answers, FIRST)?,
        };
        let (from, to) = (Receiver::from_owned_fd(from)?, Sender::from_owned_fd(to)?);
        Ok((Self { from, to, lines: Lines::new(LONGEST) }, ends))
    }

    /// What shows when something was last written.
    pub(crate) fn touched(&self) -> Option<OwnedFd> {
        fcntl_dupfd_cloexec(&self.from, 0).ok()
    }

    /// The next line; none when nobody can write any more. Whatever is read, an empty line too, is
    /// noticed as a sign of life.
    pub(crate) async fn next(&mut self, notice: impl Fn()) -> Option<Line> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Some(line);
            }
            match self.from.read_buf(self.lines.buffer()).await {
                Ok(0) | Err(_) => return self.lines.finish(),
                Ok(_) => notice(),
            }
        }
    }

    /// Takes in what was written and not read yet, when the script has ended: up to a limit, as a
    /// process that was not ended may write faster than this reads.
    pub(crate) fn read_rest(&mut self) {
        let mut left = MOST_REST;
        for _ in 0..MOST_READS {
            match self.from.try_read_buf(self.lines.buffer()) {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
            if left == 0 {
                tracing::warn!("a script's processes write on after its end: they are not heard");
                return;
            }
        }
    }

    /// A line of what was taken in.
    pub(crate) fn next_of_rest(&mut self) -> Option<Line> {
        self.lines.next_line().or_else(|| self.lines.finish())
    }

    /// An answer. A script that does not listen any more is not told.
    pub(crate) async fn answer(&mut self, answer: &serde_json::Value) {
        let mut line = answer.to_string();
        line.push('\n');
        let _ = self.to.write_all(line.as_bytes()).await;
    }
}

impl Ends {
    /// The descriptors, for the process they are meant for.
    pub(crate) fn into_descriptors(self) -> Vec<OwnedFd> {
        vec![self.out, self.answers]
    }

    pub(crate) fn out_path(&self) -> String {
        format!("/dev/fd/{}", self.out.as_raw_fd())
    }

    pub(crate) fn in_path(&self) -> String {
        format!("/dev/fd/{}", self.answers.as_raw_fd())
    }
}
