//! Projects written for mcp-bash: the only code that knows its variables and conventions.
//!
//! [`Contract`] is how a tool written for it differs from others: its defaults, how it is given its
//! arguments, and how its files become part of the answer.

mod contract_call;
pub(crate) mod policy_hook;
pub(crate) mod provider_settings;
pub(crate) mod registered;
pub(crate) mod remote_token;
mod roots;
mod tool_metadata;

use crate::{
    content,
    host::{Environment, Host},
    manifest::{
        Form, Manifest, ServerInfo,
        defaults::{self, Defaults},
    },
};
pub(crate) use contract_call::Call;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
pub(crate) use tool_metadata::metadata;
use zcp::{Ctx, Output, Result};
use zcp_policy::Allowlist;

/// The variable that says where a project is.
pub const PROJECT_ROOT: &str = "MCPBASH_PROJECT_ROOT";
/// The variable that says how many seconds a check of a project's health may take.
pub const HEALTH_TIMEOUT: &str = "MCPBASH_HEALTH_TIMEOUT_SECS";
/// Which variables of the server scripts see, and those they see if they do not see all.
const ENV_MODE: &str = "MCPBASH_TOOL_ENV_MODE";
const ENV_ALLOWLIST: &str = "MCPBASH_TOOL_ENV_ALLOWLIST";
/// Variables that settings come from.
pub(crate) const TIMEOUT: &str = "MCPBASH_DEFAULT_TOOL_TIMEOUT";
pub(crate) const MAX_TIMEOUT: &str = "MCPBASH_MAX_TIMEOUT_SECS";
pub(crate) const OUTPUT: &str = "MCPBASH_MAX_TOOL_OUTPUT_SIZE";
pub(crate) const MAX_CONCURRENT: &str = "MCPBASH_MAX_CONCURRENT_REQUESTS";
const PROGRESS_EXTENDS: &str = "MCPBASH_PROGRESS_EXTENDS_TIMEOUT";
/// Whether programs of a project may run before anybody calls them.
const ALLOW_HOOKS: &str = "MCPBASH_ALLOW_PROJECT_HOOKS";
/// How long a tool may take, however much progress it makes.
pub(crate) const MOST_TIME: Duration = Duration::from_secs(600);
/// How much of a tool's output is shown.
const SHOWN: u64 = 10 * 1024 * 1024;
/// Words of scripts that are written for it.
const MENTIONED: [&str; 3] = ["MCP_SDK", "MCP_TOOL_", "MCPBASH_"];
/// Words of scripts that want to know where the client works.
const WANTS_ROOTS: [&str; 3] = ["MCP_ROOTS", "mcp_roots", "mcp_require_path"];

/// How a tool written for mcp-bash differs from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contract {
    pub(crate) defaults: Defaults,
}

/// A tool, as far as the contract needs to know it.
#[derive(Debug)]
pub(crate) struct ToolContext<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: &'a Path,
    /// How its script begins.
    pub(crate) head: &'a str,
    pub(crate) schema: &'a Value,
    pub(crate) manifest: &'a Manifest,
    pub(crate) project: ProjectContext<'a>,
}

/// A project, as far as the contract needs to know it.
#[derive(Debug)]
pub(crate) struct ProjectContext<'a> {
    pub(crate) root: &'a Path,
    pub(crate) name: String,
    pub(crate) about: &'a ServerInfo,
    /// The folder of its tools.
    pub(crate) tools: PathBuf,
    /// What its tools share wants to know where the client works.
    pub(crate) wants_roots: bool,
}

/// Adds to a server's environment what shows all of its variables to scripts, which see only those
/// that they are shown.
pub fn show_to_scripts(env: &mut BTreeMap<String, String>) {
    let names: Vec<_> = env.keys().filter(|name| !name.starts_with("MCPBASH_")).cloned().collect();
    env.entry(ENV_MODE.to_owned()).or_insert_with(|| "allowlist".to_owned());
    env.entry(ENV_ALLOWLIST.to_owned()).or_insert(names.join(","));
}

impl Contract {
    /// The contract of a script, if it is written for mcp-bash: it says so, or it does not say
    /// otherwise and its project or its text is.
    pub(crate) fn of(
        form: Option<&Form>,
        is_of_project: bool,
        head: &str,
        environment: &Environment,
    ) -> Option<Self> {
        let is_meant = match form {
            Some(form) => *form == Form::McpBash,
            None => is_of_project || MENTIONED.iter().any(|word| head.contains(word)),
        };
        is_meant.then(|| Self {
            defaults: Defaults {
                timeout: seconds(environment, TIMEOUT).unwrap_or(defaults::TIMEOUT),
                max_timeout: Some(seconds(environment, MAX_TIMEOUT).unwrap_or(MOST_TIME)),
                progress_extends_timeout: is_true(environment, PROGRESS_EXTENDS),
                output: number(environment, OUTPUT).unwrap_or(SHOWN),
            },
        })
    }

