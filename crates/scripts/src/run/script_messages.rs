//! What a script says beside its output, line by line: progress, logs, questions, more content.

use super::{Job, channel::Channel, timeout::Timer, unknown_words::UnknownWords};
use crate::redact;
use futures_util::poll;
use serde_json::{Value, json};
use std::{collections::HashMap, pin::pin, task::Poll, time::Duration};
use zcp::wire::{Method, json::is_plain, line::Line, mcp::resources::Resource};
use zcp::{Answer, CallError, Content, CreateMessage, Ctx, Level, Result, Visit};

/// Content a script may add, in blocks.
const MOST: usize = 100;
/// What a script may keep in a run: how many values, and how many bytes with their keys.
const MOST_KEPT: usize = 100;
const MOST_KEPT_BYTES: usize = 1024 * 1024;
/// The longest question in a file.
const LONGEST: u64 = 1024 * 1024;
/// How often it is looked for questions in files.
const LOOK: Duration = Duration::from_millis(50);
/// What the keys of the server's own values begin with: scripts neither keep nor read them.
const RESERVED: &str = "zcp.";
/// What lines begin with.
const VERBS: &str =
    "progress log ask visit sample roots once keep detach updated text link file error";
/// How long an answer of the client's model may be unless the script says.
const TOKENS: u32 = 1024;

/// What a script said that is part of its answer.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) content: Vec<Content>,
    /// Why it failed, in its own words.
    pub(crate) error: Option<String>,
}

/// A value that was kept.
struct Kept {
    value: Value,
    /// Its length in the script's words, with its key.
    bytes: usize,
}

/// Whom a script talks to, and from where.
pub(crate) struct Listener<'a> {
    pub(crate) ctx: &'a Ctx,
    pub(crate) timer: &'a Timer,
    /// What the script may do.
    job: &'a Job,
    pub(crate) said: Said,
    /// What was kept in this run.
    kept: HashMap<String, Kept>,
    unknown: UnknownWords,
}

impl<'a> Listener<'a> {
    /// One who has heard nothing yet.
    pub(crate) fn new(ctx: &'a Ctx, timer: &'a Timer, job: &'a Job) -> Self {
        let (said, kept) = Default::default();
        let unknown = UnknownWords::of(&job.name);
        Self { ctx, timer, job, said, kept, unknown }
    }

