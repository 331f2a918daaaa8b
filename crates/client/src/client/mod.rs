//! The client: what a server offers, as calls.

pub(crate) mod pagination;
pub(crate) mod task;
pub(crate) mod tool_call;

use crate::{
    connection::{Connection, changes::Changes, client_profile::Settings, link::Server},
    error::{Error, Result},
    transport::Endpoint,
};
use futures_util::{Stream, TryStreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt, sync::Arc};
use task::Task;
use tool_call::Call;
use zcp_wire::{
    Method, MethodName,
    mcp::{
        completion::{CompleteResult, Completion, Reference},
        logging::Level,
        prompts::{GetPromptResult, Prompt},
        resources::{ReadResourceResult, Resource, ResourceTemplate},
        roots::Root,
        subscriptions::Filter,
        tools::Tool,
    },
};

/// A client of one server. Cheap to clone; the way to the server is closed with the last clone.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
}

impl Client {
    pub(crate) async fn open(settings: Settings, endpoint: Box<dyn Endpoint>) -> Result<Self> {
        Ok(Self { connection: Arc::new(Connection::open(settings, endpoint).await?) })
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Who the server is, what it speaks and offers.
    pub fn server(&self) -> Server {
        self.connection.now().server.clone()
    }

    /// A tool to be called.
    pub fn tool(&self, name: impl Into<String>) -> Call<'_> {
        Call::new(&self.connection, name.into())
    }

    /// Calls a tool, and reads its result as a `T`.
    pub async fn call<T: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        args: Value,
    ) -> Result<T> {
        self.tool(name).args(args).get().await
    }

    /// A task that was begun before, by its id.
    pub fn task(&self, id: impl Into<String>) -> Task {
        let options = self.connection.settings.options();
        Task::new(self.connection.clone(), id.into(), None, options, None)
    }

    /// The tools, page by page as they are wanted.
    pub fn tools(&self) -> impl Stream<Item = Result<Tool>> + Send + 'static {
        pagination::tools(self.connection.clone())
    }

    /// The resources, page by page as they are wanted.
    pub fn resources(&self) -> impl Stream<Item = Result<Resource>> + Send + 'static {
        pagination::items(self.connection.clone(), Method::ListResources)
    }

    /// The families of resources, page by page as they are wanted.
    pub fn templates(&self) -> impl Stream<Item = Result<ResourceTemplate>> + Send + 'static {
        pagination::items(self.connection.clone(), Method::ListTemplates)
    }

    /// The prompts, page by page as they are wanted.
    pub fn prompts(&self) -> impl Stream<Item = Result<Prompt>> + Send + 'static {
        pagination::items(self.connection.clone(), Method::ListPrompts)
    }

    /// All tools.
    pub async fn list_tools(&self) -> Result<Vec<Tool>> {
        self.tools().try_collect().await
    }

    /// All resources.
    pub async fn list_resources(&self) -> Result<Vec<Resource>> {
        self.resources().try_collect().await
    }

    /// All families of resources.
    pub async fn list_templates(&self) -> Result<Vec<ResourceTemplate>> {
        self.templates().try_collect().await
    }

    /// All prompts.
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>> {
        self.prompts().try_collect().await
    }

    /// Reads a resource.
    pub async fn read(&self, uri: impl Into<String>) -> Result<ReadResourceResult> {
        self.ask(Method::ReadResource, json!({ "uri": uri.into() })).await
    }

    /// Gets a prompt, filled.
    pub async fn prompt(
        &self,
        name: impl Into<String>,
        args: BTreeMap<String, String>,
    ) -> Result<GetPromptResult> {
        self.ask(Method::GetPrompt, json!({ "name": name.into(), "arguments": args })).await
    }

    /// What an argument could be, given what has been typed of it and the other arguments.
    pub async fn complete(
        &self,
        of: &Reference,
        argument: &str,
        typed: &str,
        others: &BTreeMap<String, String>,
    ) -> Result<Completion> {
        let mut params = json!({ "ref": of, "argument": { "name": argument, "value": typed } });
        if !others.is_empty() {
            params["context"] = json!({ "arguments": others });
        }
        let result: CompleteResult = self.ask(Method::Complete, params).await?;
        Ok(result.completion)
    }

    /// Checks that the server answers: with `ping`, or with `server/discover` in revisions without it.
    pub async fn ping(&self) -> Result<()> {
        let method = match self.connection.now().server.has(Method::Ping) {
            true => Method::Ping,
            false => Method::Discover,
        };
        self.ask::<Value>(method, json!({})).await.map(drop)
    }

    /// From which level on log messages are wanted. Newer servers are told with every request; see
    /// [`Builder::log_level`](crate::Builder::log_level).
    pub async fn set_level(&self, level: Level) -> Result<()> {
        if !self.connection.now().server.has(Method::SetLevel) {
            return Err(Error::Unable(
                "this server is told the level when the client is made: `Builder::log_level`"
                    .into(),
            ));
        }
        self.ask::<Value>(Method::SetLevel, json!({ "level": level })).await.map(drop)
    }

    /// Replaces the folders that the server may know of. A server with sessions, until 2025-11-25,
    /// is told that they changed, and asks for them; a newer one asks when it needs them.
    ///
    /// # Errors
    ///
    /// One of them is not a `file://` URI, or the client was made without
    /// [`Builder::roots`](crate::Builder::roots), so that no server asks for them.
    pub async fn set_roots(&self, roots: impl IntoIterator<Item = Root>) -> Result<()> {
        let answers = &self.connection.settings.handlers.answers;
        answers.change_roots(roots.into_iter().collect()).map_err(Error::Unable)?;
        self.connection.tell(Method::RootsChanged).await;
        Ok(())
    }

    /// Makes any request, and gives its result as it came.
    pub async fn request(&self, method: &str, params: Value) -> Result<Map<String, Value>> {
        self.send(method.into(), params).await
    }

    async fn send(&self, method: MethodName, params: Value) -> Result<Map<String, Value>> {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        let options = self.connection.settings.options();
        match method.is(Method::CallTool) {
            true => tool_call::send(&self.connection, &params, &options).await,
            false => self.connection.request(method, &params, &options).await,
        }
    }

    /// Hears of changes: lists by their kinds, resources by their URIs.
    pub async fn listen(&self, filter: Filter) -> Result<Changes> {
        Changes::open(&self.connection, filter).await
    }

    /// Ends the conversation, and waits until nothing is left of it.
    pub async fn close(self) {
        let link = self.connection.now();
        link.opened.end.wait().await;
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, params: Value) -> Result<T> {
        let result = self.send(method.into(), params).await?;
        serde_json::from_value(Value::Object(result)).map_err(Error::invalid)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server()).finish()
    }
}
