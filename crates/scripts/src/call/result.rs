//! What came of a run, as a tool's answer: words, structure, pictures, or why there is none.

use crate::{
    content::{self, Files, MOST_FILES},
    host::secrets,
    manifest::Sandbox,
    run::{End, Late, Ran, sandbox},
};
use serde_json::{Map, Value, json};
use std::{process::ExitStatus, time::Duration};
use zcp::{Content, Output, wire::mcp::resources::Resource};

/// What a result of the protocol has, and what its content is.
const MEMBERS: [&str; 4] = ["content", "structuredContent", "isError", "_meta"];
const KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];
/// How much is shown of what was printed by one that took too long.
const SHOWN_IF_LATE: usize = 8 * 1024;
/// The largest picture or sound of an answer.
const LARGEST: u64 = 10 * 1024 * 1024;

/// What is known of a script whose answer is made.
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    /// What its output is said to be.
    pub(crate) returns: Option<&'a str>,
    /// Whether it promises structure.
    pub(crate) has_schema: bool,
    /// And of a kind that is not an object.
    pub(crate) structures_anything: bool,
    pub(crate) hint: Option<&'a str>,
    /// How long it may take with progress, if that makes a difference.
    pub(crate) most: Option<Duration>,
    /// What it was not allowed to do.
    pub(crate) sandbox: Option<&'a Sandbox>,
    /// Files it may name.
    pub(crate) files: &'a Files,
    /// It opted in to naming files in what it prints.
    pub(crate) prints_files: bool,
    /// What it may know and not say.
    pub(crate) secrets: &'a [String],
    /// Its output as it is, to the last line break.
    pub(crate) verbatim: bool,
    /// Its output is somebody else's, and no result of the protocol whatever it looks like.
    pub(crate) is_foreign: bool,
    /// Says how it ended even if all went well.
    pub(crate) says_how: bool,
}

/// A run's output that is too long to be shown, kept for whoever asks.
pub(crate) struct Kept {
    pub(crate) uri: String,
}

