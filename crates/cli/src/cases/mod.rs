//! Cases: calls of a folder's tools, and what is expected of them, in files of YAML.

mod file;

pub(crate) use file::{File, append_case};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};
use std::{error::Error, path::PathBuf};
use zcp_client::wire::mcp::{
    content::{Content, Kind, ResourceContents, TextOrBlob},
    elicitation::ElicitResult,
    tools::CallToolResult,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One call, and what is expected of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Case {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) args: Map<String, Value>,
    /// What the user says to the questions that are asked, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) answers: Vec<ElicitResult>,
    /// Folders the client works in; without them it is a client that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) roots: Option<Vec<PathBuf>>,
    /// Why it is not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expect: Option<Expect>,
}

/// What is expected of a call. What is not said may be anything; only a failure is never a
/// surprise that passes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// Whether it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<bool>,
    /// The code the server refuses with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i64>,
    /// All it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// Some of what it says.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub(crate) contains: Vec<String>,
    /// A regular expression for what it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matches: Option<String>,
    /// A part of the value it gives; `*` stands for anything.
    #[serde(skip_serializing_if = "Option::is_none", alias = "json")]
    pub(crate) structured: Option<Value>,
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Vec<String>, D::Error> {
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err(D::Error::custom(format!("{value} is no words, and no list of words"))),
    };
    match Value::deserialize(from)? {
        Value::Array(all) => all.into_iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

impl Case {
    /// What it is called: its name, or what is called in it.
    pub(crate) fn title(&self) -> String {
        let called = [&self.tool, &self.prompt, &self.resource].into_iter().flatten().next();
        let called = called.cloned().unwrap_or_default();
        let argument = |(name, value): (&String, &Value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            value => format!(" {name}={value}"),
        };
        let whole = || called.clone() + &self.args.iter().map(argument).collect::<String>();
        self.name.clone().unwrap_or_else(whole)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let called = [&self.tool, &self.prompt, &self.resource].into_iter().flatten().count();
        if called != 1 {
            return Err(
                "it says not one, but several or none of `tool`, `prompt`, `resource`".into()
            );
        }
        if self.resource.is_some() && !self.args.is_empty() {
            return Err("a resource has no `args`".into());
        }
        let pattern = self.expect.as_ref().and_then(|expect| expect.matches.as_deref());
        match pattern.map(regex::Regex::new) {
            Some(Err(error)) => Err(format!("`matches`: {error}")),
            _ => Ok(()),
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Got {
    pub(crate) text: String,
    pub(crate) structured: Option<Value>,
    pub(crate) is_error: bool,
    pub(crate) code: Option<i64>,
}

impl Got {
    /// What a tool gave.
    pub(crate) fn tool(result: &CallToolResult) -> Self {
        Self {
            text: text_of(&result.content),
            structured: result.structured_content.clone(),
            is_error: result.is_error,
            code: None,
        }
    }

    /// The value it gave, also where it is only in its words.
    pub(crate) fn value(&self) -> Option<Value> {
        self.structured.clone().or_else(|| serde_json::from_str(&self.text).ok())
    }

    /// All of it, as what is expected from now on. Words that only repeat the value are left out.
    pub(crate) fn expected(&self) -> Expect {
        let repeats = self.structured.is_some()
            && serde_json::from_str::<Value>(&self.text).ok() == self.structured;
        Expect {
            error: self.is_error.then_some(true),
            code: self.code,
            text: (!repeats).then(|| self.text.clone()),
            structured: self.structured.clone(),
            ..Expect::default()
        }
    }
}

/// What content says; what is no words is named.
pub(crate) fn text_of(content: &[Content]) -> String {
    let one = |content: &Content| match &content.kind {
        Kind::Text { text } => text.clone(),
        Kind::Image { mime_type, .. } => format!("[image, {mime_type}]"),
        Kind::Audio { mime_type, .. } => format!("[sound, {mime_type}]"),
        Kind::ResourceLink(resource) => format!("{}: {}", resource.name, resource.uri),
        Kind::Resource { resource } => text_in(resource),
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    content.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// What a resource says; bytes are named.
pub(crate) fn text_in(resource: &ResourceContents) -> String {
    match &resource.data {
        TextOrBlob::Text(text) => text.clone(),
        TextOrBlob::Blob(_) => {
            format!("[{}]", resource.mime_type.as_deref().unwrap_or("bytes"))
        }
    }
}
