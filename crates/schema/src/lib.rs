//! JSON Schema: does a value fit, and if not, what has to change.
//!
//! A schema may come from a stranger, and so may a value. Nothing is fetched, patterns run in
//! linear time, and both are bounded.

mod bounds;
mod cost;
mod error;
mod explain;
mod simple;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use jsonschema::{
    Draft, PatternOptions, ReferencingError, ValidationError, Validator, error::ValidationErrorKind,
};
use serde_json::Value;

use cost::Cost;
pub use error::SchemaError;

/// How deep a value may be nested.
const DEEPEST_VALUE: usize = 128;

/// How many errors are told at once.
const MOST_ERRORS: usize = 5;

/// How large a compiled pattern may be, in bytes.
const LARGEST_PATTERN: usize = 1024 * 1024;

/// How large all compiled patterns of a schema may be, in bytes: each may take an equal part.
const LARGEST_PATTERNS: usize = 4 * LARGEST_PATTERN;

/// Refuses a schema that is too large to be compiled, without compiling it.
pub fn check_size(schema: &Value) -> Result<(), SchemaError> {
    bounds::check(schema).map(drop)
}

/// A compiled JSON Schema. Clones share it.
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    validator: Validator,
    cost: Cost,
}

impl Schema {
    /// Compiles a schema: of the dialect its `$schema` names, or else of 2020-12.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let patterns = bounds::check(schema)?;
        let largest = (LARGEST_PATTERNS / patterns.max(1)).min(LARGEST_PATTERN);
        let pattern = PatternOptions::regex().size_limit(largest).dfa_size_limit(largest);
        let validator = jsonschema::options()
            .with_draft(dialect(schema)?)
            .with_pattern_options(pattern)
            .offline()
            .build(schema)
            .map_err(|error| refusal(&error))?;
        // Last, so that a reference that leads nowhere is told as what it is.
        let cost = Cost::of(schema, DEEPEST_VALUE)?;
        Ok(Self(Arc::new(Compiled { validator, cost })))
    }

    /// Checks a value. The error names at most five things to put right, in words a language
    /// model can act on.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let Some(extent) = bounds::measure(value, DEEPEST_VALUE) else {
            return Err(format!("nested deeper than {DEEPEST_VALUE} levels"));
        };
        if !self.0.cost.affords_checking(extent) {
            return Err("too large to be checked against the schema".to_owned());
        }
        if self.0.validator.is_valid(value) {
            return Ok(());
        }
        if !self.0.cost.affords_explaining(extent) {
            return Err("does not fit the schema, and is too large to say where".to_owned());
        }
        let mut errors = self.0.validator.iter_errors(value);
        let told: Vec<String> =
            errors.by_ref().take(MOST_ERRORS).map(|error| explain::error(&error)).collect();
        let more = errors.count();
        let rest = if more == 0 { String::new() } else { format!("; and {more} more") };
        Err(told.join("; ") + &rest)
    }
}

/// A schema that was checked, and is compiled when it is first needed: a compiled one takes 50 KB
/// and 50 µs, and most tools of a large server are never called. It does not keep its text.
#[derive(Debug, Clone)]
pub struct Lazy(OnceLock<Schema>);

impl Lazy {
    /// Refuses what [`Schema::compile`] would refuse.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        if simple::is_valid(schema) {
            return check_size(schema).map(|()| Self(OnceLock::new()));
        }
        Schema::compile(schema).map(|compiled| Self(compiled.into()))
    }

    /// Checks a value against the schema this was made of.
    pub fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let compiled = match self.0.get() {
            Some(compiled) => compiled,
            None => {
                let compiled = Schema::compile(schema).map_err(|error| error.to_string())?;
                self.0.get_or_init(|| compiled)
            }
        };
        compiled.check(value)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("draft", &self.0.validator.draft()).finish_non_exhaustive()
    }
}

fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(uri) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let uri = uri.as_str().unwrap_or_default();
    match Draft::from_schema_uri(uri) {
        Draft::Unknown => Err(SchemaError::UnknownDialect(explain::shorten(uri))),
        known => Ok(known),
    }
}

