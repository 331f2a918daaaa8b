//! What a tool is told of itself, its server and its project.

use super::{PROJECT_ROOT, ToolContext, contract_call::LONGEST};
use crate::{host::Host, manifest::icons};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// The version of the framework whose contract this is.
const VERSION: &str = "1.3.0";

/// A tool as the framework keeps it.
pub(crate) fn metadata(tool: &ToolContext<'_>) -> Value {
    let said = tool.manifest;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    let path = tool.path.strip_prefix(&tool.project.tools).unwrap_or(tool.path);
    let mut all = json!({
        "name": tool.name,
        "description": said.description.as_deref().unwrap_or_default(),
        "path": path,
        "inputSchema": tool.schema,
        "timeoutSecs": seconds(said.timeout),
    });
    let (icons, _) = icons::checked(
        &said.icons,
        tool.path.parent().unwrap_or(Path::new(".")),
        &[tool.project.root.to_path_buf(), tool.project.tools.clone()],
    );
    for (name, value) in [
        ("title", json!(said.title)),
        ("timeoutHint", json!(said.timeout_hint)),
        ("progressExtendsTimeout", json!(said.progress_extends_timeout.filter(|extends| *extends))),
        ("maxTimeoutSecs", json!(seconds(said.max_timeout))),
        ("outputSchema", json!(said.output_schema)),
        ("icons", json!((!icons.is_empty()).then_some(icons))),
        ("annotations", json!(said.annotations)),
        ("_meta", json!(said.meta)),
    ] {
        if !value.is_null() {
            all[name] = value;
        }
    }
    all
}

/// What a tool is told of the server and the project it belongs to.
pub(super) fn about(tool: &ToolContext<'_>, host: &Host) -> Vec<(&'static str, String)> {
    let project = &tool.project;
    let about = project.about;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let icons = (!about.icons.is_empty()).then(|| json!(about.icons).to_string());
    let mut all = vec![
        (PROJECT_ROOT, project.root.to_string_lossy().into_owned()),
        ("MCPBASH_MODE", "full".to_owned()),
        ("MCPBASH_TRANSPORT", "stdio".to_owned()),
        ("MCPBASH_JSON_TOOL", "jq".to_owned()),
        ("MCPBASH_JSON_TOOL_BIN", host.environment.jq.to_string_lossy().into_owned()),
        ("MCPBASH_FRAMEWORK_VERSION", VERSION.to_owned()),
        ("MCPBASH_SERVER_NAME", project.name.clone()),
        ("MCPBASH_SERVER_TITLE", about.title.clone().unwrap_or_else(|| titled(project.root))),
        ("MCPBASH_SERVER_VERSION", about.version.clone().unwrap_or_else(|| "0.0.0".to_owned())),
        ("MCPBASH_SERVER_DESCRIPTION", text(&about.description)),
        ("MCPBASH_SERVER_WEBSITE_URL", text(&about.website_url)),
        ("MCPBASH_SERVER_ICONS", text(&icons)),
        ("MCPBASH_SERVER_INSTRUCTIONS", text(&about.instructions)),
    ];
    // Nothing is forbidden where nobody says what is allowed.
    if host.environment.get("MCPBASH_TOOL_ALLOWLIST").is_none() {
        all.push(("MCPBASH_TOOL_ALLOWLIST", "*".to_owned()));
    }
    // No program could be started with a longer one.
    all.iter_mut().filter(|(_, value)| value.len() as u64 > LONGEST).for_each(|(_, value)| {
        value.clear();
    });
    all
}

/// A folder's name as a title: `my-server` is `My Server`.
fn titled(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let words = name.split(['-', '_', ' ']).filter(|word| !word.is_empty()).map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    });
    words.collect::<Vec<_>>().join(" ")
}
