//! Providers: what reads a URI that is no file of the project.

mod git;
mod https;
mod provider_rules;
mod reach;

use crate::{
    call::program::{Given, Program},
    call_files,
    compat::mcp_bash::provider_settings::{self, ProviderFolders},
    host::Host,
    project::{Project, scan},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{CallError, Ctx, Result};

use provider_rules::Settings;

/// The providers there always are.
const BUILT_IN: [&str; 4] = ["file", "echo", "https", "git"];
/// The largest file that is read.
const LARGEST: u64 = 10 * 1024 * 1024;

/// The providers of a project's own, by their names.
pub(crate) fn own(project: &Project) -> Vec<(String, PathBuf)> {
    let files = scan::files(&project.folder("providers"));
    let program = |path: PathBuf| Some((scan::name(&path), scan::program(&path)?.path));
    files.into_iter().filter_map(program).collect()
}

/// Whether something reads URIs of a scheme.
pub(crate) fn is_known(project: &Project, name: &str) -> bool {
    BUILT_IN.contains(&name) || own(project).iter().any(|(own, _)| own == name)
}

/// What a provider read.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    /// What it is, if the provider knows.
    pub(crate) mime: Option<String>,
}

impl From<Vec<u8>> for Got {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, mime: None }
    }
}

/// Providers that read whatever they are asked for, in a list or not: the project's own, and those
/// that somebody has said where they may go.
pub(crate) fn at_large(project: &Project, host: &Host) -> Vec<String> {
    let mut names: Vec<String> = own(project).into_iter().map(|(name, _)| name).collect();
    let (https, git) =
        (Settings::https(project, &host.environment), Settings::git(project, &host.environment));
    for (name, may) in [
        ("file", project.folder("resources").is_dir()),
        ("https", https.is_enabled && https.hosts.any()),
        ("git", git.is_enabled && git.hosts.any()),
    ] {
        if may && !names.iter().any(|own| own == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Reads a URI by a provider: the project's own, or one there always is.
pub(crate) async fn read(
    name: &str,
    uri: &str,
    project: &Arc<Project>,
    host: &Arc<Host>,
    ctx: &Ctx,
) -> Result<Got> {
    if let Some((_, path)) = own(project).into_iter().find(|(own, _)| own == name) {
        let program = Program::of(&path, None, project, host).map_err(CallError::new)?;
        return run(&program, uri, project, host, ctx).await.map(Got::from);
    }
    match name {
        "file" => file(uri, project, host).await.map(Got::from),
        "echo" => Ok(decoded(uri.strip_prefix("echo://").unwrap_or(uri)).into_bytes().into()),
        "https" => https::read(uri, project, host).await,
        "git" => git::read(uri, project, host, ctx).await,
        _ => Err(CallError::new(format!(
            "nothing reads `{name}:` here: put a program `providers/{name}.sh` into the project"
        ))),
    }
}

/// Runs a provider; its exit code says what went wrong.
async fn run(
    program: &Program,
    uri: &str,
    project: &Project,
    host: &Host,
    ctx: &Ctx,
) -> Result<Vec<u8>> {
    let folders = ProviderFolders {
        root: &project.root,
        providers: project.folder("providers"),
        resources: project.folder("resources"),
        prompts: project.folder("prompts"),
        roots: roots(project, host),
    };
    let env = provider_settings::variables(&folders, host);
    let given = Given { argv: vec![uri.into()], env, stdin: None };
    let gave = program.run(given, Some(ctx)).await?;
    let why = || match gave.complaints.lines().next() {
        Some(line) => line.to_owned(),
        None => program.failure(&gave),
    };
    match gave.code {
        Some(0) if gave.bytes.len() as u64 > largest(host) => {
            let (bytes, largest) = (gave.bytes.len(), largest(host));
            Err(CallError::new(format!("it has {bytes} bytes, and may have {largest}")))
        }
        Some(0) => Ok(gave.bytes),
        Some(3) => Err(CallError::NotFound(uri.to_owned())),
        Some(4) => Err(CallError::Invalid(why())),
        Some(2) => Err(CallError::new(format!("outside of what may be read: {}", why()))),
        Some(6) => Err(CallError::new(format!("too large: {}", why()))),
        _ => Err(CallError::new(program.failure(&gave))),
    }
}

/// The largest content that is read.
pub(crate) fn largest(host: &Host) -> u64 {
    provider_settings::largest(&host.environment).unwrap_or(LARGEST)
}

/// The folders files are read from.
pub(crate) fn roots(project: &Project, host: &Host) -> Vec<PathBuf> {
    match provider_settings::roots(&host.environment) {
        Some(roots) => std::env::split_paths(roots).map(|root| project.root.join(root)).collect(),
        None => vec![project.folder("resources")],
    }
}

/// A file below one of the folders files are read from.
async fn file(uri: &str, project: &Project, host: &Host) -> Result<Vec<u8>> {
    let path = decoded(uri.strip_prefix("file://").unwrap_or(uri));
    let path = project.root.join(Path::new(&path));
    // Links are followed before it is looked where they lead. What is there outside is not told.
    let real = path.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
    let roots = roots(project, host);
    if !roots.iter().filter_map(|root| root.canonicalize().ok()).any(|root| real.starts_with(root))
    {
        return Err(CallError::new("the file is outside of the folders that may be read"));
    }
    read_file(path, uri, roots, host).await
}

/// A regular file in one of some folders, which is called `name` where it is not found.
pub(crate) async fn read_file(
    path: PathBuf,
    name: &str,
    folders: Vec<PathBuf>,
    host: &Host,
) -> Result<Vec<u8>> {
    let largest = largest(host);
    let read = move || call_files::read_inside(&path, largest, &folders);
    let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other);
    read.flatten().map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => CallError::new(error.to_string()),
        _ => CallError::not_found(name),
    })
}

/// `%20` and the like as what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
