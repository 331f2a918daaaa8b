//! Redaction: secrets a script was given are replaced in everything it shows.

use base64::{Engine, prelude::BASE64_STANDARD as STANDARD};
use serde_json::Value;
use std::ops::Range;
use zcp::{
    Content, Output,
    wire::mcp::content::{Kind, TextOrBlob},
};

/// Shorter secrets are not redacted: they would be found in everything.
const SHORTEST: usize = 4;
/// What is shown instead.
const HIDDEN: &str = "[secret]";

/// What a secret may look like where it is shown: as it is, line by line, and as JSON text.
pub(crate) fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    forms.extend(secret.lines().map(str::trim).map(str::to_owned));
    for plain in forms.clone() {
        let text = Value::from(plain).to_string();
        let text = text.trim_start_matches('"').trim_end_matches('"').to_owned();
        // Some languages write letters beyond ASCII by their numbers.
        let mut units = [0; 2];
        let ascii = text.chars().map(|letter| match letter.is_ascii() {
            true => letter.to_string(),
            false => {
                let units = letter.encode_utf16(&mut units).iter();
                units.map(|unit| format!("\\u{unit:04x}")).collect()
            }
        });
        let ascii = ascii.collect();
        forms.extend([text, ascii]);
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms.sort();
    forms.dedup();
    forms
}

/// Makes secrets unreadable in a value.
pub(crate) fn hide_value(value: &mut Value, secrets: &[String]) {
    hide_in(value, &|text| hide_text(text, secrets));
}

/// The same in a text.
pub(crate) fn hide_text(text: &mut String, secrets: &[String]) {
    let mut secrets: Vec<&String> = secrets.iter().filter(|one| one.len() >= SHORTEST).collect();
    // One may be the beginning of another.
    secrets.sort_by_key(|one| std::cmp::Reverse(one.len()));
    for secret in secrets {
        if text.contains(secret.as_str()) {
            *text = text.replace(secret.as_str(), HIDDEN);
        }
    }
}

/// The same in a part of some bytes: what begins there is made unreadable, and what began before is
/// left out.
pub(crate) fn hide_bytes(bytes: &[u8], part: Range<usize>, secrets: &[String]) -> Vec<u8> {
    let mut secrets: Vec<&[u8]> = secrets.iter().map(String::as_bytes).collect();
    secrets.retain(|one| one.len() >= SHORTEST);
    secrets.sort_by_key(|one| std::cmp::Reverse(one.len()));
    let mut begins = [false; 256];
    secrets.iter().for_each(|one| begins[usize::from(one[0])] = true);
    let (mut hidden, mut at) = (Vec::with_capacity(part.len()), 0);
    while at < part.end.min(bytes.len()) {
        let rest = &bytes[at..];
        let found = match begins[usize::from(rest[0])] {
            true => secrets.iter().find(|one| rest.starts_with(one)),
            false => None,
        };
        let shown = if found.is_some() { HIDDEN.as_bytes() } else { &rest[..1] };
        if at >= part.start {
            hidden.extend_from_slice(shown);
        }
        at += found.map_or(1, |secret| secret.len());
    }
    hidden
}

/// The same in bytes as Base64.
fn hide_base64(data: &mut String, secrets: &[String]) {
    let Ok(bytes) = STANDARD.decode(data.as_bytes()) else { return };
    let hidden = hide_bytes(&bytes, 0..bytes.len(), secrets);
    if hidden != bytes {
        *data = STANDARD.encode(hidden);
    }
}

/// The same in a text that was cut: what it ends with may be the beginning of a secret.
pub(crate) fn hide_cut(text: &mut String, secrets: &[String]) {
    hide_text(text, secrets);
    for secret in secrets.iter().filter(|one| one.len() >= SHORTEST) {
        let mut beginnings = secret.char_indices().map(|(at, _)| &secret[..at]).rev();
        if let Some(beginning) = beginnings.find(|one| one.len() > 1 && text.ends_with(one)) {
            text.truncate(text.len() - beginning.len());
            text.push_str(HIDDEN);
        }
    }
}

/// Makes secrets unreadable in what a script shows.
pub(crate) fn hide(output: &mut Output, secrets: &[String]) {
    if secrets.is_empty() {
        return;
    }
    let hide = |text: &mut String| hide_text(text, secrets);
    output.content.iter_mut().for_each(|content| hide_block(content, secrets));
    output.structured.iter_mut().for_each(|value| hide_in(value, &hide));
    let mut meta = Value::Object(std::mem::take(&mut output.meta));
    hide_in(&mut meta, &hide);
    if let Value::Object(meta) = meta {
        output.meta = meta;
    }
}

/// The same in one block of content: in its bytes, and in every text beside them.
fn hide_block(content: &mut Content, secrets: &[String]) {
    // Bytes are long, and are not looked at twice.
    let bytes = bytes_of(content).map(std::mem::take).map(|mut data| {
        hide_base64(&mut data, secrets);
        data
    });
    let read = |value: Value| serde_json::from_value(value).ok();
    let shown = serde_json::to_value(&*content).ok().and_then(|mut value| {
        hide_members(&mut value, &|text| hide_text(text, secrets));
        read(value)
    });
    // What is no block any more without its secrets is not shown at all.
    *content = shown.unwrap_or_else(|| Content::text(HIDDEN));
    if let (Some(data), Some(bytes)) = (bytes_of(content), bytes) {
        *data = bytes;
    }
}

