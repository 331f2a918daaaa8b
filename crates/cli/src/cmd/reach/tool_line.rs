//! A tool in one line: `backup(files: integer = 5, to?: string) -> object`.

use serde_json::{Map, Value};
use zcp_client::wire::mcp::tools::Tool;

/// Choices of an argument that are shown; of more, only the first are.
const CHOICES: usize = 6;

/// A tool's name, its arguments and what it returns.
pub(crate) fn signature(tool: &Tool) -> String {
    let arguments: Vec<String> = arguments(&tool.input_schema)
        .into_iter()
        .map(|Argument { name, kind, is_required, default, .. }| match default {
            Some(default) => format!("{name}: {kind} = {default}"),
            None if is_required => format!("{name}: {kind}"),
            None => format!("{name}?: {kind}"),
        })
        .collect();
    let returns = tool.output_schema.as_ref().map(|schema| format!(" -> {}", kind(schema)));
    format!("{}({}){}", tool.name, arguments.join(", "), returns.unwrap_or_default())
}

/// An argument of a tool.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) is_required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) description: String,
}

/// The arguments that a schema describes, required ones first.
pub(crate) fn arguments(schema: &Value) -> Vec<Argument> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let argument = |(name, one): (&String, &Value)| Argument {
        name: name.clone(),
        kind: kind(one),
        is_required: required.iter().any(|needed| needed == name),
        default: one.get("default").filter(|value| !value.is_null()).cloned(),
        description: one["description"].as_str().unwrap_or_default().to_owned(),
    };
    let mut all: Vec<Argument> = properties.iter().map(argument).collect();
    all.sort_by_key(|argument| !argument.is_required);
    all
}

/// What a value is, in a word or a few.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let shown: Vec<String> = choices.iter().take(CHOICES).map(Value::to_string).collect();
        let more = if choices.len() > CHOICES { "|…" } else { "" };
        return format!("{}{more}", shown.join("|"));
    }
    let several = ["anyOf", "oneOf"].into_iter().find_map(|name| schema[name].as_array());
    let named = match &schema["type"] {
        Value::String(one) if one == "array" => {
            let item = kind(&schema["items"]);
            return if item.contains('|') { format!("({item})[]") } else { format!("{item}[]") };
        }
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => several.into_iter().flatten().map(kind).collect(),
    };
    let mut named: Vec<String> = named.into_iter().filter(|one| one != "null").collect();
    named.dedup();
    if named.is_empty() { "any".to_owned() } else { named.join("|") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_is_one_line() {
        let tool = |input: Value, output: Option<Value>| {
            let (input_schema, output_schema) = (input, output);
            Tool { name: "t".to_owned(), input_schema, output_schema, ..Tool::default() }
        };
        let input = json!({ "type": "object", "required": ["to", "many"], "properties": {
            "files": { "type": "integer", "default": 5 },
            "to": { "type": "string" },
            "many": { "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "number" }] } },
            "mode": { "enum": ["a", "b"] },
            "maybe": { "type": ["boolean", "null"] },
            "odd": {},
        }});
        let shown = signature(&tool(input, Some(json!({ "type": "object" }))));
        assert_eq!(
            shown,
            r#"t(to: string, many: (string|number)[], files: integer = 5, mode?: "a"|"b", maybe?: boolean, odd?: any) -> object"#
        );
        assert_eq!(signature(&tool(json!({ "type": "object" }), None)), "t()");
    }
}
