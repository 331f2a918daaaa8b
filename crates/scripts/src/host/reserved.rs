//! Where scripts in a sandbox may write: folders of data, and nothing that runs outside of it.

use crate::{manifest::Sandbox, run::sandbox::spots};
use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// What scripts in a sandbox may not write.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) root: PathBuf,
    pub(crate) home: Option<PathBuf>,
    /// Neither these, nor what is in them, nor what they are in.
    pub(crate) places: Vec<Place>,
    /// Those of them that are the project's own: sandboxes of folders beside it leave them alone.
    pub(crate) own: Vec<Place>,
    /// What the process keeps for itself. Whoever reads it can speak for any caller.
    pub(crate) private: Vec<PathBuf>,
    /// Names in the project's folder that hold programs and settings.
    pub(crate) programs: Vec<&'static str>,
    /// The folder that the server's temporary files are in.
    pub(crate) temporary: PathBuf,
}

/// A place, and what is there.
pub(crate) type Place = (PathBuf, &'static str);

impl Reserved {
    /// Why a sandbox names a path for writing that is reserved, if it does. `runs` are files that
    /// the script is run by or with, `others` what is reserved for folders beside this one.
    pub(crate) fn refuses(
        &self,
        sandbox: &Sandbox,
        runs: &[PathBuf],
        others: &[Arc<Self>],
    ) -> Option<String> {
        let runs: Vec<PathBuf> = runs.iter().map(|path| spots::resolved(path)).collect();
        let told = self.told(sandbox, |real| {
            let is_run = || runs.iter().any(|program| program.starts_with(real));
            let run = || is_run().then_some("the script itself, or what it is run by, is there");
            self.reserved(real).or_else(run).or_else(|| self.beside(real, others))
        });
        told.or_else(|| self.exposes(sandbox))
    }

    /// Whether a sandbox that does not restrict files has the place that the process keeps for itself
    /// open to it, as it is to scripts without a sandbox.
    pub(crate) fn leaves_open(&self, sandbox: &Sandbox) -> bool {
        !self.private.is_empty() && (sandbox.read.is_none() || sandbox.write.is_none())
    }

    /// Why a sandbox that restricts reading reads what the process keeps for itself, if it does.
    pub(crate) fn exposes(&self, sandbox: &Sandbox) -> Option<String> {
        let named = sandbox.read.as_ref()?.iter().map(|path| self.root.join(path));
        let readable = named.map(|path| spots::resolved(&path)).chain([self.root.clone()]);
        readable.into_iter().find_map(|real| {
            let shown = self.private.iter().find(|private| private.starts_with(&real))?;
            Some(format!(
                "its sandbox may read {}, where the server keeps sessions and keys. Keep them \
                 outside of the project: `--data` names another folder",
                shown.display()
            ))
        })
    }

    /// The same, for what is reserved for folders beside this one alone.
    pub(crate) fn refuses_beside(&self, sandbox: &Sandbox, others: &[Arc<Self>]) -> Option<String> {
        self.told(sandbox, |real| self.beside(real, others))
    }

    /// The first path that a sandbox must not write, in words.
    fn told(
        &self,
        sandbox: &Sandbox,
        is_reserved: impl Fn(&Path) -> Option<&'static str>,
    ) -> Option<String> {
        sandbox.write.iter().flatten().find_map(|path| {
            let why = is_reserved(&spots::resolved(&self.root.join(path)))?;
            Some(format!(
                "its sandbox must not write `{}`: {why}, and would run or count outside of the \
                 sandbox. Name a folder for data, such as `data`",
                path.display()
            ))
        })
    }

    /// The paths of a sandbox that it may write.
    pub(crate) fn allowed(&self, sandbox: Sandbox, others: &[Arc<Self>]) -> Sandbox {
        let fits = |path: &PathBuf| {
            let real = spots::resolved(&self.root.join(path));
            self.reserved(&real).or_else(|| self.beside(&real, others)).is_none()
        };
        let write = sandbox.write.map(|paths| paths.into_iter().filter(fits).collect());
        Sandbox { write, ..sandbox }
    }

    /// What is at a path that is reserved for a folder beside this one.
    fn beside(&self, real: &Path, others: &[Arc<Self>]) -> Option<&'static str> {
        others.iter().find_map(|other| {
            // A folder that is in another one still has data.
            let is_own = real.starts_with(&self.root) && self.root.starts_with(&other.root);
            if !is_own && other.root.starts_with(real) {
                return Some("another folder of the server is there");
            }
            let inside = real.strip_prefix(&other.root).ok().filter(|_| !is_own);
            inside.and_then(|inside| other.in_project(inside, real)).or_else(|| other.own(real))
        })
    }

    /// What is at a path that is the project's own.
    fn own(&self, real: &Path) -> Option<&'static str> {
        self.own.iter().find(|(place, _)| overlap(place, real)).map(|(_, what)| *what)
    }

    /// What is at a path that is reserved.
    fn reserved(&self, real: &Path) -> Option<&'static str> {
        if self.root.starts_with(real) {
            return Some("the project is there");
        }
        let inside = real.strip_prefix(&self.root).ok();
        if let Some(why) = inside.and_then(|inside| self.in_project(inside, real)) {
            return Some(why);
        }
        // A project may be in a folder of the system or below a hidden one, and still have data.
        let counts = |place: &Path| inside.is_none() || place.starts_with(&self.root);
        let place = self.places.iter().find(|(place, _)| overlap(place, real) && counts(place));
        if let Some((_, what)) = place {
            return Some(what);
        }
        if self.temporary.starts_with(real) {
            return Some("the server's temporary files are there");
        }
        let of_home = self.home.as_ref().filter(|_| inside.is_none()).filter(|home| {
            let below = real.strip_prefix(home).ok();
            home.starts_with(real) || below.is_some_and(is_hidden)
        });
        of_home.map(|_| "programs and settings of the server's user are there")
    }

    /// What is reserved inside of a project, by the first part of a path in it.
    fn in_project(&self, inside: &Path, real: &Path) -> Option<&'static str> {
        let mut parts = inside.components();
        let first = parts.next()?;
        let is_direct = parts.next().is_none();
        let named = |name: &&str| first.as_os_str() == *name;
        if is_hidden(inside) || self.programs.iter().any(named) {
            return Some("the server runs and reads what is there");
        }
        (is_direct && real.is_file())
            .then_some("files of the project's folder are programs or settings")
    }
}

/// Whether one of two paths is in the other.
fn overlap(place: &Path, real: &Path) -> bool {
    place.starts_with(real) || real.starts_with(place)
}

/// Whether the first part of a path begins with a dot.
fn is_hidden(path: &Path) -> bool {
    let Some(Component::Normal(first)) = path.components().next() else { return false };
    first.as_encoded_bytes().starts_with(b".")
}
