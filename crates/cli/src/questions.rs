//! Questions of a server to the user, asked in the terminal.

use crate::print;
use serde_json::{Map, Value};
use std::{
    io::{self, BufRead, IsTerminal, Write},
    sync::Arc,
};
use tokio::sync::Mutex;
use zcp_client::{
    Answer,
    wire::mcp::elicitation::{Action, Elicit, ElicitResult, Mode},
};

/// Asks the user. Without a terminal there is nobody to ask, and the answer is no.
pub(crate) async fn ask(
    turn: Arc<Mutex<()>>,
    server: String,
    question: Elicit,
) -> Answer<ElicitResult> {
    if !io::stdin().is_terminal() {
        return Ok(ElicitResult { action: Action::Decline, content: None });
    }
    // Held until it is answered, though nobody may want the answer any more: the next line that
    // is typed belongs to this question.
    let turn = turn.lock_owned().await;
    let asked = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        in_terminal(&server, &question)
    })
    .await;
    Ok(asked
        .ok()
        .and_then(Result::ok)
        .unwrap_or(ElicitResult { action: Action::Cancel, content: None }))
}

/// Asks for a yes.
pub(crate) fn yes(question: &str) -> io::Result<bool> {
    let answer = line(question)?;
    Ok(answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")))
}

fn in_terminal(server: &str, question: &Elicit) -> io::Result<ElicitResult> {
    let said = |action, content| Ok(ElicitResult { action, content });
    print::no_progress();
    print::aside(&format!("\n{server} asks: {}", question.message));
    if question.mode == Some(Mode::Url) {
        print::aside("It wants you to visit this page, which is not opened for you:");
        print::page(question.url.as_deref().unwrap_or_default());
        let yes = yes("Do you go there? [y/N] ")?;
        return said(if yes { Action::Accept } else { Action::Decline }, None);
    }
    let schema = question.requested_schema.as_ref();
    let fields = schema.and_then(|schema| schema["properties"].as_object());
    let required = schema.and_then(|schema| schema["required"].as_array());
    let required = required.map(Vec::as_slice).unwrap_or_default();
    let mut filled = Map::new();
    for (name, field) in fields.into_iter().flatten() {
        let is_needed = required.iter().any(|one| one == name) && field.get("default").is_none();
        let text = loop {
            match line(&prompt(name, field, is_needed))? {
                None => return said(Action::Cancel, None),
                Some(text) if text.is_empty() && is_needed => {
                    print::aside("  This is needed; Ctrl-D cancels.");
                }
                Some(text) => break text,
            }
        };
        if text.is_empty() {
            continue; // Its default, if it has one, is filled in.
        }
        filled.insert(name.clone(), value(field, text));
    }
    if fields.is_none_or(Map::is_empty) {
        let yes = yes("Do you agree? [y/N] ")?;
        return match yes {
            true => said(Action::Accept, Some(Value::Object(filled))),
            false => said(Action::Decline, None),
        };
    }
    let filled = Value::Object(filled);
    print::aside(&format!("This goes to {server}: {filled}"));
    loop {
        let sure = line("Send it? [Y/n, or c to cancel] ")?;
        match sure.map(|sure| sure.to_lowercase()).as_deref() {
            None | Some("c" | "cancel") => return said(Action::Cancel, None),
            Some("n" | "no") => return said(Action::Decline, None),
            Some("" | "y" | "yes") => return said(Action::Accept, Some(filled)),
            Some(_) => print::aside("Please answer y, n or c."),
        }
    }
}

fn prompt(name: &str, field: &Value, is_needed: bool) -> String {
    let label = field["title"].as_str().unwrap_or(name);
    let about = field["description"].as_str().map(|text| format!(" ({text})")).unwrap_or_default();
    let choices = field["enum"].as_array().map(|all| {
        let all: Vec<_> = all.iter().filter_map(Value::as_str).collect();
        format!(" [{}]", all.join("/"))
    });
    let default = field.get("default").map(|value| format!(" [{value}]")).unwrap_or_default();
    let optional = if is_needed { "" } else { ", optional" };
    format!("  {label}{about}{}{default}{optional}: ", choices.unwrap_or_default())
}

/// What was typed, as the form wants it.
fn value(field: &Value, text: String) -> Value {
    match field["type"].as_str() {
        Some("integer" | "number" | "array") => {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        Some("boolean") => match text.to_lowercase().as_str() {
            "y" | "yes" | "true" => Value::Bool(true),
            "n" | "no" | "false" => Value::Bool(false),
            _ => Value::String(text),
        },
        _ => Value::String(text),
    }
}

/// A line that was typed; none at the end of the input.
fn line(prompt: &str) -> io::Result<Option<String>> {
    let mut err = anstream::stderr();
    write!(err, "{}", print::harmless(prompt))?;
    err.flush()?;
    let mut text = String::new();
    let read = io::stdin().lock().read_line(&mut text)?;
    Ok((read > 0).then(|| text.trim().to_owned()))
}
