//! `zcp doctor`: what this machine has and lacks to run a folder's scripts.

use super::syntax::{self, is_outside};
use crate::{
    findings::{self, Finding},
    needs::{self, Need},
    print, project,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::process::Command;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp doctor
  zcp doctor ./my-tools --json")]
pub(crate) struct Doctor {
    /// A folder of scripts.
    pub(crate) folder: Option<PathBuf>,
}

/// How long a program may take to say its version.
const VERSION: Duration = Duration::from_secs(5);
/// Languages that are looked for when no folder says which it needs.
const USUAL: [&str; 7] = ["bash", "python3", "node", "ruby", "perl", "pwsh", "jq"];

pub(crate) async fn run(doctor: &Doctor, json: bool) -> Result<(), Box<dyn Error>> {
    let mut findings = vec![this_command(), temporary(), port()];
    findings.extend(sandbox().await);
    match &doctor.folder {
        Some(folder) => findings.extend(project(folder).await?),
        None => findings.extend(languages().await),
    }
    if json {
        print::json(&json!({ "version": env!("CARGO_PKG_VERSION"), "findings": findings }))?;
    } else {
        findings::show(&findings)?;
    }
    findings::verdict(&findings, false, "This machine is ready.", json)
}

fn this_command() -> Finding {
    let (version, system) = (env!("CARGO_PKG_VERSION"), env::consts::OS);
    match env::current_exe() {
        Ok(path) => Finding::ok("zcp", format!("{version} on {system}, {}", path.display())),
        Err(error) => Finding::error("zcp", format!("does not know where it is: {error}"))
            .fix("call it by its whole path"),
    }
}

/// Scripts get files of their own in there.
fn temporary() -> Finding {
    let folder = env::temp_dir();
    match tempfile::Builder::new().prefix("zcp-doctor").tempdir() {
        Ok(_) => Finding::ok("temporary", format!("{} can be written", folder.display())),
        Err(error) => Finding::error("temporary", format!("{}: {error}", folder.display()))
            .fix("set TMPDIR to a folder that can be written"),
    }
}

fn port() -> Finding {
    match TcpListener::bind("127.0.0.1:8787") {
        Ok(_) => Finding::ok("port", "127.0.0.1:8787 is free for zcp serve"),
        Err(_) => Finding::warning("port", "127.0.0.1:8787 is in use")
            .fix("zcp serve --http 127.0.0.1:0 takes one that is free"),
    }
}

/// What scripts can be kept from, which is tried and not guessed.
async fn sandbox() -> Vec<Finding> {
    let Ok(command) = env::current_exe() else { return vec![] };
    let tried = zcp_scripts::sandbox(&command).await;
    let row = |(what, works): (&str, Result<(), String>)| match works {
        Ok(()) => Finding::ok("sandbox", format!("{what} can be forbidden")),
        Err(why) => Finding::warning("sandbox", format!("{what} cannot be forbidden here: {why}"))
            .fix("scripts that ask for it do not run; Linux 6.12 or newer can do all of it"),
    };
    tried.into_iter().map(row).collect()
}

async fn languages() -> Vec<Finding> {
    let mut findings = vec![];
    for name in USUAL {
        let found = which::which(name);
        findings.push(match found {
            Ok(path) => Finding::ok(name, version(&path).await),
            Err(_) if name == "jq" => Finding::ok("jq", "is built in"),
            Err(_) => Finding::ok(name, "is not there; only scripts that need it would miss it"),
        });
    }
    findings
}

/// What a folder's scripts need, and whether it is there.
async fn project(folder: &Path) -> Result<Vec<Finding>, Box<dyn Error>> {
    let scripts = project::folder(folder)?;
    let mut findings = vec![];
    let mut users: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let programs = scripts.programs().borrow().clone();
    for program in &programs {
        match &program.by {
            Ok(by) if *by == program.script => {
                if let Some(by) = syntax::first_line(&program.script) {
                    users.entry(by).or_default().push(program.tool.clone());
                }
            }
            Ok(by) => users.entry(by.clone()).or_default().push(program.tool.clone()),
            Err(why) => {
                findings.push(Finding::error(&program.tool, format!("cannot be run: {why}")))
            }
        }
    }
    for (program, tools) in users {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // An interpreter inside the project is not started: it could be any program.
        let about = match is_outside(&program, scripts.root()) {
            true => version(&program).await,
            false => program.display().to_string(),
        };
        let about = format!("{about}; for {}", tools.join(", "));
        findings.push(Finding::ok(name, about));
    }
    let confined = programs.iter().filter(|program| program.is_confined);
    let confined: Vec<&str> = confined.map(|program| program.tool.as_str()).collect();
    let all = programs.len();
    findings.push(Finding::ok(
        "confined",
        match confined.len() {
            0 => format!("none of {all} tools: `@sandbox` in a script, or `sandbox = true` for all in zcp.toml, does that"),
            some if some == all => format!("all {all} tools run in a sandbox"),
            some => format!("{some} of {all} tools run in a sandbox: {}", confined.join(", ")),
        },
    ));
    findings.extend(required(folder));
    for (about, need) in needs::of(&scripts) {
        if let Some(why) = need.missing() {
            // A script may do without a variable; without a secret nothing that names it runs.
            let finding = match need {
                Need::Variable(_) => Finding::warning(about, why),
                Need::Secret(_) | Need::File(_) => Finding::error(about, why),
            };
            findings.push(finding.fix(need.fix()));
        }
    }
    findings.extend(findings::mistakes(&scripts));
    findings.extend(syntax::check(&programs, scripts.root()).await);
    scripts.processes().end().await;
    Ok(findings)
}

/// What a project written for mcp-bash says it requires.
fn required(folder: &Path) -> Vec<Finding> {
    let path = folder.join("server.d/requirements.json");
    let Ok(text) = std::fs::read_to_string(&path) else { return vec![] };
    let Ok(said) = serde_json::from_str::<Value>(&text) else {
        return vec![Finding::error("requirements", format!("{} is no JSON", path.display()))];
    };
    let names = |one: &Value| -> Vec<String> {
        let either = one["or"].as_array().cloned().unwrap_or_else(|| vec![one["name"].clone()]);
        either
            .iter()
            .filter_map(|name| name.as_str().or_else(|| name["name"].as_str()))
            .map(str::to_owned)
            .collect()
    };
    let all = said["dependencies"].as_array().cloned().unwrap_or_default();
    let row = |one: &Value| {
        let names = names(one);
        match names.iter().find_map(|name| which::which(name).ok()) {
            Some(path) => {
                Finding::ok("requires", format!("{}: {}", names.join(" or "), path.display()))
            }
            None => Finding::error("requires", format!("{} is not in PATH", names.join(" or ")))
                .fix("install it"),
        }
    };
    all.iter().map(row).collect()
}

/// What a program says its version is.
async fn version(program: &Path) -> String {
    let mut command = Command::new(program);
    command.arg("--version").kill_on_drop(true).stdin(std::process::Stdio::null());
    let said = match tokio::time::timeout(VERSION, command.output()).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => String::new(),
    };
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line {
        "" => program.display().to_string(),
        line => format!("{} ({line})", program.display()),
    }
}
