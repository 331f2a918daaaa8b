//! `[mounts]` of `zcp.toml`, as a gateway to other servers.

use crate::project;
use std::{error::Error, path::PathBuf};
use zcp_gateway::{Builder, Gateway, Kind, LockFile, Mistake, Mount};
use zcp_scripts::{Mount as Said, Processes, Scripts};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// What is mounted beside a project.
pub(crate) struct Mounts {
    pub(crate) gateway: Gateway,
    /// Of other folders' scripts.
    pub(crate) processes: Vec<Processes>,
}

/// Mounts everything a project asks for. With `locked`, nothing is offered that is not in the lock
/// file. Nothing is connected to yet.
pub(crate) async fn open(scripts: &Scripts, locked: bool) -> Result<Mounts> {
    let mut processes = vec![];
    let mut gateway = Gateway::builder();
    // Folders first: they are the user's own.
    let (folders, servers): (Vec<_>, Vec<_>) =
        scripts.mounts().iter().partition(|(_, said)| said.folder.is_some());
    for (name, said) in folders.into_iter().chain(servers) {
        let wrong = |why: Box<dyn Error>| in_file(name, &*why);
        let mount = match check_way(said).map_err(wrong)? {
            Way::Folder(folder) => {
                let other =
                    project::beside(scripts, &scripts.root().join(folder)).map_err(wrong)?;
                for mistake in other.mistakes().borrow().iter() {
                    tracing::warn!("[mounts.{name}]: left out: {mistake}");
                }
                if !other.mounts().is_empty() {
                    tracing::warn!("[mounts.{name}]: what is mounted there is not mounted here");
                }
                processes.push(other.processes());
                Mount::provider(other).always_readable("output://")
            }
            Way::Server => server(said, scripts).await.map_err(wrong)?,
        };
        let is_server = said.folder.is_none();
        let mount =
            chosen(mount, said).map_err(wrong)?.locked(is_server && (said.locked || locked));
        gateway = gateway.mount(name, mount);
    }
    let gateway = gateway.lock_file(lock_file(scripts)).build().map_err(told)?;
    Ok(Mounts { gateway, processes })
}

/// What is wrong with what a project mounts, as far as that can be seen from here.
pub(crate) fn mistakes(scripts: &Scripts) -> Vec<String> {
    let wrong = |(name, said): (&String, &Said)| {
        let unreachable = || match (&said.folder, &said.command) {
            (Some(folder), _) if !scripts.root().join(folder).is_dir() => {
                Some(format!("there is no folder {}", folder.display()))
            }
            (_, Some(words)) => {
                let program = words.first().map(String::as_str).unwrap_or_default();
                let found = which::which_in(program, std::env::var_os("PATH"), scripts.root());
                found.err().map(|_| format!("`{program}` is not in PATH"))
            }
            _ => None,
        };
        let why = check(name, said).err().map(|why| why.to_string()).or_else(unreachable)?;
        Some(in_file(name, why))
    };
    scripts.mounts().iter().filter_map(wrong).collect()
}

/// What the servers a project mounts offer now, for a new lock file.
pub(crate) async fn listed(scripts: &Scripts) -> Result<LockFile> {
    let mut gateway = Builder::default();
    for (name, said) in scripts.mounts() {
        let wrong = |why: Box<dyn Error>| in_file(name, &*why);
        if let Way::Server = check_way(said).map_err(wrong)? {
            let mount = server(said, scripts).await.map_err(wrong)?;
            gateway = gateway.mount(name, chosen(mount, said).map_err(wrong)?);
        }
    }
    let gateway = gateway.build().map_err(told)?;
    Ok(gateway.describe().await.map_err(told)?.with_path(lock_file(scripts)))
}

/// A project's lock file.
pub(crate) fn lock_file(scripts: &Scripts) -> PathBuf {
    scripts.root().join("zcp.lock")
}

/// What is mounted.
enum Way<'a> {
    Folder(&'a PathBuf),
    Server,
}

/// Exactly one of a folder, a command and a URL.
fn check_way(said: &Said) -> Result<Way<'_>> {
    match (&said.folder, &said.command, &said.url) {
        (Some(folder), None, None) => Ok(Way::Folder(folder)),
        (None, Some(_), None) | (None, None, Some(_)) => Ok(Way::Server),
        _ => Err("say one of folder, command and url".into()),
    }
}

/// What can be known of a mount without its secrets, and without reaching it.
fn check(name: &str, said: &Said) -> Result<()> {
    let mount = match check_way(said)? {
        Way::Folder(_) => Mount::provider(zcp::Live::default()),
        Way::Server => way(said),
    };
    let gateway = Gateway::builder().mount(name, chosen(mount, said)?);
    match gateway.mistakes().into_iter().next() {
        Some(Mistake { why, .. }) => Err(why.into()),
        None => Ok(()),
    }
}

/// A server as `zcp.toml` describes it, with its secrets.
async fn server(said: &Said, scripts: &Scripts) -> Result<Mount> {
    let mut mount = way(said);
    if said.url.is_some() {
        for (name, value) in &said.headers {
            mount = mount.header(name, &scripts.revealed(value).await?);
        }
        return Ok(mount);
    }
    for (name, value) in &said.env {
        mount = mount.env(name, scripts.revealed(value).await?);
    }
    mount = said.pass_env.iter().fold(mount, Mount::pass_env);
    Ok(mount.folder(scripts.root().join(said.cwd.as_deref().unwrap_or(".".as_ref()))))
}

/// How a server is reached.
fn way(said: &Said) -> Mount {
    match &said.url {
        Some(url) => Mount::http(url),
        None => Mount::command(said.command.iter().flatten()),
    }
}

/// What of a mount is offered, and under which names.
fn chosen(mount: Mount, said: &Said) -> Result<Mount> {
    let mut mount = said.prefix.iter().fold(mount, Mount::prefix);
    for name in &said.unlocked {
        mount = mount.unlocked(Kind::of_plural(name).ok_or_else(|| {
            let all = "tools, prompts, resources, templates and instructions";
            format!("unlocked: unknown value `{name}`; use one of {all}")
        })?);
    }
    Ok(mount.tools(&said.tools).prompts(&said.prompts).resources(&said.resources))
}

fn in_file(name: &str, why: impl std::fmt::Display) -> String {
    format!("[mounts.{name}] of zcp.toml: {why}")
}

/// Names the section of `zcp.toml` that a gateway's error is about.
fn told(error: zcp_gateway::Error) -> String {
    match error {
        zcp_gateway::Error::Mounts(all) => {
            let all: Vec<_> = all.iter().map(|one| in_file(&one.mount, &one.why)).collect();
            all.join("\n")
        }
        error => error.to_string(),
    }
}
