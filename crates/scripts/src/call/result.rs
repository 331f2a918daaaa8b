//! The result of a run: text, structure, pictures, or why there is none.

use super::script::Script;
use crate::{
    content::{self, Files, MOST_FILES, is_text},
    host::Environment,
    redact,
    run::{self, End, Late, Ran, exit_status, sandbox},
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::{process::ExitStatus, time::Duration};
use zcp::{
    Content, Output,
    wire::{json::is_plain, mcp::resources::Resource},
};

/// What a result of the protocol has, and what its content is.
const MEMBERS: [&str; 4] = ["content", "structuredContent", "isError", "_meta"];
const KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];
/// How much is shown of what was printed by a script that timed out.
const SHOWN_IF_LATE: usize = 8 * 1024;
/// The largest picture or sound of a result.
const LARGEST: u64 = 10 * 1024 * 1024;

/// Makes the result of a run.
pub(super) struct ResultMaker<'a> {
    pub(super) script: &'a Script,
    /// Files the script may name.
    pub(super) files: &'a Files,
    /// What it may know and not show.
    pub(super) secrets: &'a [String],
    /// How long it may take with progress, if progress makes a difference.
    pub(super) max_timeout: Option<Duration>,
    /// The environment of the server.
    pub(super) environment: &'a Environment,
}

/// The variable of the server that puts what scripts write to standard error into all results.
const REPORT_STDERR: &str = "ZCP_REPORT_STDERR";

/// Keeps an output too long to be shown, given with its type. Returns its URI.
pub(super) trait Keep: FnOnce(&run::Output, &str) -> String {}
impl<F: FnOnce(&run::Output, &str) -> String> Keep for F {}

