//! Pictures of tools: local files become part of what is listed, so that any client can show them.

use crate::call_files;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::path::Path;
use zcp::Icon;

/// The largest picture that is put into a list.
const LARGEST: u64 = 256 * 1024;

/// The pictures something is said to have; local ones are found in `folder`.
pub(crate) fn icons(said: &[Value], folder: &Path) -> Vec<Icon> {
    said.iter().filter_map(|one| icon(one, folder)).collect()
}

fn icon(said: &Value, folder: &Path) -> Option<Icon> {
    let mut icon = match said {
        Value::String(src) => Icon { src: src.clone(), ..Icon::default() },
        Value::Object(members) => {
            let mut members = members.clone();
            // One size may be said without a list.
            if let Some(size @ Value::String(_)) = members.get("sizes").cloned() {
                members.insert("sizes".into(), Value::Array(vec![size]));
            }
            serde_json::from_value(Value::Object(members)).ok()?
        }
        _ => return None,
    };
    if ["https://", "http://", "data:"].iter().any(|scheme| icon.src.starts_with(scheme)) {
        return Some(icon);
    }
    let path = folder.join(icon.src.strip_prefix("file://").unwrap_or(&icon.src));
    let bytes = call_files::read_regular(&path, LARGEST).unwrap_or_default();
    if bytes.is_empty() {
        tracing::warn!("{}: no picture of at most {LARGEST} bytes is there", path.display());
        return None;
    }
    let mime = match icon.mime_type.take() {
        Some(mime) => mime,
        None => crate::content::mime_of(Some(&path), &bytes),
    };
    icon.src = format!("data:{mime};base64,{}", STANDARD.encode(bytes));
    icon.mime_type = Some(mime);
    Some(icon)
}
