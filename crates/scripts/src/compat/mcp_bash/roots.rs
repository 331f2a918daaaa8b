//! Roots: where the client works, for tools that want to know.

use super::{ToolContext, seconds, wants_roots};
use crate::{
    call_files::{self, HEAD},
    content,
    host::Host,
};
use serde_json::{Value, json};
use std::{io::Read, path::Path, time::Duration};
use zcp::{CallError, Ctx, Result, wire::mcp::roots::Root};

/// How long a client may take to say where it works.
const ROOTS_TIME: Duration = Duration::from_secs(5);
/// Folders of a client that a script is told of.
const MOST_ROOTS: usize = 64;
/// How much of a script is looked through.
const MOST: u64 = 1024 * 1024;

/// The roots a tool is told. The client is asked only if the tool may want to know.
pub(super) async fn roots(tool: &ToolContext<'_>, host: &Host, ctx: &Ctx) -> Result<Vec<Value>> {
    match may_want_roots(tool) {
        true => asked(tool, host, ctx).await,
        false => Ok(fallback_roots(tool, host)),
    }
}

/// Whether a script, or what it shares with others, mentions where the client works.
fn may_want_roots(tool: &ToolContext<'_>) -> bool {
    // Of a long script only the beginning is at hand.
    let is_cut = tool.head.len() as u64 >= HEAD;
    tool.project.wants_roots
        || wants_roots(tool.head)
        || (is_cut && wants_roots(&beginning(tool.path)))
}

/// Where the client works, if the tool may want to know; or what else is said of that, if the client says nothing in time.
async fn asked(tool: &ToolContext<'_>, host: &Host, ctx: &Ctx) -> Result<Vec<Value>> {
    if !ctx.client().roots() {
        return Ok(fallback_roots(tool, host));
    }
    let time = seconds(&host.environment, "MCPBASH_ROOTS_REQUEST_TIMEOUT").unwrap_or(ROOTS_TIME);
    let told = match tokio::time::timeout(time, ctx.roots("roots")).await {
        Ok(Err(CallError::Paused)) => return Err(CallError::Paused),
        Ok(Ok(told)) => told,
        Ok(Err(why)) => {
            tracing::debug!("the client does not say where it works: {why}");
            vec![]
        }
        Err(_) => {
            tracing::debug!("the client does not say where it works in {} s", time.as_secs());
            vec![]
        }
    };
    let there = |root: Root| {
        let path = url::Url::parse(&root.uri).ok()?.to_file_path().ok()?.canonicalize().ok()?;
        Some(named_root(&path, root.name.as_deref()))
    };
    // Any path, which may be on a slow disk or in a network.
    let found = move || told.into_iter().take(MOST_ROOTS).filter_map(there).collect();
    let all: Vec<Value> = tokio::task::spawn_blocking(found).await.unwrap_or_default();
    Ok(if all.is_empty() { fallback_roots(tool, host) } else { all })
}

fn named_root(path: &Path, name: Option<&str>) -> Value {
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(last).unwrap_or_default();
    json!({ "uri": content::uri_of(path), "name": name, "path": path })
}

/// Where the server, the project, or nobody says that the client works.
fn fallback_roots(tool: &ToolContext<'_>, host: &Host) -> Vec<Value> {
    let mut all = vec![];
    let root = tool.project.root;
    let there = |path: &str| root.join(path).canonicalize().ok();
    if let Some(said) = host.environment.get("MCPBASH_ROOTS").filter(|said| !said.is_empty()) {
        all.extend(said.split(':').filter_map(there).map(|path| named_root(&path, None)));
    } else if let Ok(file) = crate::manifest::read_value(&root.join("config/roots.json")) {
        for one in file["roots"].as_array().into_iter().flatten() {
            let path = one["path"].as_str().and_then(there);
            all.extend(path.map(|path| named_root(&path, one["name"].as_str())));
        }
    }
    if all.is_empty() {
        all.push(named_root(root, None));
    }
    all
}

/// How a script begins, as far as it is looked at.
fn beginning(path: &Path) -> String {
    let mut text = vec![];
    let read =
        call_files::open_regular(path).and_then(|file| file.take(MOST).read_to_end(&mut text));
    read.map_or(String::new(), |_| String::from_utf8_lossy(&text).into_owned())
}
