//! Programs that know what an argument could be.

use crate::{
    host::Host,
    program::{Given, Program},
    project::Project,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::{
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
    jq: PathBuf,
    /// What it is told of what it completes.
    of: Of,
}

/// What is completed.
#[derive(Debug, Clone)]
pub(crate) enum Of {
    Anything,
    Prompt(PathBuf),
    Resource(PathBuf, String),
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
    Ok(Completing { name: name.to_owned(), program, jq: host.jq.clone(), of: Of::Anything })
}

/// The program beside a prompt or a resource, if there is one.
pub(crate) fn beside(
    name: &str,
    of: Of,
    project: &Arc<Project>,
    host: &Arc<Host>,
) -> Option<Completing> {
    let file = match &of {
        Of::Prompt(file) | Of::Resource(file, _) => file,
        Of::Anything => return None,
    };
    let path = [file.to_path_buf(), file.with_extension("")].into_iter().find_map(|start| {
        ["completion.sh", "completion"].iter().find_map(|ending| {
            let path = PathBuf::from(format!("{}.{ending}", start.display()));
            path.is_file().then_some(path)
        })
    })?;
    let program = Arc::new(Program::of(&path, None, project, host).ok()?);
    Some(Completing { name: name.to_owned(), program, jq: host.jq.clone(), of })
}

impl Completing {
    async fn values(self, typed: Typed) -> Result<Vec<String>> {
        let reference = match &self.of {
            Of::Resource(_, uri) => json!({ "type": "ref/resource", "uri": uri }),
            _ => json!({ "type": "ref/prompt", "name": self.name }),
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
            ("MCP_COMPLETION_LIMIT", LIMIT.to_string()),
            ("MCP_COMPLETION_OFFSET", "0".to_owned()),
            ("MCPBASH_JSON_TOOL", "jq".to_owned()),
            ("MCPBASH_JSON_TOOL_BIN", self.jq.to_string_lossy().into_owned()),
        ];
        let text = |path: &Path| path.to_string_lossy().into_owned();
        match &self.of {
            Of::Anything => (),
            Of::Prompt(file) => env.push(("MCP_PROMPT_PATH", text(file))),
            Of::Resource(file, uri) => {
                env.push(("MCP_RESOURCE_PATH", text(file)));
                env.push(("MCP_RESOURCE_URI", uri.clone()));
            }
        }
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let given = Given { env, stdin: Some(args.to_string().into_bytes()), argv: vec![] };
        let output = self.program.output(given, None).await?;
        Ok(values(&String::from_utf8_lossy(&output)))
    }
}

impl Completer for Completing {
    fn complete(&self, typed: Typed) -> BoxFuture<'static, Result<Vec<String>>> {
        Box::pin(self.clone().values(typed))
    }
}

/// A list of JSON, an object with one in `suggestions`, or a line each.
fn values(text: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
    };
    let all = value.get("suggestions").or(value.get("values")).unwrap_or(&value);
    all.as_array().into_iter().flatten().filter_map(|one| Some(one.as_str()?.to_owned())).collect()
}
