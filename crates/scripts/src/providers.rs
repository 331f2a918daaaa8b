//! Providers: what reads a URI that is no file of the project.

use crate::{
    host::Host,
    program::{Given, Program},
    project::Project,
    scan,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{CallError, Ctx, Result};

/// The providers there always are.
const BUILT_IN: [&str; 2] = ["file", "echo"];
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

/// Reads a URI by a provider: the project's own, or one there always is.
pub(crate) async fn read(
    name: &str,
    uri: &str,
    project: &Arc<Project>,
    host: &Arc<Host>,
    ctx: &Ctx,
) -> Result<Vec<u8>> {
    if let Some((_, path)) = own(project).into_iter().find(|(own, _)| own == name) {
        let program = Program::of(&path, None, project, host).map_err(CallError::new)?;
        return run(&program, uri, project, host, ctx).await;
    }
    match name {
        "file" => file(uri, project, host).await,
        "echo" => Ok(decoded(uri.strip_prefix("echo://").unwrap_or(uri)).into_bytes()),
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
    let roots = roots(project, host)
        .iter()
        .map(|root| root.to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = host
        .whole_env()
        .iter()
        .filter(|(name, _)| {
            name.starts_with("MCP_")
                || name.starts_with("MCPBASH_GIT_")
                || name.starts_with("MCPBASH_HTTPS_")
        })
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    for (name, value) in [
        ("MCPBASH_PROJECT_ROOT", project.root.clone()),
        ("MCPBASH_PROVIDERS_DIR", project.folder("providers")),
        ("MCPBASH_RESOURCES_DIR", project.folder("resources")),
        ("MCPBASH_PROMPTS_DIR", project.folder("prompts")),
        ("MCPBASH_JSON_TOOL_BIN", host.jq.clone()),
    ] {
        env.push((name.into(), value.into()));
    }
    env.push(("MCP_RESOURCES_ROOTS".into(), roots.join(":").into()));
    let given = Given { argv: vec![uri.into()], env, stdin: None };
    let gave = program.run(given, Some(ctx)).await?;
    let why = || match gave.complaints.lines().next() {
        Some(line) => line.to_owned(),
        None => program.failure(&gave),
    };
    match gave.code {
        Some(0) => Ok(gave.bytes),
        Some(3) => Err(CallError::NotFound(uri.to_owned())),
        Some(4) => Err(CallError::Invalid(why())),
        Some(2) => Err(CallError::new(format!("outside of what may be read: {}", why()))),
        Some(6) => Err(CallError::new(format!("too large: {}", why()))),
        _ => Err(CallError::new(program.failure(&gave))),
    }
}

/// The folders files are read from.
fn roots(project: &Project, host: &Host) -> Vec<PathBuf> {
    match host.env("MCP_RESOURCES_ROOTS").filter(|roots| !roots.is_empty()) {
        Some(roots) => std::env::split_paths(roots).map(|root| project.root.join(root)).collect(),
        None => vec![project.folder("resources")],
    }
}

/// A file below one of the folders files are read from.
async fn file(uri: &str, project: &Project, host: &Host) -> Result<Vec<u8>> {
    let path = decoded(uri.strip_prefix("file://").unwrap_or(uri));
    let path = project.root.join(Path::new(&path));
    let not_found = || CallError::NotFound(uri.to_owned());
    // Links are followed before it is looked where they lead. What is there outside is not told.
    let real = path.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
    let roots = roots(project, host);
    let mut roots = roots.iter().filter_map(|root| root.canonicalize().ok());
    if !roots.any(|root| real.starts_with(root)) {
        return Err(CallError::new("the file is outside of the folders that may be read"));
    }
    let path = path.canonicalize().map_err(|_| not_found())?;
    let about = tokio::fs::metadata(&path).await.map_err(|_| not_found())?;
    if !about.is_file() {
        return Err(not_found());
    }
    if about.len() > LARGEST {
        return Err(CallError::new(format!(
            "it has {} bytes, and may have {LARGEST}",
            about.len()
        )));
    }
    tokio::fs::read(path).await.map_err(|_| not_found())
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
