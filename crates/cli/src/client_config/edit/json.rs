//! JSON, with its comments.

use super::At;
use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::{Map, Value};

/// Comments and a comma too many are read; whatever else is not JSON is a mistake.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

fn parse(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &OPTIONS).map_err(|error| {
        let (line, column) = (error.line_display(), error.column_display());
        format!("line {line}, column {column}: {}", error.kind())
    })
}

pub(super) fn read(text: &str) -> Result<Value, String> {
    // Most files have no comments, and some are long.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    Ok(parse(text)?.to_serde_value().unwrap_or_default())
}

pub(super) fn set(
    text: &str,
    at: At<'_>,
    there: Option<&Map<String, Value>>,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let root = parse(text)?;
    let servers = root.object_value_or_set().object_value_or_set(at.table);
    let new = || input(&Value::Object(entry.clone()));
    match (there, servers.get(at.name)) {
        (Some(there), _) => write(&servers.object_value_or_set(at.name), there, entry),
        (None, Some(member)) => member.set_value(new()),
        (None, None) => drop(servers.append(at.name, new())),
    }
    Ok(root.to_string())
}

/// Writes what differs.
fn write(object: &CstObject, there: &Map<String, Value>, members: &Map<String, Value>) {
    for (name, value) in members {
        match (object.get(name), there.get(name), value) {
            (Some(_), Some(now), value) if now == value => (),
            (Some(_), Some(Value::Object(now)), Value::Object(value)) => {
                write(&object.object_value_or_set(name), now, value);
            }
            (Some(member), ..) => member.set_value(input(value)),
            (None, ..) => drop(object.append(name, input(value))),
        }
    }
}

pub(super) fn remove(text: &str, at: At<'_>) -> Result<String, String> {
    let root = parse(text)?;
    let servers = root.object_value().and_then(|top| top.object_value(at.table));
    if let Some(member) = servers.and_then(|servers| servers.get(at.name)) {
        member.remove();
    }
    Ok(root.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(all) => CstInputValue::Object(
            all.iter().map(|(name, value)| (name.clone(), input(value))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{At, Format};
    use serde_json::{Map, Value, json};

    const AT: At<'_> = At { table: "servers", name: "new" };

    fn entry() -> Map<String, Value> {
        json!({ "command": "zcp", "args": ["serve", "/a \"b\"\\c"] }).as_object().cloned().unwrap()
    }

    #[test]
    fn comments_order_and_layout_stay() {
        let text = "// mine\n{\n    \"z\": 1, // last first\n    \"servers\": {\n        /* old */\n        \
                    \"old\": {\"command\": \"x\"},\n    },\n    \"a\": [1,2],\n}\n";
        let set = Format::Json.set(text, AT, &entry()).unwrap();
        for kept in ["// mine", "// last first", "/* old */", "{\"command\": \"x\"}", "[1,2],\n}\n"]
        {
            assert!(set.contains(kept), "{kept} in {set}");
        }
        assert!(set.contains("\n        \"new\": {\n            \"command\": \"zcp\""), "{set}");
        let removed = Format::Json.remove(&set, AT).unwrap();
        assert_eq!(removed, text);
    }

    #[test]
    fn a_file_begins_with_what_is_set() {
        let set = Format::Json.set("", AT, &entry()).unwrap();
        assert!(set.starts_with("{\n  \"servers\": {\n    \"new\": {\n"), "{set}");
        assert!(set.ends_with("}\n"), "{set}");
        assert_eq!(Format::Json.set("{}", AT, &entry()).unwrap().trim(), set.trim());
        let null = Format::Json.set("{\"servers\": null}", AT, &entry()).unwrap();
        assert_eq!(Format::Json.read(&null).unwrap()["servers"]["new"]["command"], "zcp");
    }

    #[test]
    fn an_entry_of_nothing_is_filled() {
        let set = Format::Json.set("{\"servers\": {\"new\": null}}", AT, &entry()).unwrap();
        assert_eq!(set.matches("\"new\"").count(), 1, "{set}");
        assert_eq!(Format::Json.read(&set).unwrap()["servers"]["new"]["command"], "zcp");
    }

    #[test]
    fn what_is_the_same_is_not_written_again() {
        let text = "{\"servers\": {\"new\": {\"env\": {\"A\": \"1\" /* a */}, \"command\": \"old\", \
                    \"disabled\": true}}}\n";
        let mut wanted = entry();
        wanted.insert("disabled".into(), json!(true));
        wanted.insert("env".into(), json!({ "A": "1", "B": "2" }));
        let set = Format::Json.set(text, AT, &wanted).unwrap();
        assert!(set.contains("/* a */") && set.contains("\"disabled\": true"), "{set}");
        assert_eq!(Format::Json.set(&set, AT, &wanted).unwrap(), set);
    }

    #[test]
    fn windows_line_ends_and_marks_stay() {
        let text = "\u{feff}{\r\n  \"a\": 1\r\n}\r\n";
        let set = Format::Json.set(text, AT, &entry()).unwrap();
        assert!(set.starts_with("\u{feff}{\r\n"), "{set:?}");
        assert!(!set.replace("\r\n", "").contains('\n'), "{set:?}");
    }

    #[test]
    fn mistakes_have_a_line() {
        let why = Format::Json.read("{\n  \"a\": 1\n  \"b\": 2\n}").unwrap_err();
        assert!(why.starts_with("line "), "{why}");
        assert!(Format::Json.read("[1]").is_err());
        assert!(Format::Json.set("{\"servers\": [1]}", AT, &entry()).is_err());
    }
}
