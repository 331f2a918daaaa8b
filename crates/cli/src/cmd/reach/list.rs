//! `zcp list`: what a server offers.

use super::{describe, tool_line::signature};
use crate::{
    client_config::client_servers,
    cmd::project::validate,
    print, project,
    target::{self, Target},
};
use serde_json::{Map, Value, json};
use std::{error::Error, path::Path};
use zcp_client::Client;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp list ./my-tools
  zcp list https://example.com/mcp
  zcp list 'uvx mcp-server-time' tools
  zcp list ./my-tools greet     one tool in full, as `zcp describe` shows it
  zcp list                      the servers in the configuration files of clients",
    mut_arg("server", |server| server.required(false).default_value("").hide_default_value(true).index(1)))]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Only `tools`, `resources`, `templates` or `prompts`, or one tool of this name.
    #[arg(value_name = "WHAT", index = 2)]
    pub(crate) what: Option<String>,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl What {
    const ALL: [(&str, Self); 4] = [
        ("tools", Self::Tools),
        ("resources", Self::Resources),
        ("templates", Self::Templates),
        ("prompts", Self::Prompts),
    ];
}

pub(crate) async fn run(list: List, json: bool) -> Result<(), Box<dyn Error>> {
    if list.target.server.is_empty() {
        return servers(json);
    }
    let client = target::reach(&list.target, json).await?;
    let what = list.what.as_deref();
    let kind = what.and_then(|what| What::ALL.iter().find(|(name, _)| *name == what));
    if let (Some(tool), None) = (what, kind) {
        let tools = client.list_tools().await?;
        client.close().await;
        return describe::one(&tools, tool, What::ALL.map(|(name, _)| name), json);
    }
    let offers = client.server().capabilities;
    let is_wanted = |what: What, offered: bool| kind.map_or(offered, |(_, one)| *one == what);
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
    finish(client, json, all).await?;
    let folder = Path::new(&list.target.server);
    if !json && folder.is_dir() {
        let scripts = project::folder(folder)?;
        validate::summary(&scripts, folder).iter().for_each(|line| print::aside(line));
        scripts.processes().end().await;
    }
    Ok(())
}

/// The servers in the files of clients, which a bare name stands for.
fn servers(json: bool) -> Result<(), Box<dyn Error>> {
    let all = client_servers::all();
    if json {
        return Ok(print::json(&json!({ "servers": all }))?);
    }
    let row = |one: &client_servers::Listed| {
        (one.name.clone(), format!("{}, in {}: {}", one.client, one.file.display(), one.about))
    };
    print::table(
        "servers in clients' configuration files",
        &all.iter().map(row).collect::<Vec<_>>(),
    )?;
    Ok(print::words(
        "List what one offers: zcp list NAME, or a folder, a URL, a command in quotes",
    )?)
}

/// The tools of a server, for who has not said which.
pub(super) async fn only_tools(client: &Client, json: bool) -> Result<(), Box<dyn Error>> {
    let tools = client.list_tools().await?;
    if json {
        return Ok(print::json(&json!({ "tools": tools }))?);
    }
    let row = |tool: &zcp_client::wire::mcp::tools::Tool| {
        (signature(tool), tool.description.clone().unwrap_or_default())
    };
    Ok(print::table("tools", &tools.iter().map(row).collect::<Vec<_>>())?)
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
