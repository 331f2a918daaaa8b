//! Skills: texts for a model and the files that go with them, an extension since 2026-07-28.

use super::Listed;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the extension is called.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The text every skill has.
pub const TEXT: &str = "SKILL.md";
/// The type of a folder that is listed among files.
pub const FOLDER: &str = "inode/directory";

/// A skill as it is listed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// What its text is read by.
    pub uri: String,
    /// What its text says of itself at the top.
    pub frontmatter: Map<String, Value>,
    /// All of its files, its text too.
    pub resources: Vec<SkillFile>,
}

/// A file of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFile {
    /// What it is read by.
    pub uri: String,
    /// `sha256:` and the digest of its bytes.
    pub digest: String,
    /// How many bytes it has.
    pub size: u64,
}

impl Listed for Skill {
    const MEMBER: &'static str = "skills";
}
