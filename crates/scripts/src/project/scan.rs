//! Which files of a folder are programs, and what they are called.

use crate::{
    call_files::head,
    manifest::{
        interpreter::{Known, Start, System},
        is_sidecar,
    },
};
use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// Files that are looked at in one folder, at most.
const MOST: usize = 10_000;
/// Folders in folders that are looked into.
const DEEPEST: usize = 8;
/// Folders that hold nothing of a project's own.
const PASSED_OVER: [&str; 2] = ["node_modules", "__pycache__"];
/// The same, by a file that is in them: virtual environments, and what compilers and others keep.
const MARKED: [&str; 2] = ["pyvenv.cfg", "CACHEDIR.TAG"];
/// Folders of a tool that hold no tools.
const OF_A_TOOL: [&str; 2] = ["ui", "test"];

/// A file that can be started.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) start: Start,
    /// How it begins, if it is text.
    pub(crate) head: String,
    /// What it is called unless it says otherwise.
    pub(crate) name: String,
}

/// Where tools are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In a folder that is not meant for tools, which has them beside other things.
    Flat,
    /// In a folder of their own, as files or as folders.
    Tools,
    /// The same, in a project written for mcp-bash: each in its folder.
    McpBash,
}

/// All files below a folder, in an order that is always the same.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    below(folder, DEEPEST)
}

/// The same, no deeper than so many folders in folders.
fn below(folder: &Path, deepest: usize) -> Vec<PathBuf> {
    let mut all = vec![];
    walk(folder, deepest, &mut all);
    if all.len() >= MOST {
        tracing::warn!("{}: only the first {MOST} files are looked at", folder.display());
    }
    all
}

fn walk(folder: &Path, deeper: usize, all: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Hidden ones, and names that are no text, are nobody's business.
        if name.is_empty() || name.starts_with('.') || name.contains(['\n', '\r']) {
            continue;
        }
        let Ok(about) = path.metadata() else { continue };
        if about.is_dir() {
            let is_marked = || MARKED.iter().any(|mark| path.join(mark).is_file());
            if deeper > 0 && !PASSED_OVER.contains(&name) && !is_marked() {
                walk(&path, deeper - 1, all);
            }
        } else if about.is_file() && all.len() < MOST {
            all.push(path);
        }
    }
}

/// A file that can be started, if it is one. What cannot be read is logged.
pub(crate) fn program(path: &Path) -> Option<Found> {
    readable(path).inspect_err(|why| tracing::warn!("left out: {why}")).ok()?
}

/// The same, or why it cannot be read: it may say that it needs a sandbox.
fn readable(path: &Path) -> Result<Option<Found>, String> {
    let head = head(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let known = Known { path, executable: is_executable(path), head: &head };
    let Some(start) = known.start(System::HERE) else { return Ok(None) };
    let head = match head.contains(&0) {
        true => String::new(),
        false => String::from_utf8_lossy(&head).into_owned(),
    };
    Ok(Some(Found { name: name(path), path: path.to_path_buf(), start, head }))
}

/// The programs of a folder of tools, and which files cannot be read. Beside a `tool.sh` the other
/// files of its folder help it, unless something is said of them.
pub(crate) fn tools(folder: &Path, layout: Layout) -> (Vec<Found>, Vec<String>) {
    let mut files = match layout {
        Layout::Flat => below(folder, 0),
        Layout::Tools | Layout::McpBash => files(folder),
    };
    files.retain(|path| may_be_tool(path, folder, layout));
    let is_main = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tool");
    let mains: Vec<PathBuf> = files
        .iter()
        .filter(|path| is_main(path) && !is_sidecar(&path.to_string_lossy()))
        .filter_map(|path| path.parent().map(Path::to_path_buf))
        .collect();
    let own = files
        .iter()
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            !is_sidecar(name) && !name.starts_with('_') && name != "smoke.sh"
        })
        .filter(|path| {
            let helps = !is_main(path) && mains.iter().any(|main| path.starts_with(main));
            !helps || is_spoken_of(path)
        });
    let (mut found, mut wrong) = (vec![], vec![]);
    for path in own {
        match readable(path) {
            Ok(program) => found.extend(program),
            Err(why) => wrong.push(why),
        }
    }
    (found, wrong)
}

/// Whether a file is where tools are.
fn may_be_tool(path: &Path, folder: &Path, layout: Layout) -> bool {
    let inside = path.parent().and_then(|parent| parent.strip_prefix(folder).ok());
    let names: Vec<_> = inside.into_iter().flat_map(Path::components).collect();
    let is_of_a_tool = |name: &Component| OF_A_TOOL.iter().any(|own| name.as_os_str() == *own);
    match names.split_first() {
        None => layout != Layout::McpBash || is_spoken_of(path),
        Some((_, deeper)) if deeper.iter().any(is_of_a_tool) => false,
        // A tool may be called so, too.
        Some((first, _)) if is_of_a_tool(first) => {
            layout == Layout::McpBash || stem(path) == "tool" || is_spoken_of(path)
        }
        Some(_) => true,
    }
}

fn is_spoken_of(path: &Path) -> bool {
    crate::manifest::beside(path).is_ok_and(|beside| beside.is_some())
        || String::from_utf8_lossy(&head(path).unwrap_or_default())
            .lines()
            .take(10)
            .any(|line| line.contains("mcp:"))
}

/// A file's name without its ending.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What a tool is called: its file's name without its ending, or its folder's if it is just `tool`.
pub(crate) fn name(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let own = stem(path).unwrap_or_default();
    let name = match own.as_str() {
        "tool" => {
            path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned())
        }
        _ => None,
    };
    tidy(&name.unwrap_or(own))
}

/// Other characters than a tool's name may have become `_`.
pub(crate) fn tidy(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    name.chars().take(128).map(|c| if allowed(c) { c } else { '_' }).collect()
}

#[cfg(unix)]
pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file()
}
