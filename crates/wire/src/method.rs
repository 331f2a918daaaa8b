//! Every method of the protocol as a value, and one row with all that is known of it.

mod name;

pub use name::MethodName;

use crate::revision::Revision::{self, V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
use Capability::{
    Completions, Elicitation, Logging, Prompts, Resources, Roots, Sampling, Skills, Subscribe,
    Tasks, Tools,
};
use std::fmt;

/// A method or notification, in the order of [`METHODS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the name on the wire is in the table")]
#[non_exhaustive]
pub enum Method {
    CallTool,
    ListTools,
    ListPrompts,
    GetPrompt,
    ListResources,
    ReadResource,
    ListTemplates,
    Complete,
    Initialize,
    Ping,
    Discover,
    Subscribe,
    Unsubscribe,
    Listen,
    GetTask,
    CancelTask,
    TaskResult,
    ListTasks,
    UpdateTask,
    ListSkills,
    GetSkill,
    ReadFolder,
    SetLevel,
    CreateMessage,
    ListRoots,
    Elicit,
    Initialized,
    Cancelled,
    Progress,
    LogMessage,
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    RootsChanged,
    PageVisited,
    Listening,
    TaskStatus,
    TaskChanged,
}

/// Who sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Either.
    Both,
}

/// Whether a message is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It is.
    Request,
    /// It is not.
    Notification,
}

/// What the side that receives a method must have declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the capability or extension of its name")]
#[non_exhaustive]
pub enum Capability {
    Tools,
    Prompts,
    Resources,
    /// `resources.subscribe`.
    Subscribe,
    Completions,
    Logging,
    Tasks,
    Skills,
    /// Anything that changes: lists, resources or tasks.
    Changes,
    Sampling,
    Roots,
    Elicitation,
}

/// The member of a request's parameters that names what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the member of its name")]
#[non_exhaustive]
pub enum Member {
    Name,
    Uri,
    TaskId,
}

impl Member {
    /// As it stands in the parameters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
            Self::TaskId => "taskId",
        }
    }
}

/// Whether a request may be made again when nobody knows what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeat {
    /// It may: making it twice does nothing twice.
    Safe,
    /// If its tool says that twice is the same as once.
    AsToolSays,
    /// It may not.
    Unsafe,
}

/// What is known of a method.
#[derive(Debug)]
pub struct Row {
    /// The method.
    pub method: Method,
    /// As it stands on the wire.
    pub name: &'static str,
    /// Whether it is answered.
    pub kind: Kind,
    /// Who sends it.
    pub from: Side,
    /// What must be declared by whoever receives it, or sends it if it is a notification.
    pub needs: Option<Capability>,
    /// What the header `Mcp-Name` repeats.
    pub named_by: Option<Member>,
    /// Whether it may be made again.
    pub repeat: Repeat,
    /// The first revision that has it.
    since: Revision,
    /// The first revision that no longer has it.
    until: Option<Revision>,
    /// The first revision in which only the server sends it.
    server_only: Option<Revision>,
}

const fn request(
    method: Method,
    name: &'static str,
    from: Side,
    since: Revision,
    until: Option<Revision>,
) -> Row {
    let (kind, repeat) = (Kind::Request, Repeat::Unsafe);
    let (needs, named_by, server_only) = (None, None, None);
    Row { method, name, kind, from, needs, named_by, repeat, since, until, server_only }
}

const fn notice(
    method: Method,
    name: &'static str,
    from: Side,
    since: Revision,
    until: Option<Revision>,
) -> Row {
    Row { kind: Kind::Notification, ..request(method, name, from, since, until) }
}

impl Row {
    const fn needs(self, capability: Capability) -> Self {
        Self { needs: Some(capability), ..self }
    }

    const fn named_by(self, member: Member) -> Self {
        Self { named_by: Some(member), ..self }
    }

