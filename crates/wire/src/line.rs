//! Newline framing with a size limit: bytes in, lines out.

use bytes::{Buf, Bytes, BytesMut};

/// Collects bytes until they are lines.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    limit: usize,
    scanned: usize,
    skipping: bool,
}

/// What a newline ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its newline.
    Text(Bytes),
    /// A line that grew past the limit. Its bytes were dropped as they came.
    TooLong,
}

impl Lines {
    /// Lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit, scanned: 0, skipping: false }
    }

    /// Where the next bytes are to be read into.
    pub fn buffer(&mut self) -> &mut BytesMut {
        const ENOUGH: usize = 4 * 1024;
        if self.buffer.capacity() - self.buffer.len() < ENOUGH {
            self.buffer.reserve(4 * ENOUGH);
        }
        &mut self.buffer
    }

    /// The next whole line, if there is one. Blank lines are passed over.
    pub fn next_line(&mut self) -> Option<Line> {
        self.next_line_or(|_| ())
    }

    /// The same; `skipped` is shown the bytes of a line that is too long, part by part, before they
    /// are dropped.
    pub fn next_line_or(&mut self, mut skipped: impl FnMut(&[u8])) -> Option<Line> {
        loop {
            let newline = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
            let Some(offset) = newline else {
                self.scanned = self.buffer.len();
                if self.skipping || self.scanned > self.limit {
                    skipped(&self.buffer);
                    match self.skipping {
                        true => self.buffer.clear(),
                        // Gives back the memory that the line has taken so far.
                        false => self.buffer = BytesMut::new(),
                    }
                    self.scanned = 0;
                    self.skipping = true;
                }
                return None;
            };
            let mut line = self.buffer.split_to(self.scanned + offset).freeze();
            self.buffer.advance(1);
            self.scanned = 0;
            if std::mem::take(&mut self.skipping) || line.len() > self.limit {
                skipped(&line);
                return Some(Line::TooLong);
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Text(line));
            }
        }
    }

    /// What is left when the input has ended without a last newline.
    pub fn finish(&mut self) -> Option<Line> {
        if self.buffer.is_empty() && !self.skipping {
            return None;
        }
        self.buffer.extend_from_slice(b"\n");
        self.next_line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, input: &[u8]) -> Vec<Line> {
        let mut lines = Lines::new(limit);
        let mut out = vec![];
        for byte in input {
            lines.buffer().extend_from_slice(&[*byte]);
            while let Some(line) = lines.next_line() {
                out.push(line);
            }
        }
        out.extend(lines.finish());
        out
    }

    #[test]
    fn a_long_line_is_dropped_and_the_next_is_read() {
        assert_eq!(
            lines(4, b"ab\r\n\n123456789\ncd"),
            [Line::Text(Bytes::from("ab")), Line::TooLong, Line::Text(Bytes::from("cd"))]
        );
    }

    #[test]
    fn a_long_line_is_shown_in_parts_and_not_kept() {
        let (mut lines, mut shown) = (Lines::new(1000), vec![]);
        for _ in 0..100 {
            lines.buffer().extend_from_slice(&[b'x'; 400]);
            assert_eq!(lines.next_line_or(|part| shown.extend_from_slice(part)), None);
            assert!(lines.buffer.len() <= 1000, "{}", lines.buffer.len());
        }
        // Once it is known to be too long, nothing of it is kept.
        assert!(lines.buffer.is_empty());
        lines.buffer().extend_from_slice(b"y\nz\n");
        let next = lines.next_line_or(|part| shown.extend_from_slice(part));
        assert_eq!((next, shown.len(), shown.last()), (Some(Line::TooLong), 40_001, Some(&b'y')));
        assert_eq!(lines.next_line(), Some(Line::Text(Bytes::from("z"))));
    }
}
