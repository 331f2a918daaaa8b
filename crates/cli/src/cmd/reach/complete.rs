//! `zcp complete`: what an argument could be.

use crate::{
    print,
    target::{self, Target},
};
use std::{collections::BTreeMap, error::Error};
use zcp_client::wire::mcp::completion::Reference;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp complete https://example.com/mcp greet name An
  zcp complete https://example.com/mcp 'book://{id}' id 4")]
pub(crate) struct Complete {
    #[command(flatten)]
    pub(crate) target: Target,

    /// A prompt's name, or a resource's template.
    pub(crate) of: String,

    /// Which argument.
    pub(crate) argument: String,

    /// What has been typed of it.
    #[arg(default_value = "")]
    pub(crate) typed: String,
}

pub(crate) async fn run(complete: Complete, json: bool) -> Result<(), Box<dyn Error>> {
    let client = target::reach(&complete.target, json).await?;
    let of = match complete.of.contains("://") {
        true => Reference::Resource { uri: complete.of },
        false => Reference::Prompt { name: complete.of },
    };
    let none = BTreeMap::new();
    let result = client.complete(&of, &complete.argument, &complete.typed, &none).await?;
    client.close().await;
    match json {
        true => print::json(&result)?,
        false => result.values.iter().try_for_each(|value| print::words(value))?,
    }
    Ok(())
}
