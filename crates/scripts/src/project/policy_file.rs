//! The policy of a project: `policy.toml`, or `[policy]` of `zcp.toml`.

use super::Project;
use crate::{
    compat::mcp_bash::{self, policy_hook::Hook, provider_settings},
    manifest::read_value,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use zcp_policy::{Folders, Policy};

/// The file of a policy, which wins over `[policy]` in `zcp.toml`.
const FILE: &str = "policy.toml";

/// The policy of a project and its hook. `said` is `[policy]` of its `zcp.toml`, or why that cannot
/// be read: what it forbids is not known then.
pub(super) fn read(
    project: &Project,
    said: Result<Option<Value>, String>,
    env: &BTreeMap<String, String>,
) -> Result<(Policy, Option<Hook>), String> {
    let said = said?;
    let file = project.root.join(FILE);
    // A link that leads nowhere is a policy that cannot be read, not none.
    let (said, from) = match fs::symlink_metadata(&file) {
        Ok(_) => (Some(of_file(&file)?), file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (said, project.root.join("zcp.toml"))
        }
        Err(error) => return Err(format!("{}: {error}", file.display())),
    };
    let served = served(project, env);
    let folders = Folders { root: &project.root, served: &served };
    let policy = Policy::read(said, mcp_bash::allowlist(env), &folders)
        .map_err(|why| format!("{}: {why}", from.display()))?;
    Ok((policy, Hook::find(&project.folder("server.d"), &project.root)?))
}

/// Folders whose files clients may read.
fn served(project: &Project, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let roots = env.get(provider_settings::ROOTS).map(String::as_str).unwrap_or_default();
    let roots = std::env::split_paths(roots)
        .filter(|root| !root.as_os_str().is_empty())
        .map(|root| project.root.join(root));
    project.served().chain(roots).collect()
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
