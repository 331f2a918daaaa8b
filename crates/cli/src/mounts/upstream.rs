//! A mounted server: what it offers, offered here.

use super::{
    Result,
    choice::Choice,
    lock::{Difference, Lock},
    offers::{Kind, Offers},
};
use crate::target::{self, Way};
use futures_util::{FutureExt, StreamExt};
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
/// How long it is not looked at again, however often it says that something changed.
const SETTLE: Duration = Duration::from_millis(250);
/// Maximum length of one message, in bytes.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Names that are logged one by one; of more, only the number is.
const LOGGED: usize = 20;

/// A server elsewhere.
#[derive(Debug)]
pub(super) struct Upstream {
    name: String,
    mount: Mount,
    root: PathBuf,
    state: watch::Sender<State>,
    /// Only what is in the lock file is offered, also the first time.
    pub(super) is_locked: bool,
    unlocked: Vec<Kind>,
}

/// The way to it, or why there is none.
#[derive(Debug, Clone, Default)]
struct State {
    client: Option<Arc<Client>>,
    /// What of it was agreed to, once it has said what it has now.
    agreed: Option<Arc<HashSet<(Kind, String)>>>,
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
        let unlocked =
            mount.unlocked.iter().map(|kind| Kind::named(kind)).collect::<Result<_>>()?;
        let is_locked = mount.locked;
        Ok(Self { name, mount, root, state: watch::Sender::default(), is_locked, unlocked })
    }

    /// What it offers now, as far as that is wanted.
    pub(super) async fn offers(&self, choice: &Choice) -> Result<Offers> {
        let client = self.connect().await?;
        let offers = Offers::of(&client).await;
        client.close().await;
        let mut offers = offers?;
        offers.retain(|kind, name, _| choice.takes(kind, name) && !self.unlocked.contains(&kind));
        Ok(offers)
    }

    /// What it offers now and later: only what was agreed to before. If nothing ever was, everything
    /// is now, unless it is locked.
    pub(super) async fn provide(self, lock: Lock, choice: &Choice) -> Following {
        let (upstream, live) = (Arc::new(self), Live::default());
        let known = lock.offers(&upstream.name);
        let is_awaited = known.is_none() && !upstream.is_locked;
        if let Some(offers) = known {
            live.set(upstream.catalog(offers));
        }
        let (tell, mut tried) = watch::channel(false);
        let stop = CancellationToken::new();
        let following = upstream.follow(live.clone(), lock, choice.clone(), tell);
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(following));
        if is_awaited {
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
        let Mount { command, url, headers, env, pass_env, cwd, .. } = &self.mount;
        if let Some(url) = url {
            let http = Http::new(url)?.max_message(MAX_MESSAGE);
            let http = headers.iter().try_fold(http, |http, (name, value)| {
                Ok::<_, Box<dyn Error>>(http.header(name.parse()?, value.parse()?))
            })?;
            return Ok(Way::Http(http, url.clone()));
        }
        let words = command.as_deref().unwrap_or_default();
        let (program, words) = words.split_first().ok_or("its command is empty")?;
        let folder = self.root.join(cwd.as_deref().unwrap_or(".".as_ref()));
        let process = Process::new(program).args(words.iter().cloned()).folder(folder);
        let process = process.max_message(MAX_MESSAGE);
        let process = pass_env.iter().fold(process, Process::pass_env);
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
        let mut told = vec![];
        loop {
            let mut offers = match Offers::of(client).await {
                Ok(offers) => offers,
                Err(error) => return error.to_string(),
            };
            offers.retain(|kind, name, _| choice.takes(kind, name));
            told = self.hold(&mut offers, lock, &told).await;
            let mut agreed = HashSet::new();
            offers.each(|kind, name, _| {
                agreed.insert((kind, name.to_owned()));
            });
            self.state.send_modify(|state| state.agreed = Some(Arc::new(agreed)));
            live.set(self.catalog(offers));
            tell.send_replace(true);
            match &mut changes {
                Some(changes) => {
                    if changes.next().await.is_none() {
                        return "it went away".into();
                    }
                    tokio::time::sleep(SETTLE).await;
                    while changes.next().now_or_never().flatten().is_some() {}
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Leaves out what was not agreed to. The first time everything is agreed to, and logged,
    /// unless the server is locked.
    async fn hold(&self, offers: &mut Offers, lock: &Lock, told: &[Difference]) -> Vec<Difference> {
        if !lock.knows(&self.name) && !self.is_locked {
            self.agree(offers, lock).await;
        }
        let differences = lock.hold(&self.name, offers, &self.unlocked);
        let new: Vec<_> = differences.iter().filter(|one| !told.contains(one)).collect();
        for one in new.iter().take(LOGGED) {
            let Difference { mount, kind, name, what } = one;
            tracing::warn!(
                "left out: the {kind} {name:?} of the mounted server `{mount}` {what}: `zcp lock` \
                 shows and accepts it"
            );
        }
        if new.len() > LOGGED {
            let (mount, more) = (&self.name, new.len() - LOGGED);
            tracing::warn!("left out: {more} more of the mounted server `{mount}`: see `zcp lock`");
        }
        differences
    }

    /// Writes down what a new server offers, and says what that is.
    async fn agree(&self, offers: &Offers, lock: &Lock) {
        let mut kept = offers.clone();
        kept.retain(|kind, _, _| !self.unlocked.contains(&kind));
        let mut names = vec![];
        kept.each(|kind, name, _| names.push(format!("{kind} {name:?}")));
        let (count, more) = (names.len(), names.len().saturating_sub(LOGGED));
        names.truncate(LOGGED);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        tracing::warn!(
            "the mounted server `{}` is new: {count} descriptions were accepted unseen and written \
             to zcp.lock ({}). Review the file; `--locked` or `locked = true` refuses new servers",
            self.name,
            names.join(", ")
        );
        let (lock, name) = (lock.clone(), self.name.clone());
        let written = tokio::task::spawn_blocking(move || lock.add(&name, &kept)).await;
        if let Ok(Err(why)) = written {
            tracing::warn!("what `{}` offers is not remembered: {why}", self.name);
        }
    }

    fn catalog(self: &Arc<Self>, offers: Offers) -> Catalog {
        let tools = offers.tools.into_iter().map(|tool| self.tool(tool));
        let mut all = tools.fold(Catalog::default(), Catalog::tool);
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
        let mut made = self.readable(Kind::Resource, &one.uri).name(&one.name);
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
        let mut made = self.readable(Kind::Template, &one.uri_template).name(&one.name);
        made = made.allow_any_path();
        made = one.title.iter().fold(made, |made, text| made.title(text));
        made = one.description.iter().fold(made, |made, text| made.description(text));
        made = one.mime_type.iter().fold(made, |made, mime| made.mime_type(mime));
        made = one.annotations.into_iter().fold(made, zcp::Resource::annotations);
        made = one.icons.into_iter().fold(made, zcp::Resource::icon);
        one.meta.into_iter().flatten().fold(made, |made, (key, value)| made.meta(key, value))
    }

    fn readable(self: &Arc<Self>, kind: Kind, uri: &str) -> zcp::Resource {
        let (upstream, of) = (self.clone(), uri.to_owned());
        let readable = zcp::Resource::from_parts(uri, Signature::default(), move |input| {
            let (upstream, of) = (upstream.clone(), of.clone());
            Box::pin(async move { upstream.read(kind, &of, &input).await })
        });
        // It never takes the place of what the folder itself reads.
        readable.fallback()
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

    /// The same, for something it offers: only if it is what was agreed to.
    async fn client_for(&self, kind: Kind, name: &str) -> zcp::Result<Arc<Client>> {
        let client = self.client().await?;
        let mut state = self.state.subscribe();
        let said = timeout(PATIENCE, state.wait_for(|state| state.agreed.is_some())).await;
        let agreed = said.ok().and_then(|state| state.ok()?.agreed.clone());
        match agreed.is_some_and(|agreed| agreed.contains(&(kind, name.to_owned()))) {
            true => Ok(client),
            false => Err(CallError::new(format!(
                "the {kind} `{name}` was not used: the mounted server `{}` describes it differently \
                 than was accepted. Its operator can review it with `zcp lock --check` and accept it \
                 with `zcp lock`",
                self.name
            ))),
        }
    }

    async fn call(&self, name: &str, input: Input) -> zcp::Result<Output> {
        let args: Map<String, Value> = input.args()?;
        let client = self.client_for(Kind::Tool, name).await?;
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
        let client = self.client_for(Kind::Prompt, name).await?;
        client.prompt(name, args).await.map_err(|error| self.failed(error))
    }

    async fn read(&self, kind: Kind, of: &str, input: &Input) -> zcp::Result<Contents> {
        let Uri(uri) = Uri::from_call(input).await?;
        let client = self.client_for(kind, of).await?;
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
