//! Standard output, also when its reader has gone.

use std::io::{self, ErrorKind, StdoutLock, Write};

/// Standard output. When its reader has gone, as with `| head`, what is written is dropped and the
/// command goes on: it ends with the exit code it would have had.
pub(crate) struct Out(anstream::AutoStream<StdoutLock<'static>>);

/// Standard output, locked.
pub(crate) fn out() -> Out {
    Out(anstream::stdout().lock())
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_gone(self.0.write(bytes), bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        unless_gone(self.0.write_all(bytes), ())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_gone(self.0.flush(), ())
    }
}

/// Bytes, as they are, to a reader who may have gone.
pub(super) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    unless_gone(out.write_all(bytes).and_then(|()| out.flush()), ())
}

fn unless_gone<T>(done: io::Result<T>, dropped: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(dropped),
        done => done,
    }
}

/// Text of others on standard output, in parts: on a terminal without what would make it do
/// something.
#[derive(Debug, Default)]
pub(crate) struct Terminal(());

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::IsTerminal::is_terminal(&io::stdout()) {
            true => raw(super::plain(&String::from_utf8_lossy(bytes)).as_bytes())?,
            false => raw(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
