//! `zcp read`: one resource.

use crate::{
    print,
    target::{self, Target},
};
use std::error::Error;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp read ./my-tools file:///motd.txt
  zcp read https://example.com/mcp docs://guide > guide.md")]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which resource.
    pub(crate) uri: String,
}

pub(crate) async fn run(read: Read, json: bool) -> Result<(), Box<dyn Error>> {
    let client = target::reach(&read.target, json).await?;
    let result = client.read(&read.uri).await?;
    client.close().await;
    match json {
        true => print::json(&result)?,
        false => result.contents.iter().try_for_each(print::contents)?,
    }
    Ok(())
}
