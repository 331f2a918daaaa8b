//! Percent-encoding.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Encodes all but unreserved characters.
pub(super) fn encode(text: &str) -> String {
    encode_unless(text, |byte, _| is_unreserved(byte))
}

/// Encodes what may not stand in a URI, and leaves what is encoded already.
pub(super) fn encode_keeping_reserved(text: &str) -> String {
    encode_unless(text, |byte, rest| {
        is_unreserved(byte) || b":/?#[]@!$&'()*+,;=".contains(&byte) || is_triplet(rest)
    })
}

/// Decodes; none if the result is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match triplet(rest) {
            Some(byte) => (byte, &rest[3..]),
            None => (first, after),
        };
        decoded.push(byte);
        rest = after;
    }
    String::from_utf8(decoded).ok()
}

/// Whether the bytes begin with `%` and two hexadecimal digits.
pub(super) fn is_triplet(bytes: &[u8]) -> bool {
    triplet(bytes).is_some()
}

fn triplet(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else {
        return None;
    };
    let high = char::from(*high).to_digit(16)?;
    let low = char::from(*low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

fn encode_unless(text: &str, keep: impl Fn(u8, &[u8]) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (i, byte) in text.bytes().enumerate() {
        if keep(byte, &text.as_bytes()[i..]) {
            encoded.push(char::from(byte));
            continue;
        }
        encoded.push('%');
        encoded.push(char::from(HEX[usize::from(byte >> 4)]));
        encoded.push(char::from(HEX[usize::from(byte & 15)]));
    }
    encoded
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
