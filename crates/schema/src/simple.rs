//! Schemas nothing can be wrong with: those of a few keywords, each used as it should be. They
//! are most, and need not be compiled to be believed.

use serde_json::{Map, Value};

const DEEPEST: usize = 16;
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// Whether a schema is surely valid, and checking by it surely cheap.
pub(super) fn is_valid(schema: &Value) -> bool {
    is_schema(schema, DEEPEST)
}

fn is_schema(schema: &Value, levels: usize) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(members) => levels > 0 && members.iter().all(|(k, v)| fits(k, v, levels - 1)),
        _ => false,
    }
}

fn fits(keyword: &str, value: &Value, levels: usize) -> bool {
    let schemas = |all: &Map<String, Value>| all.values().all(|one| is_schema(one, levels));
    match keyword {
        "type" => value.as_str().is_some_and(|name| TYPES.contains(&name)),
        "properties" => value.as_object().is_some_and(schemas),
        "items" | "additionalProperties" => is_schema(value, levels),
        "required" => is_set_of_strings(value),
        "enum" => value.as_array().is_some_and(|all| !all.is_empty() && are_different(all)),
        "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "uniqueItems" => value.is_boolean(),
        "title" | "description" => value.is_string(),
        "default" | "const" => true,
        _ => false,
    }
}

fn is_set_of_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string) && are_different(all))
}

fn are_different(all: &[Value]) -> bool {
    all.len() <= 100 && all.iter().enumerate().all(|(index, one)| !all[..index].contains(one))
}
