//! MCP's messages, in the shape of the latest revision. One module a page of the specification.

pub mod capabilities;
pub mod completion;
pub mod content;
pub mod elicitation;
pub mod lifecycle;
pub mod logging;
pub mod prompts;
pub mod resources;
pub mod roots;
pub mod sampling;
pub mod skills;
pub mod subscriptions;
pub mod tasks;
pub mod tools;

use crate::{Id, Method, json};
use bytestring::ByteString;
use content::Content;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The key in `_meta` of a result for who answered, for display.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The key in `_meta` for the `subscriptions/listen` that a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Members this side does not know, kept as they came.
pub type Extra = Map<String, Value>;

/// A result: what every result has, and the method's own part.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// Whether this is the end. Always there since 2026-07-28.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// The method's own members.
    #[serde(flatten)]
    pub body: Body,
    /// How long the result may be kept, and for whom.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// What the result says about itself.
    #[serde(rename = "_meta", skip_serializing_if = "ResultMeta::is_empty")]
    pub meta: ResultMeta,
}

impl Reply {
    /// A complete result.
    pub fn new(body: Body) -> Self {
        Self {
            result_type: Some(ResultType::Complete),
            body,
            cache: None,
            meta: ResultMeta::default(),
        }
    }

    /// The result as JSON text.
    pub fn to_text(&self) -> ByteString {
        let mut out = String::with_capacity(self.length());
        self.write(&mut out);
        out.into()
    }

    /// About how long the result's text is.
    pub fn length(&self) -> usize {
        match &self.body {
            Body::CallTool(result) => {
                result.content.iter().map(Content::length).sum::<usize>() + 192
            }
            _ => 512,
        }
    }

    /// Appends the result as JSON text.
    pub fn write(&self, out: &mut String) {
        match &self.body {
            Body::CallTool(result) => self.write_tool(result, out),
            _ => out.push_str(&json::text(self)),
        }
    }

    /// What `serde` would write, with a quarter of the instructions, and less for long texts.
    fn write_tool(&self, result: &tools::CallToolResult, out: &mut String) {
        out.push('{');
        if let Some(result_type) = self.result_type {
            out.push_str(r#""resultType":""#);
            out.push_str(result_type.as_str());
            out.push_str(r#"","#);
        }
        out.push_str(r#""content":["#);
        for (index, content) in result.content.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            content.write(out);
        }
        out.push(']');
        if let Some(structured) = &result.structured_content {
            out.push_str(r#","structuredContent":"#);
            out.push_str(&json::text(structured));
        }
        if result.is_error {
            out.push_str(r#","isError":true"#);
        }
        if !self.meta.is_empty() {
            out.push_str(r#","_meta":"#);
            self.meta.write(out);
        }
        out.push('}');
    }
}

/// What kind of result this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultType {
    /// The call is done.
    Complete,
    /// The call wants answers, and to be made again with them.
    InputRequired,
    /// The call goes on as a task.
    Task,
}

impl ResultType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
        }
    }
}

/// The members of each method's result.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each variant is the result of the method of its name")]
#[non_exhaustive]
pub enum Body {
    Empty {},
    Initialize(Box<lifecycle::InitializeResult>),
    Discover(Box<lifecycle::DiscoverResult>),
    Tools(Page<tools::Tool>),
    Prompts(Page<prompts::Prompt>),
    Resources(Page<resources::Resource>),
    Templates(Page<resources::ResourceTemplate>),
    Skills(Page<skills::Skill>),
    Skill { skill: Box<skills::Skill> },
    CallTool(tools::CallToolResult),
    ReadResource(resources::ReadResourceResult),
    GetPrompt(prompts::GetPromptResult),
    Complete(completion::CompleteResult),
    InputRequired(InputRequired),
    Task(Box<tasks::Task>),
    OlderTask(Box<tasks::OlderTask>),
    CreatedTask { task: Box<tasks::OlderTask> },
    OlderTasks(Page<tasks::OlderTask>),
}

/// What a list of `T` is called in its result.
pub trait Listed {
    /// The member's name.
    const MEMBER: &'static str;
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The page's items, in the list's order.
    pub items: Vec<T>,
    /// Where the next page starts; absent on the last.
    pub next_cursor: Option<String>,
}

impl<T: Listed + Serialize> Serialize for Page<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(T::MEMBER, &self.items)?;
        if let Some(cursor) = &self.next_cursor {
            map.serialize_entry("nextCursor", cursor)?;
        }
        map.end()
    }
}

