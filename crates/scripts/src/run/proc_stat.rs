//! Processes as `/proc` tells of them.

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, waitpid,
};
use std::{fs, thread, time::Duration};

/// How long the end of a process is waited for that was killed. It takes longer only if the system
/// cannot end it now, as one that waits for a disk that is gone.
const ENDING: Duration = Duration::from_millis(500);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);

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

    /// Whether it is there still, and its number not that of another one.
    pub(super) fn is_there(&self) -> bool {
        process(self.id).is_some_and(|now| now.identity() == self.identity())
    }

    /// Kills it.
    fn kill(&self) {
        let Some(id) = Pid::from_raw(self.id) else { return };
        // The handle stays that of one process. Which one that is, is looked at after it is opened.
        let handle = pidfd_open(id, PidfdFlags::empty());
        if !self.is_there() {
            return;
        }
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, Signal::KILL),
            // Kernels without such handles.
            Err(_) => kill_process(id, Signal::KILL),
        };
    }
}

/// Kills processes, all of them before it reaps those that are children of this process. Blocks for
/// a moment.
pub(super) fn end_all(processes: &[&Process]) {
    processes.iter().for_each(|process| process.kill());
    let children = processes.iter().filter(|process| process.parent == own_id());
    children.filter_map(|process| Pid::from_raw(process.id)).for_each(reap);
}

/// Reaps a child that was killed, unless the system does not end it soon.
fn reap(child: Pid) {
    for _ in 0..ENDING.as_millis() / LOOK.as_millis() {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(None) => thread::sleep(LOOK),
            _ => return,
        }
    }
}

/// The number of this process.
pub(super) fn own_id() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
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
        // Its own, and those of children that have ended and were waited for.
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        started: number(19)?,
        pages: number(21)?,
        is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process::Command, time::Instant};

    #[expect(clippy::zombie_processes, reason = "it is reaped by what is tested")]
    fn sleeping() -> (Process, Pid) {
        let child = crate::spawn::blocking(Command::new("sleep").arg("4733")).unwrap();
        let id = i32::try_from(child.id()).unwrap();
        (process(id).unwrap(), Pid::from_raw(id).unwrap())
    }

    #[test]
    fn a_process_that_has_the_number_of_another_is_not_ended() {
        let (there, _) = sleeping();
        let gone = Process { started: there.started - 1, ..process(there.id).unwrap() };
        assert!(there.is_there() && !gone.is_there());
        end_all(&[&gone]);
        assert!(there.is_there() && !process(there.id).unwrap().is_dead);
        end_all(&[&there]);
        assert!(process(there.id).is_none(), "it is ended and reaped");
    }

    #[test]
    fn a_child_that_does_not_end_is_not_waited_for_long() {
        let (there, id) = sleeping();
        let begun = Instant::now();
        reap(id);
        assert!(begun.elapsed() < 20 * ENDING && there.is_there());
        end_all(&[&there]);
    }
}