impl ResultMaker<'_> {
    /// The result of a run.
    pub(super) async fn result(&self, ran: Ran, keep: impl Keep) -> Output {
        let stderr = ran.complaints.text();
        let mut output = match &ran.end {
            End::Late(late, status) => {
                let mut output = self.timed_out(*late, *status);
                output.content.extend(self.until_then(&ran, *status, &stderr));
                output
            }
            End::Exited(_) | End::TooMuch | End::Exceeded(_) => {
                self.printed(&ran.output, keep).await
            }
        };
        output.content.extend(ran.said.content.iter().cloned());
        let failed = has_failed(&ran);
        if failed {
            self.explain(&mut output, &ran, &stderr);
        }
        // mcp-bash reports the exit of every call.
        let is_wanted = self.environment.get(REPORT_STDERR) == Some("1");
        if failed || is_wanted || self.script.contract.is_some() {
            report_exit(&mut output, &ran.end, stderr);
        }
        output
    }

    /// Marks a result as an error, and adds why unless it says so itself.
    fn explain(&self, output: &mut Output, ran: &Ran, stderr: &str) {
        let says_why = output.is_error && has_text(output);
        output.is_error = true;
        let is_late = matches!(ran.end, End::Late(..));
        if !is_late && (!says_why || ran.said.error.is_some()) {
            output.content.extend(self.why(ran, stderr).map(Content::text));
        }
    }

    /// What the script printed, as content.
    async fn printed(&self, printed: &run::Output, keep: impl Keep) -> Output {
        let mime = self.mime(printed);
        match (is_text(&mime), printed.is_spilled()) {
            (false, _) => self.binary(printed, mime, keep).await,
            (true, true) => self.long_text(printed, &mime, keep).await,
            (true, false) => self.short_text(printed, &mime).await,
        }
    }

    /// The type of what was printed: as the script says, or by looking at it.
    fn mime(&self, printed: &run::Output) -> String {
        if let Some(mime) = &self.script.manifest.returns {
            return mime.clone();
        }
        // Only a part of a long output is at hand, which may end within a character.
        let seen = match printed.is_spilled() {
            true => until_character(&printed.held),
            false => &printed.held,
        };
        if std::str::from_utf8(seen).is_ok() {
            return "text/plain".to_owned();
        }
        let mime = content::mime_of(None, &printed.held);
        match content::odd_bytes(seen).filter(|_| mime == content::UNKNOWN) {
            Some(odd) => {
                tracing::warn!(
                    "`{}` printed {odd} bytes that are not UTF-8, which are shown as U+FFFD: print \
                     UTF-8, or say `@returns MIME` if it is no text",
                    self.script.name
                );
                "text/plain".to_owned()
            }
            None => mime,
        }
    }

    /// A picture, a sound or other bytes. What is too large is linked.
    async fn binary(&self, printed: &run::Output, mime: String, keep: impl Keep) -> Output {
        let bytes = match printed.is_spilled() {
            false => Some(printed.held.clone()),
            true if printed.total <= LARGEST => tokio::fs::read(&printed.spill.path).await.ok(),
            true => None,
        };
        match bytes {
            Some(bytes) => {
                let uri = format!("output:{}", self.script.name);
                one(content::of_bytes(bytes, mime, &uri))
            }
            None => self.linked(printed, &mime, keep),
        }
    }

    /// Text too long to be shown: linked, unless it is a result of the protocol.
    async fn long_text(&self, printed: &run::Output, mime: &str, keep: impl Keep) -> Output {
        let structure = match self.may_be_structure(mime) {
            true => self.long_structure(printed).await,
            false => None,
        };
        match structure {
            Some(Value::Object(members)) if self.is_result(&members) => {
                self.structured(members.into(), "").await
            }
            // What the script promises is given, and what is shown of it stays short.
            structure => Output {
                structured: structure.filter(|_| self.script.manifest.output_schema.is_some()),
                ..self.linked(printed, mime, keep)
            },
        }
    }

    /// Text that is shown: structure if it is JSON that counts as such.
    async fn short_text(&self, printed: &run::Output, mime: &str) -> Output {
        let mut bytes = &printed.held[..];
        // mcp-bash shows the last line break, too.
        if self.script.contract.is_none() {
            bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        if mime == "application/json" && serde_json::from_str::<IgnoredAny>(&text).is_err() {
            tracing::warn!("`{}` says `@returns json` and printed none", self.script.name);
        }
        if let Some(structure) = self.structure(&text).filter(|_| self.may_be_structure(mime)) {
            return self.structured(structure, &text).await;
        }
        match text.is_empty() {
            true => Output::default(),
            false => Output::text(text),
        }
    }

    /// Whether text of a type may be structure: not if the script says that it is plain.
    fn may_be_structure(&self, mime: &str) -> bool {
        mime != "text/plain" || self.script.manifest.returns.is_none()
    }

    /// The JSON that an output too long to be shown is, if it counts as structure.
    async fn long_structure(&self, printed: &run::Output) -> Option<Value> {
        let is_structure = printed.held.trim_ascii_start().starts_with(b"{");
        if printed.total > LARGEST || !(is_structure || self.script.structures_anything()) {
            return None;
        }
        let whole = tokio::fs::read_to_string(&printed.spill.path).await.ok()?;
        self.structure(&whole)
    }

    /// The JSON that an output is, if it is one that counts as structure.
    fn structure(&self, text: &str) -> Option<Value> {
        let start = text.trim_start().chars().next()?;
        if start != '{' && !self.script.structures_anything() {
            return None;
        }
        if !is_plain(text.as_bytes()) {
            return None;
        }
        // A script may print more than one: the first counts.
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let first = values.next()?.ok()?;
        match values.next() {
            None | Some(Ok(_)) => Some(first),
            Some(Err(_)) => None,
        }
    }

    /// Whether an object is a result already: nothing but the members of one, and content that says
    /// what it is.
    fn is_result(&self, members: &Map<String, Value>) -> bool {
        let Some(Value::Array(blocks)) = members.get("content") else { return false };
        let known = |block: &Value| match block["type"].as_str() {
            Some(kind) => KINDS.contains(&kind),
            None => block["path"].is_string() && self.script.prints_files(),
        };
        !self.script.is_request
            && (members.contains_key("isError") || !blocks.is_empty())
            && members.keys().all(|name| MEMBERS.contains(&name.as_str()))
            && blocks.iter().all(known)
    }

    async fn structured(&self, value: Value, text: &str) -> Output {
        match value {
            Value::Object(mut members) if self.is_result(&members) => {
                let mut output = Output {
                    structured: members.remove("structuredContent"),
                    is_error: members.get("isError") == Some(&Value::Bool(true)),
                    ..Output::default()
                };
                if let Some(Value::Object(meta)) = members.remove("_meta") {
                    output.meta = meta;
                }
                if let Some(Value::Array(blocks)) = members.remove("content") {
                    output.content = self.blocks(blocks).await;
                }
                output
            }
            value => Output {
                content: vec![Content::text(text)],
                structured: Some(value),
                ..Output::default()
            },
        }
    }

    /// Blocks of content. Files beyond the limit are left out, which is said at the end.
    async fn blocks(&self, blocks: Vec<Value>) -> Vec<Content> {
        let (mut all, mut files) = (vec![], 0);
        for block in blocks {
            files += usize::from(self.file_of(&block).is_some());
            if self.file_of(&block).is_none() || files <= MOST_FILES {
                all.push(self.block(block).await);
            }
        }
        if files > MOST_FILES {
            let why = format!("{files} files are named, and {MOST_FILES} may be: link the others");
            all.push(Content::text(why));
        }
        all
    }

    /// The file a block names instead of having its bytes.
    fn file_of<'a>(&self, block: &'a Value) -> Option<&'a str> {
        block["path"].as_str().filter(|_| self.script.prints_files())
    }

    async fn block(&self, block: Value) -> Content {
        if let Some(path) = self.file_of(&block) {
            let file = self.files.printed(path, block["mimeType"].as_str()).await;
            return file.unwrap_or_else(Content::text);
        }
        serde_json::from_value(block.clone()).unwrap_or_else(|_| Content::text(block.to_string()))
    }

    /// The beginning, and where the rest is.
    fn linked(&self, printed: &run::Output, mime: &str, keep: impl Keep) -> Output {
        let uri = keep(printed, mime);
        let mut output = Output::default();
        if is_text(mime) {
            let mut shown = String::from_utf8_lossy(until_character(&printed.held)).into_owned();
            redact::hide_cut(&mut shown, self.secrets);
            output.content.push(Content::text(shown));
        }
        output.content.push(Content::text(format!(
            "The output has {} bytes, and only its beginning is shown. All of it can be read for an hour: {}",
            printed.total, uri
        )));
        output.content.push(Content::link(Resource {
            uri,
            name: format!("output-of-{}", self.script.name),
            mime_type: Some(mime.to_owned()),
            size: Some(printed.total),
            ..Resource::default()
        }));
        output
    }

    /// Why it failed, if that is not said already.
    fn why(&self, ran: &Ran, stderr: &str) -> Option<String> {
        let mut why = match (&ran.said.error, &ran.end) {
            (Some(error), _) => error.clone(),
            (None, End::TooMuch) => format!(
                "`{}` was stopped: its output grew past {} bytes. Ask for less.",
                self.script.name, ran.output.total
            ),
            (None, End::Exited(status)) => {
                let cpu = self.script.manifest.limits.cpu;
                let cpu = cpu.filter(|_| exit_status::is_out_of_time(*status));
                let how = cpu.map_or_else(|| exit_status::words(*status, stderr), run::used_up);
                format!("`{}` failed: {how}.", self.script.name)
            }
            (None, End::Exceeded(why)) => format!("`{}` was stopped: {why}.", self.script.name),
            (None, End::Late(..)) => return None,
        };
        if !stderr.is_empty() {
            why = format!("{why}\nIts last words:\n{stderr}");
        }
        if let Some(name) = self.environment.unseen(stderr, &self.script.manifest) {
            let hint = format!("if the script needs it, say `@env {name}`");
            why = format!("{why}\n`{name}` is set for the server and not for this script: {hint}.");
        }
        if let Some(sandbox) = &self.script.manifest.sandbox {
            why = format!("{why}\n{}", sandbox::explain(sandbox, stderr));
        }
        Some(why)
    }

    /// How a script that timed out was ended, and what it had printed until then.
    fn until_then(&self, ran: &Ran, status: ExitStatus, stderr: &str) -> Option<Content> {
        let held = &ran.output.held[..ran.output.held.len().min(SHOWN_IF_LATE)];
        let mut printed = String::from_utf8_lossy(until_character(held)).trim().to_owned();
        redact::hide_cut(&mut printed, self.secrets);
        let mut said = vec![];
        if !printed.is_empty() {
            let is_cut = ran.output.total > held.len() as u64;
            let cut =
                if is_cut { format!(" (the first {} bytes)", held.len()) } else { String::new() };
            said.push(format!("Until then it had printed{cut}:\n{printed}"));
        }
        if !stderr.is_empty() {
            said.push(format!("Its last words:\n{stderr}"));
        }
        if said.is_empty() {
            return None;
        }
        said.push(format!("How it ended: {}.", exit_status::words(status, stderr)));
        Some(Content::text(said.join("\n")))
    }

    /// It timed out: in the shape that programs written for mcp-bash know.
    fn timed_out(&self, late: Late, status: ExitStatus) -> Output {
        let (reason, time, why) = match late {
            Late::Fixed(time) => ("fixed", time, ""),
            Late::Idle(time) => ("idle", time, " without progress"),
            Late::Most(time) => ("max_exceeded", time, ", the most it may take with progress"),
        };
        let message = format!("Tool timed out after {}s{why}", seconds(time));
        let mut error = Map::new();
        error.insert("type".into(), "timeout".into());
        error.insert("message".into(), message.clone().into());
        error.insert("timeoutSecs".into(), number(time));
        error.insert("exitCode".into(), exit_status::code(status).into());
        error.insert("reason".into(), reason.into());
        if let Some(most) = self.max_timeout {
            error.insert("progressExtendsTimeout".into(), true.into());
            error.insert("maxTimeoutSecs".into(), number(most));
        }
        let mut text = message;
        if let Some(hint) = self.script.manifest.timeout_hint.as_deref() {
            text = format!("{text}\n\nSuggestion: {hint}");
            error.insert("hint".into(), hint.into());
        }
        Output {
            structured: Some(json!({ "success": false, "error": error })),
            ..Output::failed(text)
        }
    }
}

