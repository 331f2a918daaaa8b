//! `[mounts]` of `zcp.toml`, as a gateway to other servers.

use crate::{findings, project};
use std::{collections::HashSet, error::Error, path::PathBuf};
use zcp_gateway::{Builder, Gateway, Kind, LockFile, Mount};
use zcp_scripts::{Mount as MountEntry, Processes, Scripts};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// What is mounted beside a project.
pub(crate) struct Mounts {
    pub(crate) gateway: Gateway,
    /// Of other folders' scripts.
    pub(crate) processes: Vec<Processes>,
}

/// Mounts everything a project asks for. With `locked`, nothing is offered that is not in the lock
/// file; with `only_looks`, nothing is written into it. Nothing is connected to yet.
///
/// # Errors
///
/// Fails with everything that is wrong with any of the mounts.
pub(crate) async fn open(
    scripts: &Scripts,
    locked: bool,
    only_looks: bool,
) -> Result<Mounts, Vec<String>> {
    open_with(scripts, locked, only_looks, Secrets::All).await
}

/// Finds what [`open`] would refuse. Nothing is connected to, and no program is run for a secret.
///
/// # Errors
///
/// Fails with everything that is wrong with any of the mounts.
pub(crate) async fn check(scripts: &Scripts) -> Result<(), Vec<String>> {
    let mounts = open_with(scripts, false, true, Secrets::WithoutPrograms).await?;
    mounts.gateway.close().await;
    for processes in mounts.processes {
        processes.end().await;
    }
    Ok(())
}

/// Which secrets of mounts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    All,
    /// Those of a command and of a keychain stay as they are written.
    WithoutPrograms,
}

impl Secrets {
    async fn reveal(self, scripts: &Scripts, value: &str) -> Result<String> {
        let runs = ["secret://cmd/", "secret://keychain/"].iter().any(|kind| value.contains(kind));
        match runs && self == Self::WithoutPrograms {
            true => Ok(value.to_owned()),
            false => Ok(scripts.revealed(value).await?),
        }
    }
}

async fn open_with(
    scripts: &Scripts,
    locked: bool,
    only_looks: bool,
    secrets: Secrets,
) -> Result<Mounts, Vec<String>> {
    let (mut wrong, mut processes) = (vec![], vec![]);
    let mut gateway = Gateway::builder();
    // Folders first: they are the user's own.
    let (folders, servers): (Vec<_>, Vec<_>) =
        scripts.mounts().iter().partition(|(_, said)| said.folder.is_some());
    for (name, said) in folders.into_iter().chain(servers) {
        let mount = match mount(name, said, scripts, &mut processes, secrets).await {
            Ok(mount) => Ok(mount),
            Err(why) => {
                wrong.push(in_file(name, why));
                // Its name, prefix and patterns are checked all the same.
                unopened(said)
            }
        };
        let is_locked = said.folder.is_none() && (said.locked || locked);
        match mount.and_then(|mount| chosen(mount, said)) {
            Ok(mount) => gateway = gateway.mount(name, mount.locked(is_locked)),
            Err(why) => wrong.push(in_file(name, why)),
        }
    }
    let path = lock_file(scripts);
    let built = gateway.lock_file(&path).only_looks(only_looks).build();
    if let Err(error) = &built {
        wrong.extend(told(error));
        // The lock file is read only if nothing else is wrong.
        let is_unread = matches!(error, zcp_gateway::Error::Mounts(_));
        wrong.extend(LockFile::read(&path).err().filter(|_| is_unread).iter().flat_map(told));
    }
    match built {
        Ok(gateway) if wrong.is_empty() => Ok(Mounts { gateway, processes }),
        _ => {
            for processes in processes {
                processes.end().await;
            }
            // A mount that is wrong in itself is refused for the same reason twice.
            let mut known = HashSet::new();
            wrong.retain(|why| known.insert(why.clone()));
            Err(wrong)
        }
    }
}

