//! What a handler's parameters are taken from.

use super::{
    ctx::Ctx,
    error::{CallError, Result},
};
use bytestring::ByteString;
use http::Extensions;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

/// A call on its way to a handler: arguments, context, state.
#[derive(Debug)]
pub struct Input {
    args: Option<ByteString>,
    /// The arguments' top level, split once for all of a function's parameters.
    fields: OnceLock<Vec<(String, ByteString)>>,
    /// Prompts and templates have only strings for arguments; their numbers are in them.
    pub(super) text_only: bool,
    pub(super) uri: Option<String>,
    /// The call in progress.
    pub ctx: Ctx,
    pub(crate) state: Arc<Extensions>,
}

impl Input {
    pub(crate) fn new(args: Option<ByteString>, ctx: Ctx, state: Arc<Extensions>) -> Self {
        Self { args, fields: OnceLock::new(), text_only: false, uri: None, ctx, state }
    }

    /// JSON text of the arguments' object.
    pub fn args_json(&self) -> &str {
        self.args.as_deref().unwrap_or("{}")
    }

    /// The arguments as a `T`.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T> {
        let mut json = serde_json::Deserializer::from_str(self.args_json());
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| CallError::Invalid(format!("bad arguments: {}", explain(&error))))
    }

    /// One argument as a `T`; an absent one is `null`.
    pub fn arg<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let fields = match self.fields.get() {
            Some(fields) => fields,
            None => {
                let fields = self.split()?;
                self.fields.get_or_init(|| fields)
            }
        };
        let Some((_, json)) = fields.iter().find(|(field, _)| field == name) else {
            return serde_json::from_str("null")
                .map_err(|_| CallError::Invalid(format!("the argument `{name}` is missing")));
        };
        let error = match from_json(json) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if self.text_only
            && let Ok(text) = serde_json::from_str::<String>(json)
            && let Ok(value) = serde_json::from_str(&text)
        {
            return Ok(value);
        }
        Err(CallError::Invalid(format!("the argument `{name}` is wrong: {}", explain(&error))))
    }

    fn split(&self) -> Result<Vec<(String, ByteString)>> {
        let Some(args) = &self.args else {
            return Ok(vec![]);
        };
        let Fields(fields) = serde_json::from_str(args)
            .map_err(|error| CallError::Invalid(format!("bad arguments: {error}")))?;
        let owned =
            |(name, raw): (Cow<'_, str>, &RawValue)| (name.into_owned(), args.slice_ref(raw.get()));
        Ok(fields.into_iter().map(owned).collect())
    }
}

fn from_json<T: DeserializeOwned>(
    json: &str,
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(json))
}

/// Where and why, without the parser's line and column, which mean nothing to a model.
fn explain(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let why = error.inner().to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    match error.path().to_string().as_str() {
        "." => why.to_owned(),
        path => format!("`{path}`: {why}"),
    }
}

struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &RawValue)> = vec![];
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, _>()? {
                    // Two values under one name would be checked by one and used by the other.
                    if fields.iter().any(|(known, _)| *known == name) {
                        let why = format!("`{name}` is given twice");
                        return Err(serde::de::Error::custom(why));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
