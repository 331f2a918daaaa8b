//! A request that is made again with answers, for as long as its result is questions.

use super::{Connection, link::Link};
use crate::{
    error::{Error, Result},
    request::round_trip::Options,
    support::message_limits,
    transport::Fate,
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use zcp_wire::{Method, MethodName, RpcError, error::METHOD_NOT_FOUND, revision::Questions};

/// What a request was answered with at last.
pub(super) struct Answered {
    pub(super) result: Map<String, Value>,
    /// The server asked for input first.
    pub(super) took_input: bool,
}

impl Connection {
    /// Makes a request, and makes it again with answers until its result is no question.
    pub(super) async fn rounds(
        &self,
        link: &Link,
        method: &MethodName,
        mut params: Map<String, Value>,
        options: &Options,
        fate: &Fate,
    ) -> Result<Answered> {
        for round in 0..self.settings.rounds {
            let result = link.send(&self.settings, method, params.clone(), options, fate).await?;
            if !self.wants_input(link, method, &result).map_err(|error| fate.annotate(error))? {
                return Ok(Answered { result, took_input: round > 0 });
            }
            let asked = result.get("inputRequests").and_then(Value::as_object);
            let state = result.get("requestState").filter(|state| state.is_string());
            if asked.is_none_or(Map::is_empty) && state.is_none() {
                let why = Error::invalid("it wants input, and does not say which");
                return Err(fate.annotate(why));
            }
            // Answers are for one round; the server carries older ones in its state.
            params.remove("inputResponses");
            params.remove("requestState");
            match asked {
                Some(asked) if !asked.is_empty() => {
                    let answers = self.answers(asked).await?;
                    params.insert("inputResponses".into(), Value::Object(answers));
                }
                _ => tokio::time::sleep(pace(round)).await,
            }
            if let Some(state) = state {
                params.insert("requestState".into(), state.clone());
            }
        }
        let why = format!("it asks more than {} times", self.settings.rounds);
        Err(fate.annotate(Error::Invalid(why)))
    }

    /// Whether a result is a question; an error if it is of no kind that may come.
    fn wants_input(
        &self,
        link: &Link,
        method: &MethodName,
        result: &Map<String, Value>,
    ) -> Result<bool> {
        let kind = result.get("resultType").map(|kind| kind.as_str().unwrap_or_default());
        match kind {
            None | Some("complete") => Ok(false),
            // Only a call can go on as a task.
            Some("task") if self.settings.tasks && method.is(Method::CallTool) => Ok(false),
            Some("input_required") if link.dialect.questions() == Questions::AsResults => Ok(true),
            Some(other) => Err(Error::Invalid(format!("`{other}` is no kind of result"))),
        }
    }

    /// Answers everything that is asked, or nothing.
    pub(crate) async fn answers(&self, asked: &Map<String, Value>) -> Result<Map<String, Value>> {
        if asked.len() > message_limits::ASKED_AT_ONCE
            || asked.keys().any(|key| key.len() > message_limits::ID)
        {
            let why =
                format!("it asks more than {} questions at once", message_limits::ASKED_AT_ONCE);
            return Err(Error::Invalid(why));
        }
        let mut answers = Map::new();
        for (key, question) in asked {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let empty = json!({});
            let params = question.get("params").unwrap_or(&empty);
            let answer = self.settings.handlers.answers.answer(&method.into(), params).await;
            answers.insert(key.clone(), answer.map_err(|error| unanswered(method, &error))?);
        }
        Ok(answers)
    }
}

/// How long to wait before a round that nobody was asked for.
fn pace(round: usize) -> Duration {
    Duration::from_millis(100 << round.min(5))
}

fn unanswered(method: &str, error: &RpcError) -> Error {
    match error.code {
        METHOD_NOT_FOUND => {
            Error::Unable(format!("the server asks for `{method}`, which nobody here answers"))
        }
        _ => Error::Unable(format!("the server's `{method}` was not answered: {}", error.message)),
    }
}
