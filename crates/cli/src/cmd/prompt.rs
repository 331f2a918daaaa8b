//! `zcp prompt`: one prompt, filled.

use crate::{
    args::{Prompt, usage},
    print, target,
};
use std::{collections::BTreeMap, error::Error};

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
    let result = client.prompt(&prompt.name, filled).await?;
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
