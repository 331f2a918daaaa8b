//! How many files this process may have open: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are for other things than connections: stores, scripts, mounted servers. At most; of a
/// low limit an eighth is.
const OTHERS: u64 = 1024;

/// Raises the limit of open files for a number of connections, as far as this process may. Returns how
/// many connections there can be.
pub(super) fn raise_to(connections: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current else { return connections };
    let wanted = (connections as u64).saturating_add(OTHERS);
    let raised = wanted.min(maximum.unwrap_or(u64::MAX));
    let files = match current < raised {
        true => {
            let limit = Rlimit { current: Some(raised), maximum };
            setrlimit(Resource::Nofile, limit).map_or(current, |()| raised)
        }
        false => current,
    };
    room(files, connections)
}

/// How many of so many connections fit into a number of files, beside what else is open.
fn room(files: u64, connections: usize) -> usize {
    let free = files.saturating_sub(OTHERS.min(files.div_ceil(8)));
    connections.min(usize::try_from(free).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_others() {
        assert_eq!(room(1024, 16 * 1024), 1024 - 128);
        assert_eq!(room(17 * 1024, 16 * 1024), 16 * 1024);
        assert_eq!(room(1 << 20, 16 * 1024), 16 * 1024);
        assert_eq!((room(8, 100), room(0, 100)), (7, 1));
    }
}
