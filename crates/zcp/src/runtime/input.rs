//! What a handler's parameters are taken from.

use super::{
    ctx::Ctx,
    error::{CallError, Result},
};
use bytestring::ByteString;
use http::Extensions;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use zcp_wire::json::{self, Reader};

/// A call on its way to a handler: arguments, context, state.
#[derive(Debug)]
pub struct Input {
    args: Option<ByteString>,
    /// Prompts and templates have only strings for arguments; their numbers are in them.
    pub(super) text_only: bool,
    pub(super) uri: Option<String>,
    /// The call in progress.
    pub ctx: Ctx,
    pub(crate) state: Arc<Extensions>,
}

impl Input {
    pub(crate) fn new(args: Option<ByteString>, ctx: Ctx, state: Arc<Extensions>) -> Self {
        Self { args, text_only: false, uri: None, ctx, state }
    }

    /// JSON text of the arguments' object.
    pub fn args_json(&self) -> &str {
        self.args.as_deref().unwrap_or("{}")
    }

    /// The arguments as a `T`.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T> {
        from_json(self.args_json())
            .map_err(|error| CallError::Invalid(format!("bad arguments: {}", explain(&error))))
    }

    /// One argument as a `T`; an absent one is `null`.
    pub fn arg<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        match pick(self.args_json(), name) {
            Some(value) => Ok(value),
            None => self.arg_or_why(name),
        }
    }

    /// What is wrong with an argument is looked for only when something is.
    fn arg_or_why<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let Some(json) = find(self.args_json(), name)? else {
            return serde_json::from_str("null")
                .map_err(|_| CallError::Invalid(format!("the argument `{name}` is missing")));
        };
        let error = match from_json(json) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if self.text_only
            && let Ok(text) = serde_json::from_str::<String>(json)
            && json::is_plain(text.as_bytes())
            && let Ok(value) = serde_json::from_str(&text)
        {
            return Ok(value);
        }
        Err(CallError::Invalid(format!("the argument `{name}` is wrong: {}", explain(&error))))
    }
}

/// A member of an object, read where it is: one pass. Nothing when it is not there just once, or
/// not a `T`.
fn pick<T: DeserializeOwned>(text: &str, wanted: &str) -> Option<T> {
    let mut picked = None;
    let mut reader = Reader::new(text);
    reader.object(|reader, name| {
        if name != wanted {
            return reader.value().map(drop);
        }
        let value = match reader.string_value() {
            Some(text) => json::from_string(text),
            None => serde_json::from_str(reader.value()?).ok(),
        };
        picked.replace(value?).is_none().then_some(())
    })?;
    reader.end()?;
    picked
}

/// A member of an object, as text. Two under one name are a mistake: one would be checked and the
/// other used. Nothing is kept for the next: functions have few parameters.
fn find<'a>(text: &'a str, wanted: &str) -> Result<Option<&'a str>> {
    let bad = |why: String| CallError::Invalid(format!("bad arguments: {why}"));
    let (mut found, mut twice) = (None, false);
    let whole = json::members(text, |name, value| {
        if name == wanted {
            twice |= found.replace(value).is_some();
        }
    });
    match whole {
        true if twice => Err(bad(format!("`{wanted}` is given twice"))),
        true => Ok(found),
        false => Err(bad(json::explain(text).to_string())),
    }
}

/// Reads a value; where it is wrong is looked for only when it is.
fn from_json<T: DeserializeOwned>(
    json: &str,
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    match serde_json::from_str(json) {
        Ok(value) => Ok(value),
        Err(_) => serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(json)),
    }
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
