//! A mounted server: what it offers, offered here.

use super::{Result, choice::Choice, lock::Lock};
use crate::target::{self, Way};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use zcp::{
    CallError, Catalog, Contents, Ctx, FromCall, Input, Live, Output, Provider, Signature, Uri,
};
use zcp_client::{
    Client, Http, Process,
    wire::mcp::{
        completion::Reference,
        prompts::{GetPromptResult, Prompt},
        resources::{Resource, ResourceTemplate},
        subscriptions::Filter,
        tools::Tool,
    },
};
use zcp_scripts::{Mount, Scripts};

/// How long a server may take to be there, and to answer.
const PATIENCE: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(5 * 60);
/// How long until a lost one is tried again: longer each time.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(60);

/// A server elsewhere.
#[derive(Debug)]
pub(super) struct Upstream {
    name: String,
    mount: Mount,
    root: PathBuf,
    state: watch::Sender<State>,
}

/// The way to it, or why there is none.
#[derive(Debug, Clone, Default)]
struct State {
    client: Option<Arc<Client>>,
    /// Its tools that were agreed to, once it has said what it has now.
    agreed: Option<Arc<HashSet<String>>>,
    why: String,
}

/// What a server offers, followed for as long as this is there.
pub(super) struct Following {
    live: Live,
    _following: DropGuard,
}

impl Provider for Following {
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.live.catalog()
    }
}

impl Upstream {
    /// A server that is not reached yet.
    pub(super) async fn new(name: &str, mount: &Mount, scripts: &Scripts) -> Result<Self> {
        let mut mount = mount.clone();
        for value in mount.env.values_mut().chain(mount.headers.values_mut()) {
            *value = scripts.revealed(value).await?;
        }
        let (name, root) = (name.to_owned(), scripts.root().to_path_buf());
        Ok(Self { name, mount, root, state: watch::Sender::default() })
    }

