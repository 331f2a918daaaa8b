//! `zcp dev`: a folder served, with everything that happens shown.

use crate::{
    background::Background,
    cases,
    cmd::operate::{
        serve::{self, Serve},
        serve_limits::Limits,
        store::Kept,
    },
    print,
};
use std::{
    collections::BTreeMap,
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tokio::sync::broadcast::error::RecvError;
use zcp_scripts::{Observed, Outcome, Program, Scripts};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp dev                               serve this folder, and show calls and changes
  zcp dev ./my-tools --record my-tools/tests/today.yaml
                                        and keep the calls as cases for zcp test")]
pub(crate) struct Dev {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Where to serve it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787", value_parser = serve::address)]
    pub(crate) http: SocketAddr,

    /// Write each call and its answer to this file, as a case for `zcp test`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

pub(crate) async fn run(dev: Dev, json: bool) -> Result<(), Box<dyn Error>> {
    let serve = Serve {
        folder: Some(dev.folder.clone()),
        stdio: false,
        http: Some(dev.http),
        unix: None,
        locked: false,
        only_looks: false,
        about: None,
        kept: Kept { data: None, store: None },
        allow_host: vec![],
        allow_origin: vec![],
        limits: Limits::default(),
    };
    serve::run_with(serve, json, |scripts, background| {
        follow(scripts, background, json);
        listen(scripts, background, dev.record, json);
    })
    .await
}

/// Shows each call as it ends, and keeps it as a case if there is a file for that.
fn listen(scripts: &Scripts, background: &Background, record: Option<PathBuf>, json: bool) {
    let mut calls = scripts.observe();
    background.spawn(async move {
        loop {
            let call = match calls.recv().await {
                Ok(call) => call,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            // What was denied or cut off says nothing of the tool.
            let tells = matches!(call.outcome, Outcome::Ok | Outcome::Failed);
            if let Some(file) = record.as_deref().filter(|_| tells)
                && let Err(why) = keep(&call, file)
            {
                print::aside(&format!("the call is not recorded: {why}"));
            }
            print::called(&call, json);
        }
    });
}

fn keep(call: &Observed, file: &Path) -> Result<(), Box<dyn Error>> {
    let result = serde_json::from_value(call.result.clone())?;
    cases::append_case(file, &call.tool, &call.arguments, &result)
}

/// Shows what changes in the folder, for as long as it is served.
fn follow(scripts: &Scripts, background: &Background, json: bool) {
    let mut programs = scripts.programs();
    background.spawn(async move {
        let mut known = programs.borrow_and_update().clone();
        while programs.changed().await.is_ok() {
            let now = programs.borrow_and_update().clone();
            for (tool, what) in differences(&known, &now) {
                print::happened(&tool, what, json);
            }
            known = now;
        }
    });
}

/// What became of each tool.
fn differences(before: &[Program], now: &[Program]) -> Vec<(String, &'static str)> {
    let by_name = |all: &[Program]| -> BTreeMap<String, Program> {
        all.iter().map(|one| (one.tool.clone(), one.clone())).collect()
    };
    let (before, now) = (by_name(before), by_name(now));
    let gone = before.keys().filter(|tool| !now.contains_key(*tool));
    let mut all: Vec<_> = gone.map(|tool| (tool.clone(), "is gone")).collect();
    for (tool, program) in &now {
        match before.get(tool) {
            None => all.push((tool.clone(), "is new")),
            Some(old) if old != program => all.push((tool.clone(), "has changed")),
            Some(_) => (),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_each_tool_is_told() {
        let program = |tool: &str, confined| Program {
            tool: tool.into(),
            script: tool.into(),
            by: Ok(tool.into()),
            mistakes: vec![],
            warnings: vec![],
            is_confined: confined,
            changed: None,
        };
        let before = [program("a", false), program("b", false), program("c", false)];
        let now = [program("b", false), program("c", true), program("d", false)];
        let told = differences(&before, &now);
        let expected = [("a", "is gone"), ("c", "has changed"), ("d", "is new")];
        assert_eq!(told, expected.map(|(tool, what)| (tool.to_owned(), what)));
    }
}