    /// Does what lines say until there are no more. Ends with an error if the run must.
    pub(crate) async fn listen(&mut self, channel: &mut Channel) -> Result<()> {
        while let Some(line) = channel.next(|| self.timer.progressed()).await {
            if let Some(answer) = self.hear(line).await? {
                channel.answer(&answer).await;
            }
            // Most lines wait for nothing, and many come with one read.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// What was said before the end, and needs no answer.
    pub(crate) async fn hear_rest(&mut self, channel: &mut Channel) {
        channel.read_rest();
        while let Some(line) = channel.next_of_rest() {
            // A question nobody waits for is not asked.
            if !is_question(&line) {
                let _ = self.hear(line).await;
            }
            tokio::task::consume_budget().await;
        }
    }

    async fn hear(&mut self, line: Line) -> Result<Option<Value>> {
        let Line::Text(line) = line else {
            self.unknown.note_long();
            return Ok(None);
        };
        if !is_plain(&line) {
            let name = &self.job.name;
            tracing::warn!("`{name}` said a line with a reserved name, which is passed over");
            return Ok(None);
        }
        let mut line = String::from_utf8_lossy(&line).into_owned();
        // What it keeps is for itself.
        if !line.trim_start().starts_with("keep ") {
            redact::hide_text(&mut line, &self.job.secrets);
        }
        let line = line.trim();
        if line.starts_with('{') {
            self.notified(line);
            return Ok(None);
        }
        let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match verb {
            "progress" => self.progress(rest),
            "log" => self.log(rest),
            "ask" | "visit" | "sample" | "roots" | "once" => {
                return self.question(verb, rest).await;
            }
            "keep" => {
                let (key, value) = split(rest);
                self.keep(key, value).await?;
            }
            "detach" => self.ctx.detach(),
            "updated" => self.ctx.updated(rest).await?,
            "text" => self.text(words(rest)),
            "link" => self.link(rest),
            "file" => self.file(rest).await,
            "error" => self.said.error = Some(words(rest)),
            _ => self.unknown.note(verb, VERBS),
        }
        Ok(None)
    }

    /// Keeps a value. One that is not kept would have the script do twice what it wants done once, so
    /// that the call fails instead.
    async fn keep(&mut self, key: &str, value: &str) -> Result<()> {
        is_free(key)?;
        let bytes = key.len() + value.len();
        let others = self.kept.iter().filter(|(other, _)| *other != key);
        let (count, sum) = others.fold((1, bytes), |(n, sum), (_, one)| (n + 1, sum + one.bytes));
        if count > MOST_KEPT || sum > MOST_KEPT_BYTES {
            let most = format!("{MOST_KEPT} values and {MOST_KEPT_BYTES} bytes");
            return Err(CallError::new(format!("the script keeps more than {most}")));
        }
        let value: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        self.kept.insert(key.to_owned(), Kept { value: value.clone(), bytes });
        self.ctx.keep(key, value).await;
        Ok(())
    }

    /// A notification of the protocol, as projects written for mcp-bash write them.
    fn notified(&self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let params = &message["params"];
        match message["method"].as_str().and_then(Method::parse) {
            Some(Method::Progress) => {
                let (done, total) = (params["progress"].as_f64(), params["total"].as_f64());
                let words = params["message"].as_str().unwrap_or_default();
                self.ctx.progress_with(done.unwrap_or_default(), total, words);
            }
            Some(Method::LogMessage) => {
                let level = level(params["level"].as_str().unwrap_or_default());
                self.ctx.log_as(level, params["logger"].as_str(), &params["data"]);
            }
            _ => (),
        }
    }

    /// `3/10 words`, `45% words` or `3 words`.
    fn progress(&self, rest: &str) {
        let (number, message) = split(rest);
        let (done, total) = match number.split_once('/') {
            Some((done, total)) => (done, total.parse().ok()),
            None => match number.strip_suffix('%') {
                Some(done) => (done, Some(100.0)),
                None => (number, None),
            },
        };
        let Ok(done) = done.parse::<f64>() else { return };
        match words(message) {
            message if message.is_empty() => self.ctx.progress(done, total),
            message => self.ctx.progress_with(done, total, &message),
        }
    }

    fn log(&self, rest: &str) {
        let (name, data) = split(rest);
        let data = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        self.ctx.log(level(name), data);
    }

    async fn question(&self, verb: &str, rest: &str) -> Result<Option<Value>> {
        let (key, said) = split(rest);
        let said: Value = match said {
            "" => json!({}),
            said => match serde_json::from_str(said) {
                Ok(said) => said,
                // Nobody is to be asked what was meant for the server.
                Err(error) if said.starts_with('{') => {
                    return Ok(Some(json!({ "error": format!("not JSON: {error}") })));
                }
                Err(_) => json!({ "message": said, "prompt": said }),
            },
        };
        self.timer.asked();
        let wait = said["timeoutSecs"].as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let answer = self.answer(verb, key, &said, self.job.slot.answer_time(wait)).await;
        // The run ends here, and begins again with the answer.
        if matches!(answer, Err(CallError::Paused)) {
            return Err(CallError::Paused);
        }
        self.timer.answered();
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => Ok(Some(json!({ "error": error.to_string() }))),
        }
    }

    /// Waits for an answer. Others run meanwhile.
    async fn answer(&self, verb: &str, key: &str, said: &Value, wait: Duration) -> Result<Value> {
        let mut asking = pin!(tokio::time::timeout(wait, self.ask(verb, key, said)));
        let answer = match poll!(asking.as_mut()) {
            // What is answered at once needs nobody's place, and so does a run that ends here.
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                self.job.slot.park()?;
                let answer = asking.await;
                self.job.slot.resume().await?;
                answer
            }
        };
        answer.unwrap_or_else(|_| Err(CallError::new("nobody answered in time")))
    }

    async fn ask(&self, verb: &str, key: &str, said: &Value) -> Result<Value> {
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        Ok(match verb {
            "ask" => {
                let schema = match &said["schema"] {
                    Value::Null => json!({ "type": "object", "properties": {} }),
                    schema => schema.clone(),
                };
                answered(self.ctx.ask_with(key, &text("message"), schema).await?)
            }
            "visit" => {
                answered(self.ctx.visit(key, &Visit::new(text("message"), text("url"))).await?)
            }
            "roots" => json!({ "roots": self.ctx.roots(key).await? }),
            "once" => {
                is_free(key)?;
                let kept = self
                    .kept
                    .get(key)
                    .map(|kept| kept.value.clone())
                    .or_else(|| self.ctx.kept(key));
                kept.map_or_else(|| json!({}), |value| json!({ "value": value }))
            }
            _ => {
                let question = match said.get("messages") {
                    Some(_) => serde_json::from_value(said.clone())?,
                    None => {
                        let tokens =
                            said["maxTokens"].as_u64().and_then(|most| most.try_into().ok());
                        let mut question =
                            CreateMessage::new(text("prompt"), tokens.unwrap_or(TOKENS));
                        question.system_prompt = said["system"].as_str().map(str::to_owned);
                        question
                    }
                };
                serde_json::to_value(self.ctx.sample(key, question).await?)?
            }
        })
    }

