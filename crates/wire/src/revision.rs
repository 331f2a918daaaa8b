//! The five published revisions, which methods each has, and how to speak the older ones.

mod r2025_03_26;
mod r2025_06_18;
mod r2025_11_25;
mod r2026_07_28;

use crate::mcp::{InputRequest, Reply};
use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

/// A published revision of the protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the name is the date")]
#[non_exhaustive]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// How a conversation is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// `initialize` first, then a session: until 2025-11-25.
    Handshake,
    /// Every request says all there is to know: since 2026-07-28.
    Stateless,
}

/// Who sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Either.
    Both,
}

/// One row a method: the first revision that has it, and the first that no longer does.
#[derive(Debug)]
pub struct Method {
    /// As it stands on the wire.
    pub name: &'static str,
    /// Who sends it.
    pub from: From,
    since: Revision,
    until: Option<Revision>,
}

const fn row(name: &'static str, from: From, since: Revision, until: Option<Revision>) -> Method {
    Method { name, from, since, until }
}

const SESSIONS_ONLY: Option<Revision> = Some(V2026_07_28);

/// Every method and notification of the protocol and its extensions.
pub const METHODS: &[Method] = &[
    row("initialize", From::Client, V2024_11_05, SESSIONS_ONLY),
    row("notifications/initialized", From::Client, V2024_11_05, SESSIONS_ONLY),
    row("ping", From::Both, V2024_11_05, SESSIONS_ONLY),
    row("server/discover", From::Client, V2026_07_28, None),
    row("tools/list", From::Client, V2024_11_05, None),
    row("tools/call", From::Client, V2024_11_05, None),
    row("prompts/list", From::Client, V2024_11_05, None),
    row("prompts/get", From::Client, V2024_11_05, None),
    row("resources/list", From::Client, V2024_11_05, None),
    row("resources/read", From::Client, V2024_11_05, None),
    row("resources/templates/list", From::Client, V2024_11_05, None),
    row("resources/subscribe", From::Client, V2024_11_05, SESSIONS_ONLY),
    row("resources/unsubscribe", From::Client, V2024_11_05, SESSIONS_ONLY),
    row("subscriptions/listen", From::Client, V2026_07_28, None),
    row("tasks/get", From::Client, V2025_11_25, None),
    row("tasks/cancel", From::Client, V2025_11_25, None),
    row("tasks/result", From::Client, V2025_11_25, SESSIONS_ONLY),
    row("tasks/list", From::Client, V2025_11_25, SESSIONS_ONLY),
    row("tasks/update", From::Client, V2026_07_28, None),
    row("skills/list", From::Client, V2026_07_28, None),
    row("skills/get", From::Client, V2026_07_28, None),
    row("resources/directory/read", From::Client, V2026_07_28, None),
    row("completion/complete", From::Client, V2024_11_05, None),
    row("logging/setLevel", From::Client, V2024_11_05, SESSIONS_ONLY),
    row("sampling/createMessage", From::Server, V2024_11_05, SESSIONS_ONLY),
    row("roots/list", From::Server, V2024_11_05, SESSIONS_ONLY),
    row("elicitation/create", From::Server, V2025_06_18, SESSIONS_ONLY),
    row("notifications/cancelled", From::Both, V2024_11_05, None),
    row("notifications/progress", From::Both, V2024_11_05, SESSIONS_ONLY),
    row("notifications/progress", From::Server, V2026_07_28, None),
    row("notifications/message", From::Server, V2024_11_05, None),
    row("notifications/tools/list_changed", From::Server, V2024_11_05, None),
    row("notifications/prompts/list_changed", From::Server, V2024_11_05, None),
    row("notifications/resources/list_changed", From::Server, V2024_11_05, None),
    row("notifications/resources/updated", From::Server, V2024_11_05, None),
    row("notifications/roots/list_changed", From::Client, V2024_11_05, SESSIONS_ONLY),
    row("notifications/elicitation/complete", From::Server, V2025_11_25, SESSIONS_ONLY),
    row("notifications/subscriptions/acknowledged", From::Server, V2026_07_28, None),
    row("notifications/tasks/status", From::Server, V2025_11_25, SESSIONS_ONLY),
    row("notifications/tasks", From::Server, V2026_07_28, None),
];

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28];
    /// The newest.
    pub const LATEST: Self = V2026_07_28;
    /// The newest that is opened by a handshake: what an unknown offer is answered with.
    pub const LATEST_HANDSHAKE: Self = V2025_11_25;
    /// What an HTTP client speaks that does not say, after a handshake nobody remembers.
    pub const UNSAID: Self = V2025_03_26;
    /// What `server/discover` and an unsupported version are answered with.
    pub const STATELESS: [&str; 1] = [V2026_07_28.as_str()];

    /// Whether the method is one of this revision's.
    pub fn has(self, method: &str) -> bool {
        METHODS.iter().any(|row| row.name == method && row.is_in(self))
    }

    /// How conversations of this revision are held.
    pub fn era(self) -> Era {
        if self >= V2026_07_28 { Era::Stateless } else { Era::Handshake }
    }

    /// Whether messages may come in arrays.
    pub fn has_batches(self) -> bool {
        self == V2025_03_26
    }

    /// Whether the server may ask the user, and by page too.
    pub fn elicitation(self) -> Elicitation {
        match self {
            V2024_11_05 | V2025_03_26 => Elicitation::None,
            V2025_06_18 => Elicitation::Form,
            V2025_11_25 | V2026_07_28 => Elicitation::FormAndUrl,
        }
    }

    /// Whether a client says that its model can be given context; before, all could.
    pub fn declares_sampling_context(self) -> bool {
        self >= V2025_11_25
    }

    /// Whether a client may have been told to expect an event stream to pause and be resumed.
    pub fn has_polling(self) -> bool {
        self == V2025_11_25
    }

    /// Whether a client asks for a task, rather than taking one where the server makes one.
    pub fn asks_for_tasks(self) -> bool {
        self == V2025_11_25
    }

    /// The code for a resource that is not there.
    pub fn resource_not_found(self) -> i64 {
        match self.era() {
            Era::Handshake => crate::error::RESOURCE_NOT_FOUND,
            Era::Stateless => crate::error::INVALID_PARAMS,
        }
    }

    /// The revision of a date.
    pub fn parse(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == date)
    }

    /// What a handshake's offer is answered with: the same, or the newest a handshake can open.
    pub fn negotiate(offer: &str) -> Self {
        Self::parse(offer)
            .filter(|revision| revision.era() == Era::Handshake)
            .unwrap_or(Self::LATEST_HANDSHAKE)
    }

    /// The date.
    pub const fn as_str(self) -> &'static str {
        match self {
            V2024_11_05 => "2024-11-05",
            V2025_03_26 => "2025-03-26",
            V2025_06_18 => "2025-06-18",
            V2025_11_25 => "2025-11-25",
            V2026_07_28 => "2026-07-28",
        }
    }
}

