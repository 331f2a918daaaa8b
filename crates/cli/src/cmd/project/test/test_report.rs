//! What became of cases, as people see it.

use super::{Fate, Ran};
use crate::print::{self, harmless};
use anstyle::{AnsiColor, Style};
use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

const FILE: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const NEW: Style = AnsiColor::Cyan.on_default();
const QUIET: Style = Style::new().dimmed();

/// The file whose cases come next.
pub(super) fn file(path: &Path) -> io::Result<()> {
    writeln!(print::out(), "{FILE}{}{FILE:#}", path.display())
}

/// One case, and how it differs.
pub(super) fn case(ran: &Ran) -> io::Result<()> {
    let mut out = print::out();
    let name = harmless(&ran.name).replace('\n', " ");
    let took = format!("{QUIET}{:.2} s{QUIET:#}", ran.took.as_secs_f64());
    match &ran.fate {
        Fate::Passed => writeln!(out, "  {GOOD}ok{GOOD:#}        {name}  {took}")?,
        Fate::Recorded { fails: false } => {
            writeln!(out, "  {NEW}recorded{NEW:#}  {name}  {took}")?;
        }
        Fate::Recorded { fails: true } => {
            let note = "it fails, and is expected to from now on";
            writeln!(out, "  {NEW}recorded{NEW:#}  {name}  {BAD}{note}{BAD:#}  {took}")?;
        }
        Fate::Skipped(why) => {
            writeln!(out, "  {QUIET}skipped   {name}: {}{QUIET:#}", harmless(why))?;
        }
        Fate::Failed(difference) => {
            writeln!(out, "  {BAD}failed{BAD:#}    {name}  {took}")?;
            for line in harmless(difference).lines() {
                let style = match line.chars().next() {
                    Some('-') => BAD,
                    Some('+') => GOOD,
                    _ => Style::new(),
                };
                writeln!(out, "            {style}{line}{style:#}")?;
            }
        }
    }
    out.flush()
}

/// A file that was written, and where what it was is.
pub(super) fn saved(path: &Path, before: &Path) -> io::Result<()> {
    let (path, before) = (path.display(), before.display());
    writeln!(print::out(), "\nWrote {path}; as it was it is in {before}.")
}

/// How many of which.
pub(super) fn summary(ran: &[Ran], took: Duration) -> io::Result<()> {
    let count = |is: fn(&Fate) -> bool| ran.iter().filter(|one| is(&one.fate)).count();
    let counts = [
        (count(|fate| matches!(fate, Fate::Passed)), "passed"),
        (count(|fate| matches!(fate, Fate::Failed(_))), "failed"),
        (count(|fate| matches!(fate, Fate::Recorded { .. })), "recorded"),
        (count(|fate| matches!(fate, Fate::Skipped(_))), "skipped"),
    ];
    let said: Vec<_> = counts
        .iter()
        .filter(|(count, what)| *count > 0 || *what == "passed")
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    writeln!(print::out(), "\n{} in {:.1} s", said.join(", "), took.as_secs_f64())
}
