//! A skill: a text for a model, and the files that go with it.

use super::resource::{Contents, Resource};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};
use zcp_wire::mcp::skills::{Skill as Listed, SkillFile, TEXT};

/// Files of one skill at most.
const FILES: usize = 512;
/// Bytes of one skill at most.
const BYTES: usize = 16 * 1024 * 1024;

/// A skill: a text for a model, and the files that go with it. A client reads them when the model
/// needs them.
///
/// ```
/// use serde_json::json;
/// use zcp::{Server, Skill};
///
/// let text = "---\nname: tea\ndescription: How to make tea.\n---\nBoil water.\n";
/// let says = json!({ "name": "tea", "description": "How to make tea." });
/// let skill = Skill::new("tea", says.as_object().unwrap().clone())
///     .file("SKILL.md", text)
///     .file("references/kinds.md", "Green, black, white.\n");
/// # Server::new("demo").skill(skill).build().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Skill {
    path: String,
    frontmatter: Map<String, Value>,
    files: BTreeMap<String, Arc<[u8]>>,
}

impl Skill {
    /// A skill at a path, whose last part is its name, and what its text says at its top: exactly
    /// that, as JSON.
    pub fn new(path: impl Into<String>, frontmatter: Map<String, Value>) -> Self {
        Self { path: path.into(), frontmatter, files: BTreeMap::new() }
    }

    /// A file: `SKILL.md` must be among them.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), bytes.into().into());
        self
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn uri(&self, file: &str) -> String {
        format!("skill://{}/{}", escaped(&self.path), escaped(file))
    }

    fn says(&self, member: &str) -> &str {
        self.frontmatter.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    /// What is listed, and the resources its files are. Checks everything that can be known.
    pub(crate) fn ready(&self) -> Result<(Listed, Vec<Resource>), Vec<String>> {
        let mut mistakes = vec![];
        let name = self.path.rsplit('/').next().unwrap_or_default();
        if self.says("name") != name || name.is_empty() {
            mistakes.push(format!("its text says that it is called `{}`", self.says("name")));
        }
        if self.says("description").is_empty() {
            mistakes.push("its text has no `description` at its top".to_owned());
        }
        if !self.files.contains_key(TEXT) {
            mistakes.push(format!("it has no `{TEXT}`"));
        }
        if self.files.len() > FILES {
            mistakes.push(format!("it has more than {FILES} files"));
        }
        if self.files.values().map(|bytes| bytes.len()).sum::<usize>() > BYTES {
            mistakes.push(format!("its files have more than {BYTES} bytes"));
        }
        let outside = |path: &&String| path.split('/').any(|part| part.is_empty() || part == "..");
        if let Some(path) = self.files.keys().find(outside) {
            mistakes.push(format!("`{path}` is no file of it"));
        }
        if !mistakes.is_empty() {
            let label = |why| format!("skill `{}`: {why}", self.path);
            return Err(mistakes.into_iter().map(label).collect());
        }
        let resources = self.files.iter().map(|(path, bytes)| SkillFile {
            uri: self.uri(path),
            digest: digest(bytes),
            size: bytes.len() as u64,
        });
        let listed = Listed {
            uri: self.uri(TEXT),
            frontmatter: self.frontmatter.clone(),
            resources: resources.collect(),
        };
        Ok((listed, self.files.iter().map(|(path, bytes)| self.resource(path, bytes)).collect()))
    }

    /// A file as a resource: the text is listed, the others are found through it.
    fn resource(&self, path: &str, bytes: &Arc<[u8]>) -> Resource {
        let held = bytes.clone();
        let resource = Resource::new(self.uri(path), move || {
            let bytes = held.clone();
            async move {
                match std::str::from_utf8(&bytes) {
                    Ok(text) => Contents::Text(text.to_owned()),
                    Err(_) => Contents::Bytes(bytes.to_vec()),
                }
            }
        });
        let resource = resource.mime_type(mime_type(path, bytes)).size(bytes.len() as u64);
        match path == TEXT {
            true => resource.name(self.says("name")).description(self.says("description")),
            false => resource.name(path).unlisted(),
        }
    }
}

/// Folders of files by their URIs: what is directly in one, folders last part first.
pub(crate) fn children<'a>(
    folder: &str,
    files: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Child<'a>> {
    let start = format!("{}/", folder.trim_end_matches('/'));
    let inside = files.filter_map(|uri| Some((uri, uri.strip_prefix(&start)?)));
    inside
        .map(|(uri, rest)| match rest.split_once('/') {
            None => (rest.to_owned(), Child::File(uri)),
            Some((name, _)) => (name.to_owned(), Child::Folder(format!("{start}{name}"))),
        })
        .collect()
}

/// What is directly in a folder.
pub(crate) enum Child<'a> {
    /// By its URI.
    File(&'a str),
    /// By its URI.
    Folder(String),
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A path as a part of a URI.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            other => drop(write!(out, "%{other:02X}")),
        }
    }
    out
}

fn mime_type(path: &str, bytes: &[u8]) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("pdf") => "application/pdf",
        _ if std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}
