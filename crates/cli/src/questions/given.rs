//! Answers that were given in advance, and what is said of a question nobody could be asked.

use serde_json::{Map, Value};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use zcp::wire::sync::lock;
use zcp_client::wire::mcp::elicitation::{Action, Elicit, ElicitResult, Mode};
use zcp_schema::Schema;

/// Answers to the questions of a server, in their order.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<VecDeque<ElicitResult>>>);

impl Answers {
    /// Reads what was typed: a form's values as a JSON object, `accept`, `decline` or `cancel`.
    pub(crate) fn read(texts: &[String]) -> Result<Self, String> {
        let read = |text: &String| {
            let said = |action, content| Ok(ElicitResult { action, content });
            match text.trim() {
                "accept" => said(Action::Accept, Some(Value::Object(Map::new()))),
                "decline" => said(Action::Decline, None),
                "cancel" => said(Action::Cancel, None),
                text => match serde_json::from_str::<Map<String, Value>>(text) {
                    Ok(values) => said(Action::Accept, Some(Value::Object(values))),
                    Err(_) => Err(format!(
                        "--answer takes a JSON object such as {{\"name\": \"value\"}}, or accept, decline \
                         or cancel, and not `{text}`"
                    )),
                },
            }
        };
        let all: Result<VecDeque<_>, _> = texts.iter().map(read).collect();
        Ok(Self(Arc::new(Mutex::new(all?))))
    }

    pub(super) fn next(&self) -> Option<ElicitResult> {
        lock(&self.0).pop_front()
    }
}

/// Why an answer that was given in advance did not fit its question.
#[derive(Debug, Clone, Default)]
pub(crate) struct Misfit(Arc<Mutex<Option<String>>>);

impl Misfit {
    pub(crate) fn take(&self) -> Option<String> {
        lock(&self.0).take()
    }
}

/// An answer that was given in advance, if it fits. Otherwise the question is cancelled, and the
/// command ends with the reason.
pub(super) fn fitting(question: &Elicit, answer: ElicitResult, misfit: &Misfit) -> ElicitResult {
    let (Some(schema), Some(Value::Object(mut values)), Action::Accept) =
        (&question.requested_schema, answer.content.clone(), answer.action)
    else {
        return answer;
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = field.get("default").filter(|_| !values.contains_key(name)) {
            values.insert(name.clone(), default.clone());
        }
    }
    // A form that cannot be read is the server's to judge.
    let fits =
        Schema::compile(schema).map_or(Ok(()), |schema| schema.check(&Value::Object(values)));
    match fits {
        Ok(()) => answer,
        Err(why) => {
            *lock(&misfit.0) = Some(format!("--answer: {why}"));
            ElicitResult { action: Action::Cancel, content: None }
        }
    }
}

/// What a server asked, that it was declined, and how to answer it.
pub(super) fn declined(server: &str, question: &Elicit) -> String {
    let message = question.message.trim();
    let answer = match question.mode {
        Some(Mode::Url) => "accept".to_owned(),
        _ => shell_words::quote(&example(question).to_string()).into_owned(),
    };
    let why = "there is no terminal, so it was declined";
    format!("{server} asked `{message}`; {why} (answer it with --answer {answer})")
}

/// A form with a value in each field.
fn example(question: &Elicit) -> Value {
    let schema = question.requested_schema.as_ref();
    let fields = schema.and_then(|schema| schema["properties"].as_object());
    let value = |field: &Value| match (field.get("default"), field["type"].as_str()) {
        (Some(default), _) => default.clone(),
        (None, Some("boolean")) => Value::Bool(true),
        (None, Some("integer" | "number")) => field.get("minimum").cloned().unwrap_or(1.into()),
        (None, Some("array")) => Value::Array(vec![]),
        (None, _) => field["enum"].get(0).cloned().unwrap_or_else(|| "…".into()),
    };
    let fields = fields.into_iter().flatten();
    Value::Object(fields.map(|(name, field)| (name.clone(), value(field))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_forms_or_words() {
        let texts = ["{\"sure\": true}", "decline"].map(str::to_owned);
        let answers = Answers::read(&texts).unwrap();
        assert_eq!(answers.next().unwrap().content, Some(json!({ "sure": true })));
        assert_eq!(answers.next().unwrap().action, Action::Decline);
        assert!(answers.next().is_none());
        assert!(Answers::read(&["yes".to_owned()]).is_err());
    }
}
