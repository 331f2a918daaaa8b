//! Where imported tools go: into a folder of scripts, beside what is there already.

use super::draft::Named;
use crate::{
    client_config::user_files::{self, Kept, Over, Readers},
    project,
};
use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::{Component, Path, PathBuf},
};

/// A folder of scripts.
#[derive(Debug)]
pub(super) struct Place {
    /// Where its tools are.
    pub(super) tools: PathBuf,
    /// The way from it to the folder of what is imported.
    pub(super) cwd: String,
}

/// What becomes of a tool.
#[derive(Debug)]
pub(super) enum Fate {
    Written,
    /// It was there, and differed: what it was is in these files.
    Updated(Vec<PathBuf>),
    /// Something is there already.
    Kept(String),
}

impl Place {
    pub(super) fn new(into: &Path, file: &Path, is_script: bool) -> Result<Self, Box<dyn Error>> {
        let from = user_files::folder_of(file)
            .canonicalize()
            .map_err(|error| format!("{}: {error}", file.display()))?;
        if into.exists() && !into.is_dir() {
            return Err(format!("{} is no folder: say another with --into", into.display()).into());
        }
        let root = whole(into)?;
        let cwd = relative(&root, &from).ok_or_else(|| {
            format!("there is no way from {} to {}", into.display(), file.display())
        })?;
        // A Makefile among scripts is a project's own, whose tools go into a folder for them.
        let is_own = from == root && !is_script;
        let is_flat = !is_own && project::is_flat(into);
        let tools = if is_flat { into.to_path_buf() } else { into.join("tools") };
        Ok(Self { tools, cwd })
    }

    /// The files a tool is made of.
    pub(super) fn files(&self, named: &Named) -> Vec<(PathBuf, String)> {
        let (text, beside) = named.files();
        let name = format!("{}.{}", named.name, named.tool.ending);
        let mut files = vec![(self.tools.join(&name), text)];
        files.extend(beside.map(|text| (self.tools.join(format!("{name}.meta.json")), text)));
        files
    }

    /// What would become of a tool.
    pub(super) fn foresee(&self, named: &Named, update: bool) -> Fate {
        let files = self.files(named);
        let is_same = |(path, text): &(PathBuf, String)| {
            fs::read_to_string(path).is_ok_and(|now| now == *text)
        };
        // Only what an import would have written is written anew.
        if update && files.first().is_some_and(|(path, _)| path.is_file()) {
            return match files.iter().all(is_same) {
                true => Fate::Kept("it is up to date".to_owned()),
                false => Fate::Updated(vec![]),
            };
        }
        let there = fs::read_dir(&self.tools).into_iter().flatten().flatten();
        let mut names: Vec<_> = there.map(|entry| entry.file_name()).collect();
        names.sort();
        let begins = format!("{}.", named.name.to_lowercase());
        let same = names.iter().map(|name| name.to_string_lossy()).find(|name| {
            let name = name.to_lowercase();
            name.starts_with(&begins) || name == named.name.to_lowercase()
        });
        match same {
            Some(same) => {
                let same = self.tools.join(&*same);
                Fate::Kept(format!("{} is there already; --update writes it anew", same.display()))
            }
            None => Fate::Written,
        }
    }

    /// Writes a tool, if nothing is in its place or that is to be updated.
    pub(super) fn put(&self, named: &Named, update: bool) -> Result<Fate, Box<dyn Error>> {
        let foreseen = self.foresee(named, update);
        match foreseen {
            Fate::Kept(_) => return Ok(foreseen),
            Fate::Updated(_) => return Ok(Fate::Updated(self.update(named)?)),
            Fate::Written => (),
        }
        let wrong = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&self.tools).map_err(|error| wrong(&self.tools, error))?;
        // What is said beside it comes first: a tool is never there without it.
        for (path, text) in self.files(named).iter().rev() {
            let write = |file: &mut fs::File| file.write_all(text.as_bytes());
            user_files::whole(path, Readers::Usual, Over::Nothing, write)
                .map_err(|error| wrong(path, error))?;
        }
        Ok(Fate::Written)
    }

    /// Writes the files of a tool anew that differ. Gives the copies of what they were.
    fn update(&self, named: &Named) -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let mut before = vec![];
        for (path, text) in self.files(named).into_iter().rev() {
            let kept = Kept::take(&path)?;
            if kept.text.as_deref() != Some(text.as_str()) {
                before.extend(kept.replace(&text, Readers::Usual)?);
            }
        }
        Ok(before)
    }
}

/// A path as it is from the root of the system, though it may not be there yet.
fn whole(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok(whole(above)?.join(name)),
        _ => Ok(path),
    }
}

/// The way from a folder to another, with `/` between.
fn relative(from: &Path, to: &Path) -> Option<String> {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    if same == 0 {
        return None;
    }
    let up = from[same..].iter().map(|_| Some(".."));
    let down = to[same..].iter().map(|part| match part {
        Component::Normal(name) => name.to_str().filter(|name| !name.contains(['\n', '\r'])),
        _ => None,
    });
    let way = up.chain(down).collect::<Option<Vec<_>>>()?.join("/");
    Some(if way.is_empty() { ".".to_owned() } else { way })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_relative() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).unwrap();
        assert_eq!(way("/a/b", "/a/b"), ".");
        assert_eq!(way("/a/b/mcp", "/a/b"), "..");
        assert_eq!(way("/a/tools", "/a/app/web"), "../app/web");
        assert_eq!(way("/a", "/a/b c"), "b c");
        assert_eq!(relative(Path::new("/a"), Path::new("/b\nc")), None);
    }
}
