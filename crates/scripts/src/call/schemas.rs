//! The schemas of a script: compiled once, for its arguments and for what it gives.

use super::{coerce, script::Script};
use serde_json::{Map, Value};
use zcp::{CallError, Output, Result};
use zcp_schema::Lazy;

/// The compiled schemas of a script.
#[derive(Debug)]
pub(crate) struct Schemas {
    /// None where arguments are not checked.
    input: Option<Lazy>,
    output: Option<Lazy>,
}

impl Schemas {
    /// Compiles the schemas of a script, or says which of them are wrong.
    pub(crate) fn compile(script: &Script) -> Result<Self, Vec<String>> {
        let mut mistakes = vec![];
        let mut compile = |side: &str, schema: &Value| match Lazy::new(schema) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                mistakes.push(format!("tool `{}`: {side} schema: {error}", script.name));
                None
            }
        };
        // mcp-bash has never held a schema against a caller.
        let input = compile("input", &script.schema).filter(|_| script.contract.is_none());
        let output = script.manifest.output_schema.as_ref();
        let output = output.and_then(|schema| compile("output", schema));
        if mistakes.is_empty() { Ok(Self { input, output }) } else { Err(mistakes) }
    }

    /// Arguments as they fit, and what is wrong with them, in words a model can act on. Those that
    /// do not fit as they came, and do as what their texts say, are taken as that.
    pub(super) fn check_input(
        &self,
        script: &Script,
        args: Map<String, Value>,
    ) -> (Map<String, Value>, Result<()>) {
        let Some(check) = &self.input else { return (args, Ok(())) };
        let args = Value::Object(args);
        let fits = check.check(&script.schema, &args);
        let Value::Object(args) = args else { return (Map::new(), Ok(())) };
        let Err(why) = fits else { return (args, Ok(())) };
        if let Some(converted) = coerce::converted(&args, &script.schema).map(Value::Object)
            && check.check(&script.schema, &converted).is_ok()
            && let Value::Object(converted) = converted
        {
            return (converted, Ok(()));
        }
        (args, Err(CallError::Invalid(format!("bad arguments: {why}"))))
    }

    /// Whether an answer has what the script promises. One that tells of an error need not.
    pub(super) fn check_output(&self, script: &Script, output: &Output) -> Result<()> {
        let (Some(schema), Some(check)) = (&script.manifest.output_schema, &self.output) else {
            return Ok(());
        };
        if output.is_error {
            return Ok(());
        }
        let Some(structured) = &output.structured else {
            let why = "the tool has an output schema, but gave no structured output";
            return Err(CallError::new(why));
        };
        check.check(schema, structured).map_err(|why| {
            CallError::new(format!("the tool's output does not match its schema: {why}"))
        })
    }
}
