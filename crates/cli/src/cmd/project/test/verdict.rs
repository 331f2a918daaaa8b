//! Whether a call came to what was expected, and how it differs.

use crate::cases::{Expect, Got};
use serde_json::{Map, Value};
use similar::TextDiff;

/// Which part of an expectation was not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Error,
    Code,
    Text,
    Structured,
}

/// How many differences of one value are shown.
const SHOWN: usize = 20;

/// What differs, and how; nothing if all is as expected.
pub(super) fn differences(expect: &Expect, got: &Got) -> Vec<(Part, String)> {
    let mut found = vec![];
    if got.is_error && expect.error != Some(true) && expect.code.is_none() {
        found.push((Part::Error, format!("expected no failure, but it failed:\n{}", got.text)));
    } else if !got.is_error && expect.error == Some(true) {
        found.push((Part::Error, format!("expected a failure, but it said:\n{}", got.text)));
    }
    if let Some(code) = expect.code.filter(|code| got.code != Some(*code)) {
        let came = got.code.map_or("none".to_owned(), |code| code.to_string());
        found.push((Part::Code, format!("expected the code {code}, got {came}")));
    }
    found.extend(words(expect, got).map(|difference| (Part::Text, difference)));
    if let Some(expected) = &expect.structured {
        let mut differs = vec![];
        match got.value() {
            Some(value) => compare(expected, &value, "", &mut differs),
            None => differs.push(format!("expected {expected}\ngot no value, but {:?}", got.text)),
        }
        let more = differs.len().saturating_sub(SHOWN);
        differs.truncate(SHOWN);
        if more > 0 {
            differs.push(format!("and {more} more"));
        }
        if !differs.is_empty() {
            found.push((Part::Structured, differs.join("\n")));
        }
    }
    found
}

fn words(expect: &Expect, got: &Got) -> Option<String> {
    // An end of the line at the end is no difference.
    let text = got.text.trim_end_matches('\n');
    if let Some(expected) = &expect.text {
        let expected = expected.trim_end_matches('\n');
        if expected != text {
            return Some(both("expected", expected, text));
        }
    }
    if let Some(missing) = expect.contains.iter().find(|part| !got.text.contains(*part)) {
        return Some(format!("expected it to contain\n  {missing}\ngot\n{}", deeper(text)));
    }
    let pattern = expect.matches.as_deref()?;
    let is_met = regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&got.text));
    (!is_met).then(|| format!("expected it to match\n  {pattern}\ngot\n{}", deeper(text)))
}

/// Two texts: beside each other if they are short, otherwise what differs.
fn both(what: &str, expected: &str, got: &str) -> String {
    if !expected.contains('\n') && !got.contains('\n') {
        return format!("{what:<8}  {expected}\n{:<8}  {got}", "got");
    }
    let (expected, got) = (format!("{expected}\n"), format!("{got}\n"));
    let difference = TextDiff::from_lines(&expected, &got);
    let lines = difference.unified_diff().context_radius(3).to_string();
    format!("- expected\n+ got\n{}", lines.trim_end())
}

fn deeper(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// What a value lacks of another. Members that are not named may be anything.
fn compare(expected: &Value, got: &Value, at: &str, differs: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (name, value) in expected {
                let place = format!("{at}.{name}");
                match got.get(name) {
                    Some(found) => compare(value, found, &place, differs),
                    None => differs.push(format!("{place}: expected {value}, got nothing")),
                }
            }
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            for (number, (value, found)) in expected.iter().zip(got).enumerate() {
                compare(value, found, &format!("{at}[{number}]"), differs);
            }
        }
        _ if is_met(expected, got) => (),
        _ => {
            let place = if at.is_empty() { "it" } else { at };
            differs.push(format!("{place}: expected {expected}, got {got}"));
        }
    }
}

fn is_met(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::String(pattern), _) if pattern == "*" => true,
        (Value::String(pattern), Value::String(text)) => pattern == text || fits(pattern, text),
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (expected, got) => expected == got,
    }
}

/// Whether a text fits a pattern in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(before) else { return false };
    // The first place for each part is the best one: it leaves most for those after it.
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let mut parts = middle.split('*');
    let left = parts.try_fold(text, |left, part| Some(left.split_once(part)?.1));
    left.is_some_and(|left| left.ends_with(last))
}

/// What is expected from now on: what was not met is as it came, the rest as it was.
pub(super) fn renewed(expect: &Expect, parts: &[Part], got: &Got) -> Expect {
    let now = got.expected();
    let mut new = expect.clone();
    for part in parts {
        match part {
            Part::Error => new.error = now.error,
            Part::Code => new.code = now.code,
            Part::Text => {
                new.text = Some(got.text.clone());
                new.contains.clear();
                new.matches = None;
            }
            Part::Structured => {
                let old = expect.structured.clone().unwrap_or_default();
                new.structured = got.value().map(|value| merged(&old, value));
                if new.structured.is_none() {
                    new.text = Some(got.text.clone());
                }
            }
        }
    }
    new
}

