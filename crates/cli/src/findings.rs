//! What was found: wrong, doubtful or fine, and what to do about it.

use crate::print::{self, BAD, DOUBT, GOOD, NAME, QUIET, harmless};
use serde::Serialize;
use std::{
    error::Error,
    io::{self, Write},
};
use zcp_scripts::{Program, Scripts};

/// What a mistake is about that keeps something from being served.
pub(crate) const LEFT_OUT: &str = "left out";

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Error,
    Warning,
    Ok,
}

/// Something that was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) about: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn error(about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Error, about: about.into(), message: message.into(), fix: None }
    }

    pub(crate) fn warning(about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(about, message) }
    }

    pub(crate) fn ok(about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Ok, ..Self::error(about, message) }
    }

    /// What it is about, and what it is.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.about, self.message)
    }

    /// What to do about it.
    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// What is wrong with a folder: what keeps something from being served, and what does not.
pub(crate) fn mistakes(scripts: &Scripts) -> Vec<Finding> {
    told(&scripts.mistakes().borrow().clone(), &scripts.programs().borrow().clone())
}

/// The same, of mistakes and programs that are known.
pub(crate) fn told(mistakes: &[String], programs: &[Program]) -> Vec<Finding> {
    let served = |mistake: &String| {
        let tool = programs.iter().find(|program| program.mistakes.contains(mistake));
        tool.map_or(LEFT_OUT, |program| &program.tool).to_owned()
    };
    mistakes.iter().map(|mistake| Finding::error(served(mistake), mistake)).collect()
}

/// The same, a line each.
pub(crate) fn lines(scripts: &Scripts) -> Vec<String> {
    mistakes(scripts).iter().map(Finding::line).collect()
}

/// What was found, each with what to do about it.
pub(crate) fn show(all: &[Finding]) -> io::Result<()> {
    let mut out = print::out();
    let width = all.iter().map(|one| one.about.chars().count()).max().unwrap_or(0).min(32);
    for Finding { level, about, message, fix } in all {
        let (style, word) = match level {
            Level::Error => (BAD, "error"),
            Level::Warning => (DOUBT, "warning"),
            Level::Ok => (GOOD, "ok"),
        };
        let (about, message) = (harmless(about), harmless(message));
        writeln!(out, "{style}{word:<7}{style:#}  {NAME}{about:<width$}{NAME:#}  {message}")?;
        if let Some(fix) = fix {
            writeln!(out, "{:7}  {:width$}  {QUIET}→ {}{QUIET:#}", "", "", harmless(fix))?;
        }
    }
    if !all.is_empty() {
        writeln!(out)?;
    }
    out.flush()
}

/// The end of a command that found something: an error if there are mistakes, or doubts that are to
/// count as such.
pub(crate) fn verdict(
    findings: &[Finding],
    strict: bool,
    fine: &str,
    json: bool,
) -> Result<(), Box<dyn Error>> {
    let count = |level| findings.iter().filter(|one| one.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let several = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    if errors > 0 || strict && warnings > 0 {
        let found = format!("{}, {}", several(errors, "error"), several(warnings, "warning"));
        return Err(found.into());
    }
    if !json {
        print::words(&match warnings {
            0 => fine.to_owned(),
            warnings => format!("{fine} {}.", several(warnings, "warning")),
        })?;
    }
    Ok(())
}
