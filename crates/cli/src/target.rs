//! Which server is meant, and a client that has reached it.

use crate::{
    client_config::{
        client_servers::{self, Configured},
        consent,
    },
    errors::usage,
    home, nearest, print, project,
    questions::{Answers, Asker, Misfit},
};
use http::{HeaderName, HeaderValue, header::AUTHORIZATION};
use std::{error::Error, io::IsTerminal, path::Path, time::Duration};
use zcp_client::wire::Revision;
use zcp_client::{Builder, Client, Endpoint, Http, OAuth, Process, Result as Reached, Ws};

/// How many names of a kind a hint has.
const MOST_NAMED: usize = 12;

/// Which server, and how to reach it.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// A URL, a folder of scripts, a command line in quotes, unix:PATH, or a name from a client's
    /// configuration file.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// A header of every request, such as "Authorization: Bearer …". Repeat for more.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// A variable of the command's environment. Repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Use this protocol revision and skip detection.
    #[arg(long, value_name = "DATE")]
    pub(crate) revision: Option<String>,

    /// Give up after this many seconds without a message from the server.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,

    /// Use a server of a project's configuration file without asking.
    #[arg(long)]
    pub(crate) agree: bool,

    /// Answer the server's next question with this: the form's values as a JSON object, or accept,
    /// decline or cancel. Repeat for more questions.
    #[arg(long, value_name = "JSON")]
    pub(crate) answer: Vec<String>,

    #[arg(skip)]
    misfit: Misfit,
}

impl Target {
    /// The server of a folder of scripts.
    pub(crate) fn folder(folder: &Path, env: &[String], timeout: u64) -> Self {
        Self {
            answer: vec![],
            misfit: Misfit::default(),
            server: as_folder(folder),
            header: vec![],
            env: env.to_vec(),
            revision: None,
            timeout,
            agree: false,
        }
    }

    /// What people call the server: the name of its folder, or what was typed.
    fn name(&self) -> String {
        let folder = Path::new(&self.server).canonicalize().ok().filter(|path| path.is_dir());
        let name = folder.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        name.unwrap_or_else(|| self.server.clone())
    }

    /// Whether all answers that were given in advance fitted their questions. What came of a call
    /// otherwise came of a question that was cancelled.
    pub(crate) fn check_answers(&self) -> Result<()> {
        self.misfit.take().map_or(Ok(()), |why| Err(usage(why.into())))
    }

    /// Whether the server is a process of ours, which ends with this command.
    pub(crate) fn is_started_here(&self) -> bool {
        !self.server.contains("://") && !self.server.starts_with("unix:")
    }
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A way to a server.
pub(crate) enum Way {
    Http(Http, String),
    Unix(Http),
    Ws(Ws),
    Process(Process),
}

impl Way {
    /// Whether a login would be used: the server has a URL, and no header says who calls.
    fn wants_login(&self) -> bool {
        match self {
            Self::Http(http, _) => !http.has_header(&AUTHORIZATION),
            Self::Ws(ws) => !ws.has_header(&AUTHORIZATION),
            Self::Unix(_) | Self::Process(_) => false,
        }
    }

    /// The same way with tokens, where a server can want them.
    pub(crate) fn oauth(self, oauth: OAuth) -> Self {
        match self {
            Self::Http(http, url) => Self::Http(http.oauth(oauth), url),
            Self::Ws(ws) => Self::Ws(ws.oauth(oauth)),
            way => way,
        }
    }
}

/// Reaches the server that is meant.
pub(crate) async fn reach(target: &Target, json: bool) -> Result<Client> {
    let way = match (way(target).map_err(usage)?, home::vault()) {
        (way, Some(vault)) if way.wants_login() => {
            let hint = format!("log in with `zcp login {}`", target.server);
            way.oauth(OAuth::logged_in(vault, hint))
        }
        (way, _) => way,
    };
    Ok(connect(client(target, json).map_err(usage)?, way).await?)
}

pub(crate) async fn connect(client: Builder, way: Way) -> Reached<Client> {
    async fn by(client: Builder, endpoint: impl Endpoint) -> Reached<Client> {
        client.connect(endpoint).await
    }
    match way {
        Way::Http(http, _) | Way::Unix(http) => by(client, http).await,
        Way::Ws(ws) => by(client, ws).await,
        Way::Process(process) => by(client, process).await,
    }
}

/// How the server that is meant is reached.
pub(crate) fn way(target: &Target) -> Result<Way> {
    let server = target.server.as_str();
    Ok(match server.split_once(':') {
        Some(("http" | "https", _)) => {
            Way::Http(headed(Http::new(server)?, target)?, server.into())
        }
        Some(("ws" | "wss", _)) => Way::Ws(socket(server, target)?),
        Some(("unix", path)) => Way::Unix(headed(Http::unix(path)?, target)?),
        _ if Path::new(server).is_dir() => {
            if client_servers::has_other(server, Path::new(server)) {
                let other = "a client's configuration has a server of that name, which is another";
                print::aside(&format!("./{server} is used; {other}: `zcp list` shows it"));
            }
            Way::Process(with_env(folder(server)?, target)?)
        }
        _ => match client_servers::find(server)? {
            Some(found) => {
                consent::ask(server, &found, target.agree)?;
                let found = found.filled().map_err(|error| format!("`{server}`: {error}"))?;
                configured(server, found, target)?
            }
            None if server.starts_with(['.', '/']) && is_missing(server) => {
                let hint = "a server is a URL, a folder, a command in quotes, or a name from a \
                            client's configuration";
                return Err(format!("{server} is not there: {hint}").into());
            }
            None if is_unknown(server) => return Err(unknown(server).into()),
            None => Way::Process(process(server, target)?),
        },
    })
}

/// Whether one word is no program, either.
fn is_unknown(server: &str) -> bool {
    !server.contains(char::is_whitespace) && which::which(server).is_err()
}

/// What was probably meant by a word that names no server.
fn unknown(server: &str) -> String {
    let here = std::fs::read_dir(".").into_iter().flatten().flatten();
    let is_one = |path: &Path| path.join("tools").is_dir() || project::is_flat(path);
    let folders = here.filter(|entry| entry.path().is_dir() && is_one(&entry.path()));
    let folders = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut folders: Vec<String> = folders.filter(|name| !name.starts_with('.')).collect();
    folders.sort();
    let mut servers: Vec<String> = client_servers::all().into_iter().map(|one| one.name).collect();
    servers.sort();
    servers.dedup();
    let known = folders.iter().chain(&servers).map(String::as_str);
    let hint = match nearest::near(server, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            folders.truncate(MOST_NAMED);
            servers.truncate(MOST_NAMED);
            let all = [("folders of scripts here", folders), ("servers of clients", servers)];
            let some = all.iter().filter(|(_, names)| !names.is_empty());
            let some = some.map(|(what, names)| format!("{what}: {}", names.join(", ")));
            match some.collect::<Vec<_>>().join("; ") {
                none if none.is_empty() => "there is none here".to_owned(),
                some => some,
            }
        }
    };
    format!(
        "`{server}` is no folder, no program in PATH, and no server in a client's configuration: \
         {hint}"
    )
}

