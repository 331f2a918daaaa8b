//! A real answer, made as cheaply as serde allows: parsed in one borrowed pass, written in place.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, hint::black_box};

const TOOLS: &str = include_str!("../../../tools.json");

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct AddArguments {
    a: i64,
    b: i64,
}

/// The answer to a request.
pub fn typed_answer(request: &[u8]) -> serde_json::Result<Vec<u8>> {
    let Request { id, method, params } = serde_json::from_slice(request)?;
    let mut answer = Vec::with_capacity(request.len() + 256);
    answer.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    answer.extend_from_slice(id.get().as_bytes());
    answer.extend_from_slice(br#","result":"#);
    match method.as_ref() {
        "initialize" => answer.extend_from_slice(INITIALIZED),
        "tools/list" => list(&mut answer),
        _ => call(&params.unwrap_or_default(), &mut answer)?,
    }
    answer.push(b'}');
    Ok(answer)
}

const INITIALIZED: &[u8] = br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"limit","version":"0"}}"#;

fn list(answer: &mut Vec<u8>) {
    answer.extend_from_slice(br#"{"tools":"#);
    answer.extend_from_slice(TOOLS.as_bytes());
    answer.push(b'}');
}

fn call(params: &Params<'_>, answer: &mut Vec<u8>) -> serde_json::Result<()> {
    // A server would read it.
    black_box(params.meta);
    let arguments = params.arguments.map_or("{}", RawValue::get);
    match params.name.as_ref() {
        "add" => add(&serde_json::from_str(arguments)?, answer),
        _ => echo(&serde_json::from_str(arguments)?, answer)?,
    }
    Ok(())
}

fn echo(arguments: &EchoArguments<'_>, answer: &mut Vec<u8>) -> serde_json::Result<()> {
    answer.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    serde_json::to_writer(&mut *answer, &arguments.text)?;
    answer.extend_from_slice(br#"}],"isError":false}"#);
    Ok(())
}

fn add(arguments: &AddArguments, answer: &mut Vec<u8>) {
    let sum = arguments.a + arguments.b;
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"{{\"sum\":{sum}}}"}}],"structuredContent":{{"sum":{sum}}},"isError":false}}"#
    );
    answer.extend_from_slice(result.as_bytes());
}
