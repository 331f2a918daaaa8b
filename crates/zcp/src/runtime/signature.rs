//! What a handler takes and gives, gathered from its function's types.

use super::output::IntoOutput;
use http::Extensions;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// What a handler takes and gives.
#[derive(Debug, Default, Clone)]
pub struct Signature {
    pub(crate) input: Map<String, Value>,
    pub(crate) output: Option<Value>,
    pub(crate) needs: Vec<Need>,
    /// The schemas came from the types that will read and write the JSON.
    pub(crate) typed: bool,
}

/// A state a handler takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) name: &'static str,
    pub(crate) is_there: fn(&Extensions) -> bool,
}

impl Signature {
    /// Takes all arguments as a `T`.
    pub fn args<T: JsonSchema>(&mut self) {
        self.typed = true;
        if let Value::Object(schema) = tidy_schema(schemars::schema_for!(T).to_value()) {
            self.input = schema;
        }
    }

    /// Takes one argument as a `T`.
    pub fn arg<T: JsonSchema>(&mut self, name: &str, doc: &str) {
        self.typed = true;
        let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        let mut schema = tidy_schema(root.to_value());
        if let Some(schema) = schema.as_object_mut() {
            if let Some(Value::Object(defs)) = schema.remove("$defs") {
                let all = self.input.entry("$defs").or_insert_with(|| json!({}));
                all.as_object_mut().into_iter().for_each(|all| all.extend(defs.clone()));
            }
            if !doc.is_empty() {
                schema.insert("description".into(), doc.into());
            }
        }
        let required = !accepts_null(&schema);
        drop_null(&mut schema);
        let properties = self.input.entry("properties").or_insert_with(|| json!({}));
        properties[name] = schema;
        if required {
            let required = self.input.entry("required").or_insert_with(|| json!([]));
            required.as_array_mut().into_iter().for_each(|names| names.push(name.into()));
        }
    }

    /// Takes a clone of a state.
    pub fn needs<T: Clone + Send + Sync + 'static>(&mut self) {
        self.needs.push(Need {
            name: std::any::type_name::<T>(),
            is_there: |state| state.get::<T>().is_some(),
        });
    }

    /// Gives a `T`.
    pub fn output<T: IntoOutput>(&mut self) {
        self.output = T::schema();
    }
}

/// An `Option`'s schema says `null` in its type or as one of its choices.
fn accepts_null(schema: &Value) -> bool {
    let null = |kind: &Value| kind == "null" || kind.get("type").is_some_and(|kind| kind == "null");
    ["type", "anyOf"].iter().any(|key| {
        schema.get(key).and_then(Value::as_array).is_some_and(|all| all.iter().any(null))
    })
}

/// An optional argument is left out, so that its `null` need not be shown to the model.
pub(super) fn drop_null(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    for key in ["type", "anyOf"] {
        let Some(Value::Array(all)) = schema.get_mut(key) else {
            continue;
        };
        all.retain(|kind| kind != "null" && kind.get("type").is_none_or(|kind| kind != "null"));
        let [only] = &all[..] else { continue };
        let only = only.clone();
        match only {
            Value::Object(inner) => {
                schema.remove(key);
                schema.extend(inner);
            }
            name => drop(schema.insert(key.into(), name)),
        }
    }
}

/// Takes away what costs a model tokens and tells it nothing: `$schema`, titles made of Rust
/// names, the widths of numbers.
pub(crate) fn tidy_schema(mut schema: Value) -> Value {
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
    }
    tidy(&mut schema);
    schema
}

fn tidy(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if members.get("title").is_some_and(Value::is_string) {
        members.remove("title");
    }
    let width = |format: &str| {
        ["int", "uint", "float", "double"].iter().any(|name| format.starts_with(name))
    };
    if members.get("format").and_then(Value::as_str).is_some_and(width) {
        members.remove("format");
    }
    for (key, value) in members.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "patternProperties", Value::Object(schemas)) => {
                // `true` says the same as `{}`, which more clients understand.
                schemas
                    .values_mut()
                    .filter(|schema| **schema == Value::Bool(true))
                    .for_each(|any| *any = json!({}));
                schemas.values_mut().for_each(tidy);
            }
            ("items" | "additionalProperties" | "not" | "if" | "then" | "else", schema) => {
                tidy(schema);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(tidy);
            }
            _ => (),
        }
    }
}

/// Whether reading JSON into the type a schema came from checks all the schema says.
pub(crate) fn is_plain(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else {
        return false;
    };
    members.iter().all(|(key, value)| match key.as_str() {
        "type" | "required" | "description" | "default" => true,
        "minimum" => value == 0,
        "properties" => value.as_object().is_some_and(|all| all.values().all(is_plain)),
        "items" => is_plain(value),
        _ => false,
    })
}
