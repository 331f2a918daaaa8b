//! JSON text, taken apart and written without values in between.

mod plain;
mod string;

pub use plain::is_plain;
pub use string::{from_string, plain_string, push_string};

use bytestring::ByteString;
use serde::{Serialize, de::IgnoredAny};
use std::borrow::Cow;

/// Any of our own messages as JSON text.
pub fn text<T: Serialize + ?Sized>(value: &T) -> ByteString {
    serde_json::to_string(value).expect("messages have string keys and no failing parts").into()
}

/// Takes an object apart: `take` is given each member's name and its value's text. False when the
/// text is not one object; `take` may have seen a part of it then.
#[must_use]
pub fn members<'a>(text: &'a str, mut take: impl FnMut(Cow<'a, str>, &'a str)) -> bool {
    let mut reader = Reader::new(text);
    let whole = reader.object(|reader, name| {
        take(name, reader.value()?);
        Some(())
    });
    whole.and_then(|()| reader.end()).is_some()
}

/// What is wrong with a text that [`members`] did not take.
pub fn explain(text: &str) -> Broken {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) => Broken::NotJson(error.to_string()),
        Ok(_) => Broken::NotAnObject,
    }
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// It is not JSON; why not.
    NotJson(String),
    /// It is JSON of another kind.
    NotAnObject,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotJson(why) => f.write_str(why),
            Self::NotAnObject => f.write_str("it is not an object"),
        }
    }
}

/// A position in a text, moved on by what is read. Every step is `None` where the text is not JSON.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// At the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// Whether an object comes next.
    pub fn is_at_object(&mut self) -> bool {
        self.blank();
        self.peek() == Some(b'{')
    }

    /// An object. `member` is called after each name, and reads the value.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let (name, escaped) = self.name()?;
            // A name as it is meant; as it is written, where half a character is meant.
            let meant = escaped.then(|| string::read(self.text, name.start)).flatten();
            let written = self.text.get(name)?;
            member(self, meant.map_or(Cow::Borrowed(written), |(name, _)| Cow::Owned(name)))?;
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// An array. `item` is called for each item, and reads it; reading stops where it gives nothing.
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Some(());
        }
        loop {
            item(self)?;
            if !self.take(b',') {
                return self.expect(b']');
            }
        }
    }

    /// What a string means; nothing is read where no string comes next, or a broken one.
    pub fn string_value(&mut self) -> Option<String> {
        self.blank();
        if self.peek() != Some(b'"') {
            return None;
        }
        let (meant, end) = string::read(self.text, self.at + 1)?;
        self.at = end;
        Some(meant)
    }

    /// A value of any kind, as text.
    pub fn value(&mut self) -> Option<&'a str> {
        self.blank();
        let begin = self.at;
        self.skip()?;
        self.text.get(begin..self.at)
    }

    /// What was read by `read`, as text.
    pub fn text_of(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<&'a str> {
        self.blank();
        let begin = self.at;
        read(self)?;
        self.text.get(begin..self.at)
    }

    /// The end of the text.
    pub fn end(&mut self) -> Option<()> {
        self.blank();
        self.peek().is_none().then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Steps over a byte, if it is the next.
    fn take(&mut self, byte: u8) -> bool {
        if self.peek() != Some(byte) {
            self.blank();
            if self.peek() != Some(byte) {
                return false;
            }
        }
        self.at += 1;
        true
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    /// A member's name and the colon after it: where the name is, without its quotes, and
    /// whether there are escapes in it.
    fn name(&mut self) -> Option<(std::ops::Range<usize>, bool)> {
        self.expect(b'"')?;
        let begin = self.at;
        let escaped = self.string()?;
        let name = begin..self.at - 1;
        self.expect(b':')?;
        Some((name, escaped))
    }

    /// The rest of a string, after its first quote; whether there are escapes in it.
    fn string(&mut self) -> Option<bool> {
        let (end, escaped) = string::end(self.bytes, self.at)?;
        self.at = end;
        Some(escaped)
    }

    fn number(&mut self, first: u8) -> Option<()> {
        let first = if first == b'-' { self.next()? } else { first };
        match first {
            b'0' => (),
            b'1'..=b'9' => self.at += self.count_digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let count = self.count_digits();
        self.at += count;
        (count > 0).then_some(())
    }

    fn count_digits(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        let there = self.bytes.get(self.at..)?.starts_with(rest);
        self.at += rest.len();
        there.then_some(())
    }

    /// A value and all that is in it, without recursion: a deep one takes no stack.
    fn skip(&mut self) -> Option<()> {
        let mut open = Open::default();
        loop {
            self.blank();
            let first = self.next()?;
            let container = matches!(first, b'{' | b'[');
            match first {
                b'"' => drop(self.string()?),
                b'{' | b'[' => (),
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                _ => self.number(first)?,
            }
            if container && !self.take(first + 2) {
                open.push(first == b'{');
                if first == b'{' {
                    self.name()?;
                }
                continue;
            }
            // The value is over, and whatever it was the last of.
            loop {
                let Some(object) = open.is_object() else { return Some(()) };
                if self.take(b',') {
                    if object {
                        self.name()?;
                    }
                    break;
                }
                self.expect(if object { b'}' } else { b']' })?;
                open.pop();
            }
        }
    }
}

/// The containers a position is in, a bit for each: set for an object.
#[derive(Default)]
struct Open {
    depth: usize,
    top: u64,
    /// What did not fit.
    below: Vec<u64>,
}

impl Open {
    const FIT: usize = 64;

    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(Self::FIT) {
            self.below.push(self.top);
        }
        self.depth += 1;
        self.top = self.top << 1 | u64::from(object);
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(Self::FIT) {
            self.top = self.below.pop().unwrap_or_default();
        }
    }

    /// Whether the innermost is an object; nothing when there is none.
    fn is_object(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.top & 1 == 1)
    }
}

