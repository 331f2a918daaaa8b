//! One mounted server: how it is reached, and what of it is offered.

use crate::offers::Kind;
use futures_util::future::BoxFuture;
use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc};
use tokio::sync::watch;
use zcp::Provider;
use zcp_client::{
    Endpoint, Http, Process,
    transport::{Opened, Silence},
};

/// Maximum length of one message of a mounted server, in bytes.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Another server, or another provider, whose tools, prompts and resources are offered.
///
/// Names of tools and prompts begin with the mount's name and `_`, unless [`prefix`](Self::prefix)
/// says otherwise. Resources keep their URIs.
pub struct Mount {
    pub(crate) way: Way,
    pub(crate) prefix: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) prompts: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) always: Vec<String>,
    pub(crate) is_locked: bool,
    pub(crate) unlocked: Vec<Kind>,
    pub(crate) hidden: Option<Hidden>,
    pub(crate) mistakes: Vec<String>,
}

/// How what is mounted is reached.
pub(crate) enum Way {
    Process(Process),
    Http(Http),
    Endpoint(Arc<dyn Endpoint>),
    Provider(Box<dyn Provider>),
    /// There is a mistake.
    Nowhere,
}

/// When a mount is hidden, and why.
pub(crate) struct Hidden {
    pub(crate) flag: watch::Receiver<bool>,
    pub(crate) why: String,
}

impl Mount {
    /// A program that speaks MCP on standard input and output: its name or path, and its arguments.
    ///
    /// It does not see the environment of this process, except for variables without secrets such
    /// as `PATH`, `HOME` and the locale: see [`env`](Self::env) and [`pass_env`](Self::pass_env).
    pub fn command<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        let mut words = words.into_iter().map(Into::into);
        match words.next() {
            Some(program) => Self::process(Process::new(program).args(words)),
            None => Self::new(Way::Nowhere).mistake("its command is empty"),
        }
    }

    /// A program, with all that can be said of a [`Process`].
    pub fn process(process: Process) -> Self {
        Self::new(Way::Process(process.max_message(MAX_MESSAGE)))
    }

    /// A server over HTTP, by its URL.
    pub fn http(url: impl AsRef<str>) -> Self {
        match Http::new(url) {
            Ok(http) => Self::http_client(http),
            Err(error) => Self::new(Way::Nowhere).mistake(error.to_string()),
        }
    }

    /// A server over HTTP, with all that can be said of an [`Http`] client: OAuth, for example.
    pub fn http_client(http: Http) -> Self {
        Self::new(Way::Http(http.max_message(MAX_MESSAGE)))
    }

    /// A server that is reached in any other way. The endpoint is opened anew for each connection.
    pub fn endpoint(endpoint: impl Endpoint) -> Self {
        Self::new(Way::Endpoint(Arc::new(endpoint)))
    }

    /// What another provider offers. It is not locked: it is part of your own program.
    pub fn provider(provider: impl Provider) -> Self {
        Self::new(Way::Provider(Box::new(provider)))
    }

    fn new(way: Way) -> Self {
        Self {
            way,
            prefix: None,
            tools: vec![],
            prompts: vec![],
            resources: vec![],
            always: vec![],
            is_locked: false,
            unlocked: vec![],
            hidden: None,
            mistakes: vec![],
        }
    }

    fn mistake(mut self, why: impl Into<String>) -> Self {
        self.mistakes.push(why.into());
        self
    }

    fn with_process(mut self, what: &str, change: impl FnOnce(Process) -> Process) -> Self {
        match self.way {
            Way::Process(process) => self.way = Way::Process(change(process)),
            Way::Nowhere => (),
            _ => return self.mistake(format!("`{what}` is for commands")),
        }
        self
    }

    /// Sets an environment variable of a command.
    #[must_use]
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.with_process("env", |process| process.env(name, value))
    }

    /// Passes an environment variable of this process on to a command, if it is set. A name that
    /// ends with `*` passes all that begin so.
    #[must_use]
    pub fn pass_env(self, name: impl Into<OsString>) -> Self {
        self.with_process("pass_env", |process| process.pass_env(name))
    }

    /// The working directory of a command.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> Self {
        self.with_process("folder", |process| process.folder(folder))
    }

    /// Sets a header of every request to a server over HTTP.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let http = match self.way {
            Way::Http(http) => http,
            Way::Nowhere => return self,
            _ => return self.mistake("`header` is for servers over HTTP"),
        };
        match (name.parse(), value.parse()) {
            (Ok(name), Ok(value)) => {
                self.way = Way::Http(http.header(name, value));
                self
            }
            _ => {
                self.way = Way::Http(http);
                self.mistake(format!("`{name}` is not a header, or its value is not valid"))
            }
        }
    }

    /// What names of tools and prompts begin with. Default: the mount's name and `_`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Which tools are offered: patterns such as `get_*`. A `!` before a pattern excludes what it
    /// matches. Default: every tool.
    #[must_use]
    pub fn tools<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.tools.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Which prompts are offered, by patterns as in [`tools`](Self::tools). Default: every prompt.
    #[must_use]
    pub fn prompts<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.prompts.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Which resources and templates are offered, by patterns of their URIs as in
    /// [`tools`](Self::tools). Default: all of them.
    #[must_use]
    pub fn resources<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.resources.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Offers resources whose URIs begin with `start` whatever the patterns of
    /// [`resources`](Self::resources) say: tools may refer to them.
    #[must_use]
    pub fn always_readable(mut self, start: impl Into<String>) -> Self {
        self.always.push(start.into());
        self
    }

    /// Offers only what is in the lock file, also the first time. Default: `false`.
    #[must_use]
    pub fn locked(mut self, is_locked: bool) -> Self {
        self.is_locked = is_locked;
        self
    }

    /// Offers everything of one kind, whatever the lock file says of it: of a server whose
    /// resources come and go, say.
    #[must_use]
    pub fn unlocked(mut self, kind: Kind) -> Self {
        self.unlocked.push(kind);
        self
    }

    /// Offers nothing of the mount while `flag` is `true`, and logs `why` when that begins.
    #[must_use]
    pub fn hidden_while(mut self, flag: watch::Receiver<bool>, why: impl Into<String>) -> Self {
        self.hidden = Some(Hidden { flag, why: why.into() });
        self
    }
}

impl From<Process> for Mount {
    fn from(process: Process) -> Self {
        Self::process(process)
    }
}

impl From<Http> for Mount {
    fn from(http: Http) -> Self {
        Self::http_client(http)
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match &self.way {
            Way::Process(_) => "process",
            Way::Http(_) => "http",
            Way::Endpoint(_) => "endpoint",
            Way::Provider(_) => "provider",
            Way::Nowhere => "nowhere",
        };
        // Without what may be secret.
        f.debug_struct("Mount")
            .field("way", &way)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// An endpoint that several connections are opened with, one after the other.
pub(crate) struct Reused(pub(crate) Arc<dyn Endpoint>);

impl Endpoint for Reused {
    fn open(&self) -> BoxFuture<'_, zcp_client::Result<Opened>> {
        self.0.open()
    }

    fn silence(&self) -> Silence {
        self.0.silence()
    }

    fn name(&self) -> Option<String> {
        self.0.name()
    }

    fn principal(&self) -> u64 {
        self.0.principal()
    }

    fn older(&self) -> Option<Box<dyn Endpoint>> {
        self.0.older()
    }
}
