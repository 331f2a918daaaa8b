//! One thing a peer wants done, and how it ended, whatever protocol it spoke.

use super::{
    catalog::Catalog,
    ctx::Ctx,
    output::Output,
    tasks::{Task, TaskOp},
};
use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use zcp_wire::{
    RpcError,
    mcp::{
        Cache,
        completion::{Completion, Reference},
        content::ResourceContents,
        elicitation::Elicit,
        prompts::GetPromptResult,
        resources::Resource,
        skills::Skill,
    },
};

/// An operation and the context to run it in.
#[derive(Debug)]
pub struct Call {
    /// What is wanted.
    pub op: Op,
    /// By whom, and how they are told of it.
    pub ctx: Ctx,
}

/// The operations of the runtime.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the parameter of its name")]
pub enum Op {
    /// One page of a list, after an item's name.
    List { kind: ListKind, after: Option<String> },
    /// A tool, with JSON text of its arguments' object.
    CallTool { name: ByteString, args: Option<ByteString> },
    /// A resource.
    ReadResource { uri: String },
    /// A prompt.
    GetPrompt { name: String, args: BTreeMap<String, String> },
    /// What an argument could be.
    Complete(Complete),
    /// Something with a task.
    Task(TaskOp),
    /// A skill.
    GetSkill { uri: String },
    /// What is directly in a folder, after an item's name.
    ReadFolder { uri: String, after: Option<String> },
}

impl Op {
    /// What metrics and traces call each kind of operation.
    pub(crate) const LABELS: [&str; 12] = [
        "list tools",
        "list prompts",
        "list resources",
        "list templates",
        "list skills",
        "call tool",
        "read resource",
        "get prompt",
        "complete",
        "task",
        "get skill",
        "read folder",
    ];

    /// What metrics and traces call it.
    pub fn label(&self) -> &'static str {
        Self::LABELS[self.kind()]
    }

    /// Where its label is.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::List { kind, .. } => *kind as usize,
            Self::CallTool { .. } => 5,
            Self::ReadResource { .. } => 6,
            Self::GetPrompt { .. } => 7,
            Self::Complete(_) => 8,
            Self::Task(_) => 9,
            Self::GetSkill { .. } => 10,
            Self::ReadFolder { .. } => 11,
        }
    }
}

/// What an argument could be.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the parameter of its name")]
pub struct Complete {
    pub reference: Reference,
    pub argument: String,
    pub value: String,
    pub context: BTreeMap<String, String>,
}

/// The lists a catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
    Skills,
}

/// How an operation ended.
#[derive(Debug)]
pub enum Outcome {
    /// A page of a list.
    Page(Listing),
    /// What a tool gave.
    Tool(Output),
    /// What was read, and how long it may be kept.
    Contents(Vec<ResourceContents>, Option<Cache>),
    /// A filled prompt.
    Prompt(GetPromptResult),
    /// What an argument could be.
    Completion(Completion),
    /// A skill.
    Skill(Arc<Skill>),
    /// What is in a folder, and the name the next page starts after.
    Folder(Vec<Resource>, Option<String>),
    /// It goes on as a task.
    Begun(Box<Task>),
    /// A task as it is.
    Task(Box<Task>),
    /// Tasks, and the position the next page starts after.
    Tasks(Vec<Task>, Option<u64>),
    /// There is no more to say.
    Done,
    /// It waits for the answers to what it asked.
    Paused,
    /// It did not happen.
    Fault(Fault),
}

/// A page: a part of one snapshot of the catalog.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The snapshot.
    pub catalog: Arc<Catalog>,
    /// Which list.
    pub kind: ListKind,
    /// The name the page starts after; from the beginning without one.
    pub after: Option<String>,
    /// Items on the page at most.
    pub size: usize,
}

/// What kind of offer an operation was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offered {
    /// A tool, whose failures a model can read.
    Tool,
    /// A prompt or a resource.
    Other,
}

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Fault {
    /// There is no such tool or prompt.
    Unknown(String),
    /// There is no such resource.
    NoResource(String),
    /// The request makes no sense.
    Invalid(String),
    /// The client did not declare what this needs.
    MissingCapability(Value),
    /// The user must visit a page before this tool, prompt or resource.
    VisitFirst(Elicit, Offered),
    /// The caller may not.
    Denied(String),
    /// The caller must wait: why, and for how long if that is known.
    #[expect(missing_docs, reason = "each field is what its name says")]
    Busy { why: String, wait: Option<Duration> },
    /// The way it was asked for is not offered.
    NotOffered(String),
    /// The task is over.
    Over(String),
    /// As the handler says.
    Rpc(Box<RpcError>),
    /// The server failed.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why)
            | Self::Invalid(why)
            | Self::Busy { why, .. }
            | Self::NotOffered(why)
            | Self::Over(why)
            | Self::Failed(why) => f.write_str(why),
            Self::NoResource(uri) => write!(f, "resource not found: {uri}"),
            Self::MissingCapability(required) => {
                write!(f, "the client did not declare a capability this needs: {required}")
            }
            Self::VisitFirst(page, _) => f.write_str(&page.message),
            Self::Rpc(error) => f.write_str(&error.message),
            Self::Denied(scope) => write!(f, "not allowed without the scope `{scope}`"),
        }
    }
}
