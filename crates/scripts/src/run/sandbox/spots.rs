//! Paths that a sandbox names, so that no script in a sandbox can lead them elsewhere.
//!
//! A script that may write a folder could put a link there in place of a path that the sandbox of
//! another one names. Below a folder that some sandbox may write no link is followed.

use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// A path of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spot {
    /// The part that no sandbox can change, where links are followed.
    base: PathBuf,
    /// The part below it, where they are not.
    rest: PathBuf,
}

impl Spot {
    /// A path that is followed wherever it leads.
    pub(crate) fn fixed(path: PathBuf) -> Self {
        Self { base: path, rest: PathBuf::new() }
    }

    /// A path, where scripts in a sandbox may write some folders.
    pub(crate) fn among(path: &Path, writable: &[PathBuf]) -> Self {
        let path = plain(path);
        let above = writable.iter().filter(|folder| **folder != path && path.starts_with(folder));
        let base = above.min_by_key(|folder| folder.components().count());
        match base.and_then(|base| Some((base, path.strip_prefix(base).ok()?))) {
            Some((base, rest)) => Self { base: base.clone(), rest: rest.to_path_buf() },
            None => Self::fixed(path),
        }
    }

    /// Where it really is. Nothing if it is not there, or a link below a folder that may be written.
    pub(crate) fn real(&self) -> Option<PathBuf> {
        let mut real = self.base.canonicalize().ok()?;
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
        use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let base = open(&self.base, flags, Mode::empty())?;
        if self.rest.as_os_str().is_empty() {
            return Ok(base);
        }
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(base, &self.rest, flags, Mode::empty(), beneath)
    }
}

/// A path without `.` and `..`, by its words alone.
pub(crate) fn plain(path: &Path) -> PathBuf {
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
    }
}
