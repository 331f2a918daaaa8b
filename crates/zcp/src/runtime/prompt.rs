//! A prompt: a handler, and what a person is told about it.

use super::{
    complete::{Completer, Completers},
    error::{CallError, Result},
    handler::Handler,
    input::Input,
    offer::IntoOffer,
    signature::Signature,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::{fmt, sync::Arc};
use zcp_wire::mcp::{
    Extra,
    lifecycle::Icon,
    prompts::{GetPromptResult, Prompt as Listed, PromptArgument, PromptMessage},
};

type Run = Arc<dyn Fn(Input) -> BoxFuture<'static, Result<GetPromptResult>> + Send + Sync>;

/// What a prompt's handler may return.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot be `{Self}`",
    note = "return text, `PromptMessage`, `Vec<PromptMessage>`, or a `Result` of one of them"
)]
pub trait IntoPrompt {
    /// Makes the filled prompt.
    fn into_prompt(self) -> Result<GetPromptResult>;
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult> {
        Ok(self)
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult> {
        Ok(GetPromptResult { description: None, messages: self })
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<GetPromptResult> {
        vec![self].into_prompt()
    }
}

impl IntoPrompt for String {
    fn into_prompt(self) -> Result<GetPromptResult> {
        PromptMessage::user(self).into_prompt()
    }
}

impl IntoPrompt for &'static str {
    fn into_prompt(self) -> Result<GetPromptResult> {
        PromptMessage::user(self).into_prompt()
    }
}

impl<T: IntoPrompt, E: Into<CallError>> IntoPrompt for std::result::Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult> {
        self.map_err(Into::into)?.into_prompt()
    }
}

/// A prompt a person may choose. `#[prompt]` makes one of a function.
#[derive(Clone)]
pub struct Prompt {
    info: Listed,
    completers: Completers,
    pub(crate) signature: Signature,
    run: Run,
}

impl Prompt {
    /// A prompt filled by an async function.
    pub fn new<H, T>(name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, Return: IntoPrompt>,
    {
        let mut signature = Signature::default();
        H::describe(&mut signature);
        Self::from_parts(name, signature, move |input| {
            let handler = handler.clone();
            Box::pin(async move { handler.call(input).await?.into_prompt() })
        })
    }

    /// Makes a prompt of a function under `#[prompt]`, to set more about it.
    pub fn from_fn<T>(function: impl IntoOffer<Self, T>) -> Self {
        function.into_offer()
    }

    /// A prompt of its parts.
    pub fn from_parts(
        name: impl Into<String>,
        mut signature: Signature,
        run: impl Fn(Input) -> BoxFuture<'static, Result<GetPromptResult>> + Send + Sync + 'static,
    ) -> Self {
        let description = signature.input.remove("description");
        let info = Listed {
            name: name.into(),
            description: description.and_then(|text| text.as_str().map(str::to_owned)),
            arguments: arguments(&signature),
            ..Listed::default()
        };
        Self { info, completers: Completers::default(), signature, run: Arc::new(run) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    /// What a person sees.
    #[must_use]
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.info.title = Some(text.into());
        self
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.info.description = Some(text.into()).filter(|text| !text.is_empty());
        self
    }

    /// A picture for a person.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// Something else to say about it.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.info.meta.get_or_insert_with(Extra::new).insert(key.into(), value);
        self
    }

    /// An argument that the handler's types do not tell of.
    #[must_use]
    pub fn argument(
        mut self,
        name: impl Into<String>,
        description: Option<String>,
        required: bool,
    ) -> Self {
        let name = name.into();
        self.info.arguments.push(PromptArgument { name, title: None, description, required });
        self
    }

    /// What an argument could be.
    #[must_use]
    pub fn complete(mut self, argument: impl Into<String>, completer: impl Completer) -> Self {
        self.completers.insert(argument, completer);
        self
    }

    pub(crate) fn ready(self) -> Result<ReadyPrompt, Vec<String>> {
        let known = |name: &str| self.info.arguments.iter().any(|known| known.name == name);
        if let Some(name) = self.completers.names().find(|name| !known(name)) {
            let why = format!("prompt `{}`: no argument `{name}` to complete", self.info.name);
            return Err(vec![why]);
        }
        if self.info.name.is_empty() {
            return Err(vec!["a prompt needs a name".into()]);
        }
        Ok(ReadyPrompt(self))
    }
}

/// A prompt that was checked and can be got.
#[derive(Debug)]
pub(crate) struct ReadyPrompt(Prompt);

impl ReadyPrompt {
    /// The same under another name.
    pub(crate) fn named(&self, name: String) -> Self {
        Self(Prompt { info: Listed { name, ..self.0.info.clone() }, ..self.0.clone() })
    }

    pub(crate) fn info(&self) -> &Listed {
        &self.0.info
    }

    pub(crate) fn completers(&self) -> &Completers {
        &self.0.completers
    }

    /// The first argument that must be given and is not.
    pub(crate) fn missing(&self, given: impl Fn(&str) -> bool) -> Option<&str> {
        let missing = |argument: &&PromptArgument| argument.required && !given(&argument.name);
        self.0.info.arguments.iter().find(missing).map(|argument| argument.name.as_str())
    }

    pub(crate) async fn get(&self, mut input: Input) -> Result<GetPromptResult> {
        input.text_only = true;
        (self.0.run)(input).await
    }
}

/// A prompt's arguments are strings: its schema's names, descriptions and which are required.
fn arguments(signature: &Signature) -> Vec<PromptArgument> {
    let required = signature.input.get("required").and_then(Value::as_array);
    let required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let properties = signature.input.get("properties").and_then(Value::as_object);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let argument = |(name, schema): (&String, &Value)| PromptArgument {
        name: name.clone(),
        title: text(schema.get("title")),
        description: text(schema.get("description")),
        required: required(name),
    };
    properties.into_iter().flatten().map(argument).collect()
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("info", &self.info).finish_non_exhaustive()
    }
}
