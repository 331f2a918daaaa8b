//! `zcp read`: one resource.

use super::call;
use crate::{
    print,
    target::{self, Target},
};
use std::error::Error;
use zcp_client::Client;

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
    let made = client.read(&read.uri).await;
    read.target.check_answers()?;
    let result = match made {
        Ok(result) => result,
        Err(error) => {
            if error.is_not_found() && !json {
                suggest(&client, &error, &read.uri).await;
            }
            return Err(error.into());
        }
    };
    client.close().await;
    match json {
        true => print::json(&result)?,
        false => result.contents.iter().try_for_each(print::contents)?,
    }
    Ok(())
}

/// Names the resource that was probably meant.
async fn suggest(client: &Client, error: &zcp_client::Error, uri: &str) {
    let resources = client.list_resources().await.unwrap_or_default();
    let templates = client.list_templates().await.unwrap_or_default();
    let known = resources.iter().map(|one| one.uri.as_str());
    call::suggest(error, uri, known.chain(templates.iter().map(|one| one.uri_template.as_str())));
}
