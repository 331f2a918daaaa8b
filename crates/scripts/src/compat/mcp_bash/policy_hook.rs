//! The policy hook: a program of a project that decides about calls.

use super::registered;
use crate::{
    content::Files,
    host::Host,
    manifest::defaults,
    run::{self, Allowed, Ceilings, End, Job, Recipe, Share},
};
use futures_util::{FutureExt, future::BoxFuture};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use zcp::{
    Ctx,
    wire::{RpcError, mcp::tools::Tool},
};
use zcp_policy::{Judge, Judged};

/// How long the program may think about a call.
const TIME: Duration = Duration::from_secs(10);
/// How much it may say.
const MOST: u64 = 64 * 1024;

/// A program that decides: `server.d/policy.sh`.
#[derive(Debug, Clone)]
pub(crate) struct Hook(PathBuf);

/// The program, and all it needs to decide about calls of any tool.
#[derive(Debug)]
pub(crate) struct HookJudge {
    pub(crate) hook: Hook,
    pub(crate) root: PathBuf,
    pub(crate) host: Arc<Host>,
    /// The project's own tools, as the framework describes them.
    pub(crate) described: BTreeMap<String, Value>,
}

impl Judge for HookJudge {
    fn judge<'a>(&'a self, tool: &'a Tool, ctx: &'a Ctx) -> BoxFuture<'a, Judged> {
        let metadata = self.described.get(&tool.name).cloned().unwrap_or_else(|| others(tool));
        async move {
            match self.hook.said(&tool.name, metadata, &self.root, &self.host, ctx).await {
                Ok(Said { allow: true, .. }) => Judged::Allowed,
                Ok(Said { code: Some(code), message, data, .. }) => {
                    let mut error = RpcError::new(code, message);
                    error.data = data;
                    Judged::Refused(Box::new(error))
                }
                Ok(Said { message, .. }) => Judged::Denied(message),
                // One that cannot be heard has not allowed anything.
                Err(why) => {
                    tracing::warn!("{}: {why}", self.hook.0.display());
                    Judged::Denied("the project's policy did not decide".to_owned())
                }
            }
        }
        .boxed()
    }

    fn name(&self) -> &str {
        "policy.sh"
    }
}

/// A tool that is no script of the project, described as its scripts are.
fn others(tool: &Tool) -> Value {
    let mut all = json!({
        "name": tool.name,
        "description": tool.description.as_deref().unwrap_or_default(),
        "path": "",
        "inputSchema": tool.input_schema,
        "timeoutSecs": null,
    });
    for (name, value) in [
        ("title", json!(tool.title)),
        ("outputSchema", json!(tool.output_schema)),
        ("annotations", json!(tool.annotations)),
        ("_meta", json!(tool.meta)),
    ] {
        if !value.is_null() {
            all[name] = value;
        }
    }
    all
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
        if !registered::is_there(&file)? {
            return Ok(None);
        }
        registered::is_safe(&file, root)?;
        Ok(Some(Self(file)))
    }

    async fn said(
        &self,
        tool: &str,
        mut metadata: Value,
        root: &Path,
        host: &Host,
        ctx: &Ctx,
    ) -> Result<Said, String> {
        registered::is_safe(&self.0, root)?;
        let slot = host.concurrency.slot(Some(ctx)).await.map_err(|error| error.to_string())?;
        let bash = which::which_in("bash", Some(host.environment.path()), root)
            .map_err(|_| "it needs bash")?;
        // No word of a command line is as long as a picture.
        metadata.as_object_mut().map(|members| members.remove("icons"));
        let env = registered::environment(root, host);
        let job = Job {
            name: "policy.sh".to_owned(),
            recipe: Recipe {
                program: bash,
                args: vec![
                    host.sdk().join("hooks.sh").into(),
                    "policy".into(),
                    self.0.clone().into(),
                    tool.into(),
                    metadata.to_string().into(),
                ],
                cwd: root.to_path_buf(),
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
            files: Files::of(root),
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
