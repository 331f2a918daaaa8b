//! A skill with a file of its own in a folder.

use serde_json::{Map, Value};
use zcp::{Server, Skill};

const TEXT: &str = "---
name: leap-years
description: Tells whether a year has 366 days. Use it for questions about calendars.
---

# Leap years

A year is a leap year if it is divisible by four, but not by a hundred unless by four hundred.
`references/history.md` says since when.
";
const HISTORY: &str = "# History

The rule is that of Pope Gregory XIII, since 1582. Before, every fourth year was one.
";

pub(super) fn offer(server: Server) -> Server {
    let says = [
        ("name", "leap-years"),
        ("description", "Tells whether a year has 366 days. Use it for questions about calendars."),
    ];
    let says: Map<String, Value> =
        says.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
    let skill = Skill::new("leap-years", says).file("SKILL.md", TEXT);
    server.skill(skill.file("references/history.md", HISTORY))
}
