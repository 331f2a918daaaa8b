//! `zcp prompt`: one prompt, filled.

use super::call;
use crate::{
    errors::usage,
    print,
    target::{self, Target},
};
use std::{collections::BTreeMap, error::Error};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp prompt ./my-tools review language=rust
  zcp prompt https://example.com/mcp greet name=Ann --json")]
pub(crate) struct Prompt {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Which prompt.
    pub(crate) name: String,

    /// What it is filled with.
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,
}

pub(crate) async fn run(prompt: Prompt, json: bool) -> Result<(), Box<dyn Error>> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        Ok::<_, String>((name.to_owned(), value.to_owned()))
    };
    let filled: BTreeMap<_, _> = prompt
        .args
        .iter()
        .map(pair)
        .collect::<Result<_, _>>()
        .map_err(|error| usage(error.into()))?;
    let client = target::reach(&prompt.target, json).await?;
    let made = client.prompt(&prompt.name, filled).await;
    prompt.target.check_answers()?;
    let result = match made {
        Ok(result) => result,
        Err(error) => {
            if error.is_not_found() && !json {
                let known = client.list_prompts().await.unwrap_or_default();
                if !known.iter().any(|one| one.name == prompt.name) {
                    let known = known.iter().map(|one| one.name.as_str());
                    call::suggest(&error, &prompt.name, known);
                }
            }
            return Err(error.into());
        }
    };
    client.close().await;
    if json {
        print::json(&result)?;
        return Ok(());
    }
    for message in &result.messages {
        print::content(std::slice::from_ref(&message.content))?;
    }
    Ok(())
}
