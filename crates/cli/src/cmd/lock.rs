//! `zcp lock`: looks at the tools of mounted servers, and agrees to them.

use super::serve;
use crate::{
    args::Lock as Typed,
    mounts::{self, Lock},
    print,
};
use serde_json::json;
use std::error::Error;

pub(crate) async fn run(typed: &Typed, json: bool) -> Result<(), Box<dyn Error>> {
    let scripts = serve::folder(&typed.folder)?;
    let before = Lock::read(scripts.root())?;
    let now = mounts::listed(&scripts).await?;
    let differences = now.since(&before);
    scripts.processes().end().await;
    if json {
        print::json(&json!({ "differences": differences, "written": !typed.check }))?;
    } else {
        for one in &differences {
            print::words(&format!("{} of {} {}", one.tool, one.mount, one.what))?;
            for (mark, tool) in [("-", before.tool(one)), ("+", now.tool(one))] {
                if let Some(tool) = tool {
                    print::words(&print::harmless(&format!(
                        "  {mark} {}",
                        serde_json::to_string(&tool)?
                    )))?;
                }
            }
        }
    }
    if typed.check {
        return match differences.is_empty() {
            true => Ok(()),
            false => {
                Err("what is mounted is not what was agreed to: `zcp lock` agrees to it".into())
            }
        };
    }
    now.write()?;
    if !json {
        print::words(match differences.is_empty() {
            true => "Nothing has changed.",
            false => "zcp.lock has it now: keep it with the project.",
        })?;
    }
    Ok(())
}
