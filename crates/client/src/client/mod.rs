//! The client: what a server offers, as calls.

pub(crate) mod pagination;
pub(crate) mod task;
pub(crate) mod tool_call;

use crate::{
    builder::{Builder, Settings},
    connection::connect::{self, Line, Server},
    connection::listen::{Change, Changes, Subscriptions},
    error::{Error, Result},
    request::round_trip::{Exchange, Wish},
    skills::{OpenSkill, Skill},
    transport::{Endpoint, Fate, Headers},
};
use ::http::Extensions;
use futures_util::{Stream, TryStreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tool_call::Call;
use zcp_wire::mcp::{
    completion::{CompleteResult, Completion, Reference},
    logging::Level,
    prompts::{GetPromptResult, Prompt},
    resources::{ReadResourceResult, Resource, ResourceTemplate},
    subscriptions::Filter,
    tools::Tool,
};

/// How long the server may take for something said in parting.
const PARTING: Duration = Duration::from_secs(2);

/// A client of one server. Cheap to clone; the way to the server is closed with the last clone.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) endpoint: Box<dyn Endpoint>,
    // A std mutex: never held across an await.
    line: Mutex<Arc<Line>>,
    /// Held while a lost way is opened again.
    opening: tokio::sync::Mutex<()>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Which client of its cache this is.
    pub(crate) number: u64,
}

impl Client {
    /// Reaches a server, and finds out what it speaks.
    pub async fn connect(endpoint: impl Endpoint) -> Result<Self> {
        Self::builder("zcp-client", env!("CARGO_PKG_VERSION")).connect(endpoint).await
    }

    /// Describes a client: who it is, and what it answers.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name, version)
    }

    pub(crate) async fn open(settings: Settings, endpoint: Box<dyn Endpoint>) -> Result<Self> {
        let number = settings.cache.join();
        let settings = Arc::new(settings);
        let line = connect::open(&settings, &*endpoint).await?;
        let shared = Shared {
            settings,
            endpoint,
            line: Mutex::new(Arc::new(line)),
            opening: tokio::sync::Mutex::default(),
            subscriptions: Arc::default(),
            number,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Who the server is, what it speaks and offers.
    pub fn server(&self) -> Server {
        self.shared.now().server.clone()
    }

    /// A tool to be called.
    pub fn tool(&self, name: impl Into<String>) -> Call<'_> {
        Call::new(self, name.into())
    }

    /// Calls a tool, and reads its result as a `T`.
    pub async fn call<T: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        args: Value,
    ) -> Result<T> {
        self.tool(name).args(args).get().await
    }

    /// The tools, page by page as they are wanted.
    pub fn tools(&self) -> impl Stream<Item = Result<Tool>> + Send + 'static {
        pagination::tools(self.shared.clone())
    }

    /// The resources, page by page as they are wanted.
    pub fn resources(&self) -> impl Stream<Item = Result<Resource>> + Send + 'static {
        pagination::items(self.shared.clone(), "resources/list")
    }

    /// The families of resources, page by page as they are wanted.
    pub fn templates(&self) -> impl Stream<Item = Result<ResourceTemplate>> + Send + 'static {
        pagination::items(self.shared.clone(), "resources/templates/list")
    }

    /// The prompts, page by page as they are wanted.
    pub fn prompts(&self) -> impl Stream<Item = Result<Prompt>> + Send + 'static {
        pagination::items(self.shared.clone(), "prompts/list")
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

    /// All skills. Nothing of them is fetched until one is opened.
    pub async fn list_skills(&self) -> Result<Vec<Skill>> {
        pagination::items(self.shared.clone(), "skills/list").try_collect().await
    }

    /// Fetches a skill's text, if it is what the list says.
    pub async fn open_skill(&self, skill: &Skill) -> Result<OpenSkill> {
        OpenSkill::new(self.clone(), skill.clone()).await
    }

    /// Reads a resource.
    pub async fn read(&self, uri: impl Into<String>) -> Result<ReadResourceResult> {
        self.ask("resources/read", json!({ "uri": uri.into() })).await
    }

    /// Gets a prompt, filled.
    pub async fn prompt(
        &self,
        name: impl Into<String>,
        args: BTreeMap<String, String>,
    ) -> Result<GetPromptResult> {
        self.ask("prompts/get", json!({ "name": name.into(), "arguments": args })).await
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
        let result: CompleteResult = self.ask("completion/complete", params).await?;
        Ok(result.completion)
    }

    /// Asks for a sign of life. The stateless era has no such question, and is asked what it is.
    pub async fn ping(&self) -> Result<()> {
        let method = match self.shared.now().server.revision.has("ping") {
            true => "ping",
            false => "server/discover",
        };
        self.ask::<Value>(method, json!({})).await.map(drop)
    }

    /// From which level on log messages are wanted. Newer servers are told with every request; see
    /// [`Builder::log_level`].
    pub async fn set_level(&self, level: Level) -> Result<()> {
        if !self.shared.now().server.revision.has("logging/setLevel") {
            return Err(Error::Unable(
                "this server is told the level when the client is made: `Builder::log_level`"
                    .into(),
            ));
        }
        self.ask::<Value>("logging/setLevel", json!({ "level": level })).await.map(drop)
    }

    /// Makes any request, and gives its result as it came.
    pub async fn request(&self, method: &str, params: Value) -> Result<Map<String, Value>> {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        self.shared.request(method, params, &self.wish()).await
    }

    /// Hears of changes: lists by their kinds, resources by their URIs.
    pub async fn listen(&self, filter: Filter) -> Result<Changes> {
        Changes::open(self.shared.clone(), filter).await
    }

    /// Ends the conversation, and waits until nothing is left of it.
    pub async fn close(self) {
        let line = self.shared.now();
        line.opened.end.wait().await;
    }

    async fn ask<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T> {
        let result = self.request(method, params).await?;
        serde_json::from_value(Value::Object(result)).map_err(Error::invalid)
    }

    fn wish(&self) -> Wish {
        self.settings().wish()
    }
}

