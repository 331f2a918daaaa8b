//! A tool: a handler, and what a model is told about it.

use super::{
    ask::is_secret,
    error::Result,
    handler::Handler,
    input::Input,
    offer::IntoOffer,
    output::{IntoOutput, Output},
    ready_tool::ReadyTool,
    signature::{Signature, is_plain},
};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc};
use zcp_schema::Lazy;
use zcp_wire::{
    mcp::{
        Extra,
        lifecycle::Icon,
        tools::{Execution, Tool as Listed, ToolAnnotations},
    },
    mirror,
};

pub(super) type Run = Arc<dyn Fn(Input) -> BoxFuture<'static, Result<Output>> + Send + Sync>;
pub(super) type Members = Map<String, Value>;
pub(super) type Prepare = Arc<dyn Fn(Members) -> (Members, Result<()>) + Send + Sync>;

/// A tool: a handler, and what a model is told about it.
///
/// `#[tool]` makes one of a function. By hand:
///
/// ```
/// use serde_json::json;
/// use zcp::{Args, Server, Tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// async fn add(Args(Add { a, b }): Args<Add>) -> i64 {
///     a + b
/// }
///
/// let tool = Tool::new("add", add).title("Add").description("Add two numbers.").read_only();
/// # Server::new("demo").tool(tool).build().unwrap();
/// ```
#[derive(Clone)]
pub struct Tool {
    info: Listed,
    pub(crate) signature: Signature,
    support: Support,
    unchecked: bool,
    checked_by_handler: bool,
    prepare: Option<Prepare>,
    run: Run,
}

/// Whether a tool may be run as a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Support {
    /// Only if it turns out to be slow.
    #[default]
    Forbidden,
    Optional,
    Required,
}

impl Support {
    fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

impl Tool {
    /// A tool of an async function.
    pub fn new<H, T>(name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, Return: IntoOutput>,
    {
        let mut signature = Signature::default();
        H::describe(&mut signature);
        signature.output::<H::Return>();
        Self::from_parts(name, signature, move |input| {
            let handler = handler.clone();
            Box::pin(async move { handler.call(input).await?.into_output() })
        })
    }

    /// Makes a tool of a function under `#[tool]`, to set more about it.
    pub fn from_fn<T>(function: impl IntoOffer<Self, T>) -> Self {
        function.into_offer()
    }

    /// A tool of its parts.
    pub fn from_parts(
        name: impl Into<String>,
        mut signature: Signature,
        run: impl Fn(Input) -> BoxFuture<'static, Result<Output>> + Send + Sync + 'static,
    ) -> Self {
        let description = signature.input.remove("description");
        let info = Listed {
            name: name.into(),
            description: description.and_then(|text| text.as_str().map(str::to_owned)),
            input_schema: object(signature.input.clone()),
            output_schema: signature.output.clone(),
            ..Listed::default()
        };
        Self {
            info,
            signature,
            support: Support::default(),
            unchecked: false,
            checked_by_handler: false,
            prepare: None,
            run: Arc::new(run),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    /// What a model is told.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.info.description = Some(text.into()).filter(|text| !text.is_empty());
        self
    }

    /// What a person sees.
    #[must_use]
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.info.title = Some(text.into());
        self
    }

    /// A picture for a person.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// JSON Schema of the arguments, instead of the one made of the handler's types. Arguments
    /// are checked against it before the handler runs.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.signature.typed = false;
        self.info.input_schema = match schema {
            Value::Object(schema) => object(schema),
            other => other,
        };
        self
    }

    /// The handler compiled both schemas, and checks its arguments and its output against them: they
    /// are neither compiled nor checked here.
    #[must_use]
    pub fn checked_by_handler(mut self) -> Self {
        self.checked_by_handler = true;
        self
    }

    /// Says what the handler makes of its arguments before it uses them, and whether they are
    /// valid: a [`Gate`](crate::Gate) decides about these. Without this, a gate sees them with
    /// the defaults of the input schema.
    #[must_use]
    pub fn prepared_by(
        mut self,
        prepare: impl Fn(Map<String, Value>) -> (Map<String, Value>, Result<()>) + Send + Sync + 'static,
    ) -> Self {
        self.prepare = Some(Arc::new(prepare));
        self
    }

