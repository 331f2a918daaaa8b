//! How to speak the older revisions: a chain of small steps, each of which takes away what one
//! revision added.

mod r2025_03_26;
mod r2025_06_18;
mod r2025_11_25;
mod r2026_07_28;

use crate::{
    mcp::{InputRequest, Reply},
    revision::Revision::{self, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28},
};
use serde_json::Value;

/// How one revision's additions are taken away again.
struct Step {
    added_in: Revision,
    reply: fn(&mut Reply),
    question: fn(&mut InputRequest),
    /// How the answer to such a question is read, given the question as it was.
    answer: fn(&mut Value, &InputRequest),
}

/// Newest first.
const STEPS: &[Step] = &[
    Step {
        added_in: V2026_07_28,
        reply: r2026_07_28::reply,
        question: r2026_07_28::question,
        answer: as_it_is,
    },
    Step {
        added_in: V2025_11_25,
        reply: r2025_11_25::reply,
        question: r2025_11_25::question,
        answer: r2025_11_25::answer,
    },
    Step {
        added_in: V2025_06_18,
        reply: r2025_06_18::reply,
        question: r2025_06_18::question,
        answer: as_it_is,
    },
    Step {
        added_in: V2025_03_26,
        reply: r2025_03_26::reply,
        question: r2025_03_26::question,
        answer: as_it_is,
    },
];

fn as_it_is(_: &mut Value, _: &InputRequest) {}

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

/// Rewrites what a client of `from` answers into an answer of the latest revision. `question` is the
/// question before it was rewritten.
pub fn upgrade_answer(answer: &mut Value, question: &InputRequest, from: Revision) {
    for step in STEPS.iter().rev().filter(|step| from < step.added_in) {
        (step.answer)(answer, question);
    }
}
