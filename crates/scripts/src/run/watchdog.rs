//! Ends what a server leaves behind when it is killed: a shell that waits for its death.

use super::process_tree::{Family, LIMIT, MARK};
use crate::spawn;
use std::{
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Waits until its input ends, which is when the server does, however that comes about. Then ends
/// every process with the server's mark that is not older than it, and removes its folder.
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
pub(crate) struct Guard(Child);

impl Guard {
    pub(super) fn start(family: &Family, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", WAIT, "zcp-guard"]).arg(format!("{MARK}={}-", family.tag()));
        command.arg(format!("^{LIMIT} *{}[0-9]* ", family.badge())).arg(folder);
        command.arg(family.since().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).current_dir("/");
        spawn::blocking(&mut command).map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
