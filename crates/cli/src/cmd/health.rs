//! `zcp health`: whether a folder can be served, in one line for programs.

use super::serve;
use crate::{
    args::{Exited, Health, Target, usage},
    print, target,
};
use serde_json::json;
use std::{error::Error, time::Duration};

pub(crate) async fn run(health: &Health) -> Result<(), Box<dyn Error>> {
    // What is wrong with the folder is known without a server; that it serves is tried.
    let scripts = serve::folder(&health.folder).map_err(usage)?;
    let mistakes = scripts.mistakes().borrow().clone();
    scripts.processes().end().await;
    let patience = Duration::from_secs(health.timeout);
    let (tools, resources, prompts) = match tokio::time::timeout(patience, count(health)).await {
        Ok(counted) => {
            counted.map_err(|error| usage(format!("it does not answer: {error}").into()))?
        }
        Err(_) => {
            let why = format!("it does not answer in {} s", health.timeout);
            return Err(usage(why.into()));
        }
    };
    let status = if mistakes.is_empty() { "ok" } else { "degraded" };
    print::json(&json!({
        "status": status,
        "tools": tools,
        "resources": resources,
        "prompts": prompts,
        "mistakes": mistakes,
    }))?;
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Exited::new(1, "something is left out: zcp validate says more").into()),
    }
}

async fn count(health: &Health) -> Result<(usize, usize, usize), Box<dyn Error>> {
    let target = Target::folder(&health.folder, &[], health.timeout);
    let client = target::reach(&target, true).await?;
    let tools = client.list_tools().await?.len();
    let resources = client.list_resources().await?.len();
    let prompts = client.list_prompts().await?.len();
    client.close().await;
    Ok((tools, resources, prompts))
}
