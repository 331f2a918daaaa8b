//! The five published revisions, and what each of them allows.

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

/// How a server asks its client for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Questions {
    /// With requests of its own, which are answered with responses.
    AsRequests,
    /// With the result of a call, which is made again with the answers.
    AsResults,
}

impl Era {
    /// How a server of this era asks.
    pub const fn questions(self) -> Questions {
        match self {
            Self::Handshake => Questions::AsRequests,
            Self::Stateless => Questions::AsResults,
        }
    }
}

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

    /// How conversations of this revision are held.
    pub fn era(self) -> Era {
        if self >= V2026_07_28 { Era::Stateless } else { Era::Handshake }
    }

    /// Whether messages may come in arrays.
    pub fn has_batches(self) -> bool {
        self == V2025_03_26
    }

    /// Whether progress may be told in words.
    pub fn has_progress_messages(self) -> bool {
        self > V2024_11_05
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
#[non_exhaustive]
pub enum Elicitation {
    /// Not at all.
    None,
    /// By a form.
    Form,
    /// By a form, or by a page to visit.
    FormAndUrl,
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
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