fn refusal(error: &ValidationError<'_>) -> SchemaError {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            // What a relative reference is resolved against when the schema has no `$id`.
            let uri = uri.strip_prefix("json-schema:///").unwrap_or(uri);
            SchemaError::OutsideReference(explain::shorten(uri))
        }
        ValidationErrorKind::Referencing(ReferencingError::UnknownSpecification {
            specification,
        }) => SchemaError::UnknownDialect(explain::shorten(specification)),
        ValidationErrorKind::Format { format } if format == "regex" => {
            SchemaError::Pattern(explain::value(error.instance()))
        }
        _ => SchemaError::Invalid(explain::error(error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, value: &Value) -> Result<(), String> {
        Schema::compile(schema).unwrap().check(value)
    }

    fn refused(schema: &Value) -> String {
        Schema::compile(schema).unwrap_err().to_string()
    }

    #[test]
    fn what_is_surely_valid_compiles_and_what_is_wrong_is_not_simple() {
        let simple = json!({
            "type": "object",
            "properties": {
                "a": { "type": "string", "enum": ["x", "y"], "default": "x", "minLength": 0 },
                "b": { "type": "array", "items": { "type": "integer", "minimum": -1.5 } },
                "c": { "additionalProperties": false, "title": "c", "const": null },
            },
            "required": ["a"],
        });
        assert!(simple::is_valid(&simple));
        assert!(Schema::compile(&simple).is_ok());
        for wrong in [
            json!({ "type": "text" }),
            json!({ "type": 7 }),
            json!({ "properties": [] }),
            json!({ "properties": { "a": 7 } }),
            json!({ "required": ["a", "a"] }),
            json!({ "required": "a" }),
            json!({ "enum": "a" }),
            json!({ "minLength": -1 }),
            json!({ "maximum": "9" }),
            json!({ "items": [7] }),
            json!({ "uniqueItems": 1 }),
            json!({ "description": 1 }),
            json!({ "$ref": "#/nowhere" }),
            json!({ "pattern": "(" }),
            json!(7),
        ] {
            assert!(!simple::is_valid(&wrong), "{wrong}");
            assert!(Lazy::new(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_says_where_and_what() {
        let schema = json!({
            "type": "object",
            "properties": {
                "limit": { "maximum": 100 },
                "tags": { "items": { "type": "string" } },
                "kind": { "enum": ["a", "b", "c", "d", "e"] },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let value = json!({ "limit": 500, "tags": ["a", { "b": 1 }], "kind": "f", "x": 1 });
        let error = check(&schema, &value).unwrap_err();
        let mut lines: Vec<&str> = error.split("; ").collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "Additional properties are not allowed ('x' was unexpected)",
                r#"`kind`: "f" is not one of "a", "b", "c", "d", "e""#,
                "`limit`: 500 is greater than the maximum of 100",
                "`query` is missing",
                r#"`tags[1]`: {"b":1} is not of type "string""#,
            ]
        );
    }

    #[test]
    fn a_choice_says_why_each_branch_failed() {
        let schema = json!({ "anyOf": [{ "type": "string" }, { "required": ["id"] }] });
        assert_eq!(
            check(&schema, &json!({})).unwrap_err(),
            r#"{} fits none of the alternatives ({} is not of type "string", or "id" is a required property)"#
        );
    }

    #[test]
    fn errors_are_few_and_short() {
        let schema = json!({ "items": { "type": "integer" } });
        let error = check(&schema, &json!(vec!["é".repeat(1000); 9])).unwrap_err();
        assert!(error.ends_with("; and 4 more"), "{error}");
        assert!(error.chars().count() < 5 * 150, "{error}");
        let error =
            check(&json!({ "additionalProperties": false }), &json!({ "x".repeat(9999): 1 }));
        assert!(error.unwrap_err().chars().count() < 450);
    }

    #[test]
    fn the_dialect_is_the_one_named() {
        for (dialect, tuple) in [
            ("https://json-schema.org/draft/2020-12/schema", "prefixItems"),
            ("https://json-schema.org/draft/2019-09/schema", "items"),
            ("http://json-schema.org/draft-07/schema#", "items"),
            ("http://json-schema.org/draft-06/schema#", "items"),
            ("http://json-schema.org/draft-04/schema#", "items"),
        ] {
            let schema = json!({ "$schema": dialect, tuple: [{ "type": "string" }] });
            assert!(check(&schema, &json!([1])).is_err(), "{dialect}");
            assert!(check(&schema, &json!(["a", 1])).is_ok(), "{dialect}");
        }
        assert!(check(&json!({ "prefixItems": [false] }), &json!([1])).is_err());
        assert!(refused(&json!({ "$schema": "urn:x" })).starts_with("unknown $schema `urn:x`"));
        assert!(refused(&json!({ "$schema": 7 })).contains("2019-09"));
    }

    #[test]
    fn references_stay_inside_the_schema() {
        let tree = json!({
            "$defs": { "tree": { "properties": { "left": { "$ref": "#/$defs/tree" }, "n": { "type": "integer" } } } },
            "$ref": "#/$defs/tree",
        });
        assert!(check(&tree, &json!({ "left": { "left": { "n": 1 } } })).is_ok());
        assert_eq!(
            check(&tree, &json!({ "left": { "left": { "n": "x" } } })).unwrap_err(),
            r#"`left.left.n`: "x" is not of type "integer""#
        );
        let named = json!({ "$id": "https://example.com/a", "$defs": { "b": { "$id": "b" } }, "$ref": "b" });
        assert!(check(&named, &json!(1)).is_ok());
        for uri in
            ["https://example.com/a", "http://127.0.0.1/", "file:///etc/passwd", "a.json", "urn:a"]
        {
            let error = refused(&json!({ "properties": { "a": { "$ref": uri } } }));
            assert!(error.starts_with(&format!("$ref to `{uri}` leaves the schema")), "{error}");
        }
        assert!(refused(&json!({ "$ref": "#/$defs/none" })).starts_with("not a valid schema"));
    }

    #[test]
    fn patterns_run_in_linear_time() {
        let slow = json!({ "pattern": "^(a+)+$" });
        assert!(check(&slow, &json!("a".repeat(50_000) + "!")).is_err());
        for pattern in ["(?=a)b", r"(a)\1", "(", "((a{100}){100}){100}"] {
            assert!(refused(&json!({ "pattern": pattern })).starts_with("pattern "), "{pattern}");
            let error = refused(&json!({ "patternProperties": { pattern: {} } }));
            assert!(error.starts_with("pattern "), "{error}");
        }
    }

    #[test]
    fn the_patterns_of_a_schema_share_a_budget() {
        let schema = |pattern: &str, count: usize| {
            let all: Vec<Value> =
                (0..count).map(|i| json!({ "pattern": format!("{pattern}{i}$") })).collect();
            json!({ "anyOf": all })
        };
        assert!(Schema::compile(&schema(r"^\p{L}{12}x", 2)).is_ok());
        assert!(refused(&schema(r"^\p{L}{12}x", 16)).starts_with("pattern "));
        for ordinary in [r"^[a-z0-9-]{1,64}", r"^\w+@[\w.-]+", r"^\d{4}-\d{2}-\d{2}T", r"^[^/\s]+"]
        {
            assert!(Schema::compile(&schema(ordinary, 256)).is_ok(), "{ordinary}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in [json!(1), json!([]), json!({ "type": "text" }), json!({ "minimum": "1" })] {
            assert!(refused(&schema).starts_with("not a valid schema: "));
        }
        let error = refused(&json!({ "properties": { "a": { "type": "text" } } }));
        assert!(error.starts_with("not a valid schema: `properties.a.type`: \"text\" fits none"));
    }

    #[test]
    fn schemas_and_values_are_bounded() {
        let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert!(Schema::compile(&nested(63)).is_ok());
        assert!(refused(&nested(64)).contains("64 levels"));
        assert!(refused(&json!({ "enum": vec![0; 10_000] })).contains("10000 nodes"));
        assert!(refused(&json!({ "title": "x".repeat(256 * 1024) })).contains("256 KiB"));
        let patterns: Vec<Value> = (0..257).map(|i| json!({ "pattern": format!("{i}") })).collect();
        assert!(refused(&json!({ "allOf": patterns })).contains("256 patterns"));
        let deep = (0..128).fold(json!(1), |inner, _| json!([inner]));
        assert!(check(&json!({}), &deep).is_ok());
        assert!(check(&json!({}), &json!([deep])).is_err());
    }

    #[test]
    fn doubling_references_do_not_explode() {
        let doubling = |levels: usize, double: &dyn Fn(Value) -> Value| {
            let next = |i| json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            let mut defs: serde_json::Map<String, Value> =
                (0..levels).map(|i| (format!("d{i}"), double(next(i)))).collect();
            defs.insert(format!("d{levels}"), json!({ "type": "string" }));
            json!({ "$defs": defs, "$ref": "#/$defs/d0" })
        };
        let both = |next: Value| json!({ "allOf": [next, next] });
        assert!(check(&doubling(8, &both), &json!(1)).is_err());
        assert!(refused(&doubling(40, &both)).contains("too many alternatives"));
        let inside = |next: Value| {
            let c = json!({ "properties": { "c": next } });
            json!({ "anyOf": [c, c] })
        };
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!({ "c": inner }));
        assert!(check(&doubling(4, &inside), &nested(4)).unwrap_err().contains("alternatives"));
        assert!(refused(&doubling(40, &inside)).contains("too many alternatives"));
    }

    #[test]
    fn a_deep_value_of_a_recursive_schema_does_not_explode() {
        let tree = json!({ "properties": { "n": { "type": "string" }, "c": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
        let nested = |levels| (0..levels).fold(json!({ "n": 1 }), |inner, _| json!({ "c": inner }));
        assert!(check(&tree, &nested(3)).unwrap_err().contains("alternatives"));
        assert!(check(&tree, &nested(100)).unwrap_err().contains("too large"));
        let list = json!({ "properties": { "n": { "type": "string" }, "c": { "$ref": "#" } } });
        assert!(check(&list, &nested(100)).unwrap_err().contains("is not of type"));
    }

    #[test]
    fn references_in_a_row_do_not_overflow_the_stack() {
        let row = |length: usize, end: Value| {
            let next = |i| json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", i + 1) }] });
            let mut defs: serde_json::Map<String, Value> =
                (0..length).map(|i| (format!("d{i}"), next(i))).collect();
            defs.insert(format!("d{length}"), end);
            json!({ "$defs": defs, "$ref": "#/$defs/d0" })
        };
        assert!(check(&row(100, json!({ "type": "string" })), &json!(1)).is_err());
        assert!(refused(&row(200, json!({}))).contains("256 references in a row"));
        let circle = row(100, json!({ "items": { "$ref": "#" } }));
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(check(&circle, &nested(5)), Ok(()));
        assert!(check(&circle, &nested(100)).unwrap_err().contains("too large"));
    }
}
