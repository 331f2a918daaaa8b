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
    if !content.is_object() {
        return Err("it is not an object".into());
    }
    zcp_schema::Schema::compile(schema).map_err(|error| error.to_string())?.check(content)
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
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
        assert!(wrong(json!({})).contains("name"));
        assert!(wrong(json!({ "name": 1 })).contains("string"));
        assert!(wrong(json!({ "name": "A" })).contains("shorter"));
        assert!(wrong(json!({ "name": "Ann", "age": 151 })).contains("maximum"));
        assert!(wrong(json!({ "name": "Ann", "age": 1.5 })).contains("integer"));
        assert!(wrong(json!({ "name": "Ann", "size": "l" })).contains("not one of"));
        assert!(wrong(json!({ "name": "Ann", "tags": ["b"] })).contains("alternatives"));
        assert!(wrong(json!([])).contains("object"));
    }
}
