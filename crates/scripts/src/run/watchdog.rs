//! The watchdog: a shell that ends what a server leaves behind when it is killed.

use super::process_tree::{LIMIT, ProcessTree, VARIABLE};
use crate::spawn;
use std::{
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Waits until its input ends, which is when the server does, however that comes about. Then ends
/// every process with the server's tag that is not older than it, and removes its folder.
const WAIT: &str = r#"
trap '' INT TERM HUP
since=$4
is_younger() {
    stat=$(cat "/proc/$1/stat" 2>/dev/null)
    set -- ${stat##*) }
    [ "${20:-0}" -ge "$since" ]
}
read -r _
for file in $(grep -ls "$1" /proc/[0-9]*/environ; grep -ls "$2" /proc/[0-9]*/limits); do
    process=${file#/proc/}
    is_younger "${process%/*}" && kill -9 "${process%/*}" 2>/dev/null
done
rm -rf "$3"
"#;

/// The shell. Dropping it ends its input.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    pub(super) fn start(tree: &ProcessTree, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", WAIT, "zcp-guard"]).arg(format!("{VARIABLE}={}-", tree.name()));
        command.arg(format!("^{LIMIT} *{}[0-9]* ", tree.number())).arg(folder);
        command.arg(tree.since().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).current_dir("/");
        spawn::blocking(&mut command).map(Self)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
