//! The project: a folder of scripts, found and opened.

use crate::{errors::usage, home};
use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};
use zcp_scripts::{PROJECT_ROOT, Scripts};

/// What makes a folder a project, also for those who stand somewhere below it.
const MARKS: [&str; 2] = ["server.d", "zcp.toml"];
/// The same, for those who stand in it.
const TOOLS: &str = "tools";
/// Folders that make a folder one of scripts.
const FOLDERS: [&str; 8] =
    ["tools", "resources", "prompts", "completions", "skills", "ui", "server.d", "providers"];
/// How files end that are tools wherever they are.
const SCRIPTS: [&str; 16] = [
    "sh", "bash", "zsh", "fish", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "lua", "ps1",
    "go", "http",
];

/// The folder that a variable names; or the nearest project, here or further up; or none.
pub(crate) fn meant() -> Result<Option<PathBuf>, String> {
    match home::variable(PROJECT_ROOT).filter(|folder| !folder.is_empty()) {
        Some(folder) if Path::new(&folder).is_dir() => Ok(Some(folder.into())),
        Some(folder) => Err(format!("{PROJECT_ROOT} names {folder}, and there is no such folder")),
        None => Ok(env::current_dir().ok().and_then(|here| nearest(&here))),
    }
}

/// Opens a folder.
pub(crate) fn folder(path: &Path) -> Result<Scripts, Box<dyn Error>> {
    open(path, |folder| folder)
}

/// Opens a folder whose server keeps its store in another one.
pub(crate) fn with_store(path: &Path, store: &Path) -> Result<Scripts, Box<dyn Error>> {
    open(path, |folder| folder.private(store))
}

/// Opens a folder that is served beside another one.
pub(crate) fn beside(other: &Scripts, path: &Path) -> Result<Scripts, Box<dyn Error>> {
    open(path, |folder| folder.beside(other))
}

fn open(
    path: &Path,
    change: impl FnOnce(zcp_scripts::Folder) -> zcp_scripts::Folder,
) -> Result<Scripts, Box<dyn Error>> {
    if path.exists() && !path.is_dir() {
        let why = format!("{} is a file, and a folder of scripts is wanted", path.display());
        return Err(usage(why.into()));
    }
    let folder = change(Scripts::folder(path));
    let folder = env::current_exe().into_iter().fold(folder, |folder, own| folder.command(own));
    folder.open().map_err(|error| match path.exists() {
        true => error.into(),
        false => usage(error.into()),
    })
}

/// Whether a folder's own files are its tools: they would not be if it had a folder for them.
pub(crate) fn is_flat(folder: &Path) -> bool {
    if FOLDERS.iter().any(|name| folder.join(name).is_dir()) {
        return false;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        path.is_file() && SCRIPTS.contains(&ending)
    })
}

fn nearest(here: &Path) -> Option<PathBuf> {
    let is_marked = |folder: &Path| MARKS.iter().any(|mark| folder.join(mark).exists());
    let has_tools = here.join(TOOLS).is_dir();
    let found = here.ancestors().find(|folder| is_marked(folder));
    found.or_else(|| has_tools.then_some(here)).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_found_from_below_and_the_nearest_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        let below = root.join("resources/deep");
        fs::create_dir_all(&below).unwrap();
        assert_eq!(nearest(&below), None);
        // Tools alone make no project of the folders below them.
        fs::create_dir(root.join("tools")).unwrap();
        assert_eq!(nearest(&root), Some(root.clone()));
        assert_eq!(nearest(&below), None);
        for mark in ["server.d", "zcp.toml"] {
            fs::create_dir(root.join(mark)).unwrap();
            assert_eq!(nearest(&below), Some(root.clone()), "{mark}");
            fs::remove_dir(root.join(mark)).unwrap();
        }
    }
}
