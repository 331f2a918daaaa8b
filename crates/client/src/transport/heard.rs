//! What is known of a child process beside its messages: what it wrote to standard error, lines that
//! are no messages, and how it ended.

use std::{
    collections::VecDeque,
    process::ExitStatus,
    sync::{Mutex, MutexGuard},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::ChildStderr,
};
use zcp_wire::sync::lock;

/// Lines of standard error that are kept for errors.
const KEPT_LINES: usize = 12;
/// How much of each.
const KEPT_WIDTH: usize = 400;

/// What is known of a process beside its messages.
pub(super) struct Heard {
    /// Its command line.
    line: String,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    errors: VecDeque<String>,
    strays: u64,
    last_stray: String,
    /// What became of it.
    end: Option<String>,
}

impl Heard {
    pub(super) fn new(line: String) -> Self {
        Self { line, said: Mutex::default() }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        lock(&self.said)
    }

    fn error(&self, line: &[u8], is_continued: bool) {
        let line = match is_continued {
            true => format!("… {}", shortened(line)),
            false => shortened(line),
        };
        tracing::debug!(target: "zcp_client::stderr", "{line}");
        let mut said = self.said();
        if said.errors.len() == KEPT_LINES {
            said.errors.pop_front();
        }
        said.errors.push_back(line);
    }

    pub(super) fn no_message(&self, line: &[u8]) {
        let line = shortened(line);
        let mut said = self.said();
        said.strays += 1;
        // A flood of them is not to become another one.
        if said.strays.is_power_of_two() {
            tracing::warn!("the server wrote what is no message: {line}");
        }
        said.last_stray = line;
    }

    /// Notes how it ended, by itself or because that was asked for.
    pub(super) fn end(&self, status: Option<ExitStatus>, is_asked: bool) {
        self.said().end = Some(match (is_asked, status) {
            (true, _) => "was stopped".to_owned(),
            (false, Some(status)) => format!("ended: {status}"),
            (false, None) => "ended".to_owned(),
        });
    }

    /// What became of the process, and what it said last.
    pub(super) fn story(&self) -> String {
        let said = self.said();
        let mut story = format!("`{}` {}", self.line, said.end.as_deref().unwrap_or("still runs"));
        if said.strays > 0 {
            let (count, last) = (said.strays, &said.last_stray);
            story += &format!("; lines it wrote that are no messages: {count}, the last: {last}");
        }
        if !said.errors.is_empty() {
            story += "; its last words:";
            said.errors.iter().for_each(|line| story += &format!("\n  {line}"));
        }
        story
    }
}

/// A line of the process as it is logged: short, and without characters that move the cursor.
fn shortened(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    let mut shown = String::new();
    for letter in text.chars().take(KEPT_WIDTH) {
        match letter.is_control() && letter != '\t' {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    if text.chars().nth(KEPT_WIDTH).is_some() {
        shown.push('…');
    }
    shown
}

/// Hears all that a process writes to standard error.
pub(super) async fn listen(errors: ChildStderr, heard: &Heard) {
    let mut lines = BufReader::new(errors);
    let (mut line, mut is_whole) = (vec![], true);
    loop {
        line.clear();
        // A line without an end is taken in parts, and each part but the first says so.
        let mut part = (&mut lines).take(64 * 1024);
        match part.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => heard.error(&line, !is_whole),
        }
        is_whole = line.ends_with(b"\n");
    }
}
