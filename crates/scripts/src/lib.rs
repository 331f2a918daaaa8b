#![doc = include_str!("docs/crate.md")]

mod call;
mod call_files;
mod compat;
mod content;
mod host;
mod manifest;
mod offers;
mod project;
mod providers;
mod redact;
mod run;
mod spawn;

pub use call::tool::Program;
use compat::mcp_bash::{self, registered, remote_token::Remote};
pub use compat::mcp_bash::{HEALTH_TIMEOUT, PROJECT_ROOT, registered::Checks, show_to_scripts};
use futures_util::{StreamExt, stream::BoxStream};
use host::{Environment, Host, neighbours::Neighbours, secrets};
use manifest::{icons, secret_reference::is_reference};
pub use offers::ui_templates::page_templates;
use offers::{follow::follow, ui};
pub use project::{Mount, setting_sources::Setting};
use project::{file_watch::FileWatch, setting_sources};
use run::concurrency::Bounds;
pub use run::sandbox::{CONFINED, become_confined, sandbox};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tokio::sync::{broadcast, mpsc, watch as channel};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use zcp::{Catalog, Gate, Provider, Server, wire::sync::lock};
use zcp_policy::Guard;
pub use zcp_policy::{Observed, Outcome};

/// A folder of scripts. What is in it can be called for as long as this is there, and changes with
/// it.
///
/// ```no_run
/// use zcp::{Server, Stdio};
/// use zcp_scripts::Scripts;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let scripts = Scripts::folder("my-tools").open()?;
///     scripts.server().serve(Stdio).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Scripts {
    catalog: channel::Receiver<Arc<Catalog>>,
    updated: Mutex<Option<mpsc::Receiver<String>>>,
    mistakes: channel::Receiver<Vec<String>>,
    project: Arc<project::Project>,
    programs: channel::Receiver<Vec<Program>>,
    /// The catalog behind the folder's own policy, for whoever offers it beside others.
    guarded: channel::Receiver<Arc<Catalog>>,
    guard: Guard,
    host: Arc<Host>,
    remote: Option<Arc<Remote>>,
    following: Following,
    _stop_when_dropped: DropGuard,
}

/// The task that follows a folder's changes. It is stopped when its [`Scripts`] are dropped, or by
/// [`Processes::end`], which also waits for it.
#[derive(Debug, Clone)]
struct Following {
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The processes of a folder's scripts, and the task that follows the folder's changes.
#[derive(Debug, Clone)]
pub struct Processes {
    host: Arc<Host>,
    guard: Guard,
    following: Following,
}

impl Processes {
    /// Stops following the folder, ends the processes that still run, writes the audit log to its
    /// end, and removes what is temporary. For when the server has stopped.
    pub async fn end(&self) {
        self.following.stop.cancel();
        self.following.tasks.close();
        self.following.tasks.wait().await;
        self.host.nursery.close().await;
        self.guard.close().await;
        self.host.remove();
    }
}

/// A folder that is about to be opened.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
    command: Option<PathBuf>,
    env: BTreeMap<String, String>,
    temporary: PathBuf,
    neighbours: Arc<Neighbours>,
}

impl Scripts {
    /// A folder; [`open`](Folder::open) looks into it.
    pub fn folder(root: impl Into<PathBuf>) -> Folder {
        Folder {
            root: root.into(),
            command: None,
            env: Environment::of_process(),
            temporary: std::env::temp_dir(),
            neighbours: Arc::default(),
        }
    }

    /// What the folder says it is called, or its own name.
    pub fn name(&self) -> String {
        self.project.name()
    }

    /// What the folder's settings come to, and where each of them comes from.
    pub fn settings(&self) -> Vec<Setting> {
        setting_sources::settings(&self.project, &self.host.environment)
    }

