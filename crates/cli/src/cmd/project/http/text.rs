//! Text with places in it: `{name}` for arguments, `$NAME` for variables.

use serde_json::{Map, Value};

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// `{name}`, or `{name,}`: a list with commas between.
    Argument {
        name: String,
        joined: bool,
    },
    /// `$NAME` or `${NAME}`.
    Variable(String),
}

/// Whether variables have places in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variables {
    Filled,
    /// A `$` is a `$`.
    Plain,
}

/// The parts of a text, in their order.
pub(super) fn pieces(text: &str, variables: Variables) -> Vec<Piece> {
    let (mut all, mut rest) = (vec![], text);
    let mut plain = String::new();
    while let Some(first) = rest.chars().next() {
        let found = match first {
            '{' => argument(rest),
            '$' if variables == Variables::Filled => variable(rest),
            _ => None,
        };
        match found {
            Some((Piece::Text(text), after)) => {
                plain.push_str(&text);
                rest = after;
            }
            Some((piece, after)) => {
                if !plain.is_empty() {
                    all.push(Piece::Text(std::mem::take(&mut plain)));
                }
                all.push(piece);
                rest = after;
            }
            None => {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    if !plain.is_empty() {
        all.push(Piece::Text(plain));
    }
    all
}

fn argument(text: &str) -> Option<(Piece, &str)> {
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    let (name, joined) = match name.strip_suffix(',') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_name = !name.is_empty() && name.chars().all(allowed);
    is_name.then(|| (Piece::Argument { name: name.to_owned(), joined }, after))
}

fn variable(text: &str) -> Option<(Piece, &str)> {
    let rest = text.strip_prefix('$')?;
    if let Some(after) = rest.strip_prefix('$') {
        return Some((Piece::Text("$".to_owned()), after));
    }
    let (rest, is_braced) = match rest.strip_prefix('{') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let after = if is_braced { after.strip_prefix('}')? } else { after };
    Some((Piece::Variable(name.to_owned()), after))
}

/// An argument that was given.
pub(super) fn given<'a>(args: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    args.get(name).filter(|value| !value.is_null())
}

/// The only argument of a text that is nothing else.
pub(super) fn only_argument(pieces: &[Piece]) -> Option<(&str, bool)> {
    match pieces {
        [Piece::Argument { name, joined }] => Some((name, *joined)),
        _ => None,
    }
}

/// A string as it is, a list with commas, everything else as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, variables: Variables) -> Vec<String> {
        let words = |piece| match piece {
            Piece::Text(text) => text,
            Piece::Argument { name, joined } => {
                format!("<{name}{}>", if joined { "," } else { "" })
            }
            Piece::Variable(name) => format!("${name}"),
        };
        pieces(text, variables).into_iter().map(words).collect()
    }

    #[test]
    fn places_are_found() {
        let filled = |text| said(text, Variables::Filled);
        assert_eq!(filled("a{b}c"), ["a", "<b>", "c"]);
        assert_eq!(filled("{ids,}"), ["<ids,>"]);
        assert_eq!(filled("Bearer $TOKEN"), ["Bearer ", "$TOKEN"]);
        assert_eq!(filled("${USER}:$PASS-x"), ["$USER", ":", "$PASS", "-x"]);
        assert_eq!(filled("{} {a b} { $ $$5 $1 ${x"), ["{} {a b} { $ $5 $1 ${x"]);
        assert_eq!(said("$A{b}", Variables::Plain), ["$A", "<b>"]);
    }
}
