//! Processes as `/proc` tells of them.

use std::fs;

/// A process that is there now: another one gets its number later, but not its start.
pub(super) type Identity = (i32, u64);

/// A process, as far as it matters.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Processor time, in ticks.
    pub(super) ticks: u64,
    /// When it was started, in ticks since the machine was.
    pub(super) started: u64,
    /// Memory, in pages.
    pub(super) pages: u64,
    /// It has ended, and nobody has asked how.
    pub(super) is_dead: bool,
}

impl Process {
    pub(super) fn identity(&self) -> Identity {
        (self.id, self.started)
    }
}

/// All processes, where the system tells.
pub(super) fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

/// One process, if it is there.
pub(super) fn process(id: i32) -> Option<Process> {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may have anything in it.
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Process {
        id,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        started: number(19)?,
        pages: number(21)?,
        is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}