    /// The timeout a client asks for with its call: no more than `most`.
    #[expect(clippy::unused_self, reason = "only callers with a contract may ask")]
    pub(crate) fn asked_timeout(&self, ctx: &Ctx, most: Duration) -> Option<Duration> {
        let params: Value = serde_json::from_str(ctx.params()?).ok()?;
        let seconds = params.get("timeoutSecs")?.as_f64()?;
        Duration::try_from_secs_f64(seconds).ok().map(|time| time.min(most))
    }

    /// Begins a call of a tool.
    pub(crate) async fn begin(
        &self,
        tool: &ToolContext<'_>,
        args: &Map<String, Value>,
        host: &Arc<Host>,
        ctx: &Ctx,
    ) -> Result<Call> {
        Call::new(tool, args, host, ctx).await
    }
}

/// Links the page of a tool in its result, for clients that show pages.
pub(crate) fn link_page(output: &mut Output, said: &Manifest, ctx: &Ctx) {
    let page = said.meta.as_ref().and_then(|meta| meta.get("ui")?.get("resourceUri"));
    if let Some(page) = page.filter(|_| ctx.client().extension(content::UI_EXTENSION)) {
        output.meta.entry("ui").or_insert_with(|| json!({ "resourceUri": page }));
    }
}

/// Whether a script's text says that it wants to know where its client works.
pub(crate) fn wants_roots(text: &str) -> bool {
    WANTS_ROOTS.iter().any(|word| text.contains(word))
}

/// Whether the variable that names a project names this one: it is written for mcp-bash then, even
/// if it has no `server.d/`.
pub(crate) fn names_project(root: &Path, env: &BTreeMap<String, String>) -> bool {
    let named = env.get(PROJECT_ROOT).filter(|path| !path.is_empty());
    named.is_some_and(|path| Path::new(path).canonicalize().is_ok_and(|path| path == root))
}

/// Where variables say that a folder of a project is.
pub(crate) fn moved_folder(
    root: &Path,
    name: &str,
    env: &BTreeMap<String, String>,
) -> Option<PathBuf> {
    let variable = match name {
        "server.d" => "MCPBASH_SERVER_DIR".to_owned(),
        name => format!("MCPBASH_{}_DIR", name.to_uppercase()),
    };
    env.get(&variable).filter(|path| !path.is_empty()).map(|path| root.join(path))
}

/// The tools that variables allow, if one of them is set.
pub(crate) fn allowlist(env: &BTreeMap<String, String>) -> Option<Allowlist> {
    let list = env.get(ALLOWLIST);
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
    Some(Allowlist { names, has_all, source: ALLOWLIST })
}

const ALLOWLIST: &str = "MCPBASH_TOOL_ALLOWLIST";

/// Variables that name the JSON tool, for every program of a project.
pub(crate) fn json_tool(environment: &Environment) -> [(&'static str, OsString); 2] {
    [("MCPBASH_JSON_TOOL", "jq".into()), ("MCPBASH_JSON_TOOL_BIN", environment.jq.clone().into())]
}

/// Whether a variable is the secret that lets clients in, or says of it.
fn is_remote_token(name: &str) -> bool {
    name.starts_with("MCPBASH_REMOTE_TOKEN")
}

/// A variable that is a number.
pub(crate) fn number(environment: &Environment, name: &str) -> Option<u64> {
    environment.get(name)?.trim().parse().ok()
}

/// A variable that is a number of seconds.
pub(crate) fn seconds(environment: &Environment, name: &str) -> Option<Duration> {
    number(environment, name).map(Duration::from_secs)
}

/// Whether a variable is set to yes.
pub(crate) fn is_true(environment: &Environment, name: &str) -> bool {
    means_yes(environment.get(name))
}

fn means_yes(value: Option<impl AsRef<str>>) -> bool {
    value.is_some_and(|value| matches!(value.as_ref(), "true" | "1" | "yes" | "on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_allowed_one_by_one_or_all_at_once() {
        let list = |said: &[(&str, &str)]| {
            let env = said.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
            allowlist(&env.collect())
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
