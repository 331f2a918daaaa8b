//! Forms a user fills: flat objects of texts, numbers, yes or no, and choices.

use serde_json::{Map, Value};

/// The filled form, with the schema's defaults where nothing was filled in.
pub(crate) fn completed(schema: &Value, content: Value) -> Value {
    let mut filled = match content {
        Value::Object(filled) => filled,
        Value::Null => Map::new(),
        other => return other,
    };
    for (name, field) in fields(schema) {
        if let Some(default) = field.get("default")
            && !filled.contains_key(name)
        {
            filled.insert(name.clone(), default.clone());
        }
    }
    Value::Object(filled)
}

/// Says what is wrong with a filled form.
pub(crate) fn check(schema: &Value, content: &Value) -> Result<(), String> {
    let filled = content.as_object().ok_or("it is not an object")?;
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !filled.contains_key(name) {
            return Err(format!("`{name}` is missing"));
        }
    }
    for (name, field) in fields(schema) {
        if let Some(value) = filled.get(name) {
            check_field(field, value).map_err(|why| format!("`{name}` {why}"))?;
        }
    }
    Ok(())
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn check_field(field: &Value, value: &Value) -> Result<(), String> {
    let fits = match field.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        _ => true,
    };
    if !fits {
        return Err(format!("must be of type {}", field["type"]));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| choice(&field["items"], item)),
        Value::String(text) => {
            bound(field, "minLength", "maxLength", text.chars().count() as f64)?;
            choice(field, value)
        }
        Value::Number(number) => {
            bound(field, "minimum", "maximum", number.as_f64().unwrap_or_default())
        }
        _ => Ok(()),
    }
}

fn bound(field: &Value, least: &str, most: &str, size: f64) -> Result<(), String> {
    let limit = |name: &str| field.get(name).and_then(Value::as_f64);
    match (limit(least), limit(most)) {
        (Some(limit), _) if size < limit => Err(format!("is below its {least}, {limit}")),
        (_, Some(limit)) if size > limit => Err(format!("is above its {most}, {limit}")),
        _ => Ok(()),
    }
}

/// Whether a value is one of those to choose from, in any of the ways they are written.
fn choice(field: &Value, value: &Value) -> Result<(), String> {
    let plain = field.get("enum").and_then(Value::as_array);
    let titled = ["oneOf", "anyOf"].iter().find_map(|name| field.get(name)?.as_array());
    let known = match (plain, titled) {
        (Some(choices), _) => choices.contains(value),
        (_, Some(choices)) => choices.iter().any(|choice| choice.get("const") == Some(value)),
        _ => true,
    };
    known.then_some(()).ok_or_else(|| "is not one of the choices".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_are_filled_in_and_answers_are_not_overwritten() {
        let schema = json!({ "type": "object", "properties": {
            "name": { "type": "string", "default": "Ann" },
            "age": { "type": "integer", "default": 30 },
            "city": { "type": "string" } } });
        assert_eq!(completed(&schema, json!({ "age": 7 })), json!({ "age": 7, "name": "Ann" }));
        assert_eq!(completed(&schema, Value::Null), json!({ "name": "Ann", "age": 30 }));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "minLength": 2 },
            "age": { "type": "integer", "maximum": 150 },
            "size": { "type": "string", "enum": ["s", "m"] },
            "tags": { "type": "array", "items": { "anyOf": [{ "const": "a" }] } } } });
        let wrong = |content: Value| check(&schema, &content).unwrap_err();
        assert!(check(&schema, &json!({ "name": "Ann", "size": "m", "tags": ["a"] })).is_ok());
        assert!(wrong(json!({})).contains("`name` is missing"));
        assert!(wrong(json!({ "name": 1 })).contains("string"));
        assert!(wrong(json!({ "name": "A" })).contains("minLength"));
        assert!(wrong(json!({ "name": "Ann", "age": 151 })).contains("maximum"));
        assert!(wrong(json!({ "name": "Ann", "age": 1.5 })).contains("integer"));
        assert!(wrong(json!({ "name": "Ann", "size": "l" })).contains("choices"));
        assert!(wrong(json!({ "name": "Ann", "tags": ["b"] })).contains("choices"));
        assert!(wrong(json!([])).contains("object"));
    }
}
