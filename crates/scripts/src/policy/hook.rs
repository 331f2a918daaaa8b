//! What a project written for mcp-bash says of calls: a list of names, and a program that decides.

use crate::{
    content::Files,
    host::Host,
    mcp_bash,
    project::Project,
    register,
    run::{self, Allowed, Ceilings, End, Job, Recipe, Share},
    script::Script,
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::Duration,
};
use zcp::{Ctx, wire::RpcError};

/// How long the program may think about a call.
const TIME: Duration = Duration::from_secs(10);
/// How much it may say.
const MOST: u64 = 64 * 1024;

/// Names of tools that may be called, and no others.
#[derive(Debug, Clone)]
pub(super) struct Allowlist {
    names: BTreeSet<String>,
    has_all: bool,
}

impl Allowlist {
    /// What the variables say, if one of them is there.
    pub(super) fn of(env: &BTreeMap<String, String>) -> Option<Self> {
        let list = env.get("MCPBASH_TOOL_ALLOWLIST");
        let otherwise = env.get("MCPBASH_TOOL_ALLOW_DEFAULT");
        if list.is_none() && otherwise.is_none() {
            return None;
        }
        let names: BTreeSet<String> = list
            .map(String::as_str)
            .unwrap_or_default()
            .split([' ', ',', '\t', '\n'])
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        let all = |word: &str| matches!(word, "*" | "all");
        let allows = |word: &String| matches!(word.trim(), "allow" | "all");
        let has_all = names.iter().any(|name| all(name)) || otherwise.is_some_and(allows);
        Some(Self { names, has_all })
    }

    pub(super) fn has(&self, tool: &str) -> bool {
        self.has_all || self.names.contains(tool)
    }
}

/// A program that decides: `server.d/policy.sh`.
#[derive(Debug, Clone)]
pub(super) struct Hook(PathBuf);

/// What it decided.
#[derive(Debug)]
pub(crate) enum Judged {
    Allowed,
    /// With words for the model.
    Denied(String),
    /// With an error of its own.
    Refused(Box<RpcError>),
}

/// What it says.
#[derive(Debug, Deserialize)]
struct Said {
    allow: bool,
    code: Option<i64>,
    #[serde(default)]
    message: String,
    data: Option<Value>,
}

impl Hook {
    /// The program of a project, if it has one. One that others could write is a mistake.
    pub(super) fn find(project: &Project) -> Result<Option<Self>, String> {
        let file = project.folder("server.d").join("policy.sh");
        if fs::symlink_metadata(&file).is_err() {
            return Ok(None);
        }
        register::is_safe(&file, &project.root)?;
        Ok(Some(Self(file)))
    }

    pub(super) async fn judge(&self, script: &Script, host: &Host, ctx: &Ctx) -> Judged {
        match self.said(script, host, ctx).await {
            Ok(Said { allow: true, .. }) => Judged::Allowed,
            Ok(Said { code: Some(code), message, data, .. }) => {
                let mut error = RpcError::new(code, message);
                error.data = data;
                Judged::Refused(Box::new(error))
            }
            Ok(Said { message, .. }) => Judged::Denied(message),
            // One that cannot be heard has not allowed anything.
            Err(why) => {
                tracing::warn!("{}: {why}", self.0.display());
                Judged::Denied("the project's policy did not decide".to_owned())
            }
        }
    }

    async fn said(&self, script: &Script, host: &Host, ctx: &Ctx) -> Result<Said, String> {
        register::is_safe(&self.0, &script.project.root)?;
        let place = host.places.place(Some(ctx)).await.map_err(|error| error.to_string())?;
        let bash = which::which_in("bash", Some(host.path()), &script.project.root)
            .map_err(|_| "it needs bash")?;
        let mut metadata = mcp_bash::metadata(script);
        // No word of a command line is as long as a picture.
        metadata.as_object_mut().map(|members| members.remove("icons"));
        let env = register::environment(&script.project, host);
        let job = Job {
            recipe: Recipe {
                program: bash,
                args: vec![
                    host.sdk().join("hooks.sh").into(),
                    "policy".into(),
                    self.0.clone().into(),
                    script.name.clone().into(),
                    metadata.to_string().into(),
                ],
                cwd: script.project.root.clone(),
                env,
                out_names: vec![],
                stdin: None,
                ceilings: Ceilings::default(),
                begins_session: false,
                share: Share { processes: crate::program::PROCESSES, memory: None, cpu: None },
            },
            allowed: Allowed { time: TIME, with_progress: None },
            shown: usize::try_from(MOST).unwrap_or(usize::MAX),
            most: MOST,
            spill: host.spill(),
            questions: None,
            secrets: vec![],
            files: Files::of(&script.project.root),
            place,
        };
        let ran = run::run(&host.nursery, &job, None).await.map_err(|error| error.to_string())?;
        match ran.end {
            End::Exited(status) if status.success() => serde_json::from_slice(&ran.output.held)
                .map_err(|error| format!("it decided nothing: {error}")),
            End::Exited(_) => Err(format!("it failed: {}", ran.complaints.text())),
            End::Late(..) => Err(format!("it took longer than {} s", TIME.as_secs())),
            End::TooMuch => Err("it said too much".to_owned()),
            End::Exceeded(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_allowed_one_by_one_or_all_at_once() {
        let list = |said: &[(&str, &str)]| {
            let env = said.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
            Allowlist::of(&env.collect())
        };
        let (names, otherwise) = ("MCPBASH_TOOL_ALLOWLIST", "MCPBASH_TOOL_ALLOW_DEFAULT");
        assert!(list(&[]).is_none());
        for (said, a, c) in [
            (vec![(names, "a, b")], true, false),
            (vec![(names, "b all")], true, true),
            (vec![(names, "*")], true, true),
            (vec![(names, "")], false, false),
            (vec![(otherwise, "deny")], false, false),
            (vec![(otherwise, "allow")], true, true),
            (vec![(names, "a"), (otherwise, "deny")], true, false),
            (vec![(names, "b"), (otherwise, "all")], true, true),
        ] {
            let list = list(&said).expect("something is said");
            assert_eq!((list.has("a"), list.has("c")), (a, c), "{said:?}");
        }
    }
}