    const fn repeat(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    const fn safe(self) -> Self {
        self.repeat(Repeat::Safe)
    }

    const fn server_only(self, since: Revision) -> Self {
        Self { server_only: Some(since), ..self }
    }
}

const SESSIONS_ONLY: Option<Revision> = Some(V2026_07_28);

/// Every method and notification of the protocol and its extensions.
#[rustfmt::skip] // A row a line.
pub const METHODS: &[Row] = &[
    request(Method::CallTool, "tools/call", Side::Client, V2024_11_05, None).needs(Tools).named_by(Member::Name).repeat(Repeat::AsToolSays),
    request(Method::ListTools, "tools/list", Side::Client, V2024_11_05, None).needs(Tools).safe(),
    request(Method::ListPrompts, "prompts/list", Side::Client, V2024_11_05, None).needs(Prompts).safe(),
    request(Method::GetPrompt, "prompts/get", Side::Client, V2024_11_05, None).needs(Prompts).named_by(Member::Name).safe(),
    request(Method::ListResources, "resources/list", Side::Client, V2024_11_05, None).needs(Resources).safe(),
    request(Method::ReadResource, "resources/read", Side::Client, V2024_11_05, None).needs(Resources).named_by(Member::Uri).safe(),
    request(Method::ListTemplates, "resources/templates/list", Side::Client, V2024_11_05, None).needs(Resources).safe(),
    request(Method::Complete, "completion/complete", Side::Client, V2024_11_05, None).needs(Completions).safe(),
    request(Method::Initialize, "initialize", Side::Client, V2024_11_05, SESSIONS_ONLY),
    request(Method::Ping, "ping", Side::Both, V2024_11_05, SESSIONS_ONLY).safe(),
    request(Method::Discover, "server/discover", Side::Client, V2026_07_28, None).safe(),
    request(Method::Subscribe, "resources/subscribe", Side::Client, V2024_11_05, SESSIONS_ONLY).needs(Subscribe).safe(),
    request(Method::Unsubscribe, "resources/unsubscribe", Side::Client, V2024_11_05, SESSIONS_ONLY).needs(Subscribe).safe(),
    request(Method::Listen, "subscriptions/listen", Side::Client, V2026_07_28, None).needs(Capability::Changes),
    request(Method::GetTask, "tasks/get", Side::Client, V2025_11_25, None).needs(Tasks).named_by(Member::TaskId).safe(),
    request(Method::CancelTask, "tasks/cancel", Side::Client, V2025_11_25, None).needs(Tasks).named_by(Member::TaskId).safe(),
    request(Method::TaskResult, "tasks/result", Side::Client, V2025_11_25, SESSIONS_ONLY).needs(Tasks).safe(),
    request(Method::ListTasks, "tasks/list", Side::Client, V2025_11_25, SESSIONS_ONLY).needs(Tasks).safe(),
    request(Method::UpdateTask, "tasks/update", Side::Client, V2026_07_28, None).needs(Tasks).named_by(Member::TaskId),
    request(Method::ListSkills, "skills/list", Side::Client, V2026_07_28, None).needs(Skills).safe(),
    request(Method::GetSkill, "skills/get", Side::Client, V2026_07_28, None).needs(Skills).safe(),
    request(Method::ReadFolder, "resources/directory/read", Side::Client, V2026_07_28, None).needs(Skills).safe(),
    request(Method::SetLevel, "logging/setLevel", Side::Client, V2024_11_05, SESSIONS_ONLY).needs(Logging).safe(),
    request(Method::CreateMessage, "sampling/createMessage", Side::Server, V2024_11_05, SESSIONS_ONLY).needs(Sampling),
    request(Method::ListRoots, "roots/list", Side::Server, V2024_11_05, SESSIONS_ONLY).needs(Roots).safe(),
    request(Method::Elicit, "elicitation/create", Side::Server, V2025_06_18, SESSIONS_ONLY).needs(Elicitation),
    notice(Method::Initialized, "notifications/initialized", Side::Client, V2024_11_05, SESSIONS_ONLY),
    notice(Method::Cancelled, "notifications/cancelled", Side::Both, V2024_11_05, None),
    notice(Method::Progress, "notifications/progress", Side::Both, V2024_11_05, None).server_only(V2026_07_28),
    notice(Method::LogMessage, "notifications/message", Side::Server, V2024_11_05, None).needs(Logging),
    notice(Method::ToolsChanged, "notifications/tools/list_changed", Side::Server, V2024_11_05, None).needs(Tools),
    notice(Method::PromptsChanged, "notifications/prompts/list_changed", Side::Server, V2024_11_05, None).needs(Prompts),
    notice(Method::ResourcesChanged, "notifications/resources/list_changed", Side::Server, V2024_11_05, None).needs(Resources),
    notice(Method::ResourceUpdated, "notifications/resources/updated", Side::Server, V2024_11_05, None).needs(Subscribe),
    notice(Method::RootsChanged, "notifications/roots/list_changed", Side::Client, V2024_11_05, SESSIONS_ONLY).needs(Roots),
    notice(Method::PageVisited, "notifications/elicitation/complete", Side::Server, V2025_11_25, SESSIONS_ONLY).needs(Elicitation),
    notice(Method::Listening, "notifications/subscriptions/acknowledged", Side::Server, V2026_07_28, None).needs(Capability::Changes),
    notice(Method::TaskStatus, "notifications/tasks/status", Side::Server, V2025_11_25, SESSIONS_ONLY).needs(Tasks),
    notice(Method::TaskChanged, "notifications/tasks", Side::Server, V2026_07_28, None).needs(Tasks),
];

/// A method's row is where its number says.
const _: () = {
    let mut number = 0;
    while number < METHODS.len() {
        assert!(METHODS[number].method as usize == number);
        number += 1;
    }
    assert!(Method::TaskChanged as usize + 1 == METHODS.len());
};

/// Names that are not of the specification, and what their senders mean.
const MISTAKEN: &[(&str, Method)] = &[
    ("completions/complete", Method::Complete),
    ("elicitation/request", Method::Elicit),
    ("initialized", Method::Initialized),
];

impl Method {
    /// The method of a name, whatever the revision.
    pub fn parse(name: &str) -> Option<Self> {
        // What nearly every message is.
        if name == "tools/call" {
            return Some(Self::CallTool);
        }
        let row = METHODS.iter().find(|row| row.name == name);
        let mistaken = || MISTAKEN.iter().find(|(known, _)| *known == name).map(|row| row.1);
        row.map(|row| row.method).or_else(mistaken)
    }

