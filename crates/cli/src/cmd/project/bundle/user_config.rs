//! What a user is asked for when a bundle is installed, and the variables that come of it.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

const TYPES: [&str; 5] = ["string", "number", "boolean", "directory", "file"];

/// Settings as a manifest has them; or what is wrong with them.
pub(super) fn checked(settings: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let one = |(key, field): (&String, &Value)| {
        let field = checked_one(field).map_err(|why| format!("user_config `{key}`: {why}"))?;
        Ok((key.clone(), Value::Object(field)))
    };
    settings.iter().map(one).collect()
}

fn checked_one(field: &Value) -> Result<Map<String, Value>, String> {
    let mut field = field.as_object().ok_or("it is no table")?.clone();
    let kind = field.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !TYPES.contains(&kind.as_str()) {
        return Err(format!("its `type` is none of {}", TYPES.join(", ")));
    }
    let title = field.get("title").and_then(Value::as_str).filter(|title| !title.is_empty());
    let title = title.ok_or("it needs a `title`, which the user sees")?.to_owned();
    for (name, value) in &field {
        let is_right = match name.as_str() {
            "type" | "title" | "description" => value.is_string(),
            "required" => value.is_boolean(),
            "default" => true,
            "sensitive" => value.is_boolean() && kind == "string",
            "multiple" => value.is_boolean() && matches!(kind.as_str(), "directory" | "file"),
            "min" | "max" => value.is_number() && kind == "number",
            _ => return Err(format!("`{name}` is nothing a setting has")),
        };
        if !is_right {
            return Err(format!("`{name}` cannot be {value} for a {kind}"));
        }
    }
    let limit = |name: &str| field.get(name).and_then(Value::as_f64);
    let (min, max) = (limit("min"), limit("max"));
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        return Err("its `min` is more than its `max`".to_owned());
    }
    if let Some(default) = field.get("default") {
        let is_many = field.get("multiple") == Some(&Value::Bool(true));
        let is_right = match (kind.as_str(), default) {
            ("boolean", default) => default.is_boolean(),
            ("number", default) => default.as_f64().is_some_and(|number| {
                min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            }),
            (_, Value::Array(all)) => is_many && all.iter().all(Value::is_string),
            (_, default) => default.is_string(),
        };
        if !is_right {
            return Err(format!("its `default` cannot be {default}"));
        }
    }
    // A manifest must have one.
    field.entry("description").or_insert_with(|| title.into());
    Ok(field)
}

/// Whether the variables are names, and whether what they are made of is asked for.
pub(super) fn check_env(
    env: &BTreeMap<String, String>,
    settings: &Map<String, Value>,
) -> Result<(), String> {
    for (name, value) in env {
        let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word || name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
            return Err(format!("env: `{name}` is no name of a variable"));
        }
        if let Some(key) = used(value).find(|key| !settings.contains_key(*key)) {
            return Err(format!("env {name}: `{key}` is not in user_config"));
        }
    }
    Ok(())
}

/// The settings nobody is given.
pub(super) fn unused<'a>(
    env: &'a BTreeMap<String, String>,
    settings: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a str> {
    let is_used = move |key: &str| env.values().any(|value| used(value).any(|used| used == key));
    settings.keys().map(String::as_str).filter(move |key| !is_used(key))
}

/// The settings a value is made of.
fn used(value: &str) -> impl Iterator<Item = &str> {
    value.split("${user_config.").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(field: &Value) -> Result<Map<String, Value>, String> {
        checked(&Map::from_iter([("key".to_owned(), field.clone())]))
    }

    #[test]
    fn what_a_client_would_not_understand_is_refused() {
        for wrong in [
            json!("string"),
            json!({ "type": "text", "title": "T" }),
            json!({ "type": "string" }),
            json!({ "type": "string", "title": "" }),
            json!({ "type": "number", "title": "T", "sensitive": true }),
            json!({ "type": "string", "title": "T", "multiple": true }),
            json!({ "type": "string", "title": "T", "min": 1 }),
            json!({ "type": "number", "title": "T", "min": 2, "max": 1 }),
            json!({ "type": "number", "title": "T", "max": 1, "default": 2 }),
            json!({ "type": "boolean", "title": "T", "default": "yes" }),
            json!({ "type": "file", "title": "T", "default": ["a"] }),
            json!({ "type": "string", "title": "T", "requird": true }),
        ] {
            assert!(check(&wrong).is_err(), "{wrong}");
        }
        for right in [
            json!({ "type": "string", "title": "T", "sensitive": true, "required": true }),
            json!({ "type": "number", "title": "T", "min": 1, "max": 3, "default": 2 }),
            json!({ "type": "directory", "title": "T", "multiple": true, "default": ["${HOME}"] }),
        ] {
            assert_eq!(check(&right).unwrap()["key"]["description"], "T");
        }
    }

    #[test]
    fn variables_are_made_of_what_is_asked_for() {
        let settings = Map::from_iter([("key".to_owned(), json!({})), ("x".to_owned(), json!({}))]);
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let good = env("KEY", "a ${user_config.key} b");
        assert_eq!(check_env(&good, &settings), Ok(()));
        assert_eq!(unused(&good, &settings).collect::<Vec<_>>(), ["x"]);
        assert!(check_env(&env("KEY", "${user_config.other}"), &settings).is_err());
        assert!(check_env(&env("1KEY", ""), &settings).is_err());
        assert!(check_env(&env("A-B", ""), &settings).is_err());
    }
}
