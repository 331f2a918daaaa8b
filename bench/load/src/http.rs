//! HTTP/1.1 as a client: requests as bytes, answers read piece by piece.

use crate::{
    answer::{Answer, Body, Wire, parse_chunk},
    message::{FIRST_ID, Template, listen},
    options::{Era, Place, Work},
};

const HEADERS: usize = 64;

/// A POST of one message, by a client of 2025-11-25 in a session, or about to open one.
pub fn post_in_session(place: &Place, session: Option<&str>, message: &str) -> Vec<u8> {
    let mut lines = vec!["MCP-Protocol-Version: 2025-11-25".to_owned()];
    lines.extend(session.map(session_line));
    post(place, &lines, message)
}

/// A request of the session itself: `GET` for its stream, `DELETE` for its end.
pub fn of_session(verb: &str, place: &Place, session: &str) -> Vec<u8> {
    let lines = ["MCP-Protocol-Version: 2025-11-25".to_owned(), session_line(session)];
    bytes(verb, place, &lines, "")
}

/// Asks for what a session's stream said after an event.
pub fn resume(place: &Place, session: &str, last: &str) -> Vec<u8> {
    let lines = [
        "MCP-Protocol-Version: 2025-11-25".to_owned(),
        session_line(session),
        format!("Last-Event-ID: {last}"),
    ];
    bytes("GET", place, &lines, "")
}

/// A call that can be sent again and again.
pub fn call(place: &Place, work: &Work, session: Option<&str>) -> Template {
    let message = work.operation.request(work.era, FIRST_ID);
    let request = match work.era {
        Era::Session => post_in_session(place, session, &message),
        Era::Modern => post_modern(place, work.operation.method(), work.operation.tool(), &message),
    };
    Template::new(request)
}

pub fn post_listen(place: &Place) -> Vec<u8> {
    post_modern(place, "subscriptions/listen", None, &listen())
}

/// Asks for a WebSocket. Nobody checks here that the key is answered rightly.
pub fn upgrade(place: &Place) -> Vec<u8> {
    let lines = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: mcp",
    ];
    bytes("GET", place, &lines.map(str::to_owned), "")
}

/// A POST of one message by a client of 2026-07-28, whose headers repeat what the message says.
fn post_modern(place: &Place, method: &str, name: Option<&str>, message: &str) -> Vec<u8> {
    let mut lines =
        vec!["MCP-Protocol-Version: 2026-07-28".to_owned(), format!("Mcp-Method: {method}")];
    lines.extend(name.map(|name| format!("Mcp-Name: {name}")));
    post(place, &lines, message)
}

fn post(place: &Place, lines: &[String], message: &str) -> Vec<u8> {
    let length = format!("Content-Length: {}", message.len());
    let mut lines = lines.to_vec();
    lines.extend(["Content-Type: application/json".to_owned(), length]);
    bytes("POST", place, &lines, message)
}

fn bytes(verb: &str, place: &Place, lines: &[String], body: &str) -> Vec<u8> {
    let Place { path, port, .. } = place;
    let mut head = vec![
        format!("{verb} {path} HTTP/1.1"),
        format!("Host: 127.0.0.1:{port}"),
        "Accept: application/json, text/event-stream".to_owned(),
    ];
    head.extend_from_slice(lines);
    format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
}

fn session_line(session: &str) -> String {
    format!("Mcp-Session-Id: {session}")
}

/// Reads one answer after another, and remembers how far it got.
#[derive(Default)]
pub struct Reader {
    head: Option<Head>,
    /// Where the first chunk starts that is not there yet.
    chunk_at: usize,
}

#[derive(Clone, Copy)]
struct Head {
    status: u16,
    end: usize,
    length: Length,
}

#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunked,
}

impl Wire for Reader {
    fn read(&mut self, received: &[u8]) -> Result<Option<Answer>, String> {
        let Some(head) = self.head(received)? else {
            return Ok(None);
        };
        let (end, body) = match head.length {
            Length::Known(length) => {
                let end = head.end + length;
                ((received.len() >= end).then_some(end), Body::Whole(head.end..end))
            }
            Length::Chunked => {
                let end = self.last_chunk_end(received)?;
                (end, Body::Chunked(head.end..end.unwrap_or_default()))
            }
        };
        let Some(end) = end else {
            return Ok(None);
        };
        self.head = None;
        Ok(Some(Answer { status: head.status, body, end }))
    }
}

impl Reader {
    /// The status of the answer, once its headers are there; its body may still come.
    pub fn status(&mut self, received: &[u8]) -> Result<Option<u16>, String> {
        Ok(self.head(received)?.map(|head| head.status))
    }

    fn head(&mut self, received: &[u8]) -> Result<Option<Head>, String> {
        if self.head.is_none() {
            self.head = parse_head(received)?;
            self.chunk_at = self.head.map_or(0, |head| head.end);
        }
        Ok(self.head)
    }

    fn last_chunk_end(&mut self, received: &[u8]) -> Result<Option<usize>, String> {
        while let Some((start, length)) = parse_chunk(received, self.chunk_at)? {
            let end = start + length + 2;
            if received.len() < end {
                return Ok(None);
            }
            if length == 0 {
                return Ok(Some(end));
            }
            self.chunk_at = end;
        }
        Ok(None)
    }
}

fn parse_head(received: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(received).map_err(|error| format!("not HTTP: {error}"))?;
    let httparse::Status::Complete(end) = parsed else {
        return Ok(None);
    };
    let status = response.code.expect("a complete head has a status");
    let length = body_length(response.headers)?;
    Ok(Some(Head { status, end, length }))
}

/// A body with neither a length nor chunks is empty: nothing here is read to the connection's end.
fn body_length(headers: &[httparse::Header<'_>]) -> Result<Length, String> {
    for header in headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|text| text.parse().ok());
            return length.map(Length::Known).ok_or_else(|| "a bad content-length".to_owned());
        }
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Length::Chunked);
        }
    }
    Ok(Length::Known(0))
}

/// The session that an answer to `initialize` names.
pub fn session_id(received: &[u8]) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(received).ok()?;
    let named = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("mcp-session-id");
    let header = response.headers.iter().find(named)?;
    String::from_utf8(header.value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds an answer byte by byte and gives its body and how many bytes it took.
    fn read(sent: &str) -> (u16, String, usize) {
        let mut reader = Reader::default();
        for length in 0..=sent.len() {
            let received = &sent.as_bytes()[..length];
            if let Some(answer) = reader.read(received).unwrap() {
                let body = answer.body.joined(received);
                return (answer.status, String::from_utf8(body).unwrap(), answer.end);
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn a_body_with_a_length_ends_there() {
        let sent = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(read(sent), (200, "hello".to_owned(), sent.len()));
    }

    #[test]
    fn chunks_are_joined() {
        let sent =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        assert_eq!(read(sent), (200, "hello".to_owned(), sent.len()));
    }

    #[test]
    fn an_answer_without_a_body_ends_with_its_head() {
        let sent = "HTTP/1.1 202 Accepted\r\nmcp-session-id: abc\r\n\r\n";
        assert_eq!(read(sent), (202, String::new(), sent.len()));
        assert_eq!(session_id(sent.as_bytes()).as_deref(), Some("abc"));
    }
}
