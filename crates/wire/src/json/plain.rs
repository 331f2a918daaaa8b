//! JSON that every reader reads alike.
//!
//! With some features of `serde_json`, which any crate of a program may turn on, an object whose first
//! name is a private one of that crate is not read as it is: what stands behind the name is read as
//! JSON once more, without a limit of depth. So text of a peer that has such a name is rejected
//! before anything else reads it.

use memchr::{memchr, memchr2};

/// How the names begin.
const PRIVATE: &[u8] = b"$serde_json::private::";

/// Whether no string in a JSON text begins with a private name, however it is escaped.
pub fn is_plain(text: &[u8]) -> bool {
    // The name begins with a `$`, written as it is or as an escape.
    memchr2(b'$', b'\\', text).is_none() || strings_are_plain(text)
}

#[cold]
fn strings_are_plain(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(begin) = memchr(b'"', rest) {
        rest = &rest[begin + 1..];
        if is_private(rest) {
            return false;
        }
        // On to the end of the string.
        while let Some(at) = memchr2(b'"', b'\\', rest) {
            let is_end = rest[at] == b'"';
            rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
            if is_end {
                break;
            }
        }
    }
    true
}

/// Whether a string, after its quotation mark, begins with a private name.
fn is_private(mut text: &[u8]) -> bool {
    PRIVATE.iter().all(|wanted| {
        let (found, length) = match text {
            [b'\\', b'u', digits @ ..] if digits.len() >= 4 => {
                let hex = std::str::from_utf8(&digits[..4]).ok();
                (hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()), 6)
            }
            [byte, ..] => (Some(u32::from(*byte)), 1),
            [] => (None, 0),
        };
        text = &text[length..];
        found == Some(u32::from(*wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn private_names_are_found_however_they_are_written() {
        let name = "$serde_json::private::RawValue";
        let escaped = |text: &str| -> String {
            text.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect()
        };
        let half = format!("$serde{}json::private::Number", escaped("_"));
        for bad in [
            name.to_owned(),
            escaped(name),
            escaped(name).to_uppercase().replace("\\U", "\\u"),
            half,
        ] {
            for text in
                [format!(r#"{{"{bad}":"1"}}"#), format!(r#"{{"a\\":["\"",{{"{bad}" : 1}}]}}"#)]
            {
                assert!(!is_plain(text.as_bytes()), "{text}");
            }
        }
        for good in [
            r#"{"a":"it costs $5","b":"\u0024"}"#,
            r#"{"a":"see \"$serde_json::private::RawValue\""}"#,
            r#"{"$schema":"x","a\n":"\\"}"#,
            r#"{"$serde_json::privat":1}"#,
            "\"$serde_json::priv",
            "\"\\u00",
            "\\",
            "",
        ] {
            assert!(is_plain(good.as_bytes()), "{good}");
        }
    }
}
