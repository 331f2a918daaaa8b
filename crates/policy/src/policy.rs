//! A policy as it is written: what may be called, by whom and with which arguments.

use crate::{
    audit::Audit,
    decision::{Action, Caller, Reach, Verdict},
    judge::Judge,
    rules::Rules,
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// Who may call which tool, and what is written down. [`Guard`](crate::Guard) puts it in front of a
/// server's tools.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The text could not be read, so nothing may be called.
    is_closed: bool,
    rules: Arc<Rules>,
    /// What the rules were read from.
    said: Option<Value>,
    allowlist: Option<Allowlist>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) judge: Option<Arc<dyn Judge>>,
}

/// Tools that may be called, and no others.
#[derive(Debug, Clone)]
pub struct Allowlist {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Every tool is on it.
    pub has_all: bool,
    /// Where it comes from, which verdicts name as their rule.
    pub source: &'static str,
}

impl Allowlist {
    /// Whether a tool is on it.
    pub fn has(&self, tool: &str) -> bool {
        self.has_all || self.names.contains(tool)
    }
}

/// Where a policy's files may be.
#[derive(Debug)]
pub struct Folders<'a> {
    /// Relative paths begin here.
    pub root: &'a Path,
    /// Folders whose files clients may read: the audit log is in none of them.
    pub served: &'a [PathBuf],
}

impl Policy {
    /// Reads a policy from a TOML file. Relative paths in it begin at its folder.
    pub fn file(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = path.as_ref();
        let wrong = |why: String| PolicyError { path: path.to_path_buf(), why };
        let text = fs::read_to_string(path).map_err(|error: io::Error| wrong(error.to_string()))?;
        let said = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let root = path.parent().filter(|root| !root.as_os_str().is_empty());
        let folders = Folders { root: root.unwrap_or(Path::new(".")), served: &[] };
        Self::read(Some(said), None, &folders).map_err(wrong)
    }

    /// Reads a policy from a value. No value allows everything.
    pub fn read(
        said: Option<Value>,
        allowlist: Option<Allowlist>,
        folders: &Folders<'_>,
    ) -> Result<Self, String> {
        let (rules, audit) = match said.clone() {
            Some(said) => Rules::read(said)?,
            None => Default::default(),
        };
        let audit = match audit {
            Some(mut audit) => {
                audit.path = place(&audit.path, folders)?;
                Some(Arc::new(audit))
            }
            None => None,
        };
        Ok(Self { rules: Arc::new(rules), said, allowlist, audit, ..Self::default() })
    }

    /// Asks a [`Judge`], too, about each call that the rules do not deny.
    #[must_use]
    pub fn judged_by(mut self, judge: Arc<dyn Judge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// The same, with the counters of a policy before it that says the same.
    pub(crate) fn continuing(mut self, before: &Self) -> Self {
        if self.said == before.said {
            self.rules = before.rules.clone();
        }
        self
    }

    /// The policy of a server whose policy cannot be read: no tool can be called.
    pub fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    /// What is said of tools that are not there.
    pub fn mistakes(&self, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let wrong = self.rules.named().filter(|(_, name)| !is_there(name));
        let told = |(number, name)| {
            format!("rule {number} of the policy is about a tool `{name}`, and there is none")
        };
        wrong.map(told).collect()
    }

    /// Whether anything is said of calls at all.
    pub fn is_set(&self) -> bool {
        let is_said = self.is_closed || !self.rules.are_open() || self.audit.is_some();
        is_said || self.allowlist.is_some() || self.judge.is_some()
    }

    /// Whether anybody could ever call a tool. Others are not listed.
    pub(crate) fn reach(&self, tool: &str, reads_only: bool) -> Reach {
        let allowed = self.allowlist.as_ref().is_none_or(|list| list.has(tool));
        match self.rules.reach(tool, reads_only) {
            Reach::Callable if self.is_closed || !allowed => Reach::Denied,
            reach => reach,
        }
    }

    /// An argument that it is about and that was given in two spellings.
    pub(crate) fn ambiguous<'a>(&self, args: &'a Map<String, Value>) -> Option<&'a str> {
        self.rules.ambiguous(args)
    }

    /// What it says of a call, before anybody is asked.
    pub(crate) fn decide(
        &self,
        tool: &str,
        reads_only: bool,
        caller: &Caller,
        args: &Map<String, Value>,
    ) -> Verdict {
        let denied = |rule: &str| Verdict {
            action: Action::Deny,
            rule: rule.to_owned(),
            message: None,
            limits: None,
        };
        if self.is_closed {
            return denied("closed");
        }
        if let Some(list) = self.allowlist.as_ref().filter(|list| !list.has(tool)) {
            return denied(list.source);
        }
        self.rules.decide(tool, reads_only, caller, args)
    }

    /// The files of the audit log: for the operator alone.
    pub fn own_files(&self) -> Vec<PathBuf> {
        self.audit.iter().flat_map(|audit| [audit.path.clone(), audit.older()]).collect()
    }
}

/// What is wrong with the file of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for PolicyError {}

/// Where the log of calls is: nowhere clients can read it.
fn place(said: &Path, folders: &Folders<'_>) -> Result<PathBuf, &'static str> {
    if said.components().any(|part| part == Component::ParentDir) {
        return Err("`audit` must not have `..` in it");
    }
    let path = folders.root.join(said);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("`audit` must be a file");
    };
    if path.is_dir() {
        return Err("`audit` must be a file");
    }
    // Of a folder that is not there yet, the part that is.
    let real = folder.ancestors().find_map(|folder| {
        Some(folder.canonicalize().ok()?.join(path.parent()?.strip_prefix(folder).ok()?))
    });
    let path = real.unwrap_or_else(|| folder.to_path_buf()).join(name);
    let is_served = folders
        .served
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .any(|folder| path.starts_with(folder));
    match is_served {
        true => Err("`audit` must not be in a folder that is served"),
        false => Ok(path),
    }
}
