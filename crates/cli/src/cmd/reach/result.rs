//! What a call gave: shown whole, or written to a file.

use crate::{
    errors::{Exited, Usage},
    print,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::{
    error::Error,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};
use zcp_client::{
    Client,
    wire::mcp::{
        content::{Content, Kind, TextOrBlob},
        resources::Resource,
        tools::{CallToolResult, Tool},
    },
};

/// What the URIs of outputs begin with that were too long for a result.
const KEPT: &str = "output:";
/// Parts of one output that are fetched; each has up to 10 MiB.
const MOST_PARTS: usize = 1000;

type Done<T> = Result<T, Box<dyn Error>>;

/// How a result is shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) json: bool,
    /// Where it goes instead of standard output.
    pub(crate) file: Option<PathBuf>,
    /// Whether outputs that the server keeps end with it, and are fetched before.
    pub(crate) is_whole: bool,
    /// Whether what a script wrote to standard error is shown.
    pub(crate) is_run: bool,
}

/// Shows a result while its server still runs.
pub(crate) async fn show(client: &Client, result: &CallToolResult, shown: &Shown) -> Done<()> {
    let printed = &result.content[..result.content.len() - reasons(result)];
    let stderr = stderr(result);
    if shown.is_run && !shown.json && !stderr.is_empty() {
        print::stderr(stderr);
    }
    if let Some(path) = shown.file.as_deref().filter(|_| !result.is_error) {
        save(client, result, path).await?;
        return if shown.json { Ok(print::json(result)?) } else { Ok(()) };
    }
    if shown.json {
        return Ok(print::json(result)?);
    }
    if let Some(structured) =
        result.structured_content.as_ref().filter(|_| result.content.is_empty())
    {
        return Ok(print::words(&serde_json::to_string_pretty(structured)?)?);
    }
    for (at, block) in printed.iter().enumerate() {
        match kept(block).filter(|_| shown.is_whole) {
            Some(output) => fetch(client, &output.uri, &mut print::Terminal::default()).await?,
            None if shown.is_whole && is_of_kept(printed, at) => (),
            None => print::content(std::slice::from_ref(block))?,
        }
    }
    Ok(())
}

/// How many blocks at the end of a failure say why. What a script of ours had printed before that
/// is output, and is shown as such.
fn reasons(result: &CallToolResult) -> usize {
    let is_script = meta(result, "exitCode").is_some();
    match result.is_error {
        false => 0,
        true if is_script && !is_late(result) => result.content.len().min(1),
        true => result.content.len(),
    }
}

fn meta<'a>(result: &'a CallToolResult, name: &str) -> Option<&'a Value> {
    result.meta.as_ref()?.get(name)
}

/// What a script wrote to standard error last.
fn stderr(result: &CallToolResult) -> &str {
    meta(result, "stderr").and_then(Value::as_str).unwrap_or_default()
}

fn is_late(result: &CallToolResult) -> bool {
    let structured = result.structured_content.as_ref();
    structured.is_some_and(|value| value["error"]["type"] == "timeout")
}

/// Why a call failed. One whose arguments do not fit the tool was typed wrong.
pub(crate) fn failure(
    result: &CallToolResult,
    tool: Option<&Tool>,
    args: &Value,
    is_run: bool,
) -> Box<dyn Error> {
    let printed = result.content.len() - reasons(result);
    let texts: Vec<&str> = result.content[printed..].iter().filter_map(Content::as_text).collect();
    let why = match is_run {
        true => print::without_stderr(&texts.join("\n"), stderr(result)),
        false => texts.join("\n"),
    };
    if is_late(result) {
        return Box::new(Exited::new(5, why));
    }
    let code = meta(result, "exitCode").and_then(Value::as_u64);
    // What has an exit code was run.
    let tool = tool.filter(|_| code.is_none());
    let schema = tool.and_then(|tool| zcp_schema::Schema::compile(&tool.input_schema).ok());
    if schema.is_some_and(|schema| schema.check(args).is_err()) {
        return Box::new(Usage::new(why));
    }
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| is_run && *code != 0);
    Box::new(Exited::new(code.unwrap_or(3), format!("the tool failed: {why}")))
}

/// The output that a block stands for because it was too long.
fn kept(block: &Content) -> Option<&Resource> {
    match &block.kind {
        Kind::ResourceLink(output) if output.uri.starts_with(KEPT) => Some(output),
        _ => None,
    }
}

/// Whether a block is the beginning of an output that follows, or says so.
fn is_of_kept(blocks: &[Content], at: usize) -> bool {
    let is_text = |output: &Resource| {
        output
            .mime_type
            .as_deref()
            .is_some_and(|mime| mime.starts_with("text/") || mime == "application/json")
    };
    let follows = |after: usize| blocks.get(at + after).and_then(kept);
    follows(1).is_some() || follows(2).is_some_and(is_text)
}

/// Writes all parts of an output that a server keeps.
async fn fetch(client: &Client, uri: &str, to: &mut dyn Write) -> Done<()> {
    let mut next = Some(uri.to_owned());
    for _ in 0..MOST_PARTS {
        let Some(uri) = next.take() else { break };
        let read = client.read(&uri).await?;
        let mut parts = read.contents.iter();
        match parts.next().map(|part| &part.data) {
            Some(TextOrBlob::Text(text)) => to.write_all(text.as_bytes())?,
            Some(TextOrBlob::Blob(data)) => to.write_all(&BASE64_STANDARD.decode(data)?)?,
            None => (),
        }
        next = parts.next().map(|part| part.uri.clone());
    }
    to.flush()?;
    match next {
        Some(next) => Err(format!("the output is too long; the next part is {next}").into()),
        None => Ok(()),
    }
}

/// Writes a result to a file: bytes where it has some, otherwise its text.
async fn save(client: &Client, result: &CallToolResult, path: &Path) -> Done<()> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::create(path).map_err(named)?;
    let blocks = &result.content;
    let data = blocks.iter().find_map(|block| match &block.kind {
        Kind::Image { data, .. } | Kind::Audio { data, .. } => Some(data),
        Kind::Resource { resource } => match &resource.data {
            TextOrBlob::Blob(data) => Some(data),
            TextOrBlob::Text(_) => None,
        },
        _ => None,
    });
    if let Some(data) = data {
        file.write_all(&BASE64_STANDARD.decode(data)?).map_err(named)?;
    } else if let Some(structured) =
        result.structured_content.as_ref().filter(|_| blocks.is_empty())
    {
        writeln!(file, "{}", serde_json::to_string_pretty(structured)?).map_err(named)?;
    } else {
        for (at, block) in blocks.iter().enumerate() {
            match kept(block) {
                Some(output) => fetch(client, &output.uri, &mut file).await?,
                None if is_of_kept(blocks, at) => (),
                None => {
                    let text = text(block).unwrap_or_default().trim_end_matches('\n');
                    if !text.is_empty() {
                        writeln!(file, "{text}").map_err(named)?;
                    }
                }
            }
        }
    }
    let bytes = file.metadata().map_err(named)?.len();
    print::aside(&format!("{bytes} bytes written to {}", path.display()));
    Ok(())
}

/// The words of a block.
fn text(block: &Content) -> Option<&str> {
    match &block.kind {
        Kind::Resource { resource } => match &resource.data {
            TextOrBlob::Text(text) => Some(text),
            TextOrBlob::Blob(_) => None,
        },
        Kind::ResourceLink(resource) => Some(&resource.uri),
        _ => block.as_text(),
    }
}
