//! `zcp ping`: whether a server is there, what it speaks, and how fast it answers.

use crate::{
    print,
    target::{self, Target},
};
use serde_json::json;
use std::{error::Error, time::Instant};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp ping https://example.com/mcp
  zcp ping ./my-tools --timeout 5")]
pub(crate) struct Ping {
    #[command(flatten)]
    pub(crate) target: Target,
}

pub(crate) async fn run(ping: Ping, json: bool) -> Result<(), Box<dyn Error>> {
    let client = target::reach(&ping.target, json).await?;
    let begun = Instant::now();
    client.ping().await?;
    let time = begun.elapsed();
    let server = client.server();
    client.close().await;
    let info = server.info.unwrap_or_default();
    if json {
        let milliseconds = time.as_secs_f64() * 1000.0;
        let revision = server.revision.as_str();
        print::json(
            &json!({ "server": info, "revision": revision, "milliseconds": milliseconds }),
        )?;
    } else {
        let (name, version, revision) = (&info.name, &info.version, server.revision);
        print::words(&format!("{name} {version} speaks {revision}, and answers in {time:.1?}"))?;
    }
    Ok(())
}