impl About<'_> {
    /// The answer. `keep` is called for an output that is too long to be shown.
    pub(crate) async fn answer(&self, ran: Ran, keep: impl FnOnce(&Ran, &str) -> Kept) -> Output {
        let complaints = ran.complaints.text();
        let code = match &ran.end {
            End::Exited(status) | End::Late(_, status) => Some(code(*status)),
            End::TooMuch | End::Exceeded(_) => None,
        };
        let failed = !matches!(&ran.end, End::Exited(status) if status.success())
            || ran.said.error.is_some();
        let mut output = match &ran.end {
            End::Late(late, status) => {
                let mut output = self.late(*late, *status);
                output.content.extend(self.until_then(&ran, *status, &complaints));
                output
            }
            _ => self.said(&ran, keep).await,
        };
        output.content.extend(ran.said.content.iter().cloned());
        if failed {
            // Its own result says what went wrong.
            let is_told = output.is_error && is_told(&output);
            output.is_error = true;
            if !matches!(ran.end, End::Late(..)) && (!is_told || ran.said.error.is_some()) {
                output.content.extend(self.why(&ran, &complaints).map(Content::text));
            }
        }
        if failed || self.says_how {
            if let Some(code) = code {
                output.meta.insert("exitCode".into(), code.into());
            }
            if !complaints.is_empty() {
                output.meta.insert("stderr".into(), complaints.into());
            }
        }
        output
    }

    /// What its output says.
    async fn said(&self, ran: &Ran, keep: impl FnOnce(&Ran, &str) -> Kept) -> Output {
        let mut bytes = &ran.output.held[..];
        let mime = match self.returns {
            Some(mime) => mime.to_owned(),
            None if std::str::from_utf8(bytes).is_ok() => "text/plain".to_owned(),
            None if ran.output.is_spilled()
                && std::str::from_utf8(until_character(bytes)).is_ok() =>
            {
                "text/plain".to_owned()
            }
            None => content::mime_of(None, bytes),
        };
        let is_text = mime.starts_with("text/") || mime == "application/json";
        if !is_text {
            let whole = match ran.output.is_spilled() && ran.output.total <= LARGEST {
                true => tokio::fs::read(&ran.output.spill.path).await.ok(),
                false => None,
            };
            let uri = format!("output:{}", self.name);
            return match (whole, ran.output.is_spilled()) {
                (None, true) => self.linked(ran, &mime, keep),
                (Some(whole), _) => one(content::of_bytes(whole, mime, &uri)),
                (None, false) => one(content::of_bytes(bytes.to_vec(), mime, &uri)),
            };
        }
        let may_be_structure = mime != "text/plain" || self.returns.is_none();
        if ran.output.is_spilled() {
            let structured = match may_be_structure {
                true => self.long_structure(ran).await,
                false => None,
            };
            return match structured {
                Some(Value::Object(members)) if self.is_result(&members) => {
                    self.structured(members.into(), "").await
                }
                // What was promised is given, and what is shown of it stays short.
                structured => Output {
                    structured: structured.filter(|_| self.has_schema),
                    ..self.linked(ran, &mime, keep)
                },
            };
        }
        if !self.verbatim {
            bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        if let Some(structured) = self.structure(&text).filter(|_| may_be_structure) {
            return self.structured(structured, &text).await;
        }
        match text.is_empty() {
            true => Output::default(),
            false => Output::text(text),
        }
    }

    /// The same of an output that is too long to be shown.
    async fn long_structure(&self, ran: &Ran) -> Option<Value> {
        let is_structure = ran.output.held.trim_ascii_start().starts_with(b"{");
        if ran.output.total > LARGEST || !(is_structure || self.structures_anything) {
            return None;
        }
        let whole = tokio::fs::read_to_string(&ran.output.spill.path).await.ok()?;
        self.structure(&whole)
    }

    /// The JSON that an output is, if it is one that counts as structure.
    fn structure(&self, text: &str) -> Option<Value> {
        let start = text.trim_start().chars().next()?;
        if start != '{' && !self.structures_anything {
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
            None => block["path"].is_string() && self.prints_files,
        };
        !self.is_foreign
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
        block["path"].as_str().filter(|_| self.prints_files)
    }

    async fn block(&self, block: Value) -> Content {
        if let Some(path) = self.file_of(&block) {
            let file = self.files.printed(path, block["mimeType"].as_str()).await;
            return file.unwrap_or_else(Content::text);
        }
        serde_json::from_value(block.clone()).unwrap_or_else(|_| Content::text(block.to_string()))
    }

    /// The beginning, and where the rest is.
    fn linked(&self, ran: &Ran, mime: &str, keep: impl FnOnce(&Ran, &str) -> Kept) -> Output {
        let kept = keep(ran, mime);
        let mut output = Output::default();
        if mime.starts_with("text/") || mime == "application/json" {
            let mut shown = String::from_utf8_lossy(until_character(&ran.output.held)).into_owned();
            secrets::hide_cut(&mut shown, self.secrets);
            output.content.push(Content::text(shown));
        }
        output.content.push(Content::text(format!(
            "The output has {} bytes, and only its beginning is shown. All of it can be read for an hour: {}",
            ran.output.total, kept.uri
        )));
        output.content.push(Content::link(Resource {
            uri: kept.uri,
            name: format!("output-of-{}", self.name),
            mime_type: Some(mime.to_owned()),
            size: Some(ran.output.total),
            ..Resource::default()
        }));
        output
    }

    /// Why it failed, if that is not said already.
    fn why(&self, ran: &Ran, complaints: &str) -> Option<String> {
        let mut why = match (&ran.said.error, &ran.end) {
            (Some(error), _) => error.clone(),
            (None, End::TooMuch) => format!(
                "`{}` was stopped: its output grew past {} bytes. Ask for less.",
                self.name, ran.output.total
            ),
            (None, End::Exited(status)) => format!("`{}` failed: {}.", self.name, how(*status)),
            (None, End::Exceeded(why)) => format!("`{}` was stopped: {why}.", self.name),
            (None, End::Late(..)) => return None,
        };
        if !complaints.is_empty() {
            why = format!("{why}\nIts last words:\n{complaints}");
        }
        if let Some(sandbox) = self.sandbox {
            why = format!("{why}\n{}", sandbox::explain(sandbox, complaints));
        }
        Some(why)
    }

    /// How one that took too long was ended, and what it had said until then.
    fn until_then(&self, ran: &Ran, status: ExitStatus, complaints: &str) -> Option<Content> {
        let held = &ran.output.held[..ran.output.held.len().min(SHOWN_IF_LATE)];
        let mut printed = String::from_utf8_lossy(until_character(held)).trim().to_owned();
        secrets::hide_cut(&mut printed, self.secrets);
        let mut said = vec![];
        if !printed.is_empty() {
            let is_cut = ran.output.total > held.len() as u64;
            let cut =
                if is_cut { format!(" (the first {} bytes)", held.len()) } else { String::new() };
            said.push(format!("Until then it had printed{cut}:\n{printed}"));
        }
        if !complaints.is_empty() {
            said.push(format!("Its last words:\n{complaints}"));
        }
        if said.is_empty() {
            return None;
        }
        said.push(format!("How it ended: {}.", how(status)));
        Some(Content::text(said.join("\n")))
    }

    /// It took too long: in the shape that programs written for mcp-bash know.
    fn late(&self, late: Late, status: ExitStatus) -> Output {
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
        error.insert("exitCode".into(), code(status).into());
        error.insert("reason".into(), reason.into());
        if let Some(most) = self.most {
            error.insert("progressExtendsTimeout".into(), true.into());
            error.insert("maxTimeoutSecs".into(), number(most));
        }
        let mut text = message;
        if let Some(hint) = self.hint {
            text = format!("{text}\n\nSuggestion: {hint}");
            error.insert("hint".into(), hint.into());
        }
        Output {
            structured: Some(json!({ "success": false, "error": error })),
            ..Output::failed(text)
        }
    }
}

fn one(content: Content) -> Output {
    Output { content: vec![content], ..Output::default() }
}

fn is_told(output: &Output) -> bool {
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

/// An exit code, or what shells say instead when there was a signal.
fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(-1)
}

/// How a process ended, in words.
pub(crate) fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            let (name, why) = match signal {
                1 => ("HUP", ""),
                2 => ("INT", ""),
                3 => ("QUIT", ""),
                4 => ("ILL", ", an instruction the machine does not know"),
                6 => ("ABRT", ", it gave up by itself"),
                7 => ("BUS", ""),
                8 => ("FPE", ", a wrong calculation"),
                9 => ("KILL", ", perhaps for lack of memory"),
                11 => ("SEGV", ", a wrong use of memory"),
                13 => ("PIPE", ""),
                15 => ("TERM", ""),
                24 => ("XCPU", ", its computing time was used up"),
                25 => ("XFSZ", ", a file grew too large"),
                _ => ("", ""),
            };
            return match name {
                "" => format!("it was ended by signal {signal}"),
                name => format!("it was ended by signal {signal} ({name}{why})"),
            };
        }
    }
    match status.code() {
        Some(126) => "exit code 126, which often means that something may not be executed".into(),
        Some(127) => "exit code 127, which often means that a command was not found".into(),
        Some(code) => format!("exit code {code}"),
        None => "it ended without an exit code".into(),
    }
}
