//! `zcp read`: one resource.

use crate::{args::Read, print, target};
use std::error::Error;

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
