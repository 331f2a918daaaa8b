//! What a server says when it wants a token, or a better one.

use reqwest::{Response, StatusCode};
use std::collections::BTreeSet;

/// The parts of `WWW-Authenticate` that matter here.
#[derive(Debug, Default)]
pub(super) struct Challenge {
    params: Vec<(String, String)>,
}

impl Challenge {
    /// The challenge of a response; none when it is none.
    pub(super) fn of(response: &Response) -> Option<Self> {
        let headers = response.headers().get_all(::http::header::WWW_AUTHENTICATE);
        let texts = headers.iter().filter_map(|value| value.to_str().ok());
        let challenge = Self { params: texts.flat_map(params).collect() };
        match response.status() {
            StatusCode::UNAUTHORIZED => Some(challenge),
            StatusCode::FORBIDDEN if challenge.get("error") == Some("insufficient_scope") => {
                Some(challenge)
            }
            _ => None,
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Where the server describes itself.
    pub(super) fn metadata(&self) -> Option<&str> {
        self.get("resource_metadata")
    }

    pub(super) fn scopes(&self) -> Option<BTreeSet<String>> {
        Some(self.get("scope")?.split_whitespace().map(str::to_owned).collect())
    }

    pub(super) fn wants_nonce(&self) -> bool {
        self.get("error") == Some("use_dpop_nonce")
    }
}

/// `name=value` and `name="value"`, wherever they are in the header.
fn params(text: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    let mut rest = text;
    while let Some(equals) = rest.find('=') {
        let name = rest[..equals].trim_end();
        let begin = name.rfind(|c: char| c == ',' || c.is_whitespace()).map_or(0, |at| at + 1);
        let name = name[begin..].to_ascii_lowercase();
        let after = rest[equals + 1..].trim_start();
        let (value, end) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        found.push((name, value));
        rest = end;
    }
    found
}

/// What is meant by a quoted text, and what comes after it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_whatever_is_around_them() {
        let found = params(
            r#"Basic realm="a, b=c", Bearer error="insufficient_scope", scope="x \"y\" z",resource_metadata=https://a/b"#,
        );
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(
            found,
            [
                ("realm", "a, b=c"),
                ("error", "insufficient_scope"),
                ("scope", "x \"y\" z"),
                ("resource_metadata", "https://a/b"),
            ]
        );
        for odd in ["", "=", "Bearer", "Bearer =", "a=\"", "a=\"\\", "==="] {
            params(odd);
        }
    }
}