    fn add(&mut self, content: Content) {
        if self.has_room() {
            self.said.content.push(content);
        }
    }

    fn has_room(&self) -> bool {
        self.said.content.len() < MOST
    }

    fn text(&mut self, text: String) {
        if self.has_room() && self.job.files.has_room_for(&text) {
            self.said.content.push(Content::text(text));
        }
    }

    fn link(&mut self, rest: &str) {
        if !self.has_room() || !self.job.files.has_room_for(rest) {
            return;
        }
        let (uri, name) = split(rest);
        let name = match words(name) {
            name if name.is_empty() => {
                uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or(uri).to_owned()
            }
            name => name,
        };
        self.add(Content::link(Resource { uri: uri.to_owned(), name, ..Resource::default() }));
    }

    async fn file(&mut self, rest: &str) {
        if !self.has_room() {
            return;
        }
        let rest = words(rest);
        let (path, mime) = match rest.rsplit_once(' ') {
            Some((path, mime))
                if mime.contains('/') && !self.job.files.folder.join(&rest).exists() =>
            {
                (path, Some(mime))
            }
            _ => (rest.as_str(), None),
        };
        match self.job.files.said(path, mime).await {
            Ok(content) => self.add(content),
            Err(why) => self.text(why),
        }
    }
}

/// Answers questions that are put into a file, until the run must end.
pub(super) async fn answer_files(ctx: Option<&Ctx>, timer: &Timer, job: &Job) -> CallError {
    let (Some(files), Some(ctx)) = (&job.questions, ctx) else {
        return std::future::pending().await;
    };
    let mut number = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        // Not taken before all of it is written.
        let whole = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).ok();
        let asked = files.files.take(files.asked, LONGEST, whole).await;
        let Some(mut asked) = asked else { continue };
        redact::hide_value(&mut asked, &job.secrets);
        number += 1;
        let listener = Listener::new(ctx, timer, job);
        let verb = if asked["mode"] == "url" { "visit" } else { "ask" };
        let answer = match listener.question(verb, &format!("elicit-{number} {asked}")).await {
            Ok(answer) => answer.unwrap_or_default(),
            Err(error) => return error,
        };
        let answer = match answer.get("error") {
            Some(_) => json!({ "action": "error", "content": null }),
            None => answer,
        };
        // Whole at once: the script looks whether it is there.
        let answer = vec![(files.answered, answer.to_string().into_bytes())];
        if let Err(error) = files.files.write(answer).await {
            tracing::warn!("a script cannot be answered: {error}");
        }
    }
}

/// Whether a script may keep a value by this key.
fn is_free(key: &str) -> Result<()> {
    match key.starts_with(RESERVED) {
        true => Err(CallError::new(format!("keys that begin with `{RESERVED}` are reserved"))),
        false => Ok(()),
    }
}

fn is_question(line: &Line) -> bool {
    let Line::Text(line) = line else { return false };
    // The first word, as it is heard.
    let line = String::from_utf8_lossy(line);
    let verb = line.split_whitespace().next();
    verb.is_some_and(|verb| ["ask", "visit", "sample", "roots", "once"].contains(&verb))
}

fn answered(answer: Answer<Value>) -> Value {
    match answer {
        Answer::Accept(content) => json!({ "action": "accept", "content": content }),
        Answer::Decline => json!({ "action": "decline" }),
        Answer::Cancel => json!({ "action": "cancel" }),
    }
}

fn split(rest: &str) -> (&str, &str) {
    let (first, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (first, rest.trim_start())
}

/// Words as they are, or as a JSON string, which may have line breaks.
fn words(text: &str) -> String {
    match text.starts_with('"') {
        true => serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()),
        false => text.to_owned(),
    }
}

fn level(name: &str) -> Level {
    let name = match name.to_lowercase().as_str() {
        "warn" => "warning".to_owned(),
        "err" | "fatal" => "error".to_owned(),
        "trace" => "debug".to_owned(),
        name => name.to_owned(),
    };
    serde_json::from_value(json!(name)).unwrap_or(Level::Info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_known_by_its_first_word() {
        let is = |line: &str| is_question(&Line::Text(line.to_owned().into()));
        for line in ["ask k {}", " ask k {}", "sample\tk {}", "\troots", "once k"] {
            assert!(is(line), "{line:?}");
        }
        for line in ["", "asks k", "progress 1", "log info ask", "rootsy"] {
            assert!(!is(line), "{line:?}");
        }
    }
}
