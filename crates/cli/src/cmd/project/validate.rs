//! `zcp validate`: what is wrong with a folder of scripts.

use super::{options, syntax};
use crate::{
    findings::{self, Finding, Level},
    mounts, needs, print, project,
};
use serde_json::json;
use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};
use zcp_scripts::{Program, Scripts};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp validate
  zcp validate ./my-tools --strict
  zcp validate ./my-tools --fix      make scripts executable that should be")]
pub(crate) struct Validate {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Warnings count as mistakes.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Mend what can be mended without changing what anything does.
    #[arg(long)]
    pub(crate) fix: bool,
}

pub(crate) async fn run(validate: &Validate, json: bool) -> Result<(), Box<dyn Error>> {
    let scripts = project::folder(&validate.folder)?;
    let programs = scripts.programs().borrow().clone();
    let mut findings = vec![];
    for program in programs.iter().filter(|one| validate.fix && wants_permission(&one.script)) {
        make_executable(&program.script)?;
        findings.push(Finding::ok(&program.tool, "is executable now"));
    }
    findings.extend(at_a_glance(&scripts));
    let refused = not_mounted(&scripts).await;
    findings.extend(refused.into_iter().map(|mistake| Finding::error("not mounted", mistake)));
    findings.extend(syntax::check(&programs, scripts.root()).await);
    let tools = programs.len();
    let processes = scripts.processes();
    if let Err(error) = scripts.server().build() {
        findings.push(Finding::error("not served", error.to_string()));
    }
    processes.end().await;
    if json {
        print::json(&json!({ "folder": validate.folder, "tools": tools, "findings": findings }))?;
    } else {
        findings::show(&findings)?;
    }
    let fine = match tools {
        0 => "Nothing is wrong, but there is no tool: `zcp new` makes one.".to_owned(),
        1 => "1 tool, nothing wrong.".to_owned(),
        tools => format!("{tools} tools, nothing wrong."),
    };
    findings::verdict(&findings, validate.strict, &fine, json)
}

/// What is found without running anything.
fn at_a_glance(scripts: &Scripts) -> Vec<Finding> {
    let mut findings = findings::mistakes(scripts);
    for program in scripts.programs().borrow().iter() {
        if let Err(why) = &program.by {
            findings.push(Finding::warning(&program.tool, format!("cannot be run here: {why}")));
        }
        findings.extend(warnings(program));
        findings.extend(options::undeclared(program));
        if wants_permission(&program.script) {
            let path = program.script.display();
            let why =
                format!("{path} has a shebang but is not executable; its interpreter runs it");
            findings.push(Finding::warning(&program.tool, why).fix("zcp validate --fix"));
        }
    }
    findings.extend(missing(scripts));
    findings.extend(scripts.beside_tools().map(|why| Finding::warning("not served", why)));
    findings
}

/// How much of that there is, if there is anything, and what shows it.
pub(crate) fn summary(scripts: &Scripts, folder: &Path) -> Option<String> {
    let findings = at_a_glance(scripts);
    let count = |level, what: &str| match findings.iter().filter(|one| one.level == level).count() {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let counts = [count(Level::Error, "error"), count(Level::Warning, "warning")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let folder = folder.to_string_lossy();
    let command = shell_words::join(["zcp", "validate", &*folder]);
    (!counts.is_empty()).then(|| format!("{}: `{command}`", counts.join(", ")))
}

/// Everything about mounts that `zcp serve` would refuse, and programs that are not installed. Nothing
/// is connected to.
async fn not_mounted(scripts: &Scripts) -> Vec<String> {
    let mut wrong = mounts::not_installed(scripts);
    match mounts::check(scripts).await {
        Ok(()) => (),
        Err(refused) => wrong.extend(refused),
    }
    wrong
}

/// Environment variables and secrets that are not here. They may be where the folder is served.
fn missing(scripts: &Scripts) -> impl Iterator<Item = Finding> {
    needs::of(scripts).into_iter().filter_map(|(about, need)| {
        let why = need.missing()?;
        Some(Finding::warning(about, why).fix(need.fix()))
    })
}

/// What callers of a tool may stumble over.
pub(crate) fn warnings(program: &Program) -> impl Iterator<Item = Finding> {
    program.warnings.iter().map(|why| Finding::warning(&program.tool, why))
}

/// A script that names its interpreter, and cannot be started by hand.
fn wants_permission(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let is_plain = fs::symlink_metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 == 0);
        is_plain && fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!"))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

pub(crate) fn make_executable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mut permissions = fs::metadata(path)?.permissions();
        // Whoever may read it may run it.
        permissions.set_mode(permissions.mode() | (permissions.mode() & 0o444) >> 2);
        fs::set_permissions(path, permissions)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}
