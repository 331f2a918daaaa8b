//! A form, filled in the terminal field by field and reviewed before it is sent.

use super::{line, yes_unless};
use crate::print;
use serde_json::{Map, Value};
use std::{io, sync::atomic::AtomicBool};
use zcp_client::wire::mcp::elicitation::{Action, Elicit, ElicitResult, Mode};
use zcp_schema::Schema;

pub(super) fn in_terminal(
    server: &str,
    question: &Elicit,
    given_up: &AtomicBool,
) -> io::Result<ElicitResult> {
    let said = |action, content| Ok(ElicitResult { action, content });
    print::no_progress();
    print::aside(&format!("\n{server} asks: {}", question.message));
    if question.mode == Some(Mode::Url) {
        print::aside("It wants you to visit this page, which is not opened for you:");
        print::page(question.url.as_deref().unwrap_or_default());
        let yes = yes_unless("Do you go there? [y/N] ", given_up)?;
        return said(if yes { Action::Accept } else { Action::Decline }, None);
    }
    let schema = question.requested_schema.as_ref();
    let fields = schema.and_then(|schema| schema["properties"].as_object());
    let required = schema.and_then(|schema| schema["required"].as_array());
    let required = required.map(Vec::as_slice).unwrap_or_default();
    let mut filled = Map::new();
    for (name, field) in fields.into_iter().flatten() {
        let is_needed = required.iter().any(|one| one == name) && field.get("default").is_none();
        match typed(name, field, is_needed, given_up)? {
            Typed::Nothing => return said(Action::Cancel, None),
            Typed::Left => (), // Its default, if it has one, is filled in.
            Typed::Value(value) => drop(filled.insert(name.clone(), value)),
        }
    }
    if fields.is_none_or(Map::is_empty) {
        let yes = yes_unless("Do you agree? [y/N] ", given_up)?;
        return match yes {
            true => said(Action::Accept, Some(Value::Object(filled))),
            false => said(Action::Decline, None),
        };
    }
    let filled = Value::Object(filled);
    print::aside(&format!("This goes to {server}: {filled}"));
    loop {
        let sure = line("Send it? [Y/n, or c to cancel] ", given_up)?;
        match sure.map(|sure| sure.to_lowercase()).as_deref() {
            None | Some("c" | "cancel") => return said(Action::Cancel, None),
            Some("n" | "no") => return said(Action::Decline, None),
            Some("" | "y" | "yes") => return said(Action::Accept, Some(filled)),
            Some(_) => print::aside("Please answer y, n or c."),
        }
    }
}

/// What was typed for a field.
enum Typed {
    /// The input has ended.
    Nothing,
    /// An empty line.
    Left,
    Value(Value),
}

/// Asks for a field until the answer fits it.
fn typed(name: &str, field: &Value, is_needed: bool, given_up: &AtomicBool) -> io::Result<Typed> {
    loop {
        let Some(text) = line(&prompt(name, field, is_needed), given_up)? else {
            return Ok(Typed::Nothing);
        };
        if text.is_empty() && !is_needed {
            return Ok(Typed::Left);
        }
        if text.is_empty() {
            print::aside("  This is needed; Ctrl-D cancels.");
            continue;
        }
        let value = value(field, text);
        match fit(field, &value) {
            Ok(()) => return Ok(Typed::Value(value)),
            Err(why) => print::aside(&format!("  That does not fit: {why}. Ctrl-D cancels.")),
        }
    }
}

/// Whether a value fits its field. A field that cannot be read is the server's to judge.
fn fit(field: &Value, value: &Value) -> Result<(), String> {
    if field["type"] == "boolean" && !value.is_boolean() {
        return Err("answer y or n".to_owned());
    }
    Schema::compile(field).map_or(Ok(()), |schema| schema.check(value))
}

fn prompt(name: &str, field: &Value, is_needed: bool) -> String {
    let label = field["title"].as_str().unwrap_or(name);
    let about = field["description"].as_str().map(|text| format!(" ({text})")).unwrap_or_default();
    let optional = if is_needed { "" } else { ", optional" };
    if field["type"] == "boolean" {
        let choice = match field.get("default").and_then(Value::as_bool) {
            Some(true) => "[Y/n]",
            Some(false) => "[y/N]",
            None => "[y/n]",
        };
        return format!("  {label}{about} {choice}{optional}: ");
    }
    let choices = field["enum"].as_array().map(|all| {
        let all: Vec<_> = all.iter().filter_map(Value::as_str).collect();
        format!(" [{}]", all.join("/"))
    });
    let default = field.get("default").map(|value| format!(" [{value}]")).unwrap_or_default();
    format!("  {label}{about}{}{default}{optional}: ", choices.unwrap_or_default())
}

/// What was typed, as the form wants it.
fn value(field: &Value, text: String) -> Value {
    match field["type"].as_str() {
        Some("integer" | "number") => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Some("array") => serde_json::from_str(&text).unwrap_or_else(|_| {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(|word| Value::String(word.to_owned())).collect()
        }),
        Some("boolean") => match text.to_lowercase().as_str() {
            "y" | "yes" | "true" => Value::Bool(true),
            "n" | "no" | "false" => Value::Bool(false),
            _ => Value::String(text),
        },
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_read_as_its_field_wants_it() {
        for (field, text, expected) in [
            (json!({ "type": "boolean" }), "y", Some(json!(true))),
            (json!({ "type": "boolean" }), "maybe", None),
            (json!({ "type": "integer" }), "3", Some(json!(3))),
            (json!({ "type": "integer", "maximum": 2 }), "3", None),
            (json!({ "type": "string", "enum": ["a", "b"] }), "c", None),
            (
                json!({ "type": "array", "items": { "enum": ["a", "b"] } }),
                "a, b",
                Some(json!(["a", "b"])),
            ),
        ] {
            let value = value(&field, text.to_owned());
            assert_eq!(fit(&field, &value).is_ok().then_some(value), expected, "{field} {text}");
        }
    }

    #[test]
    fn a_boolean_is_asked_for_as_a_yes_or_a_no() {
        let ask = |field: Value, is_needed| prompt("sure", &field, is_needed);
        assert_eq!(ask(json!({ "type": "boolean" }), true), "  sure [y/n]: ");
        let default = json!({ "type": "boolean", "default": false });
        assert_eq!(ask(default, false), "  sure [y/N], optional: ");
    }
}
