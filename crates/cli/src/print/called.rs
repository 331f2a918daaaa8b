//! A call that has ended, as `zcp dev` shows it, and what scripts write to standard error.

use super::{BAD, GOOD, NAME, QUIET, harmless, out, plain, shortened, visible};
use serde_json::json;
use std::io::{self, Write};
use zcp_scripts::{Observed, Outcome};

/// Lines that are shown of an answer, and of a failure: what went wrong stands at its end.
const SHOWN: usize = 5;
const SHOWN_OF_FAILURE: usize = 12;

/// What is shown of a call: the beginning of its answer or the end of its failure, and the end of what
/// its script wrote to standard error.
fn told(call: &Observed) -> Vec<String> {
    let blocks = call.result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let stderr = &call.stderr;
    let text = without_stderr(&texts.join("\n"), stderr);
    let mut all = match call.outcome {
        Outcome::Ok => beginning_of(&text),
        _ => end_of(&text),
    };
    all.extend(end_of(stderr).into_iter().map(|line| format!("stderr | {line}")));
    all
}

fn beginning_of(text: &str) -> Vec<String> {
    let more = text.lines().count().saturating_sub(SHOWN);
    let note = (more > 0).then(|| format!("… {more} more lines"));
    text.lines().take(SHOWN).map(str::to_owned).chain(note).collect()
}

fn end_of(text: &str) -> Vec<String> {
    let more = text.lines().count().saturating_sub(SHOWN_OF_FAILURE);
    let note = (more > 0).then(|| format!("… {more} lines before"));
    note.into_iter().chain(text.lines().skip(more).map(str::to_owned)).collect()
}

/// A failure in words, without what its script wrote to standard error, which is shown beside it.
pub(crate) fn without_stderr(text: &str, stderr: &str) -> String {
    match stderr.is_empty() {
        true => text.to_owned(),
        false => text.replace(&format!("\nIts last words:\n{stderr}"), ""),
    }
}

/// What a script wrote to standard error, as it is; on a terminal without what would make it do
/// something.
pub(crate) fn stderr(text: &str) {
    let text = match io::IsTerminal::is_terminal(&io::stderr()) {
        true => &plain(text),
        false => text,
    };
    let _ = writeln!(anstream::stderr(), "{}", text.trim_end_matches('\n'));
}

/// A call that has ended: by whom, with what, how, and some of its answer.
pub(crate) fn called(call: &Observed, json: bool) {
    let mut out = out();
    let how = format!("{:?}", call.outcome).to_lowercase();
    let milliseconds = call.elapsed.as_millis();
    if json {
        let line = json!({
            "event": "called",
            "tool": call.tool,
            "arguments": call.arguments,
            "client": call.client,
            "outcome": how,
            "milliseconds": u64::try_from(milliseconds).unwrap_or(u64::MAX),
            "result": call.result,
            "stderr": call.stderr,
        });
        let _ = writeln!(out, "{line}");
    } else {
        let style = if how == "ok" { GOOD } else { BAD };
        let given =
            shortened(&harmless(&serde_json::to_string(&call.arguments).unwrap_or_default()));
        let client = if call.client.is_empty() { "somebody" } else { &call.client };
        let (tool, client) = (visible(&call.tool), visible(client));
        let _ = writeln!(
            out,
            "  {NAME}{tool}{NAME:#} {given} {style}{how}{style:#} {QUIET}{milliseconds} ms, for {client}{QUIET:#}"
        );
        for line in told(call) {
            let _ = writeln!(out, "    {QUIET}{}{QUIET:#}", shortened(&harmless(&line)));
        }
    }
    let _ = out.flush();
}
