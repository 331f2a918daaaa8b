//! Scripts that their own interpreters cannot read: found without running them.

use crate::{findings::Finding, needs};
use futures_util::{StreamExt, stream};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::Command,
};
use zcp_scripts::Program;

/// How long an interpreter may take to read a script.
const TIME: Duration = Duration::from_secs(10);
/// Interpreters that run at the same time.
const AT_ONCE: usize = 4;
/// How much of what an interpreter says is read, and how many lines of it are shown.
const HEARD: u64 = 64 * 1024;
const SHOWN: usize = 4;
/// Python without writing what it compiled, and without anything that it would load at its start.
const PYTHON: &str =
    "import sys\nwith open(sys.argv[1], 'rb') as f: compile(f.read(), sys.argv[1], 'exec')";

/// What interpreters that are there say of scripts they cannot read.
///
/// An interpreter inside the project is not started: it could be any program.
pub(super) async fn check(programs: &[Program], root: &Path) -> Vec<Finding> {
    let checked = programs.iter().map(|program| async {
        let (interpreter, words) = interpreter(program, root)?;
        let why = said(&interpreter, &words, &program.script).await?;
        let path = program.script.display();
        Some(Finding::error(&program.tool, format!("{path} cannot be read: {why}")))
    });
    stream::iter(checked).buffered(AT_ONCE).filter_map(std::future::ready).collect().await
}

/// The interpreter of a script, and the words that make it read without running.
fn interpreter(program: &Program, root: &Path) -> Option<(PathBuf, Vec<&'static str>)> {
    let by = program.by.as_ref().ok()?;
    let by = if *by == program.script { first_line(&program.script)? } else { by.clone() };
    let name = by.file_stem()?.to_str()?.to_lowercase();
    let ending = program.script.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let words = match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "sh" | "bash" | "dash" | "zsh" | "ksh" => vec!["-n"],
        "python" => vec!["-I", "-S", "-c", PYTHON],
        "node" | "nodejs" if ["js", "mjs", "cjs"].contains(&ending) => vec!["--check"],
        "ruby" => vec!["-c"],
        "php" => vec!["-l"],
        // Perl runs parts of what it checks.
        _ => return None,
    };
    let by = match is_outside(&by, root) {
        true => by,
        // That of a virtual environment, say: the one of the system reads the same.
        false => which::which(if name.starts_with("python") { "python3" } else { &name }).ok()?,
    };
    is_outside(&by, root).then_some((by, words))
}

/// Whether a program is no part of a project, by its path and by where links on it lead.
pub(super) fn is_outside(program: &Path, root: &Path) -> bool {
    let (Ok(real), Ok(root)) = (program.canonicalize(), root.canonicalize()) else { return false };
    let absolute = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    !real.starts_with(&root) && !absolute.starts_with(&root)
}

/// The interpreter that a script's first line names.
pub(super) fn first_line(script: &Path) -> Option<PathBuf> {
    let text = needs::beginning(script, 256)?;
    let words = shell_words::split(text.lines().next()?.strip_prefix("#!")?).ok()?;
    let mut words = words.iter().map(Path::new);
    let first = words.next()?;
    if first.file_name().is_some_and(|name| name == "env") {
        return which::which(words.find(|word| !word.starts_with("-S"))?).ok();
    }
    Some(first.to_owned())
}

/// What an interpreter says of a script, if that is wrong.
async fn said(interpreter: &Path, words: &[&str], script: &Path) -> Option<String> {
    let mut command = Command::new(interpreter);
    command.args(words).arg(script).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let checking = async {
        let mut lines = BufReader::new(child.stderr.take()?.take(HEARD)).split(b'\n');
        let mut last = std::collections::VecDeque::new();
        while let Ok(Some(line)) = lines.next_segment().await {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !line.trim().is_empty() && !line.starts_with("Node.js v") && !is_frame(&line) {
                last.push_back(line);
            }
            if last.len() > SHOWN {
                last.pop_front();
            }
        }
        drop(lines);
        let status = child.wait().await.ok()?;
        let lines: Vec<String> = last.into();
        (!status.success()).then(|| lines.join("\n"))
    };
    tokio::time::timeout(TIME, checking).await.ok().flatten()
}

/// Whether a line only says where in the interpreter itself something went wrong.
fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("at ")
        || line.starts_with("Traceback")
        || line.contains("<string>")
}
