//! `manifest.json` of a bundle, in the shape of version 0.3.

use super::{about::About, pack::PROJECT};
use crate::{
    cases::text_of,
    findings,
    target::{self, Way},
};
use serde_json::{Map, Value, json};
use std::{
    error::Error,
    path::{Path, PathBuf},
};
use zcp_client::{
    Client,
    wire::mcp::{prompts::Prompt, tools::Tool},
};
use zcp_scripts::Scripts;

/// What the server of a folder offers.
pub(super) struct Offers {
    pub(super) name: String,
    pub(super) tools: Vec<Tool>,
    /// Prompts, and their words.
    pub(super) prompts: Vec<(Prompt, String)>,
    /// Files the server writes for its operator.
    pub(super) private_files: Vec<PathBuf>,
}

impl Offers {
    /// Asks the folder's own server, as a client would; and hears what is wrong with the folder.
    pub(super) async fn of(
        root: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Box<dyn Error>> {
        let folder = Scripts::folder(root).command(std::env::current_exe()?);
        let scripts = folder.open()?;
        warnings.extend(findings::lines(&scripts));
        let path = root.to_str().ok_or("the folder's name is not UTF-8: rename it")?;
        let client = Client::builder("zcp", env!("CARGO_PKG_VERSION"));
        let client = target::connect(client, Way::Process(target::folder(path)?)).await?;
        let can = client.server().capabilities;
        let tools = match can.tools {
            Some(_) => client.list_tools().await?,
            None => vec![],
        };
        let listed = match can.prompts {
            Some(_) => client.list_prompts().await?,
            None => vec![],
        };
        let mut prompts = vec![];
        for prompt in listed {
            let text = words(&client, &prompt).await;
            prompts.push((prompt, text));
        }
        client.close().await;
        if tools.is_empty() && prompts.is_empty() {
            warnings.push("the folder has no tools and no prompts".to_owned());
        }
        let private_files = scripts.private_files();
        Ok(Self { name: scripts.name(), tools, prompts, private_files })
    }
}

/// What a prompt says, with the places where its arguments go.
async fn words(client: &Client, prompt: &Prompt) -> String {
    let place = |name: &String| (name.clone(), format!("${{arguments.{name}}}"));
    let filled = prompt.arguments.iter().map(|argument| place(&argument.name)).collect();
    match client.prompt(&prompt.name, filled).await {
        Ok(result) => {
            let said: Vec<_> = result.messages.into_iter().map(|message| message.content).collect();
            text_of(&said)
        }
        // One that takes only certain words is known by what is said of it.
        Err(_) => prompt.description.clone().unwrap_or_else(|| prompt.name.clone()),
    }
}

/// The manifest, for people and programs.
pub(super) fn manifest(
    about: &About,
    offers: &Offers,
    platform: &str,
    entry: &str,
) -> Result<String, Box<dyn Error>> {
    let mut all = Map::from_iter([("manifest_version".to_owned(), json!("0.3"))]);
    if let Value::Object(said) = serde_json::to_value(about)? {
        all.extend(said);
    }
    if about.description.is_empty() {
        let names: Vec<_> = offers.tools.iter().map(|tool| tool.name.as_str()).collect();
        all.insert("description".to_owned(), json!(format!("Tools: {}", names.join(", "))));
    }
    let config = json!({
        "command": format!("${{__dirname}}/{entry}"),
        "args": ["serve", format!("${{__dirname}}/{PROJECT}"), "--stdio"],
        "env": about.env,
    });
    let server = json!({ "type": "binary", "entry_point": entry, "mcp_config": config });
    all.insert("server".to_owned(), server);
    let tools: Vec<_> = offers.tools.iter().map(tool).collect();
    let prompts: Vec<_> = offers.prompts.iter().map(prompt).collect();
    all.extend((!tools.is_empty()).then(|| ("tools".to_owned(), tools.into())));
    all.extend((!prompts.is_empty()).then(|| ("prompts".to_owned(), prompts.into())));
    let mut fits = about.compatibility.clone();
    fits.insert("platforms".to_owned(), json!([platform]));
    all.insert("compatibility".to_owned(), fits.into());
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

fn tool(tool: &Tool) -> Value {
    let mut one = Map::from_iter([("name".to_owned(), json!(tool.name))]);
    one.extend(described(tool.description.as_ref()));
    one.into()
}

fn prompt((prompt, text): &(Prompt, String)) -> Value {
    let mut one = Map::from_iter([("name".to_owned(), json!(prompt.name))]);
    one.extend(described(prompt.description.as_ref()));
    let names: Vec<_> = prompt.arguments.iter().map(|argument| &argument.name).collect();
    if !names.is_empty() {
        one.insert("arguments".to_owned(), json!(names));
    }
    one.insert("text".to_owned(), json!(text));
    one.into()
}

fn described(text: Option<&String>) -> Option<(String, Value)> {
    Some(("description".to_owned(), json!(text?)))
}
