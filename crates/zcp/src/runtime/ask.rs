//! Questions to the person or the model behind the client, and their answers.

use super::{
    error::{CallError, Result},
    signature::drop_null,
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use zcp_wire::mcp::{
    InputRequest,
    capabilities::ClientCapabilities,
    elicitation::{Action, Elicit, ElicitResult, Mode},
    roots::ListRootsResult,
    sampling::{CreateMessageResult, IncludeContext},
};

/// What the user did with a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// Answered it.
    Accept(T),
    /// Refused it.
    Decline,
    /// Closed it without an answer.
    Cancel,
}

impl<T> Answer<T> {
    /// The answer; refusing or closing the question ends the call with a message that says so.
    pub fn accepted(self) -> Result<T> {
        match self {
            Self::Accept(answer) => Ok(answer),
            Self::Decline => Err(CallError::new("the user declined")),
            Self::Cancel => Err(CallError::new("the user closed the question")),
        }
    }
}

/// A page for the user to visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    pub(crate) message: String,
    pub(crate) page: String,
    pub(crate) id: String,
}

impl Visit {
    /// What the user is told, and the page: https, or http on this machine, and without secrets.
    pub fn new(message: impl Into<String>, page: impl Into<String>) -> Self {
        Self { message: message.into(), page: page.into(), id: crate::token() }
    }

    /// What [`Ctx::visited`](super::ctx::Ctx::visited) announces the visit's end by.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A form question with a flat JSON Schema.
pub(super) fn form(message: &str, schema: Value) -> Result<InputRequest> {
    let schema = flat(schema)?;
    Ok(InputRequest::Elicit(Elicit {
        mode: Some(Mode::Form),
        message: message.to_owned(),
        requested_schema: Some(schema),
        url: None,
        elicitation_id: None,
    }))
}

/// A page question.
pub(crate) fn page(visit: &Visit) -> Result<Elicit> {
    let url = &visit.page;
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let local = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    if host.is_empty() || !(scheme == "https" || (scheme == "http" && local)) {
        return Err(CallError::new("a page to visit must be https, or http on this machine"));
    }
    let named = |pair: &str| {
        let name = pair.split_once('=').map_or("", |(name, _)| name).to_ascii_lowercase();
        is_secret(&name) || name.contains("token")
    };
    if authority.contains('@') || url.split(['?', '&', '#']).skip(1).any(named) {
        return Err(CallError::new(
            "a page's address must carry no secret: let the page ask for it",
        ));
    }
    Ok(Elicit {
        mode: Some(Mode::Url),
        message: visit.message.clone(),
        requested_schema: None,
        url: Some(url.clone()),
        elicitation_id: Some(visit.id.clone()),
    })
}

/// The schema of a form whose answer is a `T`.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    let mut schema = super::signature::tidy_schema(schema.to_value());
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    fields.into_iter().flat_map(|fields| fields.values_mut()).for_each(drop_null);
    schema
}

/// What the user did, read as a `T`.
pub(super) fn read<T: DeserializeOwned>(value: Value) -> Result<Answer<T>> {
    let result: ElicitResult = serde_json::from_value(value)
        .map_err(|error| CallError::new(format!("the client's answer is malformed: {error}")))?;
    Ok(match result.action {
        Action::Accept => {
            let content = result.content.unwrap_or_else(|| json!({}));
            let answer = serde_path_to_error::deserialize(content).map_err(|error| {
                CallError::new(format!("the user's answer does not fit: {error}"))
            })?;
            Answer::Accept(answer)
        }
        Action::Decline => Answer::Decline,
        // What is not known is no answer.
        _ => Answer::Cancel,
    })
}

/// Forms are flat objects of strings, numbers, booleans and choices, and ask for no secrets.
fn flat(schema: Value) -> Result<Value> {
    let Value::Object(mut schema) = schema else {
        return Err(CallError::new("a form's schema must be an object"));
    };
    schema.insert("type".into(), "object".into());
    let properties = schema.entry("properties").or_insert_with(|| Map::new().into());
    let Some(properties) = properties.as_object() else {
        return Err(CallError::new("a form's `properties` must be an object"));
    };
    for (name, property) in properties {
        if is_secret(name) {
            return Err(CallError::new(format!(
                "a form must not ask for secrets such as `{name}`: use `ctx.visit` with a page"
            )));
        }
        let kind = property.get("type").and_then(Value::as_str);
        let known = matches!(kind, Some("string" | "number" | "integer" | "boolean" | "array"))
            || property.get("enum").is_some()
            || property.get("oneOf").is_some();
        if !known {
            return Err(CallError::new(format!(
                "a form is flat: `{name}` must be a string, a number, a boolean or a choice"
            )));
        }
    }
    for key in ["$schema", "title", "description", "additionalProperties", "$defs"] {
        schema.remove(key);
    }
    Ok(schema.into())
}

/// The capabilities a question needs and the client did not declare.
pub(crate) fn lacks(client: &ClientCapabilities, question: &InputRequest) -> Option<Value> {
    let lacking = |has: bool, required: Value| (!has).then_some(required);
    match question {
        InputRequest::Elicit(elicit) if elicit.mode == Some(Mode::Url) => {
            lacking(client.url(), json!({ "elicitation": { "url": {} } }))
        }
        InputRequest::Elicit(_) => lacking(client.form(), json!({ "elicitation": { "form": {} } })),
        InputRequest::Sample(sample) => {
            let context =
                sample.include_context.is_some_and(|context| context != IncludeContext::None);
            let tools = sample.tools.is_some() || sample.tool_choice.is_some();
            lacking(client.sampling(), json!({ "sampling": {} }))
                .or_else(|| {
                    let has = !tools || client.sampling_tools();
                    lacking(has, json!({ "sampling": { "tools": {} } }))
                })
                .or_else(|| {
                    let has = !context || client.sampling_context();
                    lacking(has, json!({ "sampling": { "context": {} } }))
                })
        }
        InputRequest::Roots(_) => lacking(client.roots(), json!({ "roots": {} })),
        _ => Some(json!({})),
    }
}

/// Whether an answer is one to this question.
pub(crate) fn fits(question: &InputRequest, answer: &Value) -> Result<(), String> {
    fn shaped<T: for<'a> Deserialize<'a>>(answer: &Value) -> Result<T, String> {
        T::deserialize(answer).map_err(|error| error.to_string())
    }
    match question {
        InputRequest::Sample(_) => shaped::<CreateMessageResult>(answer).map(drop),
        InputRequest::Roots(_) => shaped::<ListRootsResult>(answer).map(drop),
        InputRequest::Elicit(elicit) => {
            let result: ElicitResult = shaped(answer)?;
            if result.action != Action::Accept || elicit.mode == Some(Mode::Url) {
                return Ok(());
            }
            let Some(schema) = &elicit.requested_schema else {
                return Ok(());
            };
            let content = result.content.unwrap_or_else(|| json!({}));
            super::check_against(schema, &content)
        }
        _ => Err("the question is of an unknown kind".to_owned()),
    }
}

/// Whether a name sounds like something no form and no header should carry.
pub(crate) fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    [
        "password",
        "passwd",
        "secret",
        "apikey",
        "accesstoken",
        "authtoken",
        "privatekey",
        "creditcard",
        "cvv",
        "ssn",
    ]
    .iter()
    .any(|word| name.contains(word))
}