/// How long a result may be kept, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// Milliseconds from receipt; 0 is not at all.
    pub ttl_ms: u64,
    /// Whether others may be shown it.
    pub cache_scope: CacheScope,
}

/// Who may be shown a kept result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheScope {
    /// Anybody.
    Public,
    /// Whoever asked.
    Private,
}

/// A result's `_meta`.
#[derive(Debug, Clone, Default)]
pub struct ResultMeta {
    /// JSON text of the [`lifecycle::Implementation`] that answered.
    pub server_info: Option<Arc<str>>,
    /// The `subscriptions/listen` that ended.
    pub subscription_id: Option<Id>,
    /// Whatever a handler added.
    pub extra: Extra,
}

impl ResultMeta {
    fn is_empty(&self) -> bool {
        self.server_info.is_none() && self.subscription_id.is_none() && self.extra.is_empty()
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        let mut separator = "\"";
        for (name, value) in &self.extra {
            out.push_str(if separator == "\"" { "" } else { "," });
            out.push_str(&json::text(name));
            out.push(':');
            out.push_str(&json::text(value));
            separator = ",\"";
        }
        if let Some(info) = &self.server_info {
            out.push_str(separator);
            out.push_str(SERVER_INFO);
            out.push_str("\":");
            out.push_str(info);
            separator = ",\"";
        }
        if let Some(id) = &self.subscription_id {
            out.push_str(separator);
            out.push_str(SUBSCRIPTION_ID);
            out.push_str("\":");
            out.push_str(id.as_json());
        }
        out.push('}');
    }
}

impl Serialize for ResultMeta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &self.extra {
            map.serialize_entry(key, value)?;
        }
        if let Some(info) = &self.server_info {
            let info: Value = serde_json::from_str(info).map_err(serde::ser::Error::custom)?;
            map.serialize_entry(SERVER_INFO, &info)?;
        }
        if let Some(id) = &self.subscription_id {
            map.serialize_entry(SUBSCRIPTION_ID, id)?;
        }
        map.end()
    }
}

/// A call that needs answers before it can go on.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequired {
    /// What is asked, each under the key its answer must come under.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub input_requests: Map<String, Value>,
    /// To be sent back untouched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// Something only the client's side can answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum InputRequest {
    /// A question to the user.
    Elicit(elicitation::Elicit),
    /// A question to the client's model.
    Sample(Box<sampling::CreateMessage>),
    /// Which folders the client works in.
    Roots(roots::ListRoots),
}

impl InputRequest {
    /// The method it is asked by.
    pub fn method(&self) -> Method {
        match self {
            Self::Elicit(_) => Method::Elicit,
            Self::Sample(_) => Method::CreateMessage,
            Self::Roots(_) => Method::ListRoots,
        }
    }

    /// As it stands among the requests of a result.
    pub fn to_value(&self) -> Value {
        json!({ "method": self.method().name(), "params": self })
    }

    /// A question of its method and its parameters.
    pub fn read(method: &str, params: Value) -> Option<Self> {
        match Method::parse(method)? {
            Method::Elicit => serde_json::from_value(params).map(Self::Elicit).ok(),
            Method::CreateMessage => serde_json::from_value(params).map(Self::Sample).ok(),
            Method::ListRoots => serde_json::from_value(params).map(Self::Roots).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{content::Kind, *};
    use serde_json::json;

    #[test]
    fn a_tools_result_by_hand_is_what_serde_writes() {
        let odd = "\"quoted\" \\ \n\u{1}\u{7f} größe 🦀".repeat(20);
        let content = [
            Content::text("plain"),
            Content::text(odd.clone()),
            Content::image(b"pixels", "image/png"),
            Content::audio(b"waves", "audio/wav"),
            Content { meta: Some(Extra::new()), ..Content::text(odd.clone()) },
            Kind::ToolUse { id: "1".into(), name: odd.clone(), input: json!([1]) }.into(),
        ];
        let info: Arc<str> = "\"me\"".into();
        for (count, is_error) in (0..=content.len()).flat_map(|n| [(n, true), (n, false)]) {
            let mut reply = Reply::new(Body::CallTool(tools::CallToolResult {
                content: content[..count].to_vec(),
                structured_content: is_error.then(|| json!({ "odd": odd })),
                is_error,
                meta: None,
            }));
            reply.result_type = reply.result_type.filter(|_| count > 1);
            reply.meta.server_info = Some(info.clone()).filter(|_| count > 2);
            reply.meta.subscription_id = (count > 4).then(|| Id::number(7));
            assert_eq!(reply.to_text(), json::text(&reply));
        }
    }
}
