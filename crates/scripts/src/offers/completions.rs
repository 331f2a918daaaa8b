//! Programs that know what an argument could be.

use crate::{
    call::program::{Given, Program},
    compat::mcp_bash,
    host::Host,
    project::Project,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use zcp::{Completer, Result, Typed};

/// Values that are asked for, and can be told.
const LIMIT: usize = 100;

/// A program that completes the arguments of a prompt or a resource.
#[derive(Debug, Clone)]
pub(crate) struct Completing {
    pub(crate) name: String,
    program: Arc<Program>,
    /// Variables that name the JSON tool.
    json_tool: [(&'static str, OsString); 2],
    /// What it is told of what it completes.
    of: Of,
}

/// What is completed, as its program is told of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Of {
    /// Where it is, for a resource.
    uri: Option<String>,
    env: Vec<(&'static str, String)>,
}

impl Of {
    pub(crate) fn prompt(file: &Path, entry: &Value) -> Self {
        let env = vec![
            ("MCP_PROMPT_PATH", file.to_string_lossy().into_owned()),
            ("MCP_PROMPT_REL_PATH", member(entry, "path")),
            ("MCP_PROMPT_METADATA", entry.to_string()),
        ];
        Self { uri: None, env }
    }

    pub(crate) fn resource(file: Option<&Path>, uri: &str, entry: &Value) -> Self {
        let env = vec![
            ("MCP_RESOURCE_PATH", file.unwrap_or(Path::new("")).to_string_lossy().into_owned()),
            ("MCP_RESOURCE_REL_PATH", member(entry, "path")),
            ("MCP_RESOURCE_URI", uri.to_owned()),
            ("MCP_RESOURCE_PROVIDER", member(entry, "provider")),
            ("MCP_RESOURCE_METADATA", entry.to_string()),
        ];
        Self { uri: Some(uri.to_owned()), env }
    }
}

fn member(entry: &Value, name: &str) -> String {
    entry[name].as_str().unwrap_or_default().to_owned()
}

/// Those that are registered, and what is wrong with them.
pub(crate) fn registered(
    entries: &[Value],
    project: &Arc<Project>,
    host: &Arc<Host>,
) -> (Vec<Completing>, Vec<String>) {
    let (mut all, mut mistakes) = (vec![], vec![]);
    for entry in entries {
        match of_entry(entry, project, host) {
            Ok(completing) => all.push(completing),
            Err(why) => mistakes.push(why),
        }
    }
    (all, mistakes)
}

fn of_entry(entry: &Value, project: &Arc<Project>, host: &Arc<Host>) -> Result<Completing, String> {
    let text = |name: &str| entry[name].as_str().ok_or(format!("a completion needs a `{name}`"));
    let (name, path) = (text("name")?, project.root.join(text("path")?));
    let inside = path.canonicalize().ok().zip(project.root.canonicalize().ok());
    if !inside.is_some_and(|(path, root)| path.starts_with(root)) {
        return Err(format!("the completion `{name}` is not in the project: {}", path.display()));
    }
    let time = entry["timeoutSecs"].as_u64().map(Duration::from_secs);
    let program = Arc::new(Program::of(&path, time, project, host)?);
    Ok(Completing {
        name: name.to_owned(),
        program,
        json_tool: mcp_bash::json_tool(&host.environment),
        of: Of::default(),
    })
}

/// The program beside the file of a prompt or a resource, if there is one.
pub(crate) fn beside(
    name: &str,
    file: &Path,
    of: Of,
    project: &Arc<Project>,
    host: &Arc<Host>,
) -> Option<Completing> {
    let path = [file.to_path_buf(), file.with_extension("")].into_iter().find_map(|start| {
        ["completion.sh", "completion"].iter().find_map(|ending| {
            let path = PathBuf::from(format!("{}.{ending}", start.display()));
            path.is_file().then_some(path)
        })
    })?;
    let program = Arc::new(Program::of(&path, None, project, host).ok()?);
    Some(Completing {
        name: name.to_owned(),
        program,
        json_tool: mcp_bash::json_tool(&host.environment),
        of,
    })
}

impl Completing {
    /// The same for something in particular.
    pub(crate) fn of(self, of: Of) -> Self {
        Self { of, ..self }
    }

    async fn values(self, typed: Typed) -> Result<(Vec<String>, bool)> {
        let reference = match &self.of.uri {
            Some(uri) => json!({ "type": "ref/resource", "uri": uri }),
            None => json!({ "type": "ref/prompt", "name": self.name }),
        };
        let args = json!({
            "query": typed.value,
            "prefix": typed.value,
            "argument": { "name": typed.argument, "value": typed.value },
            "context": { "arguments": typed.others },
            "ref": reference,
        });
        let mut env: Vec<(&str, String)> = vec![
            ("MCP_COMPLETION_NAME", self.name.clone()),
            ("MCP_COMPLETION_ARGS_JSON", args.to_string()),
            ("MCP_COMPLETION_ARGS_HASH", digest(&args)),
            ("MCP_COMPLETION_LIMIT", LIMIT.to_string()),
            ("MCP_COMPLETION_OFFSET", "0".to_owned()),
        ];
        env.extend(self.of.env.iter().cloned());
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into()));
        let json_tool = self.json_tool.clone().map(|(name, value)| (name.into(), value));
        let env = env.chain(json_tool).collect();
        let given = Given { env, stdin: Some(args.to_string().into_bytes()), argv: vec![] };
        let output = self.program.output(given, None).await?;
        Ok(values(&String::from_utf8_lossy(&output)))
    }
}

impl Completer for Completing {
    fn complete(&self, typed: Typed) -> BoxFuture<'static, Result<Vec<String>>> {
        let values = self.complete_some(typed);
        Box::pin(async move { Ok(values.await?.0) })
    }

    fn complete_some(&self, typed: Typed) -> BoxFuture<'static, Result<(Vec<String>, bool)>> {
        Box::pin(self.clone().values(typed))
    }
}

/// The same for the same arguments, in whichever order.
fn digest(args: &Value) -> String {
    let mut sorted = args.clone();
    sorted.sort_all_objects();
    Sha256::digest(sorted.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A list of JSON, an object with one in `suggestions`, or a line each; and whether there are more.
fn values(text: &str) -> (Vec<String>, bool) {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        return (lines.map(str::to_owned).collect(), false);
    };
    let all = value.get("suggestions").or(value.get("values")).unwrap_or(&value);
    let all = all.as_array().into_iter().flatten();
    let goes_on = |name: &str| value[name].as_str().is_some_and(|cursor| !cursor.is_empty());
    let more = value["hasMore"] == true
        || value["next"].is_number()
        || goes_on("cursor")
        || goes_on("nextCursor");
    (all.filter_map(|one| Some(one.as_str()?.to_owned())).collect(), more)
}
