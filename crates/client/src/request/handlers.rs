//! What this client does with the words of a server: answers, log messages, progress.

use super::{answers::Answers, round_trip::Progress};
use crate::support::{deadline::Pause, message_limits};
use std::sync::Arc;
use zcp_wire::{Method, Notification, mcp::logging::LogMessage};

pub(crate) type OnLog = Arc<dyn Fn(LogMessage) + Send + Sync>;
pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The handlers of one client.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) answers: Answers,
    /// Held while a question of the server is being answered.
    pub(crate) answering: Pause,
    pub(crate) on_log: Option<OnLog>,
    /// For requests that have no handler of their own.
    pub(crate) on_progress: Option<OnProgress>,
}

impl Handlers {
    /// Gives a log message to its handler; anything else is left alone.
    pub(crate) fn log(&self, said: &Notification) {
        if !said.method.is(Method::LogMessage) {
            return;
        }
        let params = said.params.as_deref().unwrap_or("{}");
        if let (Some(hear), Ok(message)) =
            (&self.on_log, message_limits::read(params, message_limits::QUESTION_VALUES))
        {
            hear(message);
        }
    }
}
