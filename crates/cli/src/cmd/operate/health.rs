//! `zcp health`: whether a folder can be served, in one line for programs.

use crate::{
    errors::{Exited, usage},
    home, print, project,
    target::{self, Target},
};
use serde_json::json;
use std::{error::Error, io::IsTerminal, path::PathBuf, time::Duration};
use zcp_scripts::{Checks, HEALTH_TIMEOUT};

#[derive(Debug, clap::Args)]
#[command(after_help = "On a terminal it prints words, and otherwise one line of JSON.

Exit codes: 0 it can be served, 1 it can, and something is wrong or left out, 2 it cannot.

Examples:
  zcp health ./my-tools
  zcp health ./my-tools --timeout 5")]
pub(crate) struct Health {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Seconds it may take to answer: 5 unless MCPBASH_HEALTH_TIMEOUT_SECS or this says otherwise.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

/// Seconds it may take to answer, unless something says otherwise.
const USUAL: u64 = 5;

pub(crate) async fn run(health: &Health, json: bool) -> Result<(), Box<dyn Error>> {
    // What is wrong with the folder is known without a server; that it serves is tried.
    let scripts = project::folder(&health.folder).map_err(usage)?;
    let mistakes = scripts.mistakes().borrow().clone();
    let checks = scripts.checks().await;
    scripts.processes().end().await;
    let seconds = health.timeout.or_else(usual).unwrap_or(USUAL);
    let counted = tokio::time::timeout(Duration::from_secs(seconds), count(health, seconds));
    let (tools, resources, prompts) = match counted.await {
        Ok(counted) => {
            counted.map_err(|error| usage(format!("it does not answer: {error}").into()))?
        }
        Err(_) => {
            let why = format!("it does not answer in {seconds} s");
            return Err(usage(why.into()));
        }
    };
    let checked = match &checks {
        Checks::None | Checks::Passed => "ok",
        Checks::Skipped(why) => {
            print::aside(&format!("the project's checks are skipped: {why}"));
            "skipped"
        }
        Checks::Failed(why) => {
            print::aside(why);
            "failed"
        }
    };
    let is_well = mistakes.is_empty() && checked != "failed";
    // Whoever looks at a terminal is a person; programs have always read JSON.
    if !json && std::io::stdout().is_terminal() {
        let status = if is_well { "ok" } else { "degraded" };
        let counts = [(tools, "tool"), (resources, "resource"), (prompts, "prompt")];
        let counts = counts.map(|(count, what)| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        });
        let rows = [
            ("offers", counts.join(", ")),
            ("checks of the project", checked.to_owned()),
            ("mistakes", mistakes.len().to_string()),
        ];
        print::facts(status, &rows)?;
        return ended(&mistakes, is_well);
    }
    print::json(&json!({
        "status": if is_well { "ok" } else { "degraded" },
        "mode": "full",
        "jsonTool": "jq",
        "tools": tools,
        "resources": resources,
        "prompts": prompts,
        "projectChecks": checked,
        "mistakes": mistakes,
    }))?;
    ended(&mistakes, is_well)
}

/// The exit code says what the words do.
fn ended(mistakes: &[String], is_well: bool) -> Result<(), Box<dyn Error>> {
    match mistakes.is_empty() {
        true if is_well => Ok(()),
        true => Err(Exited::new(1, "the project's own checks failed").into()),
        false => {
            Err(Exited::new(1, "something is wrong or left out: zcp validate says more").into())
        }
    }
}

/// What the variable says.
fn usual() -> Option<u64> {
    home::variable(HEALTH_TIMEOUT)?.trim().parse().ok().filter(|seconds| *seconds > 0)
}

async fn count(health: &Health, seconds: u64) -> Result<(usize, usize, usize), Box<dyn Error>> {
    let target = Target::folder(&health.folder, &[], seconds);
    let client = target::reach(&target, true).await?;
    let tools = client.list_tools().await?.len();
    let resources = client.list_resources().await?.len();
    let prompts = client.list_prompts().await?.len();
    client.close().await;
    Ok((tools, resources, prompts))
}
