//! Finds the requests that a message answers, without reading or keeping the message.

use super::BATCH;
use zcp_wire::Id;

/// Longest member name or id that is looked at, in bytes. The ids of this client are numbers.
const LONGEST: usize = 64;

/// Collects the ids of the responses in a message that is read part by part, and that is too long to
/// be kept. Of a batch, the first [`BATCH`] ids are collected.
///
/// Only the members of the message itself count: an `id` inside of a result is content. A message
/// with a `method` is a notification or a request, and answers nothing; neither does what is no
/// JSON object.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// What the message is; unknown before its first byte.
    shape: Option<Shape>,
    /// Open brackets.
    depth: usize,
    in_string: bool,
    after_backslash: bool,
    /// The name or value that is being read, as JSON text. Longer ones are cut.
    token: Vec<u8>,
    is_value: bool,
    /// The last name read is `id`.
    is_id: bool,
    id: Option<Id>,
    has_method: bool,
    ids: Vec<Id>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    Batch,
    NoMessage,
}

impl Answered {
    /// The requests that a whole message answers.
    pub(crate) fn by(message: &[u8]) -> Vec<Id> {
        let mut answered = Self::default();
        answered.read(message);
        answered.finish()
    }

    /// Reads the next bytes of the message.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    /// The requests that the message answers. What is read from now on is another message.
    pub(crate) fn finish(&mut self) -> Vec<Id> {
        std::mem::take(self).ids
    }

    /// Whether what is read now is a name or a value of a message, and not inside of one.
    fn is_member(&self) -> bool {
        match self.shape {
            Some(Shape::One) => self.depth == 1,
            Some(Shape::Batch) => self.depth == 2,
            Some(Shape::NoMessage) | None => false,
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.after_backslash => self.after_backslash = false,
                b'\\' => self.after_backslash = true,
                b'"' => self.in_string = false,
                _ => (),
            }
            return;
        }
        if byte.is_ascii_whitespace() || self.shape == Some(Shape::NoMessage) {
            return;
        }
        self.shape.get_or_insert(match byte {
            b'{' => Shape::One,
            b'[' => Shape::Batch,
            _ => Shape::NoMessage,
        });
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.is_member() {
                    self.end_member();
                    self.end_message();
                }
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.shape = Some(Shape::NoMessage);
                }
            }
            b',' if self.is_member() => self.end_member(),
            b':' if self.is_member() => {
                self.is_id = self.token == br#""id""#;
                self.has_method |= self.token == br#""method""#;
                self.is_value = true;
                self.token.clear();
            }
            _ => {
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        // One byte more than the longest, so that what was cut is told from what fits.
        if self.token.len() <= LONGEST && self.is_member() {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        if self.is_value && self.is_id && self.token.len() <= LONGEST {
            self.id = str::from_utf8(&self.token).ok().and_then(Id::from_json);
        }
        (self.is_value, self.is_id) = (false, false);
        self.token.clear();
    }

    fn end_message(&mut self) {
        let (id, has_method) = (self.id.take(), std::mem::take(&mut self.has_method));
        if let Some(id) = id.filter(|_| !has_method && self.ids.len() < BATCH) {
            self.ids.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_wherever_it_is_and_nowhere_else() {
        for (message, ids) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"x":[{"id":9}]}}"#, vec![7]),
            (r#" { "result" : {"text":"\",\"id\":8,{["} , "id" : 7 } "#, vec![7]),
            (r#"{"error":{"data":[1,[2]]},"jsonrpc":"2.0","id":-1}"#, vec![-1]),
            (r#"{"id":7,"method":"sampling/createMessage","params":{}}"#, vec![]),
            (r#"{"method":"notifications/message","params":{"id":7}}"#, vec![]),
            (r#"{"id":null,"error":{}}"#, vec![]),
            (r#"{"id":{"id":7},"ids":8,"x":"id","result":{}}"#, vec![]),
            (
                r#"[{"id":1,"result":{"id":5}},{"method":"m","id":2},{"result":{},"id":3}]"#,
                vec![1, 3],
            ),
            (r#"log: {"id":7,"result":{}}"#, vec![]),
            (r#"{"id":7,"result":{"cut off"#, vec![]),
            (r#"}}]{"id":7}"#, vec![]),
            (r#"{"id":7,"result":{}} {"id":8,"result":{}}"#, vec![7]),
        ] {
            let ids: Vec<_> = ids.into_iter().map(Id::number).collect();
            assert_eq!(Answered::by(message.as_bytes()), ids, "{message}");
            let mut parts = Answered::default();
            message.as_bytes().chunks(1).for_each(|part| parts.read(part));
            assert_eq!(parts.finish(), ids, "{message}");
        }
    }

    #[test]
    fn nothing_of_the_message_is_kept() {
        let mut answered = Answered::default();
        let long = "x".repeat(100_000);
        answered.read(format!(r#"{{"{long}":"{long}","id":{}1,"#, "1".repeat(1000)).as_bytes());
        assert!(answered.token.capacity() <= 4 * LONGEST, "{}", answered.token.capacity());
        answered.read(br#""result":{}}"#);
        assert!(answered.finish().is_empty());
        let many = format!("[{}{{}}]", r#"{"id":1,"result":{}},"#.repeat(2 * BATCH));
        assert_eq!(Answered::by(many.as_bytes()).len(), BATCH);
    }
}
