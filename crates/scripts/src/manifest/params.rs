//! Arguments in short: `limit integer = 20`, `[level] info|warn|error`, as JSON Schema.

use serde_json::{Map, Value, json};

/// The schema of arguments that are said in short: each a schema of its own, or a few words.
pub(super) fn schema(params: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let (mut properties, mut required) = (Map::new(), vec![]);
    for (name, said) in params {
        let (name, schema, needed) = match said {
            Value::String(words) => shorthand(&format!("{name} {words}"))?,
            Value::Object(schema) => {
                let mut schema = schema.clone();
                let needed = match schema.get("required") {
                    Some(Value::Bool(needed)) => {
                        let needed = *needed;
                        schema.remove("required");
                        needed
                    }
                    _ => !schema.contains_key("default"),
                };
                (name.clone(), Value::Object(schema), needed)
            }
            other => return Err(format!("the argument `{name}` is said to be {other}")),
        };
        if needed {
            required.push(Value::String(name.clone()));
        }
        properties.insert(name, schema);
    }
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), Value::Array(required));
    }
    Ok(schema)
}

/// One argument: its name, its schema, and whether it must be given. `name`, then what it is, then
/// `= default`, then words for the model; `[name]` and `name?` may be left out.
pub(crate) fn shorthand(words: &str) -> Result<(String, Value, bool), String> {
    let words = words.trim();
    let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let name = name.trim_end_matches(':');
    let (name, optional) = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => (name, true),
        None => (name.trim_end_matches('?'), name.ends_with('?')),
    };
    if name.is_empty() {
        return Err(format!("`{words}` names no argument"));
    }
    let rest = rest.trim_start();
    let (kind, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (schema, kind_is_one, rest) = match of_kind(kind) {
        Some(schema) => (schema, true, rest.trim_start()),
        // No type: a string, and all of it are words.
        None => (text(), false, words[words.len() - rest_of(words, name).len()..].trim_start()),
    };
    let optional = optional || (kind_is_one && kind.ends_with('?'));
    let mut schema = schema;
    let (default, description) = default_of(rest, &schema)?;
    let needed = default.is_none() && !optional;
    if let Some(default) = default {
        schema.insert("default".into(), default);
    }
    let description = description.trim_start_matches(['-', ':', '—', '#', ' ']);
    if !description.is_empty() {
        schema.insert("description".into(), description.into());
    }
    Ok((name.to_owned(), Value::Object(schema), needed))
}

/// What follows an argument's name.
fn rest_of<'a>(words: &'a str, name: &str) -> &'a str {
    let start = words.find(name).map_or(0, |at| at + name.len());
    words[start..].trim_start_matches([']', '?', ':'])
}

fn text() -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), "string".into());
    schema
}

/// A type by its name, a list of it, or one of several words.
fn of_kind(kind: &str) -> Option<Map<String, Value>> {
    let kind = kind.trim_end_matches('?').trim_end_matches(':');
    let kind = kind.strip_prefix('(').and_then(|kind| kind.strip_suffix(')')).unwrap_or(kind);
    let kind = kind.strip_suffix(", optional").unwrap_or(kind);
    let schema = |name: &str| {
        let mut schema = Map::new();
        schema.insert("type".into(), name.into());
        schema
    };
    if let Some(item) = kind.strip_suffix("[]") {
        let mut list = schema("array");
        list.insert("items".into(), Value::Object(of_kind(item)?));
        return Some(list);
    }
    Some(match kind {
        "string" | "str" | "text" => schema("string"),
        "integer" | "int" => schema("integer"),
        "number" | "float" | "double" => schema("number"),
        "boolean" | "bool" => schema("boolean"),
        "array" | "list" => schema("array"),
        "object" | "dict" | "json" => schema("object"),
        choice if choice.contains('|') && !choice.starts_with('|') && !choice.ends_with('|') => {
            let mut one_of = schema("string");
            one_of.insert("enum".into(), choice.split('|').collect());
            one_of
        }
        _ => return None,
    })
}

/// `= value`, quoted if it has spaces, and what follows.
fn default_of<'a>(
    rest: &'a str,
    schema: &Map<String, Value>,
) -> Result<(Option<Value>, &'a str), String> {
    let Some(after) = rest.strip_prefix('=') else { return Ok((None, rest)) };
    let after = after.trim_start();
    let (word, rest) = match after.strip_prefix('"').and_then(|text| text.split_once('"')) {
        Some((word, rest)) => (word, rest),
        None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
    };
    let default = match schema.get("type").and_then(Value::as_str) {
        Some("string") => Value::String(word.to_owned()),
        kind => serde_json::from_str(word)
            .map_err(|_| format!("the default `{word}` is no {}", kind.unwrap_or("JSON")))?,
    };
    Ok((Some(default), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_words_are_a_schema() {
        let cases = [
            (
                "name string Who to greet.",
                "name",
                json!({ "type": "string", "description": "Who to greet." }),
                true,
            ),
            (
                "limit integer = 20 How many.",
                "limit",
                json!({ "type": "integer", "default": 20, "description": "How many." }),
                false,
            ),
            (
                "[level] info|warn|error",
                "level",
                json!({ "type": "string", "enum": ["info", "warn", "error"] }),
                false,
            ),
            (
                "tags? string[]",
                "tags",
                json!({ "type": "array", "items": { "type": "string" } }),
                false,
            ),
            ("note", "note", json!({ "type": "string" }), true),
            (
                "city Where it rains.",
                "city",
                json!({ "type": "string", "description": "Where it rains." }),
                true,
            ),
            (
                "greeting: string = \"good day\" - What is said.",
                "greeting",
                json!({ "type": "string", "default": "good day", "description": "What is said." }),
                false,
            ),
            ("loud boolean = false", "loud", json!({ "type": "boolean", "default": false }), false),
        ];
        for (words, name, schema, needed) in cases {
            assert_eq!(shorthand(words), Ok((name.to_owned(), schema, needed)), "{words}");
        }
        assert!(shorthand("count integer = many").is_err());
        assert!(shorthand("  ").is_err());
    }
}