/// One mount, opened. The processes of a folder's scripts are added to the others.
async fn mount(
    name: &str,
    said: &MountEntry,
    scripts: &Scripts,
    processes: &mut Vec<Processes>,
    secrets: Secrets,
) -> Result<Mount> {
    let Way::Folder(folder) = check_way(said)? else {
        return server(said, scripts, secrets).await;
    };
    let other = project::beside(scripts, &scripts.root().join(folder))?;
    for line in findings::lines(&other) {
        tracing::warn!("[mounts.{name}]: {line}");
    }
    if !other.mounts().is_empty() {
        tracing::warn!("[mounts.{name}]: what is mounted there is not mounted here");
    }
    processes.push(other.processes());
    Ok(Mount::provider(other).always_readable("output://"))
}

/// A mount as far as it is known without its secrets, and without reaching it.
fn unopened(said: &MountEntry) -> Result<Mount> {
    Ok(match check_way(said)? {
        Way::Folder(_) => Mount::provider(zcp::Live::default()),
        Way::Server => way(said),
    })
}

/// Mounts whose programs are not installed here. `zcp serve` goes on without them.
pub(crate) fn not_installed(scripts: &Scripts) -> Vec<String> {
    let missing = |(name, said): (&String, &MountEntry)| {
        let program = said.command.as_ref()?.first()?;
        let found = which::which_in(program, std::env::var_os("PATH"), scripts.root());
        found.err().map(|_| in_file(name, format!("`{program}` is not in PATH")))
    };
    scripts.mounts().iter().filter_map(missing).collect()
}

/// What the servers a project mounts offer now, for a new lock file.
pub(crate) async fn listed(scripts: &Scripts) -> Result<LockFile> {
    let mut gateway = Builder::default();
    for (name, said) in scripts.mounts() {
        let wrong = |why: Box<dyn Error>| in_file(name, &*why);
        if let Way::Server = check_way(said).map_err(wrong)? {
            let mount = server(said, scripts, Secrets::All).await.map_err(wrong)?;
            gateway = gateway.mount(name, chosen(mount, said).map_err(wrong)?);
        }
    }
    let told = |error| told(&error).join("\n");
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
fn check_way(said: &MountEntry) -> Result<Way<'_>> {
    match (&said.folder, &said.command, &said.url) {
        (Some(folder), None, None) => Ok(Way::Folder(folder)),
        (None, Some(_), None) | (None, None, Some(_)) => Ok(Way::Server),
        _ => Err("say one of folder, command and url".into()),
    }
}

/// A server as `zcp.toml` describes it, with its secrets.
async fn server(said: &MountEntry, scripts: &Scripts, secrets: Secrets) -> Result<Mount> {
    let mut mount = way(said);
    if said.url.is_some() {
        for (name, value) in &said.headers {
            mount = mount.header(name, &secrets.reveal(scripts, value).await?);
        }
        return Ok(mount);
    }
    for (name, value) in &said.env {
        mount = mount.env(name, secrets.reveal(scripts, value).await?);
    }
    mount = said.pass_env.iter().fold(mount, Mount::pass_env);
    Ok(mount.folder(scripts.root().join(said.cwd.as_deref().unwrap_or(".".as_ref()))))
}

/// How a server is reached.
fn way(said: &MountEntry) -> Mount {
    match &said.url {
        Some(url) => Mount::http(url),
        None => Mount::command(said.command.iter().flatten()),
    }
}

/// What of a mount is offered, and under which names.
fn chosen(mount: Mount, said: &MountEntry) -> Result<Mount> {
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

/// What a gateway's error says, with the sections of `zcp.toml` that it is about.
fn told(error: &zcp_gateway::Error) -> Vec<String> {
    match error {
        zcp_gateway::Error::Mounts(all) => {
            all.iter().map(|one| in_file(&one.mount, &one.why)).collect()
        }
        error => vec![error.to_string()],
    }
}
