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
