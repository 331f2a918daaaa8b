//! Which schemas the big model APIs take: what each of them refuses although JSON Schema has it.

use serde_json::Value;

/// Something an API refuses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// No API takes it.
    pub(super) is_fatal: bool,
    pub(super) why: String,
    pub(super) fix: &'static str,
}

/// Keywords, who refuses them, and what to write instead.
const REFUSED: [(&str, &str, &str); 19] = [
    ("$ref", "Gemini", "write the schema where it is used"),
    ("$dynamicRef", "most APIs", "write the schema where it is used"),
    ("$defs", "Gemini", "write the schemas where they are used"),
    ("definitions", "Gemini", "write the schemas where they are used"),
    ("patternProperties", "Gemini and OpenAI", "name the properties"),
    ("propertyNames", "Gemini and OpenAI", "name the properties"),
    ("unevaluatedProperties", "Gemini and OpenAI", "leave it out"),
    ("dependentRequired", "Gemini and OpenAI", "say it in the description"),
    ("dependentSchemas", "Gemini and OpenAI", "say it in the description"),
    ("if", "Gemini and OpenAI", "say it in the description"),
    ("then", "Gemini and OpenAI", "say it in the description"),
    ("else", "Gemini and OpenAI", "say it in the description"),
    ("not", "Gemini and OpenAI", "say it in the description"),
    ("contains", "Gemini and OpenAI", "say it in the description"),
    (
        "oneOf",
        "OpenAI in strict mode, and older Gemini",
        "use anyOf, or one type and a description",
    ),
    ("allOf", "OpenAI in strict mode, and older Gemini", "write one schema"),
    ("exclusiveMinimum", "older Gemini", "use minimum"),
    ("exclusiveMaximum", "older Gemini", "use maximum"),
    ("const", "older Gemini", "use an enum of one value"),
];
/// What must not stand at the top, where arguments are an object.
const NOT_AT_TOP: [&str; 5] = ["anyOf", "oneOf", "allOf", "enum", "not"];
/// How deep OpenAI follows, and how many properties it counts.
const DEEPEST: usize = 10;
const MOST_PROPERTIES: usize = 5000;

/// What is wrong with a tool's schema.
pub(super) fn check(schema: &Value) -> Vec<Wrong> {
    let mut looking = Looking { found: vec![], properties: 0 };
    if schema["type"] != "object" {
        let why = "has arguments that are no object".to_owned();
        looking.found.push(Wrong { is_fatal: true, why, fix: "\"type\": \"object\" at the top" });
    }
    for word in NOT_AT_TOP.into_iter().filter(|word| schema.get(word).is_some()) {
        let why = format!("has `{word}` at the top of its schema: Anthropic and OpenAI refuse it");
        looking.found.push(Wrong {
            is_fatal: false,
            why,
            fix: "put it below a property, or say it in the description",
        });
    }
    looking.look(schema, "", 0);
    if looking.properties > MOST_PROPERTIES {
        let why =
            format!("has {} properties; OpenAI counts to {MOST_PROPERTIES}", looking.properties);
        looking.refused(why, "make several tools of it");
    }
    looking.found
}

struct Looking {
    found: Vec<Wrong>,
    properties: usize,
}

impl Looking {
    fn refused(&mut self, why: String, fix: &'static str) {
        self.found.push(Wrong { is_fatal: false, why, fix });
    }

    fn look(&mut self, schema: &Value, place: &str, depth: usize) {
        let Some(members) = schema.as_object() else { return };
        let here = if place.is_empty() { "its schema" } else { place };
        if depth == DEEPEST + 1 {
            let why = format!("goes more than {DEEPEST} levels deep at {here}: OpenAI stops there");
            return self.refused(why, "make it flatter");
        }
        for (word, who, fix) in REFUSED {
            let is_told = depth == 0 && NOT_AT_TOP.contains(&word);
            if members.contains_key(word) && !is_told {
                self.refused(format!("has `{word}` in {here}: {who} refuse it"), fix);
            }
        }
        if schema["type"].is_array() {
            let why = format!("has several types in {here}: Gemini takes one");
            self.refused(why, "choose one, or leave the argument out of `required`");
        }
        if schema["type"] == "array"
            && !members.contains_key("items")
            && !members.contains_key("prefixItems")
        {
            let why =
                format!("does not say what the array {here} holds: OpenAI and Gemini refuse it");
            self.refused(why, "add `items`");
        }
        let values = schema["enum"].as_array();
        if values.is_some_and(|all| all.iter().any(|value| !value.is_string())) {
            let why = format!("has values in {here} that are no text: Gemini refuses them");
            self.refused(why, "use texts, or say it in the description");
        }
        self.below(schema, place, depth);
    }

    fn below(&mut self, schema: &Value, place: &str, depth: usize) {
        let step = |name: &str| format!("{place}.{name}").trim_start_matches('.').to_owned();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.properties += 1;
            let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
                let why = format!("has an argument `{}` that Anthropic refuses", step(name));
                self.refused(why, "use up to 64 letters, digits, _ . and -");
            }
            self.look(property, &step(name), depth + 1);
        }
        self.look(&schema["items"], &format!("{place}[]"), depth + 1);
        for word in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            for one in schema[word].as_array().into_iter().flatten() {
                self.look(one, place, depth + 1);
            }
        }
        for word in ["$defs", "definitions"] {
            for (name, one) in schema[word].as_object().into_iter().flatten() {
                self.look(one, &format!("{word}.{name}"), depth + 1);
            }
        }
        self.look(&schema["additionalProperties"], &format!("{place}.*"), depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn why(schema: &Value) -> Vec<String> {
        check(schema).into_iter().map(|wrong| wrong.why).collect()
    }

    #[test]
    fn plain_schemas_pass_everywhere() {
        let plain = json!({ "type": "object", "properties": {
            "a": { "type": "string", "enum": ["x", "y"] },
            "b": { "type": "array", "items": { "type": "object", "properties": { "c": { "type": "integer" } } } },
        }, "required": ["a"] });
        assert_eq!(why(&plain), Vec::<String>::new());
    }

    #[test]
    fn what_one_of_them_refuses_is_named_with_its_place() {
        let cases = [
            (json!({ "type": "string" }), "no object"),
            (json!({ "type": "object", "anyOf": [] }), "`anyOf` at the top"),
            (json!({ "type": "object", "properties": { "a": { "$ref": "#" } } }), "`$ref` in a"),
            (
                json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] } } }),
                "several types in a",
            ),
            (
                json!({ "type": "object", "properties": { "a": { "type": "array" } } }),
                "the array a",
            ),
            (json!({ "type": "object", "properties": { "a": { "enum": [1] } } }), "no text"),
            (json!({ "type": "object", "properties": { "a b": {} } }), "`a b`"),
            (
                json!({ "type": "object", "properties": { "a": { "items": { "not": {} }, "type": "array" } } }),
                "`not` in a[]",
            ),
        ];
        for (schema, expected) in cases {
            let found = why(&schema);
            assert!(found.iter().any(|why| why.contains(expected)), "{schema}: {found:?}");
        }
    }

    #[test]
    fn a_schema_that_goes_on_and_on_is_followed_so_far() {
        let deep = (0..60).fold(
            json!({ "type": "string" }),
            |below, _| json!({ "type": "object", "properties": { "a": below } }),
        );
        assert!(why(&deep).iter().any(|why| why.contains("levels deep")));
    }
}
