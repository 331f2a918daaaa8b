//! The policy hook: a program of a project that decides about calls.

use super::{ToolContext, registered, tool_metadata};
use crate::{
    content::Files,
    host::Host,
    manifest::defaults,
    run::{self, Allowed, Ceilings, End, Job, Recipe, Share},
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use zcp::{Ctx, wire::RpcError};

/// How long the program may think about a call.
const TIME: Duration = Duration::from_secs(10);
/// How much it may say.
const MOST: u64 = 64 * 1024;

/// A program that decides: `server.d/policy.sh`.
#[derive(Debug, Clone)]
pub(crate) struct Hook(PathBuf);

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
    pub(crate) fn find(server: &Path, root: &Path) -> Result<Option<Self>, String> {
        let file = server.join("policy.sh");
        if fs::symlink_metadata(&file).is_err() {
            return Ok(None);
        }
        registered::is_safe(&file, root)?;
        Ok(Some(Self(file)))
    }

    pub(crate) async fn judge(&self, tool: &ToolContext<'_>, host: &Host, ctx: &Ctx) -> Judged {
        match self.said(tool, host, ctx).await {
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

    async fn said(&self, tool: &ToolContext<'_>, host: &Host, ctx: &Ctx) -> Result<Said, String> {
        registered::is_safe(&self.0, tool.project.root)?;
        let slot = host.concurrency.slot(Some(ctx)).await.map_err(|error| error.to_string())?;
        let bash = which::which_in("bash", Some(host.environment.path()), tool.project.root)
            .map_err(|_| "it needs bash")?;
        let mut metadata = tool_metadata::metadata(tool);
        // No word of a command line is as long as a picture.
        metadata.as_object_mut().map(|members| members.remove("icons"));
        let env = registered::environment(tool.project.root, host);
        let job = Job {
            recipe: Recipe {
                program: bash,
                args: vec![
                    host.sdk().join("hooks.sh").into(),
                    "policy".into(),
                    self.0.clone().into(),
                    tool.name.into(),
                    metadata.to_string().into(),
                ],
                cwd: tool.project.root.to_path_buf(),
                env,
                out_names: vec![],
                stdin: None,
                ceilings: Ceilings::default(),
                begins_session: false,
                share: Share { processes: defaults::PROCESSES, memory: None, cpu: None },
            },
            allowed: Allowed { time: TIME, with_progress: None },
            shown: usize::try_from(MOST).unwrap_or(usize::MAX),
            most: MOST,
            spill: host.output_file(),
            questions: None,
            secrets: vec![],
            files: Files::of(tool.project.root),
            slot,
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
