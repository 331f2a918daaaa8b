//! Schemas of an API description as JSON Schema of arguments: whole, of one dialect, and bounded.

use serde_json::{Map, Value, json};
use std::cell::Cell;
use zcp_schema::Schema;

/// References in references that are followed.
const DEEPEST: usize = 6;
/// How many schemas may be in one.
const MOST: usize = 500;
/// References from one to the next.
const MOST_STEPS: usize = 16;
/// The longest description of a member.
const LONGEST: usize = 300;

/// What is kept as it is.
const KEPT: [&str; 21] = [
    "type",
    "enum",
    "const",
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
    "description",
    "nullable",
];

/// The schemas of a description.
#[derive(Debug)]
pub(super) struct Schemas<'a> {
    root: &'a Value,
    left: Cell<usize>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, left: Cell::new(MOST) }
    }

    /// What a reference means; anything else is meant as it is.
    pub(super) fn meant(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..MOST_STEPS {
            match value.get("$ref").and_then(Value::as_str).and_then(|to| self.find(to)) {
                Some(next) => value = next,
                None => return value,
            }
        }
        &Value::Null
    }

    fn find(&self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        self.root.pointer(pointer).or_else(|| {
            let decoded = percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?;
            self.root.pointer(&decoded)
        })
    }

    /// A schema without references, in today's words.
    pub(super) fn whole(&self, schema: &'a Value) -> Value {
        self.left.set(MOST);
        self.tidy(schema, &mut vec![])
    }

    fn tidy(&self, schema: &'a Value, inside: &mut Vec<&'a str>) -> Value {
        let Some(members) = schema.as_object() else { return json!({}) };
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let Some(target) = self.find(reference) else { return described(schema) };
            if left == 0 || inside.len() >= DEEPEST || inside.contains(&reference) {
                return outline(self.meant(target));
            }
            inside.push(reference);
            let mut whole = self.tidy(target, inside);
            inside.pop();
            if let Some(words) = described(schema).get("description") {
                whole["description"] = words.clone();
            }
            return whole;
        }
        if left == 0 {
            return outline(schema);
        }
        let mut out = Map::new();
        for (name, value) in members {
            match name.as_str() {
                "properties" => {
                    let all = value.as_object().into_iter().flatten();
                    let shown = all.filter(|(_, one)| one["readOnly"] != true);
                    let tidied = shown.map(|(name, one)| (name.clone(), self.tidy(one, inside)));
                    out.insert(name.clone(), Value::Object(tidied.collect()));
                }
                "items" | "additionalProperties" | "not" => {
                    let tidied = match value {
                        Value::Bool(_) => value.clone(),
                        value => self.tidy(value, inside),
                    };
                    out.insert(name.clone(), tidied);
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    let all = value.as_array().into_iter().flatten();
                    let all: Vec<Value> = all.map(|one| self.tidy(one, inside)).collect();
                    out.insert(name.clone(), all.into());
                }
                known if KEPT.contains(&known) => drop(out.insert(name.clone(), value.clone())),
                _ => (),
            }
        }
        modern(&mut out);
        merge(&mut out);
        settle(&mut out);
        Value::Object(out)
    }
}

/// Only the words of a schema.
fn described(schema: &Value) -> Value {
    match schema.get("description").and_then(Value::as_str) {
        Some(words) => json!({ "description": shortened(words) }),
        None => json!({}),
    }
}

/// What is said of a schema that is not followed any further.
fn outline(schema: &Value) -> Value {
    let mut out = described(schema);
    if let Some(kind) = schema.get("type").filter(|kind| kind.is_string()) {
        out["type"] = kind.clone();
    }
    out
}

fn shortened(words: &str) -> String {
    super::draft::words(words, LONGEST)
}

/// What earlier dialects say in other words.
fn modern(out: &mut Map<String, Value>) {
    for (limit, strict) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match out.get(strict) {
            Some(Value::Bool(true)) => match out.remove(limit) {
                Some(value) => drop(out.insert(strict.to_owned(), value)),
                None => drop(out.remove(strict)),
            },
            Some(Value::Bool(false)) => drop(out.remove(strict)),
            _ => (),
        }
    }
    if let Some(words) = out.get("description") {
        let words = words.as_str().map(shortened).unwrap_or_default();
        out.insert("description".to_owned(), words.into());
    }
    // They say how a server counts, not what a value may be.
    if out.get("format").is_some_and(|format| {
        ["int32", "int64", "float", "double"].iter().any(|known| format == known)
    }) {
        out.remove("format");
    }
    if out.get("type").is_some_and(|kind| kind == "file") {
        out.insert("type".to_owned(), "string".into());
    }
    if !out.get("required").is_some_and(Value::is_array) {
        out.remove("required");
    }
    if out.remove("nullable") == Some(Value::Bool(true)) {
        if let Some(Value::String(kind)) = out.get("type") {
            let kinds = json!([kind, "null"]);
            out.insert("type".to_owned(), kinds);
        }
        if let Some(Value::Array(all)) = out.get_mut("enum")
            && !all.contains(&Value::Null)
        {
            all.push(Value::Null);
        }
    }
    if !out.contains_key("type") {
        let kind = match (out.contains_key("properties"), out.contains_key("items")) {
            (true, _) => "object",
            (_, true) => "array",
            _ => return,
        };
        out.insert("type".to_owned(), kind.into());
    }
}