impl Shared {
    /// The way to the server as it is.
    pub(crate) fn now(&self) -> Arc<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The way to the server, opened again if it was lost.
    pub(crate) async fn line(&self) -> Result<Arc<Line>> {
        let line = self.now();
        if !line.is_lost() {
            return Ok(line);
        }
        let _opening = self.opening.lock().await;
        let line = self.now();
        if !line.is_lost() {
            return Ok(line);
        }
        let line = Arc::new(connect::open(&self.settings, &*self.endpoint).await?);
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line.clone();
        // Nobody knows what happened meanwhile.
        self.settings.changed(Change::All);
        Ok(line)
    }
}

impl Shared {
    /// Tells the server something when nobody waits for the answer: on the way that is open, if it
    /// is, and not for long. `when` says whether it is still to be said, and is held until it is.
    pub(crate) fn in_parting<T, F>(
        &self,
        method: &'static str,
        mut params: Map<String, Value>,
        when: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = Option<T>> + Send + 'static,
        T: Send,
    {
        let (line, settings) = (self.now(), self.settings.clone());
        if line.is_lost() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (era, headers) = (line.server.revision.era(), self.headers(&line, method, &params));
        let parting = line.clone();
        line.opened.end.spawn(|_| async move {
            let saying = async {
                let Some(_held) = when().await else { return };
                let (id, wish, fate) = (settings.ids.next(), settings.wish(), Fate::default());
                settings.say_about(&mut params, era, &id);
                let mut extensions = Extensions::new();
                extensions.insert(Headers(headers));
                let exchange = Exchange {
                    settings: &settings,
                    peer: &*parting.peer,
                    era,
                    wish: &wish,
                    fate: &fate,
                };
                let _ = exchange.ask(id, method, params, extensions).await;
            };
            let _ = tokio::time::timeout(PARTING, saying).await;
        });
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server()).finish()
    }
}
