//! The messages of a client, as JSON, and templates of requests in which only the id changes.

use crate::options::{Era, Operation};

/// Ids have ten digits, so that one can take the place of another.
pub const FIRST_ID: u64 = 1_000_000_000;
const DIGITS: usize = 10;

pub const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"load","version":"1.0"}}}"#,
);
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// What a request of 2026-07-28 says about its sender.
const META: &str = concat!(
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"load","version":"1.0"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#,
);

const LARGE: usize = 64 * 1024;

impl Operation {
    pub fn method(self) -> &'static str {
        match self {
            Self::List => "tools/list",
            _ => "tools/call",
        }
    }

    /// The tool it calls.
    pub fn tool(self) -> Option<&'static str> {
        match self {
            Self::List => None,
            Self::Task => Some("later"),
            Self::Add => Some("add"),
            Self::Echo | Self::Echo64k | Self::Echo64kEscaped => Some("echo"),
        }
    }

    /// The text that `echo` is sent, and must send back.
    pub fn text(self) -> String {
        match self {
            Self::Echo64k => "abcdefghijklmnop".repeat(LARGE / 16),
            Self::Echo64kEscaped => fill("say(\"Grüße, C:\\\\temp\\n\"); // naïve → \u{1F600}\n"),
            _ => "hello from the load generator 0123456789".to_owned(),
        }
    }

    fn arguments(self) -> String {
        match self {
            Self::Add => r#"{"a":40,"b":2}"#.to_owned(),
            Self::Task => "{}".to_owned(),
            _ => serde_json::json!({ "text": self.text() }).to_string(),
        }
    }

    /// The request, with an id.
    pub fn request(self, era: Era, id: u64) -> String {
        let mut params = vec![];
        if let Some(tool) = self.tool() {
            params.push(format!(r#""name":"{tool}","arguments":{}"#, self.arguments()));
        }
        if era == Era::Modern {
            let follows = r#"clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
            params.push(match self {
                Self::Task => META.replace(r#"clientCapabilities":{}"#, follows),
                _ => META.to_owned(),
            });
        }
        request(id, self.method(), &params.join(","))
    }
}

/// Asks to be told when the tools change: a stream that stays open.
pub fn listen() -> String {
    let wanted = r#""notifications":{"toolsListChanged":true}"#;
    request(FIRST_ID, "subscriptions/listen", &format!("{wanted},{META}"))
}

fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

/// A line, repeated until nothing more of it fits.
fn fill(line: &str) -> String {
    line.repeat(LARGE / line.len())
}

/// A request made once and sent often: only its id is replaced.
pub struct Template {
    bytes: Vec<u8>,
    id_at: usize,
    /// What the digits of the id are masked with; nothing but WebSocket masks.
    mask: [u8; DIGITS],
}

impl Template {
    /// Of bytes that hold `"id":` and `FIRST_ID`.
    pub fn new(bytes: Vec<u8>) -> Self {
        let id_at = id_at(&bytes);
        Self { bytes, id_at, mask: [0; DIGITS] }
    }

    /// Of a frame that ends with the message, masked byte by byte with `key`.
    pub fn masked(mut head: Vec<u8>, message: &[u8], key: [u8; 4]) -> Self {
        let id_in_message = id_at(message);
        let mask = std::array::from_fn(|digit| key[(id_in_message + digit) % 4]);
        let id_at = head.len() + id_in_message;
        head.extend(message.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        Self { bytes: head, id_at, mask }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn set_id(&mut self, id: u64) {
        let mut rest = id;
        for digit in (0..DIGITS).rev() {
            self.bytes[self.id_at + digit] = (b'0' + (rest % 10) as u8) ^ self.mask[digit];
            rest /= 10;
        }
    }
}

fn id_at(bytes: &[u8]) -> usize {
    let name = b"\"id\":";
    memchr::memmem::find(bytes, name).expect("a request has an id") + name.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_request_is_json_and_carries_its_text() {
        for operation in [Operation::Echo, Operation::Echo64k, Operation::Echo64kEscaped] {
            let request = operation.request(Era::Modern, FIRST_ID);
            let request: Value = serde_json::from_str(&request).unwrap();
            assert_eq!(request["params"]["arguments"]["text"], operation.text());
        }
        let list = Operation::List.request(Era::Session, FIRST_ID);
        assert_eq!(serde_json::from_str::<Value>(&list).unwrap()["params"], serde_json::json!({}));
    }

    #[test]
    fn the_id_of_a_template_can_be_replaced() {
        let mut template = Template::new(Operation::Add.request(Era::Modern, FIRST_ID).into());
        template.set_id(1_234_567_890);
        let request: Value = serde_json::from_slice(template.bytes()).unwrap();
        assert_eq!(request["id"], 1_234_567_890);
    }

    #[test]
    fn the_id_of_a_masked_template_can_be_replaced() {
        let (key, message) = ([3, 99, 200, 7], Operation::Add.request(Era::Modern, FIRST_ID));
        let mut template = Template::masked(vec![0; 6], message.as_bytes(), key);
        template.set_id(1_234_567_890);
        let masked = template.bytes()[6..].iter().zip(key.iter().cycle());
        let plain: Vec<u8> = masked.map(|(byte, key)| byte ^ key).collect();
        assert_eq!(serde_json::from_slice::<Value>(&plain).unwrap()["id"], 1_234_567_890);
    }
}
