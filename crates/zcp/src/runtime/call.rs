//! One thing a peer wants done, and how it ended, whatever protocol it spoke.

use super::{
    catalog::Catalog,
    ctx::Ctx,
    output::Output,
    tasks::{Task, TaskOp},
};
use crate::auth::View;
use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use zcp_wire::{
    Id, RpcError,
    mcp::{
        Cache,
        completion::{Completion, Reference},
        content::ResourceContents,
        elicitation::Elicit,
        logging::Level,
        prompts::GetPromptResult,
        resources::Resource,
        skills::Skill,
    },
};

/// An operation and the context to run it in.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// What is wanted.
    pub op: Op,
    /// By whom, and how they are told of it.
    pub ctx: Ctx,
}

/// Everything a peer can do. Each passes the layers before anything happens; only a ping does not,
/// nor a notification that asks for nothing.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the parameter of its name")]
#[non_exhaustive]
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
    /// A conversation is opened, or the server is asked what it offers.
    Open,
    /// The session is to be told when a resource changes.
    Subscribe { uri: String },
    /// The session is no longer to be told.
    Unsubscribe { uri: String },
    /// A stream of changes: of these resources, and of lists and tasks.
    Listen { uris: Vec<String> },
    /// The least serious log message that the session is to be sent.
    SetLevel { level: Level },
    /// A request of the session is to be stopped.
    Cancel { id: Id },
    /// The answer to a question that the server asked in the session.
    Answer { id: Option<Id> },
    /// A new connection continues a session: the rest of a call's stream, or a WebSocket.
    Resume,
    /// The session ends.
    Close,
    /// The client says that its roots have changed.
    RootsChanged,
}

impl Op {
    /// What metrics and traces call each kind of operation.
    pub(crate) const LABELS: [&str; 22] = [
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
        "open",
        "subscribe",
        "unsubscribe",
        "listen",
        "set level",
        "cancel",
        "answer",
        "resume",
        "close",
        "roots changed",
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
            Self::Open => 12,
            Self::Subscribe { .. } => 13,
            Self::Unsubscribe { .. } => 14,
            Self::Listen { .. } => 15,
            Self::SetLevel { .. } => 16,
            Self::Cancel { .. } => 17,
            Self::Answer { .. } => 18,
            Self::Resume => 19,
            Self::Close => 20,
            Self::RootsChanged => 21,
        }
    }

    /// What it is about: the name of a tool or prompt, a URI, or the id of a task.
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::CallTool { name, .. } => Some(name),
            Self::GetPrompt { name, .. } => Some(name),
            Self::ReadResource { uri }
            | Self::GetSkill { uri }
            | Self::ReadFolder { uri, .. }
            | Self::Subscribe { uri }
            | Self::Unsubscribe { uri } => Some(uri),
            Self::Complete(Complete { reference: Reference::Prompt { name }, .. }) => Some(name),
            Self::Complete(Complete { reference: Reference::Resource { uri }, .. }) => Some(uri),
            Self::Task(op) => op.target(),
            Self::Complete(_)
            | Self::List { .. }
            | Self::Open
            | Self::Listen { .. }
            | Self::SetLevel { .. }
            | Self::Cancel { .. }
            | Self::Answer { .. }
            | Self::Resume
            | Self::Close
            | Self::RootsChanged => None,
        }
    }
}

/// What an argument could be.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the parameter of its name")]
#[non_exhaustive]
pub struct Complete {
    pub reference: Reference,
    pub argument: String,
    pub value: String,
    pub context: BTreeMap<String, String>,
}

/// The lists a catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
    Skills,
}

/// How an operation ended.
#[derive(Debug)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Listing {
    /// The snapshot.
    pub catalog: Arc<Catalog>,
    /// Which list.
    pub kind: ListKind,
    /// The name the page starts after; from the beginning without one.
    pub after: Option<String>,
    /// Items on the page at most.
    pub size: usize,
    /// The view of its caller. A layer may replace the catalog by one that has less, the same one
    /// for all callers of a view.
    pub view: View,
}

/// What kind of offer an operation was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Offered {
    /// A tool, whose failures a model can read.
    Tool,
    /// A prompt or a resource.
    Other,
}

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl std::error::Error for Fault {}

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