/// How a revision lets a server ask the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elicitation {
    /// Not at all.
    None,
    /// By a form.
    Form,
    /// By a form, or by a page to visit.
    FormAndUrl,
}

impl Method {
    /// Whether the revision has it.
    pub fn is_in(&self, revision: Revision) -> bool {
        self.since <= revision && self.until.is_none_or(|until| revision < until)
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How one revision's additions are taken away again.
struct Step {
    added_in: Revision,
    reply: fn(&mut Reply),
    question: fn(&mut InputRequest),
}

/// Newest first.
const STEPS: &[Step] = &[
    Step { added_in: V2026_07_28, reply: r2026_07_28::reply, question: r2026_07_28::question },
    Step { added_in: V2025_11_25, reply: r2025_11_25::reply, question: r2025_11_25::question },
    Step { added_in: V2025_06_18, reply: r2025_06_18::reply, question: r2025_06_18::question },
    Step { added_in: V2025_03_26, reply: r2025_03_26::reply, question: r2025_03_26::question },
];

/// Rewrites a reply of the latest revision into what `to` may be told.
pub fn downgrade(reply: &mut Reply, to: Revision) {
    if to >= V2026_07_28 {
        r2026_07_28::without_what_ended(reply);
    }
    for step in STEPS.iter().filter(|step| to < step.added_in) {
        (step.reply)(reply);
    }
}

/// Rewrites a question of the latest revision into what `to` may be asked.
pub fn downgrade_question(question: &mut InputRequest, to: Revision) {
    for step in STEPS.iter().filter(|step| to < step.added_in) {
        (step.question)(question);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_echoed_or_answered_with_the_newest_handshake() {
        for revision in Revision::ALL.into_iter().filter(|r| r.era() == Era::Handshake) {
            assert_eq!(Revision::negotiate(revision.as_str()), revision);
        }
        for unknown in ["2026-07-28", "1999-01-01", ""] {
            assert_eq!(Revision::negotiate(unknown), V2025_11_25);
        }
    }
}
