//! Arguments that came as text where the schema wants something else, as what they say.

use serde_json::{Map, Value};

/// The same arguments, with texts such as `5`, `true` and `["a"]` as what they say, where the schema
/// wants that and no text. Nothing if there are none.
pub(crate) fn converted(args: &Map<String, Value>, schema: &Value) -> Option<Map<String, Value>> {
    let mut converted = args.clone();
    let mut is_changed = false;
    for (name, value) in &mut converted {
        let Some(said) = value.as_str().and_then(|text| meant(text, &schema["properties"][name]))
        else {
            continue;
        };
        *value = said;
        is_changed = true;
    }
    is_changed.then_some(converted)
}

/// What a text says, if that is what is wanted.
fn meant(text: &str, wanted: &Value) -> Option<Value> {
    let types = types(wanted);
    // A text that may be one is meant as it is.
    if types.contains(&"string") {
        return None;
    }
    let text = match text.trim() {
        "True" => "true",
        "False" => "false",
        text => text,
    };
    if !zcp::wire::json::is_plain(text.as_bytes()) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let is_wanted = |name: &str| types.contains(&name);
    let fits = match &value {
        Value::Number(number) => {
            let is_whole = number.is_i64() || number.is_u64();
            let is_same = is_whole || number.to_string() == text || has_few_digits(text);
            is_same && (is_wanted("number") || is_whole && is_wanted("integer"))
        }
        Value::Bool(_) => is_wanted("boolean"),
        Value::Object(_) => is_wanted("object"),
        Value::Array(_) => is_wanted("array"),
        Value::Null => is_wanted("null"),
        Value::String(_) => false,
    };
    fits.then_some(value)
}

/// The types a schema names, itself or as one of several.
fn types(schema: &Value) -> Vec<&str> {
    let named = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let several = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema[name].as_array());
    let one_of = several.flatten().filter_map(|one| one["type"].as_str());
    named.into_iter().chain(one_of).collect()
}

/// Whether a fraction is the same number for everybody who reads it.
fn has_few_digits(text: &str) -> bool {
    text.len() <= 15 && !text.contains(['e', 'E'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_what_it_says_where_no_text_is_wanted() {
        let whole = json!({ "type": "integer" });
        let maybe = json!({ "anyOf": [{ "type": "number" }, { "type": "null" }] });
        let kind = |name: &str| json!({ "type": name });
        let cases = [
            ("5", &whole, Some(json!(5))),
            ("-5", &whole, Some(json!(-5))),
            ("5.5", &whole, None),
            ("five", &whole, None),
            ("", &whole, None),
            ("12345678901234567890123", &whole, None),
            ("1.50", &maybe, Some(json!(1.5))),
            ("0.12345678901234567890123", &maybe, None),
            ("null", &maybe, Some(Value::Null)),
            ("true", &kind("boolean"), Some(json!(true))),
            ("False", &kind("boolean"), Some(json!(false))),
            ("yes", &kind("boolean"), None),
            ("1", &kind("boolean"), None),
            ("[1, 2]", &kind("array"), Some(json!([1, 2]))),
            ("{\"a\": 1}", &kind("object"), Some(json!({ "a": 1 }))),
            ("{\"a\": 1}", &kind("array"), None),
            ("5", &kind("string"), None),
            ("5", &json!({ "type": ["string", "integer"] }), None),
            ("5", &json!({}), None),
        ];
        for (text, wanted, said) in cases {
            assert_eq!(meant(text, wanted), said, "{text} as {wanted}");
        }
    }
}
