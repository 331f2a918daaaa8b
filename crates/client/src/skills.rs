//! Skills: texts for a model, used only when they are what the server's list says they are.

use crate::{
    client::{Client, pagination},
    error::{Error, Result},
};
use futures_util::TryStreamExt;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{fmt, fmt::Write};
use zcp_wire::{
    Method,
    mcp::{Listed, content::TextOrBlob, resources::ReadResourceResult},
};

/// A skill as it is listed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Skill {
    /// Its text, `SKILL.md`.
    pub uri: String,
    /// What its text says about itself at the top.
    #[serde(default)]
    pub frontmatter: Map<String, Value>,
    /// Its files.
    #[serde(default)]
    pub resources: Files,
}

impl Listed for Skill {
    const MEMBER: &'static str = "skills";
}

/// A skill's files.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Files {
    /// All of them.
    Known(Vec<File>),
    /// They are made when they are read: the word `dynamic`.
    Made(String),
}

impl Default for Files {
    fn default() -> Self {
        Self::Known(vec![])
    }
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct File {
    /// What it is read by.
    pub uri: String,
    /// `sha256:` and its digest.
    pub digest: String,
    /// Its bytes.
    pub size: u64,
}

/// A skill whose text was fetched, and is what the list says.
#[derive(Clone)]
pub struct OpenSkill {
    client: Client,
    skill: Skill,
    text: String,
}

impl Client {
    /// All skills. Nothing of them is fetched until one is opened.
    pub async fn list_skills(&self) -> Result<Vec<Skill>> {
        pagination::items(self.connection().clone(), Method::ListSkills).try_collect().await
    }

    /// Fetches a skill's text, if it is what the list says.
    pub async fn open_skill(&self, skill: &Skill) -> Result<OpenSkill> {
        OpenSkill::new(self.clone(), skill.clone()).await
    }
}

impl OpenSkill {
    async fn new(client: Client, skill: Skill) -> Result<Self> {
        let mut open = Self { client, skill, text: String::new() };
        let bytes = open.read(&open.skill.uri).await?;
        let text = String::from_utf8(bytes).map_err(|_| Error::invalid("a skill is no text"))?;
        let says = frontmatter(&text).map_err(|why| open.refused(&why))?;
        if says != open.skill.frontmatter {
            return Err(open.refused("its frontmatter is not the one that is listed"));
        }
        open.text = text;
        Ok(open)
    }

    fn refused(&self, why: &str) -> Error {
        Error::Invalid(format!("the skill `{}` is not used: {why}", self.skill.uri))
    }

    /// Its text, for the model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads one of its files.
    pub async fn read(&self, uri: &str) -> Result<Vec<u8>> {
        let folder = self.skill.uri.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_inside = uri.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if !is_inside || uri.split('/').any(|part| part == "..") {
            return Err(self.refused(&format!("`{uri}` is no part of it")));
        }
        let listed = match &self.skill.resources {
            Files::Made(_) => None,
            Files::Known(files) => {
                let listed = files.iter().find(|file| file.uri == uri);
                let unlisted = || self.refused(&format!("`{uri}` is not listed"));
                Some(listed.ok_or_else(unlisted)?)
            }
        };
        let bytes = bytes_of(&self.client.read(uri).await?, uri)?;
        if let Some(file) = listed {
            check(file, &bytes).map_err(|why| self.refused(&why))?;
        }
        Ok(bytes)
    }
}

fn bytes_of(read: &ReadResourceResult, uri: &str) -> Result<Vec<u8>> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let part = read.contents.iter().find(|part| part.uri == uri).or(read.contents.first());
    match part.map(|part| &part.data) {
        Some(TextOrBlob::Text(text)) => Ok(text.clone().into_bytes()),
        Some(TextOrBlob::Blob(coded)) => STANDARD.decode(coded).map_err(Error::invalid),
        None => Err(Error::Invalid(format!("`{uri}` has no contents"))),
    }
}

/// Whether a file is the one that is listed.
fn check(file: &File, bytes: &[u8]) -> std::result::Result<(), String> {
    if bytes.len() as u64 != file.size {
        return Err(format!("`{}` has {} bytes, not {}", file.uri, bytes.len(), file.size));
    }
    let digest = Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    match digest == file.digest.to_ascii_lowercase() {
        true => Ok(()),
        false => Err(format!("`{}` is not the file that is listed", file.uri)),
    }
}

/// What a text says about itself between two lines of dashes.
fn frontmatter(text: &str) -> std::result::Result<Map<String, Value>, String> {
    let text = text.replace("\r\n", "\n");
    let begun = text.strip_prefix("---\n").ok_or("it has no frontmatter")?;
    let end = begun.find("\n---").ok_or("its frontmatter has no end")?;
    serde_saphyr::from_str(&begun[..end]).map_err(|error| format!("its frontmatter: {error}"))
}

impl fmt::Debug for OpenSkill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSkill").field("skill", &self.skill).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_checked_by_its_size_and_digest() {
        let mut file = File {
            uri: "skill://a/SKILL.md".into(),
            digest: "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
                .into(),
            size: 5,
        };
        assert!(check(&file, b"hello").is_ok());
        assert!(check(&file, b"hellO").is_err());
        file.size = 6;
        assert!(check(&file, b"hello").unwrap_err().contains("5 bytes"));
    }

    #[test]
    fn frontmatter_is_read_as_json() {
        let text = "---\nname: pdf\ndescription: \"Reads: all\"\nn: 2\ntags: [a, b]\n---\n# Text\n";
        let says = frontmatter(text).unwrap();
        let expected =
            json!({ "name": "pdf", "description": "Reads: all", "n": 2, "tags": ["a", "b"] });
        assert_eq!(Value::Object(says), expected);
        assert!(frontmatter("# Text").is_err());
        assert!(frontmatter("---\nname: x\n").is_err());
    }
}
