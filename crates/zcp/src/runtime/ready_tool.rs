//! A tool that was checked and can be called.

use super::{
    error::{CallError, Result},
    input::Input,
    output::Output,
    tool::{Members, Prepare, Run, Support},
};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};
use zcp_schema::Lazy;
use zcp_wire::{mcp::tools::Tool as Listed, mirror::Mirrored};

/// A tool that was checked and can be called.
#[derive(Clone)]
pub(crate) struct ReadyTool {
    pub(crate) info: Listed,
    /// Absent when reading the arguments into the handler's types checks as much.
    pub(super) check_input: Option<Lazy>,
    pub(super) check_output: Option<Lazy>,
    pub(crate) mirrored: Vec<Mirrored>,
    pub(crate) support: Support,
    pub(super) prepare: Option<Prepare>,
    pub(super) run: Run,
}

impl ReadyTool {
    /// The same, run by something that checks arguments and output itself.
    pub(super) fn run_by(
        &self,
        run: impl Fn(Input) -> BoxFuture<'static, Result<Output>> + Send + Sync + 'static,
    ) -> Self {
        Self { check_input: None, check_output: None, run: Arc::new(run), ..self.clone() }
    }

    /// The arguments as the handler will use them, and whether they are valid.
    pub(super) fn prepared(&self, mut args: Members) -> (Members, Result<()>) {
        if let Some(prepare) = &self.prepare {
            return prepare(args);
        }
        let fits = match &self.check_input {
            Some(schema) => {
                let whole = Value::Object(args);
                let fits = schema.check(&self.info.input_schema, &whole);
                args = if let Value::Object(args) = whole { args } else { Map::new() };
                fits.map_err(|why| CallError::Invalid(format!("bad arguments: {why}")))
            }
            None => Ok(()),
        };
        let properties = self.info.input_schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(default) = property.get("default").filter(|_| !args.contains_key(name)) {
                args.insert(name.clone(), default.clone());
            }
        }
        (args, fits)
    }

    /// The same under another name.
    pub(crate) fn named(&self, name: String) -> Self {
        Self { info: Listed { name, ..self.info.clone() }, ..self.clone() }
    }

    /// Whether twice is the same as once.
    pub(crate) fn may_run_twice(&self) -> bool {
        let hints = self.info.annotations.as_ref();
        hints.is_some_and(|hints| {
            hints.idempotent_hint == Some(true) || hints.read_only_hint == Some(true)
        })
    }

    /// Checks the arguments and begins the call. What it gives is to be [checked](Self::check).
    pub(crate) fn begin(&self, input: Input) -> Result<BoxFuture<'static, Result<Output>>> {
        if let Some(schema) = &self.check_input {
            let args: Value = serde_json::from_str(input.args_json())
                .map_err(|error| CallError::Invalid(format!("bad arguments: {error}")))?;
            let fits = schema.check(&self.info.input_schema, &args);
            fits.map_err(|why| CallError::Invalid(format!("bad arguments: {why}")))?;
        }
        Ok((self.run)(input))
    }

    /// Whether what a call gave is what the tool promises.
    pub(crate) fn check(&self, output: &Output) -> Result<()> {
        if output.is_error {
            return Ok(());
        }
        let (Some(schema), Some(check)) = (&self.info.output_schema, &self.check_output) else {
            return Ok(());
        };
        let Some(structured) = &output.structured else {
            let why = "the tool has an output schema, but gave no structured output";
            return Err(CallError::new(why));
        };
        check.check(schema, structured).map_err(|why| {
            CallError::new(format!("the tool's output does not match its schema: {why}"))
        })
    }
}

impl fmt::Debug for ReadyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyTool").field("info", &self.info).finish_non_exhaustive()
    }
}
