//! `zcp list`: what a server offers.

use super::signature::signature;
use crate::{
    print,
    target::{self, Target},
};
use serde_json::{Map, Value, json};
use std::error::Error;
use zcp_client::Client;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp list ./my-tools
  zcp list https://example.com/mcp
  zcp list 'uvx mcp-server-time' tools")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Only these.
    #[arg(value_enum)]
    pub(crate) what: Option<What>,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    Tools,
    Resources,
    Templates,
    Prompts,
}

pub(crate) async fn run(list: List, json: bool) -> Result<(), Box<dyn Error>> {
    let client = target::reach(&list.target, json).await?;
    let offers = client.server().capabilities;
    let is_wanted = |what: What, offered: bool| list.what.map_or(offered, |one| one == what);
    let mut all = Map::new();
    if is_wanted(What::Tools, offers.tools.is_some()) {
        let tools = client.list_tools().await?;
        let row = |tool: &zcp_client::wire::mcp::tools::Tool| {
            (signature(tool), tool.description.clone().unwrap_or_default())
        };
        show("tools", &tools, row, json, &mut all)?;
    }
    if is_wanted(What::Resources, offers.resources.is_some()) {
        let resources = client.list_resources().await?;
        let row = |one: &zcp_client::wire::mcp::resources::Resource| {
            (one.uri.clone(), one.description.clone().unwrap_or_else(|| one.name.clone()))
        };
        show("resources", &resources, row, json, &mut all)?;
    }
    if is_wanted(What::Templates, offers.resources.is_some()) {
        let templates = client.list_templates().await?;
        let row = |one: &zcp_client::wire::mcp::resources::ResourceTemplate| {
            (one.uri_template.clone(), one.description.clone().unwrap_or_else(|| one.name.clone()))
        };
        show("templates", &templates, row, json, &mut all)?;
    }
    if is_wanted(What::Prompts, offers.prompts.is_some()) {
        let prompts = client.list_prompts().await?;
        let row = |one: &zcp_client::wire::mcp::prompts::Prompt| {
            (one.name.clone(), one.description.clone().unwrap_or_default())
        };
        show("prompts", &prompts, row, json, &mut all)?;
    }
    finish(client, json, all).await
}

fn show<T: serde::Serialize>(
    heading: &str,
    items: &[T],
    row: impl Fn(&T) -> (String, String),
    json: bool,
    all: &mut Map<String, Value>,
) -> Result<(), Box<dyn Error>> {
    if json {
        all.insert(heading.to_owned(), serde_json::to_value(items)?);
    } else {
        print::table(heading, &items.iter().map(row).collect::<Vec<_>>())?;
    }
    Ok(())
}

async fn finish(
    client: Client,
    json: bool,
    mut all: Map<String, Value>,
) -> Result<(), Box<dyn Error>> {
    if json {
        let server = client.server();
        let who = json!({ "info": server.info, "revision": server.revision.as_str() });
        all.insert("server".to_owned(), who);
        print::json(&all)?;
    }
    client.close().await;
    Ok(())
}
