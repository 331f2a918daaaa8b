//! A resource, or a family of them: a handler, and what a client is told about it.

use super::{
    complete::{Completer, Completers},
    error::{CallError, Result},
    handler::Handler,
    input::Input,
    offer::IntoOffer,
    signature::Signature,
    template::{UriTemplate, is_traversal},
};
use bytestring::ByteString;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use zcp_wire::{
    json,
    mcp::{
        Cache, CacheScope, Extra,
        content::{Annotations, ResourceContents},
        lifecycle::Icon,
        resources::{Resource as Listed, ResourceTemplate},
    },
};

type Run = Arc<dyn Fn(Input) -> BoxFuture<'static, Result<Contents>> + Send + Sync>;

/// What was read, before it is known by which URI and type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Contents {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Parts that say their own URI and type.
    Parts(Vec<ResourceContents>),
}

/// What a resource's handler may return.
#[diagnostic::on_unimplemented(
    message = "a resource cannot be `{Self}`",
    note = "return text, bytes, `Json<T>`, `ResourceContents`, or a `Result` of one of them"
)]
pub trait IntoContents {
    /// Makes the contents.
    fn into_contents(self) -> Result<Contents>;
}

impl IntoContents for Contents {
    fn into_contents(self) -> Result<Contents> {
        Ok(self)
    }
}

impl IntoContents for String {
    fn into_contents(self) -> Result<Contents> {
        Ok(Contents::Text(self))
    }
}

impl IntoContents for &'static str {
    fn into_contents(self) -> Result<Contents> {
        Ok(Contents::Text(self.to_owned()))
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self) -> Result<Contents> {
        Ok(Contents::Bytes(self))
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self) -> Result<Contents> {
        Ok(Contents::Parts(vec![self]))
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self) -> Result<Contents> {
        Ok(Contents::Parts(self))
    }
}

impl<T: Serialize> IntoContents for super::output::Json<T> {
    fn into_contents(self) -> Result<Contents> {
        Ok(Contents::Text(serde_json::to_string(&self.0)?))
    }
}

impl<T: IntoContents, E: Into<CallError>> IntoContents for std::result::Result<T, E> {
    fn into_contents(self) -> Result<Contents> {
        self.map_err(Into::into)?.into_contents()
    }
}

/// A resource, or with `{variables}` in its URI a family of them.
///
/// ```
/// use zcp::{Resource, Server, Uri};
///
/// async fn greeting(uri: Uri) -> String {
///     format!("hello from {}", uri.0)
/// }
///
/// let server = Server::new("demo")
///     .resource(Resource::new("demo://greeting", greeting).mime_type("text/plain"));
/// # server.build().unwrap();
/// ```
#[derive(Clone)]
pub struct Resource {
    info: Listed,
    cache: Option<Cache>,
    watched: bool,
    unlisted: bool,
    fallback: Option<usize>,
    traversal: bool,
    completers: Completers,
    pub(crate) signature: Signature,
    run: Run,
}

impl Resource {
    /// A resource read by an async function.
    pub fn new<H, T>(uri: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, Return: IntoContents>,
    {
        let mut signature = Signature::default();
        H::describe(&mut signature);
        Self::from_parts(uri, signature, move |input| {
            let handler = handler.clone();
            Box::pin(async move { handler.call(input).await?.into_contents() })
        })
    }

    /// Makes a resource of a function under `#[resource]`, to set more about it.
    pub fn from_fn<T>(function: impl IntoOffer<Self, T>) -> Self {
        function.into_offer()
    }

    /// A resource of its parts.
    pub fn from_parts(
        uri: impl Into<String>,
        signature: Signature,
        run: impl Fn(Input) -> BoxFuture<'static, Result<Contents>> + Send + Sync + 'static,
    ) -> Self {
        let uri = uri.into();
        Self {
            info: Listed { name: uri.clone(), uri, ..Listed::default() },
            cache: None,
            watched: false,
            unlisted: false,
            fallback: None,
            traversal: false,
            completers: Completers::default(),
            signature,
            run: Arc::new(run),
        }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.info.uri
    }

    /// What programs call it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.info.name = name.into();
        self
    }