    /// What kind of folder it is, in a few words.
    pub fn kind(&self) -> &'static str {
        self.project.kind()
    }

    /// A server that is called as the folder is, and offers what is in it.
    pub fn server(self) -> Server {
        let about = &self.project.about;
        let mut server = Server::new(self.project.name());
        server = about.version.iter().fold(server, |server, text| server.version(text));
        server = about.title.iter().fold(server, |server, text| server.title(text));
        server = about.description.iter().fold(server, |server, text| server.description(text));
        server = about.website_url.iter().fold(server, |server, url| server.website(url));
        server = about.instructions.iter().fold(server, |server, text| server.instructions(text));
        let icons =
            icons::icons(&about.icons, &self.project.root, &self.project.places("server.d"));
        server = icons.into_iter().fold(server, Server::icon);
        server = self.remote.clone().into_iter().fold(server, |server, one| one.guard(server));
        // With a layer the transport tells where a call comes from, by which callers share places.
        server = server.layer(tower::layer::util::Identity::new());
        // Clients that show pages are told that there may be some.
        let server = server.extension(content::UI_EXTENSION, json!({ "mimeTypes": [ui::MIME] }));
        // The policy guards everything that the server offers, so the folder itself is not behind it.
        server.gate(self.guard.clone()).provide(Ungated(self))
    }

    /// Makes the project's own checks of its health, if it has any.
    pub async fn checks(&self) -> Checks {
        let (project, host) = (self.project.clone(), self.host.clone());
        let made = tokio::task::spawn_blocking(move || {
            registered::checks(&project.folder("server.d"), &project.root, &host)
        });
        let made = made.await;
        made.unwrap_or_else(|error| Checks::Failed(error.to_string()))
    }

    /// The processes of the folder's scripts, to be waited for when the server has stopped.
    pub fn processes(&self) -> Processes {
        Processes {
            host: self.host.clone(),
            guard: self.guard.clone(),
            following: self.following.clone(),
        }
    }

    /// What the folder's tools are run by now, and whenever something changes.
    pub fn programs(&self) -> channel::Receiver<Vec<Program>> {
        self.programs.clone()
    }

    /// Scripts that are beside the folder `tools`, and so not served, if there are any. `None` if
    /// they may be there for something else.
    pub fn beside_tools(&self) -> Option<String> {
        self.project.scripts_beside_tools()
    }

    /// Where the folder is.
    pub fn root(&self) -> &Path {
        &self.project.root
    }

    /// Files the server writes for its operator alone: the audit log, and the one before it.
    pub fn private_files(&self) -> Vec<PathBuf> {
        self.project.policy.own_files()
    }

    /// What enforces the folder's policy. [`server`](Self::server) puts it in front of all tools of
    /// the server, and providing the folder to another server in front of the folder's own.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The servers that are to stand beside the folder's own scripts, by name. Whoever serves the
    /// folder mounts them.
    pub fn mounts(&self) -> &BTreeMap<String, Mount> {
        &self.project.mounts
    }

    /// A value of the project's files as it is, or the secret it refers to.
    pub async fn revealed(&self, value: &str) -> Result<String, String> {
        match is_reference(value) {
            true => secrets::fetch(value, &self.host, &self.project.root).await,
            false => Ok(value.to_owned()),
        }
    }

    /// Every call from now on, as it ends. Whoever does not keep up misses the oldest; while nobody
    /// looks on, it costs nothing.
    pub fn observe(&self) -> broadcast::Receiver<Arc<Observed>> {
        self.guard.observe()
    }

    /// What is wrong with the folder now, and whenever that changes. Whatever a mistake concerns is
    /// left out, unless its [`Program::mistakes`] has it; the rest is offered.
    pub fn mistakes(&self) -> channel::Receiver<Vec<String>> {
        self.mistakes.clone()
    }
}

impl Folder {
    /// The `zcp` command: it does as jq does, for machines without one, and confines scripts that
    /// are to run in a sandbox. Without it those do not run.
    #[must_use]
    pub fn command(mut self, program: impl Into<PathBuf>) -> Self {
        self.command = Some(program.into());
        self
    }

