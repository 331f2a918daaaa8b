//! Server-sent events: encode and decode side by side.

use std::time::Duration;

/// One event as it is read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where to resume after this event.
    pub id: Option<String>,
    /// The event's name; `message` when absent.
    pub name: Option<String>,
    /// Lines of data, joined.
    pub data: String,
    /// How long to wait before reconnecting.
    pub retry: Option<Duration>,
}

/// A comment line: keeps a quiet connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Writes an event. `data` must hold no newline, which JSON text never does.
pub fn write(out: &mut Vec<u8>, name: Option<&str>, id: Option<&str>, data: &[u8]) {
    for (field, value) in [("event", name), ("id", id)] {
        if let Some(value) = value {
            line(out, field, value.as_bytes());
        }
    }
    line(out, "data", data);
    out.push(b'\n');
}

/// Writes the wish to be left alone for a while before the client reconnects.
pub fn write_retry(out: &mut Vec<u8>, retry: Duration) {
    line(out, "retry", retry.as_millis().to_string().as_bytes());
}

fn line(out: &mut Vec<u8>, field: &str, value: &[u8]) {
    out.extend_from_slice(field.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Bytes in, events out: any chunking, any of the three line ends, a BOM, comments.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// How much of it has no line end.
    scanned: usize,
    started: bool,
    current: Event,
    has_data: bool,
    touched: bool,
}

impl Decoder {
    /// Adds bytes; gives the events they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.buffer.extend_from_slice(bytes);
        if !self.started && self.buffer.len() >= 3 {
            self.started = true;
            if self.buffer.starts_with(b"\xEF\xBB\xBF") {
                self.buffer.drain(..3);
                self.scanned = 0;
            }
        }
        let mut events = vec![];
        while let Some(line) = self.take_line() {
            events.extend(self.line(&line));
        }
        events
    }

    /// Whether what has been read of the event under way has more bytes than this.
    pub fn is_too_long(&self, limit: usize) -> bool {
        self.buffer.len().max(self.current.data.len()) > limit
    }

    fn take_line(&mut self) -> Option<String> {
        let unseen = &self.buffer[self.scanned..];
        let Some(end) = memchr::memchr2(b'\n', b'\r', unseen).map(|at| self.scanned + at) else {
            self.scanned = self.buffer.len();
            return None;
        };
        self.scanned = end;
        let carriage = self.buffer[end] == b'\r';
        if carriage && end + 1 == self.buffer.len() {
            return None; // Its newline may still be on the way.
        }
        let skip = if carriage && self.buffer[end + 1] == b'\n' { 2 } else { 1 };
        let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + skip);
        self.scanned = 0;
        Some(line)
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.current);
            self.has_data = false;
            return std::mem::take(&mut self.touched).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
            }
            "event" => self.current.name = Some(value.to_owned()),
            "id" => self.current.id = Some(value.to_owned()),
            "retry" => self.current.retry = value.parse().ok().map(Duration::from_millis),
            _ => return None,
        }
        self.touched = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_any_chunking() {
        let mut out = b"\xEF\xBB\xBF: hello\r\n".to_vec();
        write_retry(&mut out, Duration::from_millis(500));
        write(&mut out, Some("message"), Some("3:1"), br#"{"a":1}"#);
        out.extend_from_slice(b"data: one\r\ndata:two\r\n\r\n");
        let mut decoder = Decoder::default();
        let events: Vec<_> = out.iter().flat_map(|byte| decoder.push(&[*byte])).collect();
        assert_eq!(
            events,
            [
                Event {
                    id: Some("3:1".into()),
                    name: Some("message".into()),
                    data: r#"{"a":1}"#.into(),
                    retry: Some(Duration::from_millis(500)),
                },
                Event { data: "one\ntwo".into(), ..Event::default() },
            ]
        );
    }
}
