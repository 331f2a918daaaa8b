//! Arguments a client repeats as headers, marked by `x-mcp-header` in a tool's schema.

use crate::header::{encode, is_token};
use serde_json::Value;
use std::borrow::Cow;

const KEYWORD: &str = "x-mcp-header";

/// One argument that is repeated as a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    /// What follows `Mcp-Param-`.
    pub header: String,
    /// Members from the arguments' root down to the value.
    pub path: Vec<String>,
    /// Numbers are compared as numbers.
    pub integer: bool,
}

impl Mirrored {
    /// The header's text for these arguments; none when the argument is not there.
    pub fn text(&self, args: &Value) -> Option<String> {
        let value = self.path.iter().try_fold(args, |value, name| value.get(name))?;
        let text = match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Bool(_) | Value::Number(_) => Cow::Owned(value.to_string()),
            _ => return None,
        };
        Some(encode(&text).into_owned())
    }
}

/// Finds every mirrored argument, or says what is wrong with one.
pub fn find(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = vec![];
    walk(schema, &mut vec![], &mut found)?;
    for (index, one) in found.iter().enumerate() {
        let twin = |other: &Mirrored| other.header.eq_ignore_ascii_case(&one.header);
        if found[..index].iter().any(twin) {
            return Err(format!("`{KEYWORD}` `{}` is used twice", one.header));
        }
    }
    Ok(found)
}

fn walk(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    for (key, value) in members {
        match (key.as_str(), value) {
            (KEYWORD, value) => found.push(mirrored(schema, value, path)?),
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    path.push(name.clone());
                    walk(property, path, found)?;
                    path.pop();
                }
            }
            // Data, not schemas.
            ("default" | "const" | "enum" | "examples", _) => (),
            (_, other) if mentions(other) => {
                return Err(format!(
                    "`{KEYWORD}` below `{key}`: only properties of objects can be headers"
                ));
            }
            _ => (),
        }
    }
    Ok(())
}

fn mirrored(schema: &Value, header: &Value, path: &[String]) -> Result<Mirrored, String> {
    let header = header
        .as_str()
        .filter(|name| is_token(name))
        .ok_or_else(|| format!("`{KEYWORD}` must be a header name's token, not {header}"))?;
    let kind = schema.get("type").and_then(Value::as_str);
    if path.is_empty() || !matches!(kind, Some("string" | "integer" | "boolean")) {
        return Err(format!(
            "`{KEYWORD}` `{header}`: only a string, an integer or a boolean can be a header"
        ));
    }
    Ok(Mirrored {
        header: header.to_ascii_lowercase(),
        path: path.to_vec(),
        integer: kind == Some("integer"),
    })
}

fn mentions(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key(KEYWORD) || members.values().any(mentions),
        Value::Array(items) => items.iter().any(mentions),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn property(schema: &Value) -> Value {
        json!({ "type": "object", "properties": { "a": schema } })
    }

    #[test]
    fn a_nested_property_is_found() {
        let inner = json!({ "type": "object", "properties": {
            "b": { "type": "integer", "x-mcp-header": "Count" } } });
        assert_eq!(
            find(&property(&inner)).unwrap(),
            [Mirrored {
                header: "count".into(),
                path: vec!["a".into(), "b".into()],
                integer: true
            }]
        );
    }

    #[test]
    fn what_no_header_can_be_is_refused_at_start() {
        for bad in [
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "string", "x-mcp-header": "a b" }),
            json!({ "type": "number", "x-mcp-header": "A" }),
            json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "A" } }),
            json!({ "oneOf": [{ "type": "string", "x-mcp-header": "A" }] }),
        ] {
            assert!(find(&property(&bad)).is_err(), "{bad}");
        }
        let twice = json!({ "type": "object", "properties": {
            "a": { "type": "string", "x-mcp-header": "A" },
            "b": { "type": "string", "x-mcp-header": "a" } } });
        assert!(find(&twice).is_err());
    }
}
