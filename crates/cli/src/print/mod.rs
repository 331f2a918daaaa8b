//! What people and programs are shown.

mod called;
mod log;
mod out;
mod serving;
mod word_diff;

use anstyle::{AnsiColor, Style};
pub(crate) use called::{called, stderr, without_stderr};
pub(crate) use log::{LogFormat, start_log};
pub(crate) use out::{Terminal, out};
use serde::Serialize;
use serde_json::json;
pub(crate) use serving::{serving, stopping};
use std::{
    error::Error,
    io::{self, Write},
};
pub(crate) use word_diff::{changes, word_changes};
use zcp_client::{
    Progress, TaskState,
    wire::mcp::content::{Content, Kind, ResourceContents, TextOrBlob},
};

pub(crate) const NAME: Style = Style::new().bold();
const LINK: Style = AnsiColor::Cyan.on_default();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const DOUBT: Style = AnsiColor::Yellow.on_default();
const OUT: Style = AnsiColor::Red.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Why the command did not do what it was asked.
pub(crate) fn failure(error: &dyn Error, json: bool) {
    let error = error.to_string();
    if error.is_empty() {
        return; // It is said already, elsewhere.
    }
    if json {
        let _ = writeln!(anstream::stderr(), "{}", json!({ "error": error }));
    } else {
        let _ = writeln!(anstream::stderr(), "{BAD}error:{BAD:#} {}", harmless(&error));
    }
}

/// A value for programs, on one line.
pub(crate) fn json<T: Serialize>(value: &T) -> io::Result<()> {
    let mut out = out();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    out.flush()
}

/// Words, as they are; on a terminal without what would make it do something.
pub(crate) fn words(text: &str) -> io::Result<()> {
    let text = match io::IsTerminal::is_terminal(&io::stdout()) {
        true => &plain(text),
        false => text,
    };
    let mut out = out();
    writeln!(out, "{}", text.trim_end_matches('\n'))?;
    out.flush()
}

/// Bytes, as they are.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    out::raw(bytes)
}

/// A heading, and names with what they are.
pub(crate) fn table(heading: &str, rows: &[(String, String)]) -> io::Result<()> {
    let mut out = out();
    writeln!(out, "{NAME}{heading}{NAME:#} {QUIET}({}){QUIET:#}", rows.len())?;
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(40);
    for (name, about) in rows {
        let name = harmless(name).replace('\n', " ");
        let line = shortened(&harmless(about.lines().next().unwrap_or_default()));
        match line.is_empty() {
            true => writeln!(out, "  {LINK}{name}{LINK:#}")?,
            false => writeln!(out, "  {LINK}{name:<width$}{LINK:#}  {line}")?,
        }
    }
    writeln!(out)?;
    out.flush()
}

/// Something that happened to a tool, as it does.
pub(crate) fn happened(tool: &str, what: &str, json: bool) {
    let mut out = out();
    let _ = match json {
        true => writeln!(out, "{}", json!({ "event": "changed", "tool": tool, "what": what })),
        false => writeln!(out, "  {NAME}{}{NAME:#} {}", harmless(tool), harmless(what)),
    };
    let _ = out.flush();
}

/// Commands that make sense from here, and what they do.
pub(crate) fn next(lines: &[(String, &str)]) -> io::Result<()> {
    let mut out = out();
    writeln!(out, "{NAME}next{NAME:#}")?;
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    for (line, about) in lines {
        writeln!(out, "  {LINK}{line:<width$}{LINK:#}  {QUIET}{about}{QUIET:#}")?;
    }
    out.flush()
}

/// What happened, and a line for each thing to know of it.
pub(crate) fn facts(heading: &str, rows: &[(&str, String)]) -> io::Result<()> {
    let mut out = out();
    writeln!(out, "{NAME}{}{NAME:#}", harmless(heading))?;
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in rows {
        let value = harmless(value).replace('\n', " ");
        writeln!(out, "  {QUIET}{name:<width$}{QUIET:#}  {value}")?;
    }
    out.flush()
}

/// The beginning of an id, which is enough to tell it from others.
pub(crate) fn beginning(id: &str) -> String {
    match id.char_indices().nth(10) {
        Some((end, _)) => format!("{}…", &id[..end]),
        None => id.to_owned(),
    }
}

