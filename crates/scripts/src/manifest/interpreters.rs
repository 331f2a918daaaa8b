//! What a project runs its scripts by: `[interpreters]` in `zcp.toml`, and its virtual environment.

use super::{
    interpreter::{Start, leaves_open},
    values::words,
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// `[interpreters]`: a command line for each ending of files.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Said(BTreeMap<String, Command>);

#[derive(Debug, Deserialize)]
struct Command(#[serde(deserialize_with = "words")] Option<Vec<String>>);

/// The programs a project has for files whose first line names none of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interpreters {
    by_ending: BTreeMap<String, Vec<String>>,
    /// Python of the virtual environment in the project's folder.
    python: Option<PathBuf>,
}

impl Interpreters {
    /// Those of a project. Paths begin at its folder.
    pub(crate) fn of(root: &Path, said: Said) -> Self {
        let command = |(ending, Command(words)): (String, Command)| {
            let mut words = words.unwrap_or_default();
            if let Some(program) = words.first_mut().filter(|one| one.contains(['/', '\\'])) {
                *program = root.join(&program).to_string_lossy().into_owned();
            }
            (ending.trim_start_matches('.').to_lowercase(), words)
        };
        let python = [".venv/bin/python", ".venv/Scripts/python.exe"].map(|path| root.join(path));
        Self {
            by_ending: said.0.into_iter().map(command).collect(),
            python: python.into_iter().find(|path| path.is_file()),
        }
    }

    /// How a file is started here, where any machine would start it like this. `head` is how its
    /// text begins.
    pub(crate) fn start(&self, path: &Path, head: &str, otherwise: &Start) -> Start {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let leaves_open = |ending: &str| leaves_open(ending, head.as_bytes());
        if *otherwise == Start::Request {
            return Start::Request;
        }
        if let Some(words) = self.by_ending.get(&ending).filter(|_| leaves_open(&ending)) {
            return Start::By(vec![words.clone()]);
        }
        // Only a first line says that a file without the ending is Python.
        let is_python = (ending == "py" || head.starts_with("#!")) && leaves_open("py");
        match self.python.as_ref().filter(|_| is_python) {
            Some(python) => Start::By(vec![vec![python.to_string_lossy().into_owned()]]),
            None => otherwise.clone(),
        }
    }
}
