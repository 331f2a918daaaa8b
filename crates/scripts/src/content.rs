//! Files and bytes as content: pictures and sounds as what they are, the rest as resources.

use std::path::Path;
use zcp::{Content, ResourceContents};

/// The largest file that becomes part of an answer.
const LARGEST: u64 = 10 * 1024 * 1024;

/// A file as content.
pub(crate) async fn of_file(path: &Path, mime: Option<&str>) -> Result<Content, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let length = tokio::fs::metadata(path).await.map_err(|error| wrong(&error))?.len();
    if length > LARGEST {
        return Err(wrong(&format!(
            "the file has {length} bytes, and may have {LARGEST}: link it"
        )));
    }
    let bytes = tokio::fs::read(path).await.map_err(|error| wrong(&error))?;
    let mime = mime.map_or_else(|| mime_of(Some(path), &bytes), str::to_owned);
    Ok(of_bytes(bytes, mime, &uri_of(path)))
}

/// Bytes of a type as content.
pub(crate) fn of_bytes(bytes: Vec<u8>, mime: String, uri: &str) -> Content {
    match mime.split('/').next() {
        Some("image") if mime != "image/svg+xml" => Content::image(bytes, mime),
        Some("audio") => Content::audio(bytes, mime),
        _ => Content::embed(contents(bytes, mime, uri)),
    }
}

/// Bytes of a type as a resource's contents: text where they are text.
pub(crate) fn contents(bytes: Vec<u8>, mime: String, uri: &str) -> ResourceContents {
    let kind = mime.split('/').next().unwrap_or_default();
    let is_binary = matches!(kind, "image" | "audio" | "video") && !mime.ends_with("+xml");
    if is_binary || bytes.contains(&0) {
        return ResourceContents::blob(uri, mime, bytes);
    }
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(uri, mime, text),
        Err(error) => ResourceContents::blob(uri, mime, error.into_bytes()),
    }
}

/// What bytes are: by their beginning, by their file's name, or by being text or not.
pub(crate) fn mime_of(path: Option<&Path>, bytes: &[u8]) -> String {
    let by_name = || {
        let ending = path?.extension()?.to_str()?;
        match ending {
            // Servers of web pages call it a stream of video.
            "ts" => Some("text/typescript".to_owned()),
            "md" => Some("text/markdown".to_owned()),
            ending => mime_guess::from_ext(ending).first().map(|mime| mime.to_string()),
        }
    };
    let by_beginning = || infer::get(bytes).map(|kind| kind.mime_type().to_owned());
    let is_text = std::str::from_utf8(bytes).is_ok();
    let otherwise = || match is_text {
        true => "text/plain".to_owned(),
        false => "application/octet-stream".to_owned(),
    };
    match is_text {
        true => by_name().unwrap_or_else(otherwise),
        false => by_beginning().or_else(by_name).unwrap_or_else(otherwise),
    }
}

pub(crate) fn uri_of(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    url::Url::from_file_path(&path)
        .map_or_else(|()| format!("file://{}", path.display()), String::from)
}

/// A path as part of an address: what is not plain there is escaped.
pub(crate) fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