/// A value as it came, with what stood for anything still doing so, and only members that were
/// named.
fn merged(old: &Value, got: Value) -> Value {
    match (old, got) {
        (Value::Object(old), Value::Object(mut got)) => {
            let kept = old.iter().filter_map(|(name, value)| {
                Some((name.clone(), merged(value, got.shift_remove(name)?)))
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        (Value::Array(old), Value::Array(got)) if old.len() == got.len() => {
            old.iter().zip(got).map(|(old, got)| merged(old, got)).collect()
        }
        (old, got) if is_met(old, &got) => old.clone(),
        (_, got) => got,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn got(text: &str) -> Got {
        Got { text: text.to_owned(), ..Got::default() }
    }

    fn expect(value: Value) -> Expect {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn parts_of_a_value_are_enough_and_stars_are_anything() {
        let came = json!({ "id": 7, "at": "2024-01-01", "list": [{ "a": 1.0, "b": 2 }] });
        let came = Got { structured: Some(came), ..Got::default() };
        let differ = |value: Value| differences(&expect(json!({ "structured": value })), &came);
        assert_eq!(differ(json!({ "id": "*", "at": "2024-*", "list": [{ "a": 1 }] })), []);
        let found = differ(json!({ "id": 8, "none": "*", "list": [{ "b": 3 }] }));
        let all = ".id: expected 8, got 7\n.none: expected \"*\", got nothing\n\
                   .list[0].b: expected 3, got 2";
        assert_eq!(found, [(Part::Structured, all.to_owned())]);
        assert_eq!(differ(json!({ "list": [] })).len(), 1);
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text) in [
            ("a*c", "abc"),
            ("*", ""),
            ("**", "x"),
            ("a*b*c", "a-b-b-c"),
            ("*b*", "abc"),
            ("ä*", "äö"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("ab*ba", "aba"), ("a*b*b", "ab"), ("*a*b", "ba"), ("a*", "b"), ("a*a", "a")]
        {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        // Many stars take no time.
        assert!(!fits(&"*a".repeat(40), &("a".repeat(39) + &"b".repeat(4000))));
    }

    #[test]
    fn words_are_compared_as_was_asked() {
        let differ = |value: Value, text: &str| differences(&expect(value), &got(text));
        assert_eq!(differ(json!({ "text": "a\n" }), "a"), []);
        assert_eq!(differ(json!({ "contains": "b" }), "abc"), []);
        assert_eq!(differ(json!({ "matches": "^a.c$" }), "abc"), []);
        assert_eq!(differ(json!({ "json": { "a": 1 } }), "{\"a\": 1, \"b\": 2}"), []);
        let found = differ(json!({ "text": "Hello" }), "Bye");
        assert_eq!(found, [(Part::Text, "expected  Hello\ngot       Bye".to_owned())]);
        let found = &differ(json!({ "text": "a\nb\nc" }), "a\nx\nc")[0].1;
        assert!(found.contains("\n-b\n+x\n"), "{found}");
        assert_eq!(differ(json!({ "contains": ["b", "z"] }), "abc").len(), 1);
        assert_eq!(differ(json!({ "matches": "^b" }), "abc").len(), 1);
    }

    #[test]
    fn a_failure_passes_only_where_it_is_expected() {
        let failed = Got { is_error: true, code: Some(-32602), ..got("no") };
        assert_eq!(differences(&Expect::default(), &failed)[0].0, Part::Error);
        assert_eq!(differences(&expect(json!({ "error": true })), &failed), []);
        assert_eq!(differences(&expect(json!({ "code": -32602 })), &failed), []);
        assert_eq!(differences(&expect(json!({ "code": 1 })), &failed)[0].0, Part::Code);
        assert_eq!(differences(&expect(json!({ "error": true })), &got("yes"))[0].0, Part::Error);
    }

    #[test]
    fn only_what_was_not_met_is_renewed() {
        let old = expect(json!({ "contains": "a", "json": { "id": "*", "n": 1 } }));
        let value = json!({ "id": 5, "n": 2, "new": true });
        let came = Got { structured: Some(value), ..got("abc") };
        let parts: Vec<_> = differences(&old, &came).iter().map(|(part, _)| *part).collect();
        let new = renewed(&old, &parts, &came);
        assert_eq!(new, expect(json!({ "contains": "a", "json": { "id": "*", "n": 2 } })));
        assert_eq!(differences(&new, &came), []);
    }
}
