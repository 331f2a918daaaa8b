//! One call of a script: its arguments, its run, its result.

pub(crate) mod arguments;
mod coerce;
mod command_line;
mod execute;
pub(crate) mod program;
mod result;
mod schemas;
pub(crate) mod script;
pub(crate) mod tool;

use crate::{manifest::Form, run::End};
use serde_json::{Map, Value};
use tool::ScriptTool;
use zcp::{CallError, Input, Output, Result};
use zcp_policy::Ended;

/// Calls a script.
async fn call(tool: &ScriptTool, input: &Input) -> Result<Output> {
    let (args, fits) = tool.prepared(input.args()?);
    fits?;
    tool.run(args, &input.ctx).await
}

impl ScriptTool {
    /// Arguments as the script gets them, and what is wrong with them.
    fn prepared(&self, args: Map<String, Value>) -> (Map<String, Value>, Result<()>) {
        let script = &self.script;
        let (args, mut fits) = self.schemas.check_input(script, args);
        let args = arguments::with_defaults(args, &script.schema);
        let has_variables = matches!(script.form, Form::Both | Form::Env);
        if let Some(name) = arguments::twice(&args).filter(|_| has_variables) {
            let why = format!("bad arguments: `{name}` and another are one variable of the script");
            fits = fits.and(Err(CallError::Invalid(why)));
        }
        (args, fits)
    }
}

/// How a run ended, for whoever writes calls down.
fn ended(end: &End) -> Ended {
    match end {
        End::Exited(status) => Ended { exit_code: status.code(), is_late: false },
        End::Late(_, status) => Ended { exit_code: status.code(), is_late: true },
        End::TooMuch | End::Exceeded(_) => Ended::default(),
    }
}
