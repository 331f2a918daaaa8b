//! What a mounted server says of itself to clients and models.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt;
use zcp_client::{
    Client,
    wire::mcp::{
        prompts::Prompt,
        resources::{Resource, ResourceTemplate},
        tools::Tool,
    },
};

/// Maximum number of tools, prompts, resources and templates of one server.
const MOST: usize = 10_000;
/// Maximum length of the name of a tool or prompt in characters, and of a URI in bytes.
const LONGEST_NAME: usize = 128;
const LONGEST_URI: usize = 8 * 1024;

/// A kind of what a server offers, as the lock file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// A prompt, by its name.
    Prompt,
    /// A resource, by its URI.
    Resource,
    /// A resource template, by its URI template.
    Template,
    /// The server's instructions. They are not passed on to clients.
    Instructions,
}

impl Kind {
    /// The kind that is called `tools`, `prompts`, `resources`, `templates` or `instructions`.
    pub fn of_plural(name: &str) -> Option<Self> {
        Some(match name {
            "tools" => Self::Tool,
            "prompts" => Self::Prompt,
            "resources" => Self::Resource,
            "templates" => Self::Template,
            "instructions" => Self::Instructions,
            _ => return None,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "resource template",
            Self::Instructions => "text",
        })
    }
}

/// What a server offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offers {
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    /// For the model. Not passed on, but somebody may rely on them.
    instructions: Option<String>,
    pub(crate) completes: bool,
    /// How many were left out because their names or URIs are too long.
    pub(crate) overlong: usize,
}

impl Offers {
    /// What a server offers now.
    pub(crate) async fn of(client: &Client) -> zcp_client::Result<Self> {
        let server = client.server();
        let can = server.capabilities;
        let mut all = Self {
            instructions: server.instructions,
            completes: can.completions.is_some(),
            ..Self::default()
        };
        if can.tools.is_some() {
            all.tools = client.list_tools().await?;
        }
        if can.prompts.is_some() {
            all.prompts = client.list_prompts().await?;
        }
        if can.resources.is_some() {
            all.resources = client.list_resources().await?;
            all.resources.iter_mut().for_each(only_times);
            all.templates = client.list_templates().await.unwrap_or_default();
        }
        let (mut left, mut overlong) = (MOST, 0);
        all.retain(|kind, name, _| {
            let is_short = match kind {
                Kind::Tool | Kind::Prompt => name.chars().nth(LONGEST_NAME).is_none(),
                _ => name.len() <= LONGEST_URI,
            };
            if !is_short {
                overlong += 1;
                return false;
            }
            let fits = left > 0;
            left = left.saturating_sub(1);
            fits
        });
        all.overlong = overlong;
        Ok(all)
    }

    /// Every single thing: its kind, its name or URI, and what is said of it.
    pub(crate) fn each(&self, mut take: impl FnMut(Kind, &str, Value)) {
        let tools = self.tools.iter().map(|one| (Kind::Tool, one.name.as_str(), value(one)));
        let prompts = self.prompts.iter().map(|one| (Kind::Prompt, one.name.as_str(), value(one)));
        let resources =
            self.resources.iter().map(|one| (Kind::Resource, one.uri.as_str(), value(one)));
        let templates = self
            .templates
            .iter()
            .map(|one| (Kind::Template, one.uri_template.as_str(), value(one)));
        let instructions =
            self.instructions.iter().map(|text| (Kind::Instructions, INSTRUCTIONS, value(text)));
        let all = tools.chain(prompts).chain(resources).chain(templates).chain(instructions);
        all.for_each(|(kind, name, value)| take(kind, name, value));
    }

    /// Leaves out what `keep` does not keep.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Kind, &str, &dyn Fn() -> Value) -> bool) {
        self.tools.retain(|one| keep(Kind::Tool, &one.name, &|| value(one)));
        self.prompts.retain(|one| keep(Kind::Prompt, &one.name, &|| value(one)));
        self.resources.retain(|one| keep(Kind::Resource, &one.uri, &|| value(one)));
        self.templates.retain(|one| keep(Kind::Template, &one.uri_template, &|| value(one)));
        if let Some(text) = &self.instructions
            && !keep(Kind::Instructions, INSTRUCTIONS, &|| value(text))
        {
            self.instructions = None;
        }
    }

    /// Adds an entry of the lock file. Fails if its content does not match its kind.
    pub(crate) fn add(&mut self, kind: Kind, said: &Value) -> Result<(), serde_json::Error> {
        match kind {
            Kind::Tool => self.tools.push(read(said)?),
            Kind::Prompt => self.prompts.push(read(said)?),
            Kind::Resource => self.resources.push(read(said)?),
            Kind::Template => self.templates.push(read(said)?),
            Kind::Instructions => self.instructions = Some(read(said)?),
        }
        Ok(())
    }
}

/// Takes away a time of the last change that is none. The time is not pinned, because it changes, so
/// it must not be a place for text that the model reads.
fn only_times(resource: &mut Resource) {
    const LONGEST: usize = 40;
    let is_time = |text: &String| {
        let plain = |byte: u8| byte.is_ascii_digit() || b"TZtz:.+- ".contains(&byte);
        text.len() <= LONGEST && text.bytes().all(plain)
    };
    if let Some(annotations) = &mut resource.annotations {
        annotations.last_modified = annotations.last_modified.take().filter(is_time);
    }
}

/// What instructions are known by.
const INSTRUCTIONS: &str = "instructions";

fn value(one: &impl Serialize) -> Value {
    serde_json::to_value(one).unwrap_or_default()
}

fn read<T: DeserializeOwned>(said: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(said)
}
