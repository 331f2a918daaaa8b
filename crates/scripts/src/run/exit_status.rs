//! How a process ended: as a number, and in words.

use std::process::ExitStatus;

/// An exit code, or what shells say instead when there was a signal.
pub(crate) fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Whether it was ended as its processor time was used up, or was a shell that says so of another.
pub(crate) fn is_out_of_time(status: ExitStatus) -> bool {
    code(status) == 128 + 24
}

/// How a process ended, in words. Shells end so, too, for reasons that their standard error names, such
/// as a variable that is not set.
pub(crate) fn words(status: ExitStatus, stderr: &str) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            let (name, why) = match signal {
                1 => ("HUP", ""),
                2 => ("INT", ""),
                3 => ("QUIT", ""),
                4 => ("ILL", ", an instruction the machine does not know"),
                6 => ("ABRT", ", it gave up by itself"),
                7 => ("BUS", ""),
                8 => ("FPE", ", a wrong calculation"),
                9 => ("KILL", ", perhaps for lack of memory"),
                11 => ("SEGV", ", a wrong use of memory"),
                13 => ("PIPE", ""),
                15 => ("TERM", ""),
                24 => ("XCPU", ", its computing time was used up"),
                25 => ("XFSZ", ", a file grew too large"),
                _ => ("", ""),
            };
            return match name {
                "" => format!("it was ended by signal {signal}"),
                name => format!("it was ended by signal {signal} ({name}{why})"),
            };
        }
    }
    match status.code() {
        Some(126) => "exit code 126, which often means that something may not be executed".into(),
        Some(127) if stderr.is_empty() || speaks_of_a_command(stderr) => {
            "exit code 127, which often means that a command was not found".into()
        }
        Some(code) => format!("exit code {code}"),
        None => "it ended without an exit code".into(),
    }
}

/// Whether words are about a program that is missing.
fn speaks_of_a_command(stderr: &str) -> bool {
    let stderr = stderr.to_lowercase();
    ["command", "not found", "no such file"].iter().any(|words| stderr.contains(words))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_guessed_only_where_it_may_be() {
        let status: ExitStatus = std::os::unix::process::ExitStatusExt::from_raw(127 << 8);
        for (stderr, guessed) in [
            ("", true),
            ("x.sh: line 2: nope: command not found", true),
            ("x.sh: line 2: TOKEN: parameter null or not set", false),
        ] {
            assert_eq!(words(status, stderr).contains("command"), guessed, "{stderr}");
        }
    }
}
