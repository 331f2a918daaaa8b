//! What may be called, by whom and with which arguments: the policy of a folder.

mod audit;
mod log;
mod rules;

pub(crate) use audit::{Audit, Line};
pub(crate) use log::Log;

use rules::Rules;
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
    sync::Arc,
};
use zcp::{Ctx, Principal, Result};

/// How much is remembered of what a client calls itself.
const LONGEST_NAME: usize = 256;

/// What may be called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    /// Nobody knows what may be called, so nothing may.
    pub(crate) is_closed: bool,
    rules: Rules,
    allowlist: Option<Allowlist>,
    pub(crate) audit: Option<Arc<Audit>>,
}

/// Tools that may be called, and no others.
#[derive(Debug, Clone)]
pub(crate) struct Allowlist {
    pub(crate) names: BTreeSet<String>,
    /// Every tool is on it.
    pub(crate) has_all: bool,
    /// Where it comes from, which verdicts name as their rule.
    pub(crate) source: &'static str,
}

impl Allowlist {
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.has_all || self.names.contains(tool)
    }
}

/// Where a policy's files may be.
#[derive(Debug)]
pub(crate) struct Folders<'a> {
    /// Relative paths begin here.
    pub(crate) root: &'a Path,
    /// Folders whose files clients may read: the audit log is in none of them.
    pub(crate) served: &'a [PathBuf],
}

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// What its client calls itself; empty if it does not say.
    pub(crate) client: String,
    pub(crate) principal: Principal,
}

impl Caller {
    /// Whoever made a call.
    pub(crate) fn of(ctx: &Ctx) -> Self {
        let client = ctx.client_info().map(|info| info.name).unwrap_or_default();
        let client = client.chars().take(LONGEST_NAME).collect();
        Self { client, principal: ctx.principal().clone() }
    }
}

/// What a policy says of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) action: Action,
    /// What decided.
    pub(crate) rule: String,
    /// In the operator's words.
    pub(crate) message: Option<String>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Allow,
    Deny,
    /// If the user says yes.
    Ask,
}

impl Policy {
    /// A policy as it is written. Nothing written allows everything.
    pub(crate) fn read(
        said: Option<Value>,
        allowlist: Option<Allowlist>,
        folders: &Folders<'_>,
    ) -> Result<Self, String> {
        let (rules, audit) = match said {
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
        Ok(Self { is_closed: false, rules, allowlist, audit })
    }

    /// The policy of a project whose policy is wrong: no tool can be called.
    pub(crate) fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    /// What is said of tools that are not there.
    pub(crate) fn mistakes(&self, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let wrong = self.rules.named().filter(|(_, name)| !is_there(name));
        let told = |(number, name)| {
            format!("rule {number} of the policy is about a tool `{name}`, and there is none")
        };
        wrong.map(told).collect()
    }

    /// Whether anything is said of calls at all.
    pub(crate) fn is_set(&self) -> bool {
        let is_said = self.is_closed || !self.rules.are_open() || self.audit.is_some();
        is_said || self.allowlist.is_some()
    }

    /// Whether anybody could ever call a tool.
    pub(crate) fn lists(&self, tool: &str, reads_only: bool) -> bool {
        let allowed = self.allowlist.as_ref().is_none_or(|list| list.has(tool));
        !self.is_closed && allowed && self.rules.allow_sometimes(tool, reads_only)
    }

    /// What it says of a call, before anybody is asked.
    pub(crate) fn decide(
        &self,
        tool: &str,
        reads_only: bool,
        caller: &Caller,
        args: &Map<String, Value>,
    ) -> Verdict {
        let denied =
            |rule: &str| Verdict { action: Action::Deny, rule: rule.to_owned(), message: None };
        if self.is_closed {
            return denied("closed");
        }
        if let Some(list) = self.allowlist.as_ref().filter(|list| !list.has(tool)) {
            return denied(list.source);
        }
        self.rules.decide(tool, reads_only, caller, args)
    }

    /// Files whose changes mean nothing.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        self.audit.iter().flat_map(|audit| [audit.path.clone(), audit.older()]).collect()
    }
}

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

/// An argument's name as policies compare names: letters are upper case, everything else but digits
/// is `_`. Scripts get arguments as variables of these names, where `Path` and `path` are one.
pub(crate) fn argument_key(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(upper).collect()
}
