//! Processes of the server that have the mark of a run by accident.
//!
//! The mark is a resource limit of the server while it starts the first process of a run. Another
//! thread may start a process for something else in that moment, which inherits it. A process of a
//! sandbox is never taken for such a one: it can change its environment and its parents, and
//! neither its limit nor the filters of its system calls.

use std::fs;

/// Filters of system calls that every sandbox sets, at the least.
const FILTERS: u64 = 2;

/// Whether a child of the server belongs to no run: by whether its environment has the mark, and
/// how many filters of system calls it and the server have.
pub(super) fn is_bystander(is_said_to_be: bool, filters: u64, own_filters: u64) -> bool {
    !is_said_to_be && filters < own_filters.saturating_add(FILTERS)
}

/// How many filters look at the system calls of a process.
pub(super) fn filters(process: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_sandbox_is_no_bystander() {
        for (is_said_to_be, filters, own, expected) in [
            // Started by the server for something else, also in a container with a filter.
            (false, 0, 0, true),
            (false, 1, 1, true),
            // The first process of a run.
            (true, 0, 0, false),
            (true, 4, 0, false),
            // One that took the mark out of its environment, and was adopted by the server.
            (false, 3, 0, false),
            (false, 4, 1, false),
        ] {
            assert_eq!(is_bystander(is_said_to_be, filters, own), expected, "{filters} {own}");
        }
    }
}