/// Whether JSON text has more values than this.
pub fn has_more_values(text: &[u8], limit: usize) -> bool {
    count_values(text, limit).is_none()
}

/// How many values JSON text has: everything that begins an item, a member, an array or an object
/// counts. None if there are more than `limit`.
pub fn count_values(text: &[u8], limit: usize) -> Option<usize> {
    let mut rest = text;
    let mut count = 0;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'"' => {
                // To the end of the string: the first quote that nothing escapes.
                while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
                    let is_end = rest[at] == b'"';
                    rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
                    if is_end {
                        break;
                    }
                }
            }
            b',' | b'[' | b'{' => count += 1,
            _ => (),
        }
        if count > limit {
            return None;
        }
    }
    Some(count)
}

/// Reads an object's members by name, and says which was there twice: `member` is false for it.
pub(crate) fn read_members<'a>(
    reader: &mut Reader<'a>,
    mut member: impl FnMut(&mut Reader<'a>, &str) -> Option<bool>,
) -> Option<Option<String>> {
    let mut twice = None;
    reader.object(|reader, name| {
        if !member(reader, &name)? {
            twice = Some(name.into_owned());
        }
        Some(())
    })?;
    Some(twice)
}

/// Puts a member's text into its place, unless it is `null`; false when there is one already.
pub(crate) fn fill<'a>(place: &mut Option<&'a str>, value: &'a str) -> Option<bool> {
    Some(value == "null" || place.replace(value).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What is and is not JSON, and everything one byte away from it.
    #[test]
    fn an_object_is_one_exactly_when_serde_says_so() {
        let seeds = [
            r#"{"a":1,"b":[true,false,null,{"c":"d\u00e9\n"}],"":-0.5e+10,"long":"0123456789012345678901234567890123456789\"x"}"#,
            r#" { "x" : [ ] , "y" : { } , "z":[[[{"a":[1,2]}]]], "n":0, "e":1E5 } "#,
            "{}",
        ];
        let bytes = b"{}[]\",:0-.eE+tfn\\u \n\x01a";
        let mut checked = 0;
        for seed in seeds {
            for at in 0..=seed.len() {
                for byte in bytes {
                    let (head, tail) = seed.as_bytes().split_at(at);
                    let inserted = [head, &[*byte], tail].concat();
                    let replaced = [head, &[*byte], tail.get(1..).unwrap_or_default()].concat();
                    let cut = [head, tail.get(1..).unwrap_or_default()].concat();
                    for text in [inserted, replaced, cut] {
                        check(std::str::from_utf8(&text).unwrap());
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > 10_000);
    }

    fn check(text: &str) {
        let serde =
            serde_json::from_str::<IgnoredAny>(text).is_ok() && text.trim_start().starts_with('{');
        let mut found = vec![];
        let taken = members(text, |name, value| found.push((name, value)));
        assert_eq!(taken, serde, "{text}");
        // Half a character in a name is JSON, but no string.
        if let (true, Ok(Value::Object(all))) = (taken, serde_json::from_str(text)) {
            for (name, value) in &found {
                assert!(all.contains_key(&**name), "{text}");
                assert!(serde_json::from_str::<Value>(value).is_ok(), "{text}");
            }
            assert!(all.len() <= found.len(), "{text}");
        }
    }

    #[test]
    fn depth_takes_no_stack() {
        for depth in [1, 63, 64, 65, 128, 129, 1_000_000] {
            let mixed: String =
                (0..depth).map(|n| if n % 3 == 0 { "{\"a\":" } else { "[" }).collect();
            let ends: String =
                (0..depth).rev().map(|n| if n % 3 == 0 { '}' } else { ']' }).collect();
            assert!(members(&format!("{{\"a\":{mixed}0{ends}}}"), |_, _| ()), "{depth}");
            let wrong = ends.replacen(']', "}", 1);
            assert!(depth < 2 || !members(&format!("{{\"a\":{mixed}0{wrong}}}"), |_, _| ()));
        }
    }
}