    /// Where temporary files go, instead of where the system has them.
    #[must_use]
    pub fn temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary = folder.into();
        self
    }

    /// A place where the server keeps something for itself, such as its store: no script runs whose
    /// sandbox restricts reading or writing, and can read or write it all the same. Counts for folders
    /// [`beside`](Self::beside) this one, too.
    #[must_use]
    pub fn private(self, path: impl AsRef<Path>) -> Self {
        let path = std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().into());
        self.neighbours.note_private(path);
        self
    }

    /// Another folder that the same process serves. What sandboxes of one may write counts for the
    /// other, and none may write what the other runs or reads its settings from.
    #[must_use]
    pub fn beside(mut self, other: &Scripts) -> Self {
        self.neighbours = other.host.neighbours();
        self
    }

    /// A variable of the server's environment, instead of the one this process has. Which of them
    /// a script sees is another question.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Looks into the folder, and follows its changes from now on. Inside of a runtime of tokio.
    pub fn open(self) -> io::Result<Scripts> {
        let root = self.root.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let folder = self.root.display();
                let why = format!("there is no folder {folder}: `zcp new {folder}` makes one");
                io::Error::new(error.kind(), why)
            }
            _ => named(&self.root, &error),
        })?;
        if !root.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is no folder", root.display()),
            ));
        }
        let remote = Remote::of(&self.env)?;
        let set = registered::variables(&root, &self.env).unwrap_or_else(|why| {
            tracing::warn!("the project sets no variables: {why}");
            BTreeMap::new()
        });
        let mut env = self.env.clone();
        env.extend(set.clone());
        let bounds = Bounds::of(&env, mcp_bash::MAX_CONCURRENT);
        let command = self.command.as_deref();
        let host =
            Arc::new(Host::new(command, self.env, set, bounds, &self.temporary, self.neighbours)?);
        // Watched before it is looked at, so that nothing falls between.
        let folders = project::elsewhere(&root, host.environment.variables()).into_values();
        let watch = FileWatch::new(&root, folders);
        let first = offers::look(&root, &host);
        let project = first.project.clone();
        let (running, programs) = channel::channel(first.programs);
        if first.is_empty && first.mistakes.is_empty() {
            let hint = "put scripts into its `tools/`, or begin with `zcp new`";
            tracing::warn!("{} has nothing to offer yet: {hint}", root.display());
        }
        let own = project.policy.own_files();
        let (catalogs, catalog) = channel::channel(Arc::new(first.catalog));
        let guard = Guard::new(first.policy);
        let gate: Arc<dyn Gate> = Arc::new(guard.clone());
        let (behind, guarded) = channel::channel(Arc::new(catalog.borrow().behind(&gate)));
        let enforced = guard.clone();
        let (complaints, mistakes) = channel::channel(first.mistakes);
        let (tell, updated) = mpsc::channel(1024);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let changes = move |snapshot: offers::Snapshot, changed: Vec<String>| {
            enforced.set(snapshot.policy);
            behind.send_replace(Arc::new(snapshot.catalog.behind(&gate)));
            catalogs.send_replace(Arc::new(snapshot.catalog));
            running.send_replace(snapshot.programs);
            complaints.send_if_modified(|before| {
                let differs = *before != snapshot.mistakes;
                *before = snapshot.mistakes;
                differs
            });
            changed.into_iter().for_each(|uri| drop(tell.try_send(uri)));
        };
        let following = follow(tasks.clone(), watch, root, host.clone(), own, changes);
        tasks.spawn(stop.clone().run_until_cancelled_owned(following));
        tasks.spawn(stop.clone().run_until_cancelled_owned(run::orphans::reap()));
        let updated = Mutex::new(Some(updated));
        Ok(Scripts {
            catalog,
            updated,
            mistakes,
            project,
            programs,
            guarded,
            guard,
            host,
            remote,
            following: Following { stop: stop.clone(), tasks },
            _stop_when_dropped: stop.drop_guard(),
        })
    }
}

/// A folder whose policy is enforced by the server that offers it.
#[derive(Debug)]
struct Ungated(Scripts);

impl Provider for Ungated {
    fn catalog(&self) -> channel::Receiver<Arc<Catalog>> {
        self.0.catalog.clone()
    }

    fn updated(&self) -> BoxStream<'static, String> {
        self.0.updated()
    }
}

impl Provider for Scripts {
    fn catalog(&self) -> channel::Receiver<Arc<Catalog>> {
        self.guarded.clone()
    }

    fn updated(&self) -> BoxStream<'static, String> {
        let updated = lock(&self.updated).take();
        match updated {
            Some(mut updated) => {
                futures_util::stream::poll_fn(move |context| updated.poll_recv(context)).boxed()
            }
            None => futures_util::stream::pending().boxed(),
        }
    }
}

fn named(path: &Path, error: &dyn fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}
