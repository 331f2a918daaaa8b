//! `zcp ping`: whether a server is there, what it speaks, and how fast it answers.

use crate::{args::Ping, print, target};
use serde_json::json;
use std::{error::Error, time::Instant};

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
