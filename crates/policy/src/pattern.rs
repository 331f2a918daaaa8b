//! Patterns of names and arguments.

use regex::Regex;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// Words with `*`, `?`, `[…]` and `{a,b}`.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    regex: Regex,
}

impl Pattern {
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(value)? {
            Value::String(text) => text,
            plain @ (Value::Bool(_) | Value::Number(_)) => plain.to_string(),
            other => return Err(D::Error::custom(format!("`{other}` is no pattern: give text"))),
        };
        let wrong = |why: String| D::Error::custom(format!("`{text}` is no pattern: {why}"));
        let regex = expression(&text).map_err(|why| wrong(why.to_owned()))?;
        let regex = Regex::new(&regex).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { text, regex })
    }
}

/// A pattern as a regular expression of whole texts. Characters, and not bytes, are compared.
fn expression(pattern: &str) -> Result<String, &'static str> {
    let mut all = "(?s)^".to_owned();
    let mut is_choice = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => all.push_str(".*"),
            '?' => all.push('.'),
            '[' => all.push_str(&set(&mut characters)?),
            '{' if is_choice => return Err("braces in braces"),
            '{' => {
                is_choice = true;
                all.push_str("(?:");
            }
            '}' if is_choice => {
                is_choice = false;
                all.push(')');
            }
            ',' if is_choice => all.push('|'),
            '\\' => all.push_str(&literal(characters.next().ok_or("it ends with a backslash")?)),
            other => all.push_str(&literal(other)),
        }
    }
    match is_choice {
        true => Err("a brace is not closed"),
        false => Ok(all + "$"),
    }
}

/// What follows a `[`, up to the `]`.
fn set(characters: &mut std::str::Chars<'_>) -> Result<String, &'static str> {
    let mut all = "[".to_owned();
    let mut is_first = true;
    loop {
        match characters.next().ok_or("a bracket is not closed")? {
            '!' | '^' if is_first && all == "[" => {
                all.push('^');
                continue;
            }
            ']' if !is_first => return Ok(all + "]"),
            '-' => all.push('-'),
            other => all.push_str(&literal(other)),
        }
        is_first = false;
    }
}

fn literal(character: char) -> String {
    match character {
        '&' | '~' | '-' | '^' => format!("\\{character}"),
        other => regex::escape(other.encode_utf8(&mut [0; 4])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_are_of_characters() {
        let fits = |pattern: &str, text: &str| {
            serde_json::from_value::<Pattern>(json!(pattern)).expect("a pattern").fits(text)
        };
        for (pattern, yes, no) in [
            ("caf?", "café", "caf"),
            ("[é-ü]x", "öx", "ox"),
            ("[!a]", "b", "a"),
            ("a{b,c*}d", "acxd", "ad"),
            ("a.b", "a.b", "axb"),
            (r"\*", "*", "x"),
            ("[a-]", "-", "b"),
            ("", "", "x"),
        ] {
            assert!(fits(pattern, yes) && !fits(pattern, no), "{pattern}");
        }
        for wrong in ["[a".to_owned(), "{a".to_owned(), "{".repeat(300), "a\\".to_owned()] {
            serde_json::from_value::<Pattern>(json!(wrong)).expect_err("it is no pattern");
        }
    }
}
