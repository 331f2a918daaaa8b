//! Ends what a server leaves behind when it is killed: a shell that waits for its death.

use super::family::MARK;
use std::{
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Waits until its input ends, which is when the server does, however that comes about. Then ends
/// every process with the server's mark, and removes its folder.
const WAIT: &str = r#"
trap '' INT TERM HUP
read -r _
for environment in /proc/[0-9]*/environ; do
    if tr '\0' '\n' <"$environment" 2>/dev/null | grep -q "^$1-"; then
        process=${environment#/proc/}
        kill -9 "${process%/environ}" 2>/dev/null
    fi
done
rm -rf "$2"
"#;

/// The shell. Dropping it ends its input.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn start(tag: &str, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", WAIT, "zcp-guard"]).arg(format!("{MARK}={tag}")).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).current_dir("/");
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
