//! `zcp serve`: a folder of scripts, the project here, or the demo, on the wires that were asked for.

use crate::{
    background::Background,
    cmd::{
        operate::{serve_limits::Limits, store::Kept},
        project::validate,
    },
    demo,
    findings::{self, Finding},
    mounts::{self, Mounts},
    print, project,
};
use std::{
    error::Error,
    io,
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zcp::{Http, KeyRing, Server, Stdio, shutdown_signal};
use zcp_scripts::{Processes, Scripts};

/// What to serve, and where: on HTTP at 127.0.0.1:8787 unless something is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp serve                     the project here, or a demo
  zcp serve ./my-tools          the scripts of a folder
  zcp serve ./my-tools --stdio  the same, for a client that starts it")]
pub(crate) struct Serve {
    /// A folder of scripts. Without one: what MCPBASH_PROJECT_ROOT names, else the nearest project,
    /// here or further up, else a demo.
    pub(crate) folder: Option<PathBuf>,

    /// Serve a client that started this process, on standard input and output.
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Serve on HTTP: /mcp, /ws and /sse.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,

    /// Serve HTTP on a Unix socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Offer nothing of mounted servers that is not in zcp.lock, also the first time.
    #[arg(long)]
    pub(crate) locked: bool,

    /// Write nothing into zcp.lock.
    #[arg(long, hide = true)]
    pub(crate) only_looks: bool,

    /// Log nothing of what is wrong with other tools than this one.
    #[arg(long, value_name = "TOOL", hide = true)]
    pub(crate) about: Option<String>,

    #[command(flatten)]
    pub(crate) kept: Kept,

    /// Also answer requests for this host. Repeat for more.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Also answer web pages of this origin. Repeat for more.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,

    #[command(flatten)]
    pub(crate) limits: Limits,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USUAL: ([u8; 4], u16) = ([127, 0, 0, 1], 8787);
/// How long a client on standard input waits for mounted servers that nothing is known of: many
/// such clients ask for lists once, and never again.
const NEW_MOUNTS: Duration = Duration::from_secs(5);

pub(crate) async fn run(serve: Serve, json: bool) -> Result<()> {
    run_with(serve, json, |_, _| ()).await
}

/// Serves, and lets somebody follow what happens in the folder meanwhile.
pub(crate) async fn run_with(
    mut serve: Serve,
    json: bool,
    follow: impl FnOnce(&Scripts, &Background),
) -> Result<()> {
    serve.fill_in()?;
    let background = Background::new();
    let (server, project) = match &serve.folder {
        Some(folder) => {
            let scripts = open(folder, &serve, &background)?;
            follow(&scripts, &background);
            if let Some(summary) = validate::summary(&scripts, folder).filter(|_| !serve.stdio) {
                tracing::warn!("{summary}");
            }
            let (server, project) = mounted(scripts, &serve).await?;
            (server, Some(project))
        }
        None => (demo::server(), None),
    };
    let server = stored(server, &serve).await?;
    let wires = Wires::open(&serve).await?;
    // With a client on standard output, only the client is spoken to.
    if !serve.stdio {
        let named = project.as_ref().map(|project| project.name.as_str());
        let named = named.zip(serve.folder.as_deref());
        let disabled = serve.limits.disabled();
        print::serving(named, wires.address(), serve.unix.as_deref(), &disabled, json)?;
    }
    let served = until_stopped(server, wires, json).await;
    if let Some(project) = project {
        project.end().await;
    }
    background.end().await;
    served
}

impl Serve {
    /// Decides what was not said.
    fn fill_in(&mut self) -> Result<()> {
        if !self.stdio && self.http.is_none() && self.unix.is_none() {
            self.http = Some(USUAL.into());
        }
        if self.folder.is_none() {
            self.folder = project::meant()?;
        }
        Ok(())
    }
}

/// What of a project has to end after its server.
struct Project {
    name: String,
    mounts: Mounts,
    own: Processes,
}

impl Project {
    /// Ends what was started, unless somebody does not want to wait for that.
    async fn end(self) {
        let end = async {
            self.mounts.gateway.close().await;
            for processes in self.mounts.processes {
                processes.end().await;
            }
            self.own.end().await;
        };
        tokio::select! {
            () = end => (),
            () = shutdown_signal() => (),
        }
    }
}

/// Opens a folder, and logs what is wrong with it now and later.
fn open(path: &Path, serve: &Serve, background: &Background) -> Result<Scripts> {
    let scripts = match serve.kept.data.as_deref() {
        Some(data) => project::with_store(path, data)?,
        None => project::folder(path)?,
    };
    let (mut mistakes, programs, about) =
        (scripts.mistakes(), scripts.programs(), serve.about.clone());
    background.spawn(async move {
        loop {
            let now = mistakes.borrow_and_update().clone();
            // Nobody who runs one tool asked about the others.
            let is_meant = |one: &Finding| match &about {
                Some(tool) => one.about == *tool || one.message.contains("zcp.toml"),
                None => true,
            };
            findings::told(&now, &programs.borrow())
                .iter()
                .filter(|one| is_meant(one))
                .for_each(|one| tracing::warn!("{}", one.line()));
            if mistakes.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(scripts)
}

/// A folder's server, with what it mounts.
async fn mounted(scripts: Scripts, serve: &Serve) -> Result<(Server, Project)> {
    let mounts = mounts::open(&scripts, serve.locked, serve.only_looks)
        .await
        .map_err(|wrong| wrong.join("\n"))?;
    let unseen = mounts.gateway.unseen();
    if serve.stdio && !unseen.is_empty() {
        let unseen = unseen.join(", ");
        print::aside(&format!("Waiting for mounted servers that are new: {unseen} …"));
        mounts.gateway.settle(NEW_MOUNTS).await;
    }
    let (name, own) = (scripts.name(), scripts.processes());
    let server = match scripts.mounts().is_empty() {
        true => scripts.server(),
        false => scripts.server().provide(mounts.gateway.clone()),
    };
    Ok((server, Project { name, mounts, own }))
}

/// The server with its sessions where they are to be kept.
async fn stored(server: Server, serve: &Serve) -> Result<Server> {
    let store = super::store::open(&serve.kept)?;
    let server = serve.limits.of_server(server, store.as_ref());
    let Some(store) = store else { return Ok(server) };
    let keys = KeyRing::kept_in(&*store).await?;
    Ok(server.shared_store(store).keys(keys))
}

/// The transports that were asked for.
struct Wires {
    stdio: Option<Stdio>,
    http: Option<(Http, SocketAddr)>,
    unix: Option<Http>,
}

impl Wires {
    async fn open(serve: &Serve) -> Result<Self> {
        let http = match serve.http {
            Some(address) => Some(bind(address, serve).await?),
            None => None,
        };
        if let Some(path) = serve.unix.as_deref().filter(|path| UnixStream::connect(path).is_ok()) {
            let hint = "stop what uses it, or choose another with --unix";
            return Err(format!("{} is in use: {hint}", path.display()).into());
        }
        let unix = serve.unix.as_ref().map(|path| guarded(Http::unix(path), serve));
        Ok(Self { stdio: serve.stdio.then_some(Stdio), http, unix })
    }

    fn address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }
}

/// Serves until a signal says to stop, and then what is under way.
async fn until_stopped(server: Server, wires: Wires, json: bool) -> Result<()> {
    let stop = CancellationToken::new();
    let wires = (wires.stdio, wires.http.map(|(http, _)| http), wires.unix);
    let serving = server.serve_until(wires, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return Ok(served?),
        () = shutdown_signal() => (),
    }
    print::stopping(json);
    stop.cancel();
    // A second Ctrl-C ends the process at once.
    tokio::select! {
        served = &mut serving => Ok(served?),
        () = shutdown_signal() => Ok(()),
    }
}

async fn bind(address: SocketAddr, serve: &Serve) -> Result<(Http, SocketAddr)> {
    let listener = TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address} is in use: stop what uses it, or choose another with --http")
        }
        _ => format!("{address}: {error}"),
    })?;
    let bound = listener.local_addr()?;
    Ok((guarded(Http::on(listener)?, serve), bound))
}

fn guarded(http: Http, serve: &Serve) -> Http {
    let http = serve.allow_host.iter().fold(http, |http, host| http.allow_host(host));
    let http = serve.allow_origin.iter().fold(http, |http, origin| http.allow_origin(origin));
    serve.limits.of_http(http)
}

/// An address, or a port of this machine.
pub(crate) fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let text = text.replacen("localhost", "127.0.0.1", 1);
    text.parse().map_err(|_| "say an address and a port, such as 127.0.0.1:8787".to_owned())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_port_is_one_of_this_machine() {
        for text in ["8799", ":8799", "localhost:8799", "127.0.0.1:8799"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:8799");
        }
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        assert!(address("everywhere").is_err());
    }
}
