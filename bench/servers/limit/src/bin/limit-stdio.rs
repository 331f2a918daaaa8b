//! The limit of stdio: a blocking loop over lines that flushes once it has read all there is.

use bench_limit::typed_answer;
use bench_shared::Wire;
use memchr::{memchr, memmem};
use std::{
    error::Error,
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    os::fd::AsFd,
};

const BUFFER: usize = 1 << 16;

fn main() -> Result<(), Box<dyn Error>> {
    let Wire::Stdio = Wire::from_args(std::env::args().skip(1))? else {
        return Err("limit-stdio serves stdio only; limit-hyper serves HTTP".into());
    };
    let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    // Not `Stdout`, which flushes at every line.
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut output = BufWriter::with_capacity(BUFFER, stdout);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if !is_notification(&line) {
            output.write_all(&typed_answer(&line)?)?;
            output.write_all(b"\n")?;
        }
        line.clear();
        let more = memchr(b'\n', input.buffer()).is_some();
        if !more {
            output.flush()?;
        }
    }
    Ok(())
}

fn is_notification(line: &[u8]) -> bool {
    memmem::find(&line[..line.len().min(80)], b"\"notifications/").is_some()
}
