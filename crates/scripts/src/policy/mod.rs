//! What may be called, by whom and with which arguments: the policy of a folder.

mod audit;
mod hook;
mod log;
mod rules;

pub(crate) use audit::{Audit, Line};
pub(crate) use hook::Judged;
pub(crate) use log::Log;

use crate::{host::Host, manifest::read_value, project::Project, script::Script};
use hook::{Allowlist, Hook};
use rules::Rules;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
};
use zcp::{Ctx, Principal, Result};

/// How much is remembered of what a client calls itself.
const LONGEST_NAME: usize = 256;
/// The file of a policy, which wins over `[policy]` in `zcp.toml`.
const FILE: &str = "policy.toml";

/// What may be called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    /// Nobody knows what may be called, so nothing may.
    pub(crate) is_closed: bool,
    rules: Rules,
    allowlist: Option<Allowlist>,
    hook: Option<Hook>,
    pub(crate) audit: Option<Arc<Audit>>,
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
    /// The policy of a project, which says in `zcp.toml` what is given. What is wrong closes it.
    pub(crate) fn open(
        project: &Project,
        said: Result<Option<Value>, String>,
        env: &BTreeMap<String, String>,
    ) -> (Self, Option<String>) {
        match Self::read(project, said, env) {
            Ok(policy) => (policy, None),
            Err(why) => {
                let closed = Self { is_closed: true, ..Self::default() };
                (closed, Some(format!("{why}: until that is put right, no tool can be called")))
            }
        }
    }

    fn read(
        project: &Project,
        said: Result<Option<Value>, String>,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let said = said?;
        let file = project.root.join(FILE);
        // A link that leads nowhere is a policy that cannot be read, not none.
        let (said, from) = match fs::symlink_metadata(&file) {
            Ok(_) => (Some(of_file(&file)?), file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                (said, project.root.join("zcp.toml"))
            }
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let wrong = |why: &str| format!("{}: {why}", from.display());
        let (rules, audit) = match said {
            Some(said) => Rules::read(said).map_err(|why| wrong(&why))?,
            None => Default::default(),
        };
        let audit = match audit {
            Some(mut audit) => {
                audit.path = place(&audit.path, project, env).map_err(wrong)?;
                Some(Arc::new(audit))
            }
            None => None,
        };
        let hook = Hook::find(project)?;
        Ok(Self { is_closed: false, rules, allowlist: Allowlist::of(env), hook, audit })
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
        is_said || self.allowlist.is_some() || self.hook.is_some()
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
        if self.allowlist.as_ref().is_some_and(|list| !list.has(tool)) {
            return denied("MCPBASH_TOOL_ALLOWLIST");
        }
        self.rules.decide(tool, reads_only, caller, args)
    }

    /// What the project's own program says of a call, if there is one.
    pub(crate) async fn judge(&self, script: &Script, host: &Host, ctx: &Ctx) -> Judged {
        match &self.hook {
            Some(hook) => hook.judge(script, host, ctx).await,
            None => Judged::Allowed,
        }
    }

    /// Files whose changes mean nothing.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        self.audit.iter().flat_map(|audit| [audit.path.clone(), audit.older()]).collect()
    }
}

/// What a file of its own says: its members, or those of `[policy]` in it.
fn of_file(path: &Path) -> Result<Value, String> {
    let wrong = |why: &str| format!("{}: {why}", path.display());
    match read_value(path)? {
        // An editor may be about to write it.
        Value::Object(members) if members.is_empty() => {
            Err(wrong("it says nothing: write `default = \"allow\"`, or remove it"))
        }
        Value::Object(mut members) if members.len() == 1 && members.contains_key("policy") => {
            Ok(members.remove("policy").unwrap_or_default())
        }
        value => Ok(value),
    }
}

/// Where the log of calls is: nowhere clients can read it.
fn place(
    said: &Path,
    project: &Project,
    env: &BTreeMap<String, String>,
) -> Result<PathBuf, &'static str> {
    if said.components().any(|part| part == Component::ParentDir) {
        return Err("`audit` must not have `..` in it");
    }
    let path = project.root.join(said);
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
    let roots = env.get("MCP_RESOURCES_ROOTS").map(String::as_str).unwrap_or_default();
    let roots = std::env::split_paths(roots)
        .filter(|root| !root.as_os_str().is_empty())
        .map(|root| project.root.join(root));
    let is_served = project
        .served()
        .chain(roots)
        .filter_map(|folder| folder.canonicalize().ok())
        .any(|folder| path.starts_with(folder));
    match is_served {
        true => Err("`audit` must not be in a folder that is served"),
        false => Ok(path),
    }
}
