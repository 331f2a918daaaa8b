//! `zcp serve`: a folder of scripts, the project here, or the demo, on the wires that were asked for.

use crate::{
    args::{Serve, usage},
    demo, mounts, print, root,
};
use std::{error::Error, io, net::SocketAddr, os::unix::net::UnixStream, path::Path};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp::{Http, KeyRing, Server, Stdio};
use zcp_scripts::Scripts;

const USUAL: ([u8; 4], u16) = ([127, 0, 0, 1], 8787);

pub(crate) async fn run(serve: Serve, json: bool) -> Result<(), Box<dyn Error>> {
    shown(serve, json, |_| ()).await
}

/// Serves, and lets somebody have a look at the folder before.
pub(crate) async fn shown(
    mut serve: Serve,
    json: bool,
    look: impl FnOnce(&Scripts),
) -> Result<(), Box<dyn Error>> {
    if !serve.stdio && serve.http.is_none() && serve.unix.is_none() {
        serve.http = Some(USUAL.into());
    }
    if serve.folder.is_none() {
        serve.folder = root::meant()?;
    }
    let (server, scripts) = match &serve.folder {
        Some(folder) => {
            let scripts = open(folder)?;
            look(&scripts);
            let mounts = mounts::open(&scripts, serve.locked).await?;
            let (name, mut processes) = (scripts.name(), mounts.processes);
            processes.push(scripts.processes());
            let server = mounts.providers.into_iter().fold(scripts.server(), Server::provide);
            (server, Some((name, processes)))
        }
        None => (demo::server(), None),
    };
    let server = match super::store::open(&serve.kept)? {
        Some(store) => {
            let keys = KeyRing::kept_in(&*store).await?;
            server.shared_store(store).keys(keys)
        }
        None => server,
    };
    let http = match serve.http {
        Some(address) => Some(bind(address, &serve).await?),
        None => None,
    };
    if let Some(path) = serve.unix.as_deref().filter(|path| UnixStream::connect(path).is_ok()) {
        let hint = "stop what uses it, or choose another with --unix";
        return Err(format!("{} is in use: {hint}", path.display()).into());
    }
    let unix = serve.unix.as_ref().map(|path| guarded(Http::unix(path), &serve));
    let address = http.as_ref().map(|(_, address)| *address);
    // With a client on standard output, only the client is spoken to.
    if !serve.stdio {
        let named = scripts.as_ref().map(|(name, _)| name.as_str()).zip(serve.folder.as_deref());
        print::serving(named, address, serve.unix.as_deref(), json)?;
    }
    let stop = CancellationToken::new();
    let wires = (serve.stdio.then_some(Stdio), http.map(|(http, _)| http), unix);
    let serving = server.serve_until(wires, stop.clone());
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        stopped = told_to_stop() => {
            stopped?;
            print::stopping(json);
            stop.cancel();
            // Whoever says so twice does not want to wait.
            tokio::select! {
                served = &mut serving => served,
                again = told_to_stop() => again.map(|()| Ok(()))?,
            }
        }
    };
    if let Some((_, processes)) = scripts {
        for processes in processes {
            processes.end().await;
        }
    }
    Ok(served?)
}

/// Opens a folder.
pub(crate) fn folder(path: &Path) -> Result<Scripts, Box<dyn Error>> {
    if path.exists() && !path.is_dir() {
        let why = format!("{} is a file, and a folder of scripts is wanted", path.display());
        return Err(usage(why.into()));
    }
    let folder = Scripts::folder(path);
    let folder =
        std::env::current_exe().into_iter().fold(folder, |folder, own| folder.command(own));
    folder.open().map_err(|error| match path.exists() {
        true => error.into(),
        false => usage(error.into()),
    })
}

/// Opens a folder, and says what is wrong with it now and later.
fn open(path: &Path) -> Result<Scripts, Box<dyn Error>> {
    let scripts = folder(path)?;
    let mut mistakes = scripts.mistakes();
    TaskTracker::new().spawn(async move {
        loop {
            mistakes
                .borrow_and_update()
                .iter()
                .for_each(|mistake| tracing::warn!("left out: {mistake}"));
            if mistakes.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(scripts)
}

async fn bind(address: SocketAddr, serve: &Serve) -> Result<(Http, SocketAddr), Box<dyn Error>> {
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
    match serve.max_connections_per_address {
        Some(limit) => http.max_connections_per_address(limit),
        None => http,
    }
}

async fn told_to_stop() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminated.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
