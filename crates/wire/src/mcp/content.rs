//! Content: what tools and prompts say, in words, pictures, sounds and references.

use super::{Extra, resources::Resource};
use crate::json;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One block of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// What it is.
    #[serde(flatten)]
    pub kind: Kind,
    /// For whom, and how much it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Whatever else its maker has to say.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Extra>,
}

/// The kinds of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "each field is the member of its name")]
#[non_exhaustive]
pub enum Kind {
    /// Words.
    Text { text: String },
    /// A picture, in Base64.
    Image { data: String, mime_type: String },
    /// A sound, in Base64.
    Audio { data: String, mime_type: String },
    /// A resource to read if wanted.
    ResourceLink(Box<Resource>),
    /// A resource, read.
    Resource { resource: ResourceContents },
    /// A model's wish to use a tool. Only in sampling.
    ToolUse { id: String, name: String, input: Value },
    /// What the tool gave. Only in sampling.
    ToolResult {
        tool_use_id: String,
        content: Vec<Content>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_content: Option<Value>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// A resource's text or bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents {
    /// The resource, or the part of it this is.
    pub uri: String,
    /// What kind of text or bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, or the bytes in Base64.
    #[serde(flatten)]
    pub data: TextOrBlob,
    /// Whatever else its maker has to say.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Extra>,
}

/// Either half of a resource's contents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextOrBlob {
    /// Text.
    Text(String),
    /// Base64.
    Blob(String),
}

/// For whom something is, and how much it matters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// The user, the model, or both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// From 0, may be left out, to 1, must be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// An ISO 8601 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// Who speaks, or is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Content {
    /// About how long its JSON text is.
    pub(super) fn length(&self) -> usize {
        match &self.kind {
            Kind::Text { text } => text.len() + text.len() / 4 + 64,
            Kind::Image { data, .. } | Kind::Audio { data, .. } => data.len() + 128,
            _ => 256,
        }
    }

    /// Appends it as JSON text.
    pub(super) fn write(&self, out: &mut String) {
        let (kind, member, data, mime_type) = match &self.kind {
            _ if self.annotations.is_some() || self.meta.is_some() => {
                return out.push_str(&json::text(self));
            }
            Kind::Text { text } => ("text", "text", text, None),
            Kind::Image { data, mime_type } => ("image", "data", data, Some(mime_type)),
            Kind::Audio { data, mime_type } => ("audio", "data", data, Some(mime_type)),
            _ => return out.push_str(&json::text(self)),
        };
        out.push_str(r#"{"type":""#);
        out.push_str(kind);
        out.push_str(r#"",""#);
        out.push_str(member);
        out.push_str(r#"":"#);
        json::push_string(out, data);
        if let Some(mime_type) = mime_type {
            out.push_str(r#","mimeType":"#);
            json::push_string(out, mime_type);
        }
        out.push('}');
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Kind::Text { text: text.into() }.into()
    }

    /// A picture: its bytes and their type, such as `image/png`.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Kind::Image { data: STANDARD.encode(bytes), mime_type: mime_type.into() }.into()
    }

    /// A sound: its bytes and their type, such as `audio/wav`.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Kind::Audio { data: STANDARD.encode(bytes), mime_type: mime_type.into() }.into()
    }

    /// A reference to a resource.
    pub fn link(resource: Resource) -> Self {
        Kind::ResourceLink(Box::new(resource)).into()
    }

    /// A resource, read.
    pub fn embed(resource: ResourceContents) -> Self {
        Kind::Resource { resource }.into()
    }

    /// The same content, for whom and how much it matters.
    #[must_use]
    pub fn annotate(self, annotations: Annotations) -> Self {
        Self { annotations: Some(annotations), ..self }
    }

    /// The words, if that is what it is.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text { text } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn drop_icons(&mut self) {
        if let Kind::ResourceLink(resource) = &mut self.kind {
            resource.icons.clear();
        }
    }

    /// A link, for clients that have none: its name and address in words.
    pub(crate) fn link_as_text(&mut self) {
        if let Kind::ResourceLink(resource) = &self.kind {
            let label = resource.title.as_ref().unwrap_or(&resource.name);
            self.kind = Kind::Text { text: format!("{label}: {}", resource.uri) };
        }
    }

    /// A sound, for clients that have none: a resource that holds it.
    pub(crate) fn audio_as_resource(&mut self) {
        if let Kind::Audio { data, mime_type } = &mut self.kind {
            let resource = ResourceContents {
                uri: "audio:embedded".into(),
                mime_type: Some(std::mem::take(mime_type)),
                data: TextOrBlob::Blob(std::mem::take(data)),
                meta: None,
            };
            self.kind = Kind::Resource { resource };
        }
    }

    /// The content in words, or a note of what it was.
    pub(crate) fn in_words(&self) -> String {
        match &self.kind {
            Kind::Text { text } => text.clone(),
            Kind::Image { mime_type, .. } => format!("[image: {mime_type}]"),
            Kind::Audio { mime_type, .. } => format!("[audio: {mime_type}]"),
            Kind::ResourceLink(resource) => format!("[resource: {}]", resource.uri),
            Kind::Resource { resource } => match &resource.data {
                TextOrBlob::Text(text) => text.clone(),
                TextOrBlob::Blob(_) => format!("[resource: {}]", resource.uri),
            },
            Kind::ToolUse { name, input, .. } => format!("[tool use: {name} {input}]"),
            Kind::ToolResult { content, .. } => {
                content.iter().map(Self::in_words).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// A sound, for models that cannot hear: a note that there was one.
    pub(crate) fn audio_as_text(&mut self) {
        if let Kind::Audio { mime_type, .. } = &self.kind {
            self.kind = Kind::Text { text: format!("[audio: {mime_type}]") };
        }
    }
}

impl From<Kind> for Content {
    fn from(kind: Kind) -> Self {
        Self { kind, annotations: None, meta: None }
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Self {
        Self::text(text)
    }
}

impl ResourceContents {
    /// Text of a type, such as `text/plain`.
    pub fn text(
        uri: impl Into<String>,
        mime_type: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            uri: uri.into(),
            mime_type: Some(mime_type.into()),
            data: TextOrBlob::Text(text.into()),
            meta: None,
        }
    }

    /// Bytes of a type, such as `image/png`.
    pub fn blob(
        uri: impl Into<String>,
        mime_type: impl Into<String>,
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        Self {
            uri: uri.into(),
            mime_type: Some(mime_type.into()),
            data: TextOrBlob::Blob(STANDARD.encode(bytes)),
            meta: None,
        }
    }
}