/// The bytes of a block, in Base64.
fn bytes_of(content: &mut Content) -> Option<&mut String> {
    match &mut content.kind {
        Kind::Image { data, .. } | Kind::Audio { data, .. } => Some(data),
        Kind::Resource { resource } => match &mut resource.data {
            TextOrBlob::Blob(data) => Some(data),
            TextOrBlob::Text(_) => None,
        },
        _ => None,
    }
}

/// Hides in a block whose members have names of the protocol: those, and the values that the
/// protocol lists, stay. What is in `_meta` has names of its own.
fn hide_members(block: &mut Value, hide: &impl Fn(&mut String)) {
    match block {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "type" | "audience" | "theme" => (),
                    "_meta" | "input" | "structuredContent" => hide_in(member, hide),
                    _ => hide_members(member, hide),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_members(item, hide)),
        other => hide_in(other, hide),
    }
}

fn hide_in(value: &mut Value, hide: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => hide(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, hide)),
        Value::Object(members) => {
            let is_shown = |name: &String| {
                let mut hidden = name.clone();
                hide(&mut hidden);
                hidden != *name
            };
            members.values_mut().for_each(|member| hide_in(member, hide));
            if members.keys().any(is_shown) {
                let named = std::mem::take(members).into_iter().map(|(mut name, member)| {
                    hide(&mut name);
                    (name, member)
                });
                *members = named.collect();
            }
        }
        Value::Number(number) => {
            let (shown, mut hidden) = (number.to_string(), number.to_string());
            hide(&mut hidden);
            if hidden != shown {
                *value = Value::String(hidden);
            }
        }
        Value::Null | Value::Bool(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_hidden_in_names_lines_and_json() {
        let secrets = forms("line \"one\"\nläne two");
        let mut value =
            json!({ "a line \"one\"": ["läne two", { "b": "line \"one\"\nläne two" }] });
        hide_value(&mut value, &secrets);
        assert_eq!(value, json!({ "a [secret]": ["[secret]", { "b": "[secret]" }] }));
        for shown in [r#"log "line \"one\"""#, r#"text "l\u00e4ne two""#] {
            let mut text = shown.to_owned();
            hide_text(&mut text, &secrets);
            assert!(text.contains(HIDDEN), "{text}");
        }
    }

    #[test]
    fn a_secret_that_is_a_number_is_hidden() {
        let mut value = json!({ "pin": 48_151_623, "count": 7 });
        hide_value(&mut value, &forms("48151623"));
        assert_eq!(value, json!({ "pin": "[secret]", "count": 7 }));
    }

    #[test]
    fn a_secret_across_two_parts_is_in_neither() {
        let secrets = ["secret".to_owned()];
        let bytes = b"\xff a secret b";
        let (first, second) =
            (hide_bytes(bytes, 0..6, &secrets), hide_bytes(bytes, 6..12, &secrets));
        assert_eq!((&first[..], &second[..]), (&b"\xff a [secret]"[..], &b" b"[..]));
    }
    #[test]
    fn every_member_of_a_block_is_without_secrets() {
        let secrets = ["hush-hush".to_owned()];
        let meta = json!({ "hush-hush": { "a": "hush-hush", "hush-hush": 1 } });
        let annotations = json!({ "audience": ["user"], "lastModified": "hush-hush" });
        let blocks = json!([
            { "type": "text", "text": "hush-hush", "_meta": meta, "annotations": annotations },
            { "type": "resource_link", "uri": "x://hush-hush", "name": "hush-hush",
              "title": "hush-hush", "description": "hush-hush", "mimeType": "hush-hush",
              "icons": [{ "src": "https://x/hush-hush" }], "_meta": meta },
            { "type": "resource", "resource": { "uri": "x://hush-hush", "text": "a hush-hush",
              "_meta": meta } },
            { "type": "resource", "resource": { "uri": "x://hush-hush",
              "blob": STANDARD.encode("a hush-hush"), "mimeType": "hush-hush" } },
            { "type": "image", "data": STANDARD.encode("a hush-hush"), "mimeType": "image/png" },
        ]);
        let mut output = Output {
            content: serde_json::from_value(blocks).unwrap(),
            structured: Some(meta.clone()),
            meta: serde_json::from_value(meta).unwrap(),
            ..Output::default()
        };
        hide(&mut output, &secrets);
        let shown = json!([output.content, output.structured, output.meta]);
        assert!(!shown.to_string().contains("hush"), "{shown:#}");
        let blocks = &shown[0];
        assert_eq!(blocks[0]["annotations"]["audience"], json!(["user"]));
        assert_eq!(blocks[1]["uri"], "x://[secret]");
        assert_eq!(
            blocks[2]["resource"]["_meta"]["[secret]"],
            json!({ "a": "[secret]", "[secret]": 1 })
        );
        for data in [&blocks[3]["resource"]["blob"], &blocks[4]["data"]] {
            assert_eq!(STANDARD.decode(data.as_str().unwrap()).unwrap(), b"a [secret]");
        }
        assert_eq!(shown[2]["[secret]"]["a"], "[secret]");
    }
}
