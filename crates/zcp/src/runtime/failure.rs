//! How an error of a handler or a layer ends its call: what the caller reads, what is logged.

use super::{
    ask,
    call::{Fault, Offered, Outcome},
    error::{CallError, with_sources},
    output::Output,
};
use std::{error::Error, time::Duration};

pub(super) fn took_too_long(limit: Duration) -> CallError {
    CallError::new(format!("gave up after {} seconds", limit.as_secs_f32()))
}

/// What becomes of a call of a tool that takes too long.
pub(super) fn gave_up(limit: Duration) -> Outcome {
    Outcome::Tool(Output::failed(took_too_long(limit).to_string()))
}

pub(super) fn failed_tool(name: &str, error: CallError) -> Outcome {
    match error {
        CallError::Failed(why) | CallError::Invalid(why) => Outcome::Tool(Output::failed(why)),
        CallError::Internal(error) => Outcome::Tool(Output::failed(conceal("tool", name, &*error))),
        CallError::NotFound(what) => Outcome::Tool(Output::failed(format!("not found: {what}"))),
        CallError::VisitFirst(visit) => match ask::page(&visit) {
            Ok(page) => Outcome::Fault(Fault::VisitFirst(page, Offered::Tool)),
            Err(error) => failed_tool(name, error),
        },
        other => failed("tool", name, other),
    }
}

/// Logs an internal error, and gives the text that the caller gets instead.
fn conceal(kind: &str, name: &str, error: &(dyn Error + 'static)) -> String {
    let error = with_sources(error);
    tracing::error!(error, "{kind} `{name}` failed");
    format!("{kind} `{name}` failed")
}

pub(super) fn failed(kind: &str, name: &str, error: CallError) -> Outcome {
    Outcome::Fault(match error {
        CallError::Paused => return Outcome::Paused,
        CallError::MissingCapability(required) => Fault::MissingCapability(required),
        CallError::VisitFirst(visit) => match ask::page(&visit) {
            Ok(page) => Fault::VisitFirst(page, Offered::Other),
            Err(error) => return failed(kind, name, error),
        },
        CallError::Rpc(error) => Fault::Rpc(error),
        CallError::Denied { scope } => Fault::Denied(scope),
        CallError::NotFound(what) => Fault::Invalid(format!("not found: {what}")),
        CallError::Invalid(why) => Fault::Invalid(why),
        CallError::Failed(why) => Fault::Failed(why),
        CallError::Internal(error) => Fault::Failed(conceal(kind, name, &*error)),
    })
}
