//! What of a project scripts in a sandbox may not write: whatever is no data.
//!
//! Whoever may write a program, or what decides about programs, can leave the sandbox: what it wrote
//! runs outside of it later. So a sandbox must not name a path for writing that is, contains or lies
//! in something the server runs, reads its settings from, or keeps for itself.

use super::{FOLDERS, Project};
use crate::{
    host::{
        Environment, Host,
        reserved::{Place, Reserved},
        secrets,
    },
    manifest::{Manifest, provider_config::Provider},
    run::sandbox::spots,
};
use std::path::{Path, PathBuf};

/// Other folders of a project that hold programs and settings: what its scripts share, and what
/// their languages install. Files in the project's folder itself, and names that begin with a dot,
/// are never for data.
const OF_PROGRAMS: [&str; 4] = ["lib", "bin", "config", "node_modules"];
/// Folders of the system.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/nix", "/boot", "/proc", "/sys"];
/// What is at a place that is mounted.
const MOUNTED: &str = "a mounted server is there";
/// Variables that name folders of programs and of what they load.
const LOADED: [&str; 4] = ["PATH", "PYTHONPATH", "RUBYLIB", "NODE_PATH"];

/// What is reserved in a project and on its machine. `said` is what is said of its tools by
/// themselves.
pub(crate) fn reserved<'a>(
    project: &'a Project,
    host: &Host,
    said: impl Iterator<Item = &'a Manifest>,
) -> Reserved {
    let environment = &host.environment;
    let root = spots::resolved(&project.root);
    let tidy = |places: Vec<Place>| -> Vec<Place> {
        let places = places.into_iter().map(|(path, what)| (spots::resolved(&path), what));
        // In a project without folders its tools are files of its own folder.
        places.filter(|(path, _)| *path != root).collect()
    };
    let own = tidy(own(project, host, said));
    let mut places: Vec<Place> = SYSTEM.map(|path| (path.into(), "the system is there")).into();
    places.extend(loaded(environment).map(|path| (path, "programs are loaded from there")));
    let command = environment.command.iter().cloned();
    places.extend(command.map(|path| (path, "the `zcp` command is there")));
    // A mounted folder has data of its own.
    let folders = project.mounts.values().filter_map(|mount| mount.folder.as_ref());
    places.extend(folders.map(|path| (project.root.join(path), MOUNTED)));
    let places = tidy(places).into_iter().chain(own.iter().cloned()).collect();
    let home = environment.get("HOME").filter(|home| home.len() > 1);
    let home = home.map(|home| spots::resolved(Path::new(home)));
    let above = host.temporary().parent().unwrap_or(Path::new("/"));
    let programs = FOLDERS.iter().chain(&OF_PROGRAMS).copied().collect();
    let private = host.private().iter().map(|path| spots::resolved(path)).collect();
    Reserved { root, home, places, own, private, programs, temporary: spots::resolved(above) }
}

/// What a project itself runs, reads and keeps.
fn own<'a>(
    project: &'a Project,
    host: &Host,
    said: impl Iterator<Item = &'a Manifest>,
) -> Vec<Place> {
    let root = &project.root;
    let folders = FOLDERS.iter().map(|name| project.folder(name));
    let mut places: Vec<Place> =
        folders.map(|path| (path, "the server runs and reads what is there")).collect();
    let logs = project.policy.own_files().into_iter();
    places.extend(logs.map(|path| (path, "the audit log is there")));
    let said = said.chain(project.tools.values()).chain([&project.defaults]);
    let values = said.flat_map(|said| said.env.values());
    let mounts = project.mounts.values();
    let values = values.chain(mounts.flat_map(|one| one.env.values().chain(one.headers.values())));
    let providers = [&project.providers.https, &project.providers.git];
    let values = values.chain(providers.into_iter().flat_map(Provider::header_values));
    let secret = values.flat_map(|value| secrets::files(value, root));
    places.extend(secret.map(|path| (path, "a secret comes from there")));
    let trusted = providers.into_iter().filter_map(|provider| provider.ca.as_ref());
    places.extend(trusted.map(|path| (root.join(path), "certificates come from there")));
    for mount in project.mounts.values().filter(|mount| mount.command.is_some()) {
        let folder = root.join(mount.cwd.as_deref().unwrap_or(Path::new(".")));
        let words = mount.command.as_deref().unwrap_or_default();
        let files = secrets::paths(words, &folder, Path::is_file);
        // Programs run what they find where they are started; `/` would be everything.
        let cwd = mount.cwd.is_some().then_some(folder).filter(|path| path.parent().is_some());
        places.extend(files.into_iter().chain(cwd).map(|path| (path, MOUNTED)));
    }
    let private = host.private().into_iter();
    places.extend(private.map(|path| (path, "the server keeps sessions and keys there")));
    places.push((host.temporary().to_path_buf(), "the server's temporary files are there"));
    places
}

/// Folders that programs, and what they load, are looked for in.
fn loaded(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let values = LOADED.into_iter().filter_map(|name| environment.get(name));
    let folders = values.flat_map(|value| std::env::split_paths(value).collect::<Vec<_>>());
    folders.filter(|folder| folder.is_absolute())
}