    /// The handler checks its arguments itself: what does not fit the input schema reaches it too.
    #[must_use]
    pub fn unchecked_input(mut self) -> Self {
        self.unchecked = true;
        self
    }

    /// JSON Schema of the structured output, instead of the one made of the handler's types.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.signature.typed = false;
        self.info.output_schema = Some(schema);
        self
    }

    /// All hints at once.
    #[must_use]
    pub fn annotations(self, annotations: ToolAnnotations) -> Self {
        self.annotate(|hints| *hints = annotations)
    }

    /// It changes nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.annotate(|hints| hints.read_only_hint = Some(true))
    }

    /// Whether it may destroy.
    #[must_use]
    pub fn destructive(self, may: bool) -> Self {
        self.annotate(|hints| hints.destructive_hint = Some(may))
    }

    /// Twice is the same as once.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.annotate(|hints| hints.idempotent_hint = Some(true))
    }

    /// Whether it reaches things outside the server.
    #[must_use]
    pub fn open_world(self, reaches: bool) -> Self {
        self.annotate(|hints| hints.open_world_hint = Some(reaches))
    }

    /// It takes long: it goes on as a task for clients that follow one.
    #[must_use]
    pub fn long_running(self) -> Self {
        self.supports(Support::Optional)
    }

    /// It can only be run as a task: other clients are refused.
    #[must_use]
    pub fn only_as_task(self) -> Self {
        self.supports(Support::Required)
    }

    fn supports(mut self, support: Support) -> Self {
        self.support = support;
        let task_support = support.as_str().to_owned();
        self.info.execution = Some(Execution { task_support });
        self
    }

    /// Something else to say about it.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.info.meta.get_or_insert_with(Extra::new).insert(key.into(), value);
        self
    }

    fn annotate(mut self, change: impl FnOnce(&mut ToolAnnotations)) -> Self {
        change(self.info.annotations.get_or_insert_default());
        self
    }

    /// Checks everything about the tool that can be known before it is called.
    pub(crate) fn ready(self) -> Result<ReadyTool, Vec<String>> {
        let Self { info, signature, support, unchecked, checked_by_handler, prepare, run } = self;
        let mut mistakes = vec![];
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if info.name.is_empty() || info.name.len() > 128 || !info.name.bytes().all(allowed) {
            mistakes.push("a name has 1 to 128 letters, digits, `_`, `-` or `.`".to_owned());
        }
        if info.input_schema.is_object() && info.input_schema["type"] != "object" {
            mistakes.push("the input schema's `type` must be `object`".to_owned());
        }
        let mut compile = |side: &str, schema: &Value| {
            if checked_by_handler {
                return None;
            }
            let compiled = Lazy::new(schema);
            compiled.map_err(|error| mistakes.push(format!("{side} schema: {error}"))).ok()
        };
        // Reading arguments into the types a plain schema came from checks all it says. Writing
        // does not: a float may be no number.
        let is_read = signature.typed && is_plain(&info.input_schema);
        let check_input = compile("input", &info.input_schema).filter(|_| !is_read && !unchecked);
        let check_output = info.output_schema.as_ref().and_then(|schema| compile("output", schema));
        let mirrored = mirror::find(&info.input_schema).unwrap_or_else(|error| {
            mistakes.push(error);
            vec![]
        });
        for name in mirrored.iter().flat_map(|one| &one.path).filter(|name| is_secret(name)) {
            tracing::warn!("`{name}` is mirrored in a header, where proxies log it");
        }
        if !mistakes.is_empty() {
            let named = |mistake| format!("tool `{}`: {mistake}", info.name);
            return Err(mistakes.into_iter().map(named).collect());
        }
        Ok(ReadyTool { info, check_input, check_output, mirrored, support, prepare, run })
    }
}

fn object(schema: Map<String, Value>) -> Value {
    let mut members = Map::new();
    if let Some(dialect) = schema.get("$schema") {
        members.insert("$schema".into(), dialect.clone());
    }
    members.insert("type".into(), schema.get("type").cloned().unwrap_or_else(|| json!("object")));
    for (key, value) in schema {
        members.entry(key).or_insert(value);
    }
    Value::Object(members)
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("info", &self.info).finish_non_exhaustive()
    }
}
