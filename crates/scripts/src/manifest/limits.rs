//! Limits: how much of the machine a script may have.

use super::values::{size, time};
use serde::Deserialize;
use std::time::Duration;

/// How much of the machine a script may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Of its output, what is shown; the rest is kept and linked.
    #[serde(deserialize_with = "size")]
    pub(crate) output: Option<u64>,
    /// Of all its processes together.
    #[serde(deserialize_with = "size")]
    pub(crate) memory: Option<u64>,
    /// Time it may compute, all its processes together.
    #[serde(deserialize_with = "time")]
    pub(crate) cpu: Option<Duration>,
    #[serde(alias = "files")]
    pub(crate) open_files: Option<u64>,
    pub(crate) processes: Option<usize>,
    /// Calls at a time.
    #[serde(alias = "concurrent")]
    pub(crate) concurrency: Option<usize>,
    /// Calls a minute.
    pub(crate) rate: Option<u32>,
}

impl Limits {
    /// A script that may have none of something could not run at all.
    pub(super) fn check(&self) -> Result<(), String> {
        let none = [
            ("output", self.output == Some(0)),
            ("memory", self.memory == Some(0)),
            ("cpu", self.cpu == Some(Duration::ZERO)),
            ("files", self.open_files == Some(0)),
            ("processes", self.processes == Some(0)),
            ("concurrency", self.concurrency == Some(0)),
            ("rate", self.rate == Some(0)),
        ];
        match none.iter().find(|(_, is_none)| *is_none) {
            Some((name, _)) => Err(format!(
                "the limit `{name}` is 0: say more, or leave it out; `enabled` and `@hidden` say \
                 what is no tool"
            )),
            None => Ok(()),
        }
    }

    /// The lower of each.
    pub(super) fn within(self, other: Self) -> Self {
        fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Self {
            output: lower(self.output, other.output),
            memory: lower(self.memory, other.memory),
            cpu: lower(self.cpu, other.cpu),
            open_files: lower(self.open_files, other.open_files),
            processes: lower(self.processes, other.processes),
            concurrency: lower(self.concurrency, other.concurrency),
            rate: lower(self.rate, other.rate),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self {
            output: self.output.or(other.output),
            memory: self.memory.or(other.memory),
            cpu: self.cpu.or(other.cpu),
            open_files: self.open_files.or(other.open_files),
            processes: self.processes.or(other.processes),
            concurrency: self.concurrency.or(other.concurrency),
            rate: self.rate.or(other.rate),
        }
    }
}
