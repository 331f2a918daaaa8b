//! Sampling: asking the client's model.

use super::{
    Extra,
    content::{Content, Role},
    tools::Tool,
};
use serde::{Deserialize, Serialize};

/// A question to the client's model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessage {
    /// What was said so far.
    pub messages: Vec<SamplingMessage>,
    /// Which model would suit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// What the model is told first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Whether the client adds what it knows: `none`, `thisServer` or `allServers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// How free the model is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// At most as long as this.
    pub max_tokens: u32,
    /// Where the model stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// For the model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// What the model may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// Whether it must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
}

/// One thing said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// By whom.
    pub role: Role,
    /// What.
    pub content: OneOrMany,
    /// Whatever else its maker has to say.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Extra>,
}

impl SamplingMessage {
    /// Something the person says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: OneOrMany::One(content.into()), meta: None }
    }

    /// Something the model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: OneOrMany::One(content.into()), meta: None }
    }
}

impl CreateMessage {
    /// A question in words, and how long the answer may be.
    pub fn new(question: impl Into<String>, max_tokens: u32) -> Self {
        let messages = vec![SamplingMessage::user(question.into())];
        Self { messages, max_tokens, ..Self::default() }
    }
}

/// A block of content, or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// The only form before 2025-11-25.
    One(Content),
    /// Several.
    Many(Vec<Content>),
}

impl OneOrMany {
    /// The blocks.
    pub fn iter(&self) -> std::slice::Iter<'_, Content> {
        match self {
            Self::One(content) => std::slice::from_ref(content).iter(),
            Self::Many(contents) => contents.iter(),
        }
    }

    /// Several blocks as one: words stay words, the rest becomes a note in words.
    pub(crate) fn as_one_block(&mut self) {
        let Self::Many(blocks) = self else { return };
        *self = Self::One(match blocks.len() {
            1 => blocks.remove(0),
            _ => {
                let words: Vec<String> = blocks.iter().map(Content::in_words).collect();
                Content::text(words.join("\n"))
            }
        });
    }

    /// The blocks, to be changed.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Content> {
        match self {
            Self::One(content) => std::slice::from_mut(content).iter_mut(),
            Self::Many(contents) => contents.iter_mut(),
        }
    }
}

impl<'a> IntoIterator for &'a OneOrMany {
    type Item = &'a Content;
    type IntoIter = std::slice::Iter<'a, Content>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut OneOrMany {
    type Item = &'a mut Content;
    type IntoIter = std::slice::IterMut<'a, Content>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Which model would suit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Names or parts of names, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A model's name or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// For example `sonnet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What the client adds of what it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IncludeContext {
    /// Nothing.
    None,
    /// What it knows from this server.
    ThisServer,
    /// What it knows from every server.
    AllServers,
}

/// Whether the model must use a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChoice {
    /// `auto`, `required` or `none`.
    pub mode: String,
}

/// What the model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// By whom: the model.
    pub role: Role,
    /// What.
    pub content: OneOrMany,
    /// Which model.
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Members this side does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl CreateMessageResult {
    /// The words of the answer.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
    }
}
