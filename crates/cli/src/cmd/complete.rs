//! `zcp complete`: what an argument could be.

use crate::{args::Complete, print, target};
use std::{collections::BTreeMap, error::Error};
use zcp_client::wire::mcp::completion::Reference;

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