/// A path that is taken for a folder wherever a server is wanted, whatever servers are called.
pub(crate) fn as_folder(path: &Path) -> String {
    let text = path.to_string_lossy();
    match path.is_absolute() || text.starts_with('.') {
        true => text.into_owned(),
        false => format!("./{text}"),
    }
}

/// Whether what looks like a path leads nowhere.
fn is_missing(line: &str) -> bool {
    let first = shell_words::split(line).ok().and_then(|words| words.into_iter().next());
    first.is_some_and(|path| !Path::new(&path).exists())
}

/// The server of a folder of scripts. It decides itself what scripts see of the environment.
pub(crate) fn folder(path: &str) -> Result<Process> {
    let process =
        Process::new(std::env::current_exe()?).args(["serve", path, "--stdio", "--only-looks"]);
    Ok(process.inherit_env())
}

/// The same, with what its scripts write to standard error in their results, and with its log as
/// plain lines, which say nothing of what is wrong with other tools.
pub(crate) fn watched(target: &Target, tool: &str) -> Result<Way> {
    let process = folder(&target.server)?.env("ZCP_REPORT_STDERR", "1");
    Ok(Way::Process(with_env(process.args(["--log-format", "plain", "--about", tool]), target)?))
}

fn configured(name: &str, found: Configured, target: &Target) -> Result<Way> {
    let Configured { url, headers, command, args, env, cwd, .. } = found;
    if let Some(url) = url {
        let http = headers.iter().try_fold(Http::new(&url)?, |http, (name, value)| {
            Ok::<_, Box<dyn Error>>(http.header(name.parse()?, value.parse()?))
        })?;
        return Ok(Way::Http(headed(http, target)?, url));
    }
    let command = command.ok_or_else(|| format!("`{name}` has neither a URL nor a command"))?;
    let process = Process::new(command).args(args);
    let process = cwd.into_iter().fold(process, Process::folder);
    let process = env.into_iter().fold(process, |it, (name, value)| it.env(name, value));
    Ok(Way::Process(with_env(process, target)?))
}

pub(crate) fn client(target: &Target, json: bool) -> Result<Builder> {
    let asker = Asker::new(target.name(), Answers::read(&target.answer)?, target.misfit.clone());
    let mut client = Client::builder("zcp", env!("CARGO_PKG_VERSION"))
        .timeout(Duration::from_secs(target.timeout))
        .eras(home::eras())
        .elicit(move |question| asker.clone().ask(question))
        .visits()
        .tasks();
    if !json && std::io::stderr().is_terminal() {
        client = client.on_progress(|progress| print::progress(&progress));
    }
    if let Some(date) = &target.revision {
        let known = Revision::ALL.map(Revision::as_str).join(", ");
        let revision = Revision::parse(date)
            .ok_or_else(|| format!("`{date}` is no revision; there are {known}"))?;
        client = client.revision(revision);
    }
    Ok(client)
}

fn headed(http: Http, target: &Target) -> Result<Http> {
    headers(target)?.into_iter().try_fold(http, |http, (name, value)| Ok(http.header(name, value)))
}

fn socket(url: &str, target: &Target) -> Result<Ws> {
    Ok(headers(target)?.into_iter().fold(Ws::new(url), |ws, (name, value)| ws.header(name, value)))
}

fn headers(target: &Target) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is no header: write \"Name: value\""))?;
        Ok((name.trim().parse()?, value.trim().parse()?))
    };
    target.header.iter().map(pair).collect()
}

fn process(line: &str, target: &Target) -> Result<Process> {
    let words = shell_words::split(line)
        .map_err(|error| format!("`{line}` is no command line: {error}"))?;
    let (program, args) = words.split_first().ok_or("which server? the command line is empty")?;
    // Typed in a shell, so it sees what any command typed there does.
    with_env(Process::new(program).args(args).inherit_env(), target)
}

fn with_env(process: Process, target: &Target) -> Result<Process> {
    target.env.iter().try_fold(process, |process, text| {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        Ok(process.env(name, value))
    })
}
