//! Pictures of tools: local files become part of what is listed, so that any client can show them.

use crate::call_files;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::path::{Path, PathBuf};
use zcp::Icon;

/// The largest picture that is put into a list.
const LARGEST: u64 = 256 * 1024;

/// The pictures something is said to have; local ones are found in `folder`, and are in one of
/// `places` once links are followed. What is wrong with others is logged.
pub(crate) fn icons(said: &[Value], folder: &Path, places: &[PathBuf]) -> Vec<Icon> {
    let (icons, wrong) = checked(said, folder, places);
    wrong.iter().for_each(|why| tracing::warn!("{why}"));
    icons
}

/// The same, and what is wrong with others.
pub(crate) fn checked(
    said: &[Value],
    folder: &Path,
    places: &[PathBuf],
) -> (Vec<Icon>, Vec<String>) {
    let (mut icons, mut wrong) = (vec![], vec![]);
    for one in said {
        match icon(one, folder, places) {
            Ok(icon) => icons.push(icon),
            Err(why) => wrong.push(why),
        }
    }
    (icons, wrong)
}

fn icon(said: &Value, folder: &Path, places: &[PathBuf]) -> Result<Icon, String> {
    let mut icon = match said {
        Value::String(src) => Icon { src: src.clone(), ..Icon::default() },
        Value::Object(members) => {
            let mut members = members.clone();
            // One size may be said without a list.
            if let Some(size @ Value::String(_)) = members.get("sizes").cloned() {
                members.insert("sizes".into(), Value::Array(vec![size]));
            }
            let icon: Result<Icon, _> = serde_json::from_value(Value::Object(members));
            icon.map_err(|error| format!("an icon cannot be used: {error}"))?
        }
        _ => return Err(format!("an icon cannot be used: {said} is no address")),
    };
    if ["https://", "http://", "data:"].iter().any(|scheme| icon.src.starts_with(scheme)) {
        return Ok(icon);
    }
    let path = folder.join(icon.src.strip_prefix("file://").unwrap_or(&icon.src));
    let bytes = call_files::read_inside(&path, LARGEST, places).unwrap_or_default();
    if !is_picture(&bytes) {
        return Err(format!(
            "{}: no picture of at most {LARGEST} bytes is there, inside of the project",
            path.display()
        ));
    }
    let mime = match icon.mime_type.take() {
        Some(mime) => mime,
        None => crate::content::mime_of(Some(&path), &bytes),
    };
    icon.src = format!("data:{mime};base64,{}", STANDARD.encode(bytes));
    icon.mime_type = Some(mime);
    Ok(icon)
}

/// Whether bytes are a picture: by their beginning, or by the first tag of their text.
fn is_picture(bytes: &[u8]) -> bool {
    infer::is_image(bytes) || std::str::from_utf8(bytes).is_ok_and(is_svg)
}

/// Whether the first tag of a text is `<svg>`. Declarations and comments may come before it.
fn is_svg(text: &str) -> bool {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!") => ">",
            _ => break,
        };
        let Some((_, after)) = rest.split_once(end) else { return false };
        rest = after.trim_start();
    }
    let name =
        rest.strip_prefix('<').and_then(|tag| tag.split([' ', '\n', '\r', '\t', '>', '/']).next());
    name.is_some_and(|name| name == "svg" || name.ends_with(":svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_from_other_files() {
        for text in [
            "<svg/>",
            "\u{feff}<?xml version=\"1.0\"?>\n<!-- a > b -->\n<!DOCTYPE svg>\n<svg width=\"1\">",
            "<s:svg>",
        ] {
            assert!(is_picture(text.as_bytes()), "{text}");
        }
        assert!(is_picture(b"\x89PNG\r\n\x1a\n"));
        for text in ["", "-----BEGIN OPENSSH PRIVATE KEY-----", "<html><svg/>", "<!-- <svg>", "svg"]
        {
            assert!(!is_picture(text.as_bytes()), "{text}");
        }
    }
}
