//! Which files of a project a pattern such as `docs/**/*.md` names.

use crate::manifest::is_sidecar;
use globset::{GlobBuilder, GlobSet};
use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// Files of one pattern, at most.
pub(crate) const MOST: usize = 1_000;
/// Files and folders that are looked at for one.
const SEEN: usize = 100_000;
/// Folders in folders that are looked into.
const DEEPEST: usize = 32;
/// A folder of other people's files.
const PASSED_OVER: &str = "node_modules";

/// The files a pattern names.
#[derive(Debug)]
pub(crate) struct Matched {
    /// The folder the pattern begins with, before anything in it is open.
    pub(crate) begins: PathBuf,
    pub(crate) files: Vec<PathBuf>,
    /// There are more.
    pub(crate) more: bool,
}

/// The files of a project that a pattern names, in an order that is always the same.
pub(crate) fn matched(root: &Path, pattern: &str) -> Result<Matched, String> {
    let inside = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if pattern.is_empty() || !Path::new(pattern).components().all(inside) {
        return Err(format!("`{pattern}` must stay inside of the project"));
    }
    let pattern = pattern.trim_start_matches("./");
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    // As a set it says what is wrong; alone it would panic.
    let glob = glob.and_then(|glob| GlobSet::builder().add(glob).build());
    let glob = glob.map_err(|error| format!("`{pattern}` is no pattern: {}", error.kind()))?;
    let fixed = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    let mut begins: PathBuf = fixed.collect();
    // A pattern without anything open is one file.
    if begins == Path::new(pattern) {
        begins.pop();
    }
    let mut walk = Walk { root: root.to_path_buf(), glob, files: vec![], seen: 0, more: false };
    walk.look(&root.join(&begins), 0);
    let Walk { files, more, .. } = walk;
    Ok(Matched { begins: root.join(begins), files, more })
}

/// Whether a path leads to a file inside of a folder, wherever its links go.
pub(crate) fn is_inside(path: &Path, root: &Path) -> bool {
    let real = path.canonicalize().ok().zip(root.canonicalize().ok());
    real.is_some_and(|(path, root)| path.starts_with(root) && path.is_file())
}

struct Walk {
    root: PathBuf,
    glob: GlobSet,
    files: Vec<PathBuf>,
    seen: usize,
    more: bool,
}

impl Walk {
    fn look(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            self.seen += 1;
            if self.more || self.seen > SEEN {
                self.more = true;
                return;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else { continue };
            if name.starts_with('.') || name.contains(['\n', '\r']) {
                continue;
            }
            // Links to folders are not followed: they could lead around in a circle.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth < DEEPEST && name != PASSED_OVER {
                    self.look(&path, depth + 1);
                }
                continue;
            }
            let relative = path.strip_prefix(&self.root).unwrap_or(&path);
            if !self.glob.is_match(relative) || is_sidecar(name) || !is_inside(&path, &self.root) {
                continue;
            }
            if self.files.len() >= MOST {
                self.more = true;
                return;
            }
            self.files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_files_inside_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["docs/a.md", "docs/deep/er/b.md", "docs/.c.md", "docs/d.txt", "e.md"] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let names = |pattern: &str| {
            let matched = matched(root, pattern).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
            matched.files.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names("docs/**/*.md"), ["docs/a.md", "docs/deep/er/b.md"]);
        assert_eq!(names("docs/*.md"), ["docs/a.md"]);
        assert_eq!(names("./docs/*.{md,txt}"), ["docs/a.md", "docs/d.txt"]);
        assert_eq!(names("e.md"), ["e.md"]);
        assert_eq!(matched(root, "docs/**/*.md").unwrap().begins, root.join("docs"));
        for wrong in ["../*.md", "/etc/*", "docs/../../*", "", "docs/[", "docs/{a"] {
            assert!(matched(root, wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_outside_are_left_out() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("secret.md"), "x").unwrap();
        fs::write(folder.path().join("own.md"), "x").unwrap();
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
        };
        link(&other.path().join("secret.md"), "out.md");
        link(other.path(), "out");
        link(&folder.path().join("own.md"), "in.md");
        let found = matched(folder.path(), "**/*.md").unwrap().files;
        assert_eq!(found, [folder.path().join("in.md"), folder.path().join("own.md")]);
    }
}