/// Makes one of all that must hold together, where nothing is said twice.
fn merge(out: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = out.get("allOf").cloned() else { return };
    let mut merged = out.clone();
    merged.remove("allOf");
    for part in parts {
        let Value::Object(part) = part else { return };
        for (name, value) in part {
            match (name.as_str(), merged.get_mut(&name), value) {
                ("properties", Some(Value::Object(own)), Value::Object(more)) => own.extend(more),
                ("required", Some(Value::Array(own)), Value::Array(more)) => {
                    own.extend(more);
                }
                ("description", Some(_), _) | ("additionalProperties", _, Value::Bool(false)) => (),
                (_, None, value) => drop(merged.insert(name, value)),
                (_, Some(own), value) if *own == value => (),
                // It is said in two ways, and both must hold.
                _ => return,
            }
        }
    }
    *out = merged;
}

/// Members that may be left out need not be null as well; those that are not there are not needed.
fn settle(out: &mut Map<String, Value>) {
    let needed: Vec<String> = match out.get("required") {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => vec![],
    };
    let Some(Value::Object(properties)) = out.get_mut("properties") else { return };
    for (name, schema) in properties.iter_mut() {
        if !needed.contains(name) {
            never_null(schema);
        }
    }
    let mut needed: Vec<_> =
        needed.into_iter().filter(|name| properties.contains_key(name)).collect();
    needed.sort();
    needed.dedup();
    match needed.is_empty() {
        true => drop(out.remove("required")),
        false => drop(out.insert("required".to_owned(), json!(needed))),
    }
}

/// A schema that no longer takes null.
pub(super) fn never_null(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(all)) = members.get_mut("enum") {
        all.retain(|value| !value.is_null());
    }
    for name in ["anyOf", "oneOf"] {
        let Some(Value::Array(all)) = members.get_mut(name) else { continue };
        all.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = &all[..] {
            let only = only.clone();
            members.remove(name);
            for (name, value) in only {
                members.entry(name).or_insert(value);
            }
        }
    }
}

/// Arguments that the server can check: what it could not is not asked of them.
pub(super) fn checkable(properties: &mut Map<String, Value>) {
    for schema in properties.values_mut() {
        if Schema::compile(schema).is_err() {
            without(schema, "pattern");
        }
        if Schema::compile(schema).is_err() {
            *schema = described(schema);
        }
    }
    // Each may be fine, and all together too much.
    if Schema::compile(&json!({ "properties": properties })).is_err() {
        properties.values_mut().for_each(|schema| *schema = outline(schema));
    }
}

/// Takes a word out of a schema and all that are in it.
fn without(schema: &mut Value, word: &str) {
    match schema {
        Value::Object(members) => {
            if members.get(word).is_some_and(Value::is_string) {
                members.remove(word);
            }
            members.values_mut().for_each(|member| without(member, word));
        }
        Value::Array(all) => all.iter_mut().for_each(|one| without(one, word)),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_followed_and_circles_end() {
        let root = json!({ "components": { "schemas": {
            "Pet": { "type": "object", "required": ["name", "id"], "properties": {
                "id": { "type": "integer", "readOnly": true },
                "name": { "type": "string", "nullable": true, "example": "Rex" },
                "note": { "type": "string", "nullable": true },
                "mother": { "$ref": "#/components/schemas/Pet" },
                "kind": { "$ref": "#/components/schemas/Kind", "description": "Which." },
            } },
            "Kind": { "type": "string", "enum": ["cat", null], "nullable": true },
            "Loop": { "$ref": "#/components/schemas/Loop" },
        } } });
        let schemas = Schemas::new(&root);
        let reference = json!({ "$ref": "#/components/schemas/Pet" });
        let pet = schemas.whole(&reference);
        assert_eq!(
            pet,
            json!({ "type": "object", "required": ["name"], "properties": {
                "name": { "type": ["string", "null"] },
                "note": { "type": "string" },
                "mother": { "type": "object" },
                "kind": { "type": "string", "enum": ["cat"], "description": "Which." },
            } })
        );
        let circle = json!({ "$ref": "#/components/schemas/Loop" });
        assert_eq!(schemas.whole(&circle), json!({}));
        assert_eq!(schemas.meant(&circle), &Value::Null);
        assert_eq!(schemas.whole(&json!({ "$ref": "other.yaml#/x" })), json!({}));
    }

    #[test]
    fn what_must_hold_together_is_one() {
        let root = json!({});
        let schemas = Schemas::new(&root);
        let both = json!({ "description": "Both.", "allOf": [
            { "properties": { "a": { "type": "integer", "minimum": 0, "exclusiveMinimum": true } }, "required": ["a"] },
            { "type": "object", "properties": { "b": { "type": "string" } }, "required": ["b"] },
        ] });
        assert_eq!(
            schemas.whole(&both),
            json!({ "description": "Both.", "type": "object", "required": ["a", "b"], "properties": {
                "a": { "type": "integer", "exclusiveMinimum": 0 }, "b": { "type": "string" },
            } })
        );
        let against = json!({ "allOf": [{ "maxLength": 3 }, { "maxLength": 2 }] });
        assert_eq!(schemas.whole(&against), against);
    }

    #[test]
    fn what_cannot_be_checked_is_not_asked() {
        let Value::Object(mut all) = json!({
            "a": { "type": "string", "pattern": "^(?=x)", "description": "A." },
            "b": { "type": "wrong", "description": "B." },
            "c": { "type": "string", "pattern": "^x$" },
        }) else {
            panic!("no object")
        };
        checkable(&mut all);
        assert_eq!(all["a"], json!({ "type": "string", "description": "A." }));
        assert_eq!(all["b"], json!({ "description": "B." }));
        assert_eq!(all["c"]["pattern"], "^x$");
    }
}
