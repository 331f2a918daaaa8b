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

/// Longest event ID that is kept, in bytes. A longer one counts as an empty ID: the stream cannot
/// be resumed from there.
pub const LONGEST_ID: usize = 1024;
/// Longest event name that is kept, in bytes. Longer names are cut.
const LONGEST_NAME: usize = 256;
/// Capacity that is kept for the line under way after a long line has ended.
const KEPT: usize = 64 * 1024;

/// Decodes an event stream: any chunking, any of the three line ends, a BOM, comments.
///
/// Every byte is looked at once and copied at most twice, whatever the stream consists of.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The beginning of a line whose end has not been read.
    line: Vec<u8>,
    /// The last byte was a carriage return: a newline after it belongs to the same line end.
    after_return: bool,
    /// The first line, which may begin with a BOM, has been read.
    started: bool,
    current: Event,
    has_data: bool,
    touched: bool,
}

impl Decoder {
    /// Adds bytes; gives the events they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Event> {
        let mut events = vec![];
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.after_return = bytes[end] == b'\r';
            if self.line.is_empty() {
                events.extend(self.end_line(&bytes[..end]));
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                events.extend(self.end_line(&line));
                line.clear();
                line.shrink_to(KEPT);
                self.line = line;
            }
            bytes = &bytes[end + 1..];
        }
        events
    }

    /// Whether what has been read of the event under way has more bytes than this.
    pub fn is_too_long(&self, limit: usize) -> bool {
        self.line.len().max(self.current.data.len()) > limit
    }

    fn end_line(&mut self, mut line: &[u8]) -> Option<Event> {
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            if !std::mem::take(&mut self.touched) {
                return None;
            }
            self.has_data = false;
            return Some(std::mem::take(&mut self.current));
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => {
                let value = &value[..value.len().min(LONGEST_NAME)];
                self.current.name = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"id" => {
                let value = if value.len() > LONGEST_ID { b"" } else { value };
                self.current.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => {
                let number = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.current.retry = number.map(Duration::from_millis);
            }
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

    #[test]
    fn a_carriage_return_ends_a_line_by_itself() {
        let mut decoder = Decoder::default();
        let mut events = decoder.push(b"data: a\r\rdata: b\r");
        events.extend(decoder.push(b"\n\r"));
        events.extend(decoder.push(b"\ndata: c\n\r\n"));
        let data: Vec<_> = events.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, ["a", "b", "c"]);
    }

    #[test]
    fn long_ids_and_names_are_not_kept() {
        let long = "x".repeat(LONGEST_ID + 1);
        let text = format!("id: {long}\nevent: {long}\ndata: 1\n\nid: {}\n\n", &long[1..]);
        let events = Decoder::default().push(text.as_bytes());
        assert_eq!(events[0].id.as_deref(), Some(""));
        assert_eq!(events[0].name.as_ref().map(String::len), Some(LONGEST_NAME));
        assert_eq!(events[1].id.as_ref().map(String::len), Some(LONGEST_ID));
    }

    #[test]
    fn decoding_takes_time_in_proportion_to_the_bytes() {
        // Time grows with the square of this if the rest is moved for every line: hours.
        let begun = std::time::Instant::now();
        let mut decoder = Decoder::default();
        for piece in [&b"\n"[..], b": comment\n", b"x\r\n"] {
            let lines = piece.repeat(4 * 1024 * 1024 / piece.len());
            assert_eq!(decoder.push(&lines), []);
        }
        let line =
            b"data: ".iter().chain(&vec![b'x'; 4 * 1024 * 1024]).copied().collect::<Vec<_>>();
        line.chunks(64).for_each(|chunk| assert_eq!(decoder.push(chunk), []));
        assert_eq!(decoder.push(b"\n\n")[0].data.len(), 4 * 1024 * 1024);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}