    /// What a person sees.
    #[must_use]
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.info.title = Some(text.into());
        self
    }

    /// What a model is told.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.info.description = Some(text.into()).filter(|text| !text.is_empty());
        self
    }

    /// What kind of text or bytes it holds.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.info.mime_type = Some(mime_type.into());
        self
    }

    /// For whom, and how much it matters.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.info.annotations = Some(annotations);
        self
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.info.size = Some(bytes);
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

    /// Its changes are announced with `Ctx::updated`, so clients may subscribe.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// It can be read by whoever knows its URI, and is in no list. What is listed comes first.
    #[must_use]
    pub fn unlisted(mut self) -> Self {
        self.unlisted = true;
        self
    }

    /// Is read only if nothing else of the server has or fits the URI, listed or not: for resources
    /// of somebody who must not take the place of the server's own, such as another server.
    #[must_use]
    pub fn fallback(self) -> Self {
        self.fallback_order(0)
    }

    /// The same, with a place among all fallbacks: of those that have or fit a URI, the one with the
    /// lowest order is read.
    #[must_use]
    pub fn fallback_order(mut self, order: usize) -> Self {
        self.fallback = Some(order);
        self
    }

    /// How long a client may keep what it read, and whether others may be shown it.
    #[must_use]
    pub fn cache(mut self, lifetime: Duration, scope: CacheScope) -> Self {
        let ttl_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        self.cache = Some(Cache { ttl_ms, cache_scope: scope });
        self
    }

    /// Lets variables hold `..` and absolute paths, which are refused otherwise.
    #[must_use]
    pub fn allow_any_path(mut self) -> Self {
        self.traversal = true;
        self
    }

    /// What a variable of the template could be.
    #[must_use]
    pub fn complete(mut self, variable: impl Into<String>, completer: impl Completer) -> Self {
        self.completers.insert(variable, completer);
        self
    }

    /// Checks everything that can be known before it is read.
    pub(crate) fn ready(self) -> Result<ReadyResource, Vec<String>> {
        let uri = self.info.uri.clone();
        let template = match uri.contains('{') {
            true => {
                Some(UriTemplate::parse(&uri).map_err(|e| vec![format!("resource `{uri}`: {e}")])?)
            }
            false if !uri.contains(':') => {
                return Err(vec![format!(
                    "resource `{uri}`: a URI needs a scheme, such as `file:`"
                )]);
            }
            false => None,
        };
        let known = |name: &str| template.iter().any(|t| t.variables().any(|v| v == name));
        if let Some(name) = self.completers.names().find(|name| !known(name)) {
            return Err(vec![format!("resource `{uri}`: no variable `{name}` to complete")]);
        }
        Ok(ReadyResource { template, resource: self })
    }
}

/// A resource that was checked and can be read.
#[derive(Debug)]
pub(crate) struct ReadyResource {
    pub(crate) template: Option<UriTemplate>,
    resource: Resource,
}

impl ReadyResource {
    pub(crate) fn info(&self) -> &Listed {
        &self.resource.info
    }

    pub(crate) fn template_info(&self) -> ResourceTemplate {
        let info = self.resource.info.clone();
        ResourceTemplate {
            uri_template: info.uri,
            name: info.name,
            title: info.title,
            description: info.description,
            mime_type: info.mime_type,
            annotations: info.annotations,
            icons: info.icons,
            meta: info.meta,
        }
    }

    pub(crate) fn cache(&self) -> Option<Cache> {
        self.resource.cache
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.resource.watched
    }

    pub(crate) fn is_unlisted(&self) -> bool {
        self.resource.unlisted
    }

    pub(crate) fn is_fallback(&self) -> bool {
        self.resource.fallback.is_some()
    }

    /// Its place among the fallbacks.
    pub(crate) fn fallback_order(&self) -> usize {
        self.resource.fallback.unwrap_or_default()
    }

    pub(crate) fn completers(&self) -> &Completers {
        &self.resource.completers
    }

    /// The variables of a URI of this family; nothing when it is none.
    pub(crate) fn variables(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let variables = self.template.as_ref()?.matches(uri)?;
        let outside = |value: &String| is_traversal(value);
        (self.resource.traversal || !variables.values().any(outside)).then_some(variables)
    }

    pub(crate) async fn read(
        &self,
        uri: String,
        variables: Option<BTreeMap<String, String>>,
        mut input: Input,
    ) -> Result<Vec<ResourceContents>> {
        if let Some(variables) = variables {
            let args: ByteString = json::text(&variables);
            input = Input::new(Some(args), input.ctx, input.state);
        }
        input.text_only = true;
        input.uri = Some(uri.clone());
        let contents = (self.resource.run)(input).await?;
        let mime = |default: &str| {
            self.resource.info.mime_type.clone().unwrap_or_else(|| default.to_owned())
        };
        Ok(match contents {
            Contents::Text(text) => vec![ResourceContents::text(uri, mime("text/plain"), text)],
            Contents::Bytes(bytes) => {
                vec![ResourceContents::blob(uri, mime("application/octet-stream"), bytes)]
            }
            Contents::Parts(parts) => parts,
        })
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("info", &self.info).finish_non_exhaustive()
    }
}
