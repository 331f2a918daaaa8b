//! Paths that a sandbox names, so that no script in a sandbox can lead them elsewhere.
//!
//! A script that may write a folder could put a link there in place of a path that the sandbox of
//! another one names. Below a folder that some sandbox may write no link is followed.

use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    path::{Component, Path, PathBuf},
};

/// Links that are followed on one path.
const MOST_LINKS: usize = 40;

/// A path of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spot {
    /// The part that no sandbox can change.
    base: PathBuf,
    /// The base has no links any more, so none is followed.
    is_resolved: bool,
    /// The part below it, where no links are followed.
    rest: PathBuf,
}

impl Spot {
    /// A path that is followed wherever it leads.
    pub(crate) fn fixed(path: PathBuf) -> Self {
        Self { base: path, is_resolved: false, rest: PathBuf::new() }
    }

    /// A path, where scripts in a sandbox may write some folders. Links are followed one by one, and
    /// none that is in such a folder. `writable` are [resolved](resolved) paths.
    pub(crate) fn among(path: &Path, writable: &[PathBuf]) -> Self {
        let mut base = PathBuf::from("/");
        let mut left: VecDeque<PathBuf> = parts(&plain(path)).collect();
        let mut links = 0;
        while let Some(part) = left.front() {
            if part == Path::new("..") {
                // The base has no links, so its words say what is above it.
                base.pop();
                left.pop_front();
                continue;
            }
            let next = base.join(part);
            let is_writable = writable.iter().any(|folder| base.starts_with(folder));
            let about = next.symlink_metadata();
            if is_writable || about.is_err() || links > MOST_LINKS {
                break;
            }
            left.pop_front();
            match about.is_ok_and(|about| about.is_symlink()) {
                false => base = next,
                true => {
                    links += 1;
                    let Ok(target) = next.read_link() else { break };
                    if target.is_absolute() {
                        base = PathBuf::from("/");
                    }
                    parts(&target).rev().for_each(|part| left.push_front(part));
                }
            }
        }
        Self { base, is_resolved: true, rest: left.into_iter().collect() }
    }

    /// Where it really is. Nothing if it is not there, or a link below a folder that may be written.
    pub(crate) fn real(&self) -> Option<PathBuf> {
        let mut real = self.base.canonicalize().ok()?;
        let goes_up = self.rest.components().any(|part| part == Component::ParentDir);
        if goes_up || (self.is_resolved && real != self.base) {
            return None;
        }
        for part in self.rest.components() {
            real.push(part);
            if real.symlink_metadata().ok()?.is_symlink() {
                let path = self.base.join(&self.rest);
                tracing::warn!(
                    "{} leads over a link that a script in a sandbox may have made, and is left out",
                    path.display()
                );
                return None;
            }
        }
        Some(real)
    }

    /// Opens it, for nothing but to name it in a rule.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(&self) -> rustix::io::Result<std::os::fd::OwnedFd> {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let links = match self.is_resolved {
            true => ResolveFlags::NO_SYMLINKS,
            false => ResolveFlags::empty(),
        };
        let base = openat2(CWD, &self.base, flags, Mode::empty(), links)?;
        if self.rest.as_os_str().is_empty() {
            return Ok(base);
        }
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(base, &self.rest, flags, Mode::empty(), beneath)
    }
}

/// Where an absolute path leads now: links are followed as far as it is there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let Spot { base, rest, .. } = Spot::among(path, &[]);
    plain(&base.join(rest))
}

/// Whether a path is in one of some folders, or leads over a link in one. `folders` are
/// [resolved](resolved) paths.
pub(crate) fn leads_into(path: &Path, folders: &[PathBuf]) -> bool {
    let Spot { base, rest, .. } = Spot::among(path, folders);
    // What is left goes on from a folder that is in one of them, or from what is not there.
    let is_in = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    is_in(&base) || is_in(&plain(&base.join(rest)))
}

/// The names on a path, and steps up.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    })
}

/// A path without `.` and `..`, by its words alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => (),
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[cfg(target_os = "linux")]
    #[test]
    fn no_link_is_followed_below_what_a_sandbox_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("data/in")).unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join("data/out")).unwrap();
        std::os::unix::fs::symlink(root.join("data"), root.join("link")).unwrap();
        let writable = [root.join("data/deep"), root.join("data")];
        let leads = |path: &str| {
            let spot = Spot::among(&root.join(path), &writable);
            let real = spot.real();
            assert_eq!(real.is_some(), spot.open().is_ok(), "{path}");
            real
        };
        assert_eq!(leads("data"), Some(root.join("data")));
        assert_eq!(leads("data/in"), Some(root.join("data/in")));
        assert_eq!(leads("elsewhere/../data/./in"), Some(root.join("data/in")));
        assert_eq!(leads("data/out"), None);
        assert_eq!(leads("data/none"), None);
        // Nobody in a sandbox can have made this one.
        assert_eq!(leads("link"), Some(root.join("data")));
        // Below it no other is followed, whatever the path is called.
        assert_eq!(leads("link/in"), Some(root.join("data/in")));
        assert_eq!(leads("link/out"), None);
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        };
        link("data/out", "over");
        link("link/../data/in", "around");
        link("data/in/../../elsewhere", "up");
        link("loop", "loop");
        assert_eq!(leads("over"), None);
        assert_eq!(leads("around"), Some(root.join("data/in")));
        assert_eq!(leads("up"), None);
        assert_eq!(leads("loop"), None);
        assert_eq!(resolved(&root.join("link/new/file")), root.join("data/new/file"));
        let into = |path: &str| leads_into(&root.join(path), &writable);
        assert!(into("data") && into("data/out/x") && into("over") && into("data/none"));
        assert!(!into("elsewhere") && !into("none"));
        // One that is put there after it was looked at is not followed either.
        let spot = Spot::among(&root.join("elsewhere"), &writable);
        fs::rename(root.join("elsewhere"), root.join("moved")).unwrap();
        link("moved", "elsewhere");
        assert!(spot.open().is_err() && spot.real().is_none());
    }
}