/// Whether a run failed: by how it ended, or in its own words.
fn has_failed(ran: &Ran) -> bool {
    let has_succeeded = matches!(&ran.end, End::Exited(status) if status.success());
    !has_succeeded || ran.said.error.is_some()
}

/// Adds the exit code and the last words on standard error to `_meta`.
fn report_exit(output: &mut Output, end: &End, stderr: String) {
    if let End::Exited(status) | End::Late(_, status) = end {
        output.meta.insert("exitCode".into(), exit_status::code(*status).into());
    }
    if !stderr.is_empty() {
        output.meta.insert("stderr".into(), stderr.into());
    }
}

fn one(content: Content) -> Output {
    Output { content: vec![content], ..Output::default() }
}

/// Whether a result has words of its own.
fn has_text(output: &Output) -> bool {
    output.content.iter().any(|block| block.as_text().is_some_and(|text| !text.is_empty()))
}

/// Without the beginning of a character that was cut.
fn until_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => time.as_secs().to_string(),
        _ => format!("{:.1}", time.as_secs_f64()),
    }
}

/// Whole seconds as a whole number.
fn number(time: Duration) -> Value {
    match time.subsec_millis() {
        0 => json!(time.as_secs()),
        _ => json!(time.as_secs_f64()),
    }
}