    /// What is known of it.
    pub const fn row(self) -> &'static Row {
        &METHODS[self as usize]
    }

    /// As it stands on the wire.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the revision has it.
    pub fn is_in(self, revision: Revision) -> bool {
        let row = self.row();
        row.since <= revision && row.until.is_none_or(|until| revision < until)
    }

    /// Whether that side sends it in the revision. Of `Both`, each does.
    pub fn comes_from(self, side: Side, revision: Revision) -> bool {
        let is_server_only = self.row().server_only.is_some_and(|since| since <= revision);
        let from = if is_server_only { Side::Server } else { self.row().from };
        self.is_in(revision) && (from == side || from == Side::Both)
    }

    /// The member of its parameters that the header `Mcp-Name` repeats, since 2026-07-28.
    pub const fn name_header_of(self) -> Option<Member> {
        self.row().named_by
    }

    /// Whether it may be made again when nobody knows what became of it. `tool` says whether the
    /// tool that it calls may run twice.
    pub fn may_repeat(self, tool: impl FnOnce() -> bool) -> bool {
        match self.row().repeat {
            Repeat::Safe => true,
            Repeat::AsToolSays => tool(),
            Repeat::Unsafe => false,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind::*, *};

    /// By revision, from the pages of the specification and its extensions: `>` is sent by the
    /// client, `<` by the server, `=` by both.
    const SPECIFICATION: &[(Revision, &str)] = &[
        (
            V2024_11_05,
            "> initialize, = ping, > tools/list, > tools/call, > prompts/list, > prompts/get, \
             > resources/list, > resources/read, > resources/templates/list, \
             > resources/subscribe, > resources/unsubscribe, > completion/complete, \
             > logging/setLevel, < sampling/createMessage, < roots/list, \
             > notifications/initialized, = notifications/cancelled, = notifications/progress, \
             < notifications/message, < notifications/tools/list_changed, \
             < notifications/prompts/list_changed, < notifications/resources/list_changed, \
             < notifications/resources/updated, > notifications/roots/list_changed",
        ),
        (Revision::V2025_03_26, ""),
        (V2025_06_18, "< elicitation/create"),
        (
            V2025_11_25,
            "> tasks/get, > tasks/cancel, > tasks/result, > tasks/list, \
             < notifications/tasks/status, < notifications/elicitation/complete",
        ),
    ];
    const STATELESS: &str = "> server/discover, > tools/list, > tools/call, > prompts/list, \
        > prompts/get, > resources/list, > resources/read, > resources/templates/list, \
        > resources/directory/read, > subscriptions/listen, > completion/complete, > tasks/get, \
        > tasks/cancel, > tasks/update, > skills/list, > skills/get, = notifications/cancelled, \
        < notifications/progress, < notifications/message, < notifications/tasks, \
        < notifications/tools/list_changed, < notifications/prompts/list_changed, \
        < notifications/resources/list_changed, < notifications/resources/updated, \
        < notifications/subscriptions/acknowledged";

    /// What the specification has in a revision, in the order of names.
    fn specified(revision: Revision) -> Vec<String> {
        let since = SPECIFICATION.iter().filter(|(since, _)| *since <= revision);
        let all: Vec<&str> = match revision {
            V2026_07_28 => vec![STATELESS],
            _ => since.map(|(_, added)| *added).filter(|added| !added.is_empty()).collect(),
        };
        let mut all: Vec<String> =
            all.iter().flat_map(|one| one.split(", ")).map(str::to_owned).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn every_revision_has_the_methods_of_its_specification() {
        for revision in Revision::ALL {
            let sign = |method: Method| {
                let sides = [Side::Client, Side::Server];
                match sides.map(|side| method.comes_from(side, revision)) {
                    [true, true] => "=",
                    [true, false] => ">",
                    [false, true] => "<",
                    [false, false] => "?",
                }
            };
            let has = METHODS.iter().map(|row| row.method).filter(|one| one.is_in(revision));
            let mut has: Vec<String> = has.map(|one| format!("{} {one}", sign(one))).collect();
            has.sort_unstable();
            assert_eq!(has, specified(revision), "{revision}");
        }
    }

    #[test]
    fn a_name_is_read_as_its_method_and_no_other() {
        for row in METHODS {
            assert_eq!(Method::parse(row.name), Some(row.method));
            assert_eq!(row.method.row().name, row.name);
            let is_notice = row.name.starts_with("notifications/");
            assert_eq!(row.kind, if is_notice { Notification } else { Request }, "{}", row.name);
            let (short, long) = (&row.name[1..], format!("{}x", row.name));
            assert_eq!((Method::parse(short), Method::parse(&long)), (None, None));
        }
        for unknown in ["", "tools", "tools/", "Tools/Call", "tools/call ", "zcp/gap"] {
            assert_eq!(Method::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn six_methods_repeat_what_they_name_in_a_header() {
        let named = METHODS.iter().filter_map(|row| {
            row.method.name_header_of().map(|member| (row.name, member.as_str()))
        });
        let expected = [
            ("tools/call", "name"),
            ("prompts/get", "name"),
            ("resources/read", "uri"),
            ("tasks/get", "taskId"),
            ("tasks/cancel", "taskId"),
            ("tasks/update", "taskId"),
        ];
        assert_eq!(named.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_does_something_is_not_repeated() {
        let requests = || METHODS.iter().filter(|row| row.kind == Request);
        let unsafe_ones = requests().filter(|row| !row.method.may_repeat(|| true));
        let names: Vec<&str> = unsafe_ones.map(|row| row.name).collect();
        let expected = [
            "initialize",
            "subscriptions/listen",
            "tasks/update",
            "sampling/createMessage",
            "elicitation/create",
        ];
        assert_eq!(names, expected);
        let depends = requests()
            .filter(|row| row.method.may_repeat(|| true) && !row.method.may_repeat(|| false));
        assert_eq!(depends.map(|row| row.name).collect::<Vec<_>>(), ["tools/call"]);
        assert!(
            !METHODS.iter().any(|row| row.kind == Notification && row.repeat != Repeat::Unsafe)
        );
    }
}