/// A line that fits beside a name.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// What a tool or a prompt says: words as they are, the rest as a note.
pub(crate) fn content(all: &[Content]) -> io::Result<()> {
    all.iter().try_for_each(|one| match &one.kind {
        Kind::Text { text } => words(text),
        Kind::Image { data, mime_type } => note(&format!("image, {mime_type}"), data),
        Kind::Audio { data, mime_type } => note(&format!("sound, {mime_type}"), data),
        Kind::ResourceLink(resource) => words(&format!("{}: {}", resource.name, resource.uri)),
        Kind::Resource { resource } => contents(resource),
        other => words(&serde_json::to_string_pretty(other)?),
    })
}

/// A resource: text as it is, bytes as a note.
pub(crate) fn contents(resource: &ResourceContents) -> io::Result<()> {
    match &resource.data {
        TextOrBlob::Text(text) => words(text),
        TextOrBlob::Blob(data) => note(resource.mime_type.as_deref().unwrap_or("bytes"), data),
    }
}

fn note(what: &str, data: &str) -> io::Result<()> {
    let bytes = data.len() / 4 * 3;
    let mut out = out();
    let what = harmless(what);
    writeln!(out, "{QUIET}[{what}, about {bytes} bytes; --json shows them]{QUIET:#}")
}

/// How far a call has come, on one line that is written over.
pub(crate) fn progress(progress: &Progress) {
    let share = progress.total.filter(|total| *total > 0.0).map(|total| progress.progress / total);
    let far = match share {
        Some(share) => {
            let share = share.clamp(0.0, 1.0);
            let done = "█".repeat((share * 20.0) as usize);
            format!("{done:░<20} {:3.0} %", share * 100.0)
        }
        None => format!("{}", progress.progress),
    };
    let message = harmless(progress.message.as_deref().unwrap_or_default()).replace('\n', " ");
    let _ = write!(anstream::stderr(), "\r\x1b[2K{QUIET}{far} {message}{QUIET:#}");
}

/// How far a task is, on one line that is written over.
pub(crate) fn state(state: &TaskState) {
    let words = harmless(state.message.as_deref().unwrap_or_default()).replace('\n', " ");
    let status = state.status.as_str().replace('_', " ");
    let _ = write!(anstream::stderr(), "\r\x1b[2K{QUIET}{status} {words}{QUIET:#}");
}

/// A server's words, without what would make a terminal show something else.
pub(crate) fn harmless(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() && c != '\n' || turns(c) { ' ' } else { c }).collect()
}

/// A stranger's words with everything to be seen that a model would read.
pub(crate) fn visible(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
            || matches!(c, '\u{e0000}'..='\u{e0fff}')
    };
    let mut all = String::new();
    for c in text.chars() {
        match is_hidden(c) {
            true => all.extend(c.escape_unicode()),
            false => all.push(c),
        }
    }
    all
}

/// A server's words without control characters, in their lines and columns.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Something to know, beside the output.
pub(crate) fn aside(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", harmless(text));
}

/// A page a server wants visited: its whole address, and whose it is.
pub(crate) fn page(url: &str) {
    let mut err = anstream::stderr();
    let _ = writeln!(err, "  {LINK}{}{LINK:#}", harmless(url));
    let Some(host) = host(url) else { return };
    let _ = writeln!(err, "  It belongs to {NAME}{}{NAME:#}.", harmless(&host));
    if host.split('.').any(|part| part.starts_with("xn--")) || !host.is_ascii() {
        let _ = writeln!(err, "  {BAD}Its name may look like another's: look twice.{BAD:#}");
    }
    if !url.starts_with("https://") {
        let _ = writeln!(err, "  {BAD}It is not encrypted.{BAD:#}");
    }
}

fn host(url: &str) -> Option<String> {
    let parsed = zcp_client::oauth::Url::parse(url).ok()?;
    parsed.host_str().map(str::to_owned)
}

/// Where to log in, and whether a browser shows it.
pub(crate) fn login(page: &str, is_open: bool) {
    let mut err = anstream::stderr();
    let words = match is_open {
        true => "Your browser shows a page to log in. If it does not, open it yourself:",
        false => "Open this page to log in:",
    };
    let _ = writeln!(err, "{words}\n\n  {LINK}{}{LINK:#}\n", harmless(page));
    let _ = writeln!(err, "{QUIET}Waiting for you to come back …{QUIET:#}");
}

/// Makes room after the last line of progress.
pub(crate) fn no_progress() {
    if io::IsTerminal::is_terminal(&io::stderr()) {
        let _ = write!(anstream::stderr(), "\r\x1b[2K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_but_words() {
        let text = "a\tb\r\n\u{1b}]0;title\u{7}\u{1b}[2Jä\u{9b}1m";
        assert_eq!(plain(text), "a\tb\n]0;title[2Jä1m");
    }
}
