//! JSON strings, sixteen bytes at a time: a long one costs little more than its copy.

use serde::de::{
    DeserializeOwned, Deserializer, IntoDeserializer, Visitor,
    value::{Error, StringDeserializer},
};
use wide::u8x16;

/// The inside of a JSON string that has no escapes.
pub fn plain_string(json: &str) -> Option<&str> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    memchr::memchr(b'\\', inner.as_bytes()).is_none().then_some(inner)
}

/// Appends text as a JSON string.
pub fn push_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let bytes = text.as_bytes();
    let mut written = 0;
    loop {
        let special = first_special(bytes, written);
        if written < special {
            out.push_str(&text[written..special]);
        }
        let Some(byte) = bytes.get(special) else { break };
        push_escaped(out, *byte);
        written = special + 1;
    }
    out.push('"');
}

#[inline]
fn push_escaped(out: &mut String, byte: u8) {
    out.push_str(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => {
            let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
            out.extend(['\\', 'u', '0', '0', digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    });
}

/// Where a string ends, and whether there are escapes in it; `at` is after its first quote.
/// Nothing when it is broken.
#[inline]
pub(super) fn end(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let mut unread = at;
    loop {
        let special = first_special(bytes, unread);
        match bytes.get(special)? {
            b'"' => return Some((special + 1, unread != at)),
            b'\\' => unread = special + escape(bytes.get(special + 1..)?)?,
            _ => return None,
        }
    }
}

/// How long an escape is, from what follows its backslash.
#[inline]
fn escape(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => rest.get(1..5)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// What a string means, and where it ends; `at` is after its first quote. Nothing when it is
/// broken, or has half a character in it.
pub(super) fn read(text: &str, at: usize) -> Option<(String, usize)> {
    let bytes = text.as_bytes();
    let mut special = first_special(bytes, at);
    if bytes.get(special) == Some(&b'"') {
        return Some((text.get(at..special)?.to_owned(), special + 1));
    }
    // It has at most as many bytes as are left.
    let mut meant = String::with_capacity(bytes.len() - at);
    let mut unread = at;
    loop {
        if unread < special {
            meant.push_str(text.get(unread..special)?);
        }
        match bytes.get(special)? {
            b'"' => break,
            b'\\' => unread = special + push_meant(&mut meant, bytes.get(special + 1..)?)?,
            _ => return None,
        }
        special = first_special(bytes, unread);
    }
    meant.shrink_to(2 * meant.len());
    Some((meant, special + 1))
}

/// Appends what an escape means, and tells how long it is; `rest` is after its backslash.
#[inline]
fn push_meant(out: &mut String, rest: &[u8]) -> Option<usize> {
    out.push(match rest.first()? {
        b'n' => '\n',
        b'"' => '"',
        b'\\' => '\\',
        b't' => '\t',
        b'/' => '/',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => {
            let (meant, length) = by_number(rest)?;
            out.push(meant);
            return Some(length);
        }
        _ => return None,
    });
    Some(2)
}

/// The character of `u1234`, or of two halves `ud83d\ude00`; and how long that is with the
/// backslash before it.
#[cold]
fn by_number(rest: &[u8]) -> Option<(char, usize)> {
    const HALF: u32 = 0x400;
    let number = |at: usize| {
        let mut digits = rest.get(at..at + 4)?.iter();
        digits.try_fold(0, |all, digit| Some(all << 4 | char::from(*digit).to_digit(16)?))
    };
    let first = number(1)?;
    if let Some(whole) = char::from_u32(first) {
        return Some((whole, 6));
    }
    let high = first.checked_sub(0xd800).filter(|high| *high < HALF)?;
    let low = number(7).filter(|_| rest.get(5..7) == Some(b"\\u"))?;
    let low = low.checked_sub(0xdc00).filter(|low| *low < HALF)?;
    Some((char::from_u32(0x1_0000 + high * HALF + low)?, 12))
}

/// A string as a `T`, as `serde_json` would make it. Nothing when `T` is not made of a string in an
/// ordinary way.
pub fn from_string<T: DeserializeOwned>(text: String) -> Option<T> {
    T::deserialize(Meant(text)).ok()
}

/// A string that was read; moved to where it is wanted, not copied.
struct Meant(String);

impl<'de> Deserializer<'de> for Meant {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text: StringDeserializer<Error> = self.0.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

const BLOCK: usize = 16;
const WINDOW: usize = 4 * BLOCK;

/// Where the first byte is, from a position on, that a JSON string cannot hold as it is; the end,
/// where none is.
///
/// 64 KiB take 45 thousand instructions; a byte after the other they took 500 thousand.
#[inline(always)]
fn first_special(bytes: &[u8], from: usize) -> usize {
    // Most strings end soon, and most escapes come soon after another.
    let near = bytes.get(from..).and_then(|rest| rest.first_chunk());
    match near.map(specials) {
        Some(found @ 1..) => from + found.trailing_zeros() as usize,
        Some(0) => far_special(bytes, from + BLOCK),
        None => last_special(bytes, from),
    }
}

#[inline(never)]
fn far_special(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        // A few blocks, then whole windows, then the blocks of the window that is not plain.
        for block in bytes[at..].as_chunks().0.iter().take(WINDOW / BLOCK) {
            match specials(block) {
                0 => at += BLOCK,
                found => return at + found.trailing_zeros() as usize,
            }
        }
        let (windows, _) = bytes[at..].as_chunks();
        at += WINDOW * windows.iter().take_while(|window| is_plain(window)).count();
        if bytes.len() - at < BLOCK {
            return last_special(bytes, at);
        }
    }
}

/// The same, where less than a block is left.
fn last_special(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let found = match bytes.last_chunk() {
        Some(block) => specials(block) >> (BLOCK - rest.len()),
        None => {
            let mut block = [b'"'; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            specials(&block)
        }
    };
    from + rest.len().min(found.trailing_zeros() as usize)
}

/// A bit for each byte of a block that is special.
#[inline]
fn specials(block: &[u8; BLOCK]) -> u32 {
    are_special(block).to_bitmask()
}

#[inline]
fn is_plain(window: &[u8; WINDOW]) -> bool {
    let (blocks, _) = window.as_chunks();
    let found = blocks.iter().map(are_special).fold(u8x16::splat(0), |all, found| all | found);
    found.to_bitmask() == 0
}

#[inline]
fn are_special(block: &[u8; BLOCK]) -> u8x16 {
    let bytes = u8x16::new(*block);
    let control = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    control | bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::Value;

    #[test]
    fn a_string_is_written_as_serde_writes_it_and_read_as_it_was() {
        for length in 0..150 {
            for special in (0..=0x80).filter_map(char::from_u32).chain(['é', '🦀']) {
                for at in [0, length / 2, length] {
                    let mut text = "x".repeat(length);
                    text.insert(at, special);
                    let mut out = String::new();
                    push_string(&mut out, &text);
                    assert_eq!(out, serde_json::to_string(&text).unwrap());
                    assert_eq!(read(&out, 1), Some((text, out.len())));
                }
            }
        }
    }

    /// Escapes of every kind, whole and with any byte changed or missing.
    #[test]
    fn a_string_is_read_as_serde_reads_it() {
        let whole = r#""a\"\\\/\b\f\n\r\tb\u00e9\u20AC\ud83e\udd80 and more text é""#;
        let halves = r#""\udd80é\ud83ex""#;
        let mut read_well = 0;
        let places = |seed: &'static str| seed.char_indices().map(move |(at, _)| (seed, at));
        for (seed, at) in places(whole).chain(places(halves)) {
            for new in ["", "\"", "\\", "u", "0", "d", "F", "\\u", "\u{1}", "🦀"] {
                for (head, tail) in [(at, at), (at, at + 1), (0, at)] {
                    let Some(tail) = seed.get(tail..) else { continue };
                    let text = format!("{}{new}{tail}", &seed[..head]);
                    if !text.starts_with('"') {
                        continue;
                    }
                    let mut serde = serde_json::Deserializer::from_str(&text).into_iter::<String>();
                    let expected = serde.next().and_then(Result::ok);
                    let found = read(&text, 1);
                    assert_eq!(found.as_ref().map(|found| &found.0), expected.as_ref(), "{text}");
                    if let Some((_, end)) = found {
                        assert_eq!(end, serde.byte_offset(), "{text}");
                        read_well += 1;
                    }
                }
            }
        }
        assert!(read_well > 100);
    }

    #[test]
    fn a_string_becomes_what_serde_would_make_of_it() {
        #[derive(Debug, PartialEq, Deserialize)]
        enum Size {
            Small,
        }
        #[derive(Debug, PartialEq, Deserialize)]
        struct Name(Option<String>);
        let text = || "Small".to_owned();
        assert_eq!(from_string(text()), Some(text()));
        assert_eq!(from_string(text()), Some(Some(text())));
        assert_eq!(from_string(text()), Some(Size::Small));
        assert_eq!(from_string(text()), Some(Some(Size::Small)));
        assert_eq!(from_string(text()), Some(Name(Some(text()))));
        assert_eq!(from_string(text()), Some(Value::from("Small")));
        assert_eq!(from_string::<char>("x".to_owned()), Some('x'));
        assert_eq!(from_string::<u32>(text()), None);
        assert_eq!(from_string::<Vec<u8>>(text()), None);
        assert_eq!(from_string::<Option<()>>(text()), None);
    }
}