    /// Its tools now.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>> {
        let client = self.connect().await?;
        let tools = client.list_tools().await;
        client.close().await;
        Ok(tools?)
    }

    /// What it offers now and later. Of tools, only what was agreed to before; if nothing ever was,
    /// everything is now.
    pub(super) async fn provide(self, lock: Lock, choice: &Choice) -> Following {
        let (upstream, live) = (Arc::new(self), Live::default());
        let known = lock.tools(&upstream.name);
        if let Some(tools) = &known {
            live.set(upstream.catalog(tools.clone(), Offers::default()));
        }
        let (tell, mut tried) = watch::channel(false);
        let stop = CancellationToken::new();
        let following = upstream.follow(live.clone(), lock, choice.clone(), tell);
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(following));
        if known.is_none() {
            let _ = timeout(PATIENCE, tried.wait_for(|tried| *tried)).await;
        }
        Following { live, _following: stop.drop_guard() }
    }

    async fn connect(&self) -> Result<Client, String> {
        let builder = Client::builder("zcp", env!("CARGO_PKG_VERSION")).timeout(QUIET);
        let way = self.way().map_err(|error| error.to_string())?;
        match timeout(PATIENCE, target::connect(builder, way)).await {
            Ok(reached) => reached.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        }
    }

    fn way(&self) -> Result<Way> {
        let Mount { command, url, headers, env, cwd, .. } = &self.mount;
        if let Some(url) = url {
            let http = headers.iter().try_fold(Http::new(url)?, |http, (name, value)| {
                Ok::<_, Box<dyn Error>>(http.header(name.parse()?, value.parse()?))
            })?;
            return Ok(Way::Http(http, url.clone()));
        }
        let words = command.as_deref().unwrap_or_default();
        let (program, words) = words.split_first().ok_or("its command is empty")?;
        let folder = self.root.join(cwd.as_deref().unwrap_or(".".as_ref()));
        let process = Process::new(program).args(words.iter().cloned()).folder(folder);
        Ok(Way::Process(env.iter().fold(process, |it, (name, value)| it.env(name, value))))
    }

    /// Keeps the way open, and the catalog as the server has it.
    async fn follow(
        self: Arc<Self>,
        live: Live,
        lock: Lock,
        choice: Choice,
        tell: watch::Sender<bool>,
    ) {
        let mut pause = SOONEST;
        loop {
            let why = match self.connect().await {
                Ok(client) => {
                    let (client, begun) = (Arc::new(client), Instant::now());
                    let client_now = Some(client.clone());
                    self.state.send_replace(State { client: client_now, ..State::default() });
                    let why = self.look(&client, &live, &lock, &choice, &tell).await;
                    // One that was there for a while is not one that fails at once.
                    if begun.elapsed() > LATEST {
                        pause = SOONEST;
                    }
                    why
                }
                Err(why) => why,
            };
            tracing::warn!("the mounted server `{}` is not there: {why}", self.name);
            self.state.send_replace(State { why, ..State::default() });
            tell.send_replace(true);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATEST);
        }
    }

    /// Looks at what it offers, and again when that changes, until it is gone.
    async fn look(
        self: &Arc<Self>,
        client: &Client,
        live: &Live,
        lock: &Lock,
        choice: &Choice,
        tell: &watch::Sender<bool>,
    ) -> String {
        let filter = Filter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            ..Filter::default()
        };
        let mut changes = client.listen(filter).await.ok();
        loop {
            let (tools, offers) = match offers(client).await {
                Ok(found) => found,
                Err(error) => return error.to_string(),
            };
            let tools = self.agreed(tools, lock, choice);
            let names = tools.iter().map(|tool| tool.name.clone()).collect();
            self.state.send_modify(|state| state.agreed = Some(Arc::new(names)));
            live.set(self.catalog(tools, offers));
            tell.send_replace(true);
            match &mut changes {
                Some(changes) => {
                    if changes.next().await.is_none() {
                        return "it went away".into();
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// The tools that may be offered. The first time all of them are agreed to.
    fn agreed(&self, mut tools: Vec<Tool>, lock: &Lock, choice: &Choice) -> Vec<Tool> {
        tools.retain(|tool| choice.takes_tool(&tool.name));
        if lock.tools(&self.name).is_none()
            && let Err(why) = lock.add(&self.name, &tools)
        {
            tracing::warn!("what `{}` offers is not remembered: {why}", self.name);
        }
        let (tools, differences) = lock.agreed(&self.name, tools);
        for one in differences {
            tracing::warn!(
                "left out: the tool `{}` of the mounted server `{}` {}: `zcp lock` shows and agrees to it",
                one.tool,
                one.mount,
                one.what
            );
        }
        tools
    }

    fn catalog(self: &Arc<Self>, tools: Vec<Tool>, offers: Offers) -> Catalog {
        let mut all =
            tools.into_iter().map(|tool| self.tool(tool)).fold(Catalog::default(), Catalog::tool);
        for prompt in offers.prompts {
            if offers.completes {
                let of = Reference::Prompt { name: prompt.name.clone() };
                all = all.complete(prompt.name.clone(), self.completer(of));
            }
            all = all.prompt(self.prompt(prompt));
        }
        all =
            offers.resources.into_iter().map(|one| self.resource(one)).fold(all, Catalog::resource);
        for template in offers.templates {
            if offers.completes {
                let of = Reference::Resource { uri: template.uri_template.clone() };
                all = all.complete(template.uri_template.clone(), self.completer(of));
            }
            all = all.resource(self.template(template));
        }
        for mistake in all.take_mistakes() {
            tracing::warn!("left out of the mounted server `{}`: {mistake}", self.name);
        }
        all
    }

    fn tool(self: &Arc<Self>, tool: Tool) -> zcp::Tool {
        let (upstream, name) = (self.clone(), tool.name.clone());
        let mut made = zcp::Tool::from_parts(&tool.name, Signature::default(), move |input| {
            let (upstream, name) = (upstream.clone(), name.clone());
            Box::pin(async move { upstream.call(&name, input).await })
        })
        .input_schema(tool.input_schema)
        .unchecked_input();
        made = tool.description.iter().fold(made, |one, text| one.description(text));
        made = tool.title.iter().fold(made, |one, text| one.title(text));
        made = tool.annotations.into_iter().fold(made, zcp::Tool::annotations);
        made = tool.output_schema.into_iter().fold(made, zcp::Tool::output_schema);
        made = tool.icons.into_iter().fold(made, zcp::Tool::icon);
        tool.meta.into_iter().flatten().fold(made, |one, (key, value)| one.meta(key, value))
    }

    fn prompt(self: &Arc<Self>, prompt: Prompt) -> zcp::Prompt {
        let (upstream, name) = (self.clone(), prompt.name.clone());
        let mut made = zcp::Prompt::from_parts(&prompt.name, Signature::default(), move |input| {
            let (upstream, name) = (upstream.clone(), name.clone());
            Box::pin(async move { upstream.fill(&name, &input).await })
        });
        for argument in prompt.arguments {
            made = made.argument(&argument.name, argument.description, argument.required);
        }
        made = prompt.description.iter().fold(made, |one, text| one.description(text));
        made = prompt.title.iter().fold(made, |one, text| one.title(text));
        made = prompt.icons.into_iter().fold(made, zcp::Prompt::icon);
        prompt.meta.into_iter().flatten().fold(made, |one, (key, value)| one.meta(key, value))
    }

    fn resource(self: &Arc<Self>, one: Resource) -> zcp::Resource {
        let mut made = self.readable(&one.uri).name(&one.name);
        made = one.title.iter().fold(made, |made, text| made.title(text));
        made = one.description.iter().fold(made, |made, text| made.description(text));
        made = one.mime_type.iter().fold(made, |made, mime| made.mime_type(mime));
        made = one.annotations.into_iter().fold(made, zcp::Resource::annotations);
        made = one.size.into_iter().fold(made, zcp::Resource::size);
        made = one.icons.into_iter().fold(made, zcp::Resource::icon);
        one.meta.into_iter().flatten().fold(made, |made, (key, value)| made.meta(key, value))
    }

    fn template(self: &Arc<Self>, one: ResourceTemplate) -> zcp::Resource {
        // Which paths are right is for the server to say.
        let mut made = self.readable(&one.uri_template).name(&one.name).allow_any_path();
        made = one.title.iter().fold(made, |made, text| made.title(text));
        made = one.description.iter().fold(made, |made, text| made.description(text));
        made = one.mime_type.iter().fold(made, |made, mime| made.mime_type(mime));
        made = one.annotations.into_iter().fold(made, zcp::Resource::annotations);
        made = one.icons.into_iter().fold(made, zcp::Resource::icon);
        one.meta.into_iter().flatten().fold(made, |made, (key, value)| made.meta(key, value))
    }

    fn readable(self: &Arc<Self>, uri: &str) -> zcp::Resource {
        let upstream = self.clone();
        zcp::Resource::from_parts(uri, Signature::default(), move |input| {
            let upstream = upstream.clone();
            Box::pin(async move { upstream.read(&input).await })
        })
    }

    fn completer(self: &Arc<Self>, of: Reference) -> impl zcp::Completer + use<> {
        let upstream = self.clone();
        move |typed: zcp::Typed| {
            let (upstream, of) = (upstream.clone(), of.clone());
            async move {
                let Ok(client) = upstream.client().await else { return vec![] };
                let told = client.complete(&of, &typed.argument, &typed.value, &typed.others).await;
                told.map(|completion| completion.values).unwrap_or_default()
            }
        }
    }

    /// The way to the server, waited for if it is not open.
    async fn client(&self) -> zcp::Result<Arc<Client>> {
        let mut state = self.state.subscribe();
        let there = timeout(PATIENCE, state.wait_for(|state| state.client.is_some())).await;
        let client = there.ok().and_then(|state| state.ok()?.client.clone());
        client.ok_or_else(|| {
            let why = self.state.borrow().why.clone();
            CallError::new(format!("the mounted server `{}` is not there: {why}", self.name))
        })
    }

    /// The same, for a tool: only if it is what was agreed to.
    async fn client_for(&self, tool: &str) -> zcp::Result<Arc<Client>> {
        let client = self.client().await?;
        let mut state = self.state.subscribe();
        let said = timeout(PATIENCE, state.wait_for(|state| state.agreed.is_some())).await;
        let agreed = said.ok().and_then(|state| state.ok()?.agreed.clone());
        match agreed.is_some_and(|agreed| agreed.contains(tool)) {
            true => Ok(client),
            false => Err(CallError::new(format!(
                "`{tool}` was not called: the mounted server `{}` says something else of it than \
                 was agreed to. Whoever runs this server sees it with `zcp lock --check`, and agrees with `zcp lock`",
                self.name
            ))),
        }
    }

    async fn call(&self, name: &str, input: Input) -> zcp::Result<Output> {
        let args: Map<String, Value> = input.args()?;
        let client = self.client_for(name).await?;
        let ctx: Ctx = input.ctx.clone();
        let call = client.tool(name).args(Value::Object(args)).on_progress(move |progress| {
            let message = progress.message.as_deref().unwrap_or_default();
            ctx.progress_with(progress.progress, progress.total, message);
        });
        let result = call.send().await.map_err(|error| self.failed(error))?;
        let mut meta = result.meta.unwrap_or_default();
        // What the protocol itself says is said anew.
        meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
        Ok(Output {
            content: result.content,
            structured: result.structured_content,
            is_error: result.is_error,
            meta,
        })
    }

    async fn fill(&self, name: &str, input: &Input) -> zcp::Result<GetPromptResult> {
        let args: BTreeMap<String, String> = input.args()?;
        let client = self.client().await?;
        client.prompt(name, args).await.map_err(|error| self.failed(error))
    }

    async fn read(&self, input: &Input) -> zcp::Result<Contents> {
        let Uri(uri) = Uri::from_call(input).await?;
        let client = self.client().await?;
        let read = client.read(uri).await.map_err(|error| self.failed(error))?;
        Ok(Contents::Parts(read.contents))
    }

    /// What the server refuses is refused here; all else is its absence.
    fn failed(&self, error: zcp_client::Error) -> CallError {
        match error {
            zcp_client::Error::Refused(why) => CallError::Rpc(Box::new(why)),
            error => CallError::new(format!("the mounted server `{}`: {error}", self.name)),
        }
    }
}

/// What a server offers beside its tools.
#[derive(Debug, Default)]
struct Offers {
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    completes: bool,
}

async fn offers(client: &Client) -> zcp_client::Result<(Vec<Tool>, Offers)> {
    let can = client.server().capabilities;
    let tools = match can.tools {
        Some(_) => client.list_tools().await?,
        None => vec![],
    };
    let mut offers = Offers { completes: can.completions.is_some(), ..Offers::default() };
    if can.prompts.is_some() {
        offers.prompts = client.list_prompts().await?;
    }
    if can.resources.is_some() {
        offers.resources = client.list_resources().await?;
        offers.templates = client.list_templates().await.unwrap_or_default();
    }
    Ok((tools, offers))
}
