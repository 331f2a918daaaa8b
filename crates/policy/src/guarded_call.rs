//! One call before a gate: whether it may be made, what comes of it, and who is told.

use crate::{
    audit::{Audit, Line},
    decision::{Action, Caller, Reach, Verdict, is_read_only},
    judge::Judged,
    notes::{Ended, Redact, Stderr},
    observed::{Observed, Outcome, result},
    policy::Policy,
    rule_limits::RuleLimits,
    told::{CALLS, Told, is_logged},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};
use tokio::sync::OwnedSemaphorePermit;
use zcp::{Answer, CallError, Ctx, GatedCall, Notes, Output, PeerAddress, Result};

/// What the key of a question to the user begins with. Scripts cannot keep or read such keys.
const QUESTION: &str = "zcp.policy";
/// How much of an argument, and how many, a user is shown.
const SHOWN: usize = 300;
const SHOWN_ARGUMENTS: usize = 20;
const SHOWN_NAME: usize = 100;

/// What was decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Nothing yet.
    None,
    Invalid,
    Allowed,
    Denied,
    /// The user has not answered.
    Asked,
    AskedYes,
    AskedNo,
    /// A limit of the rule was reached.
    Limited,
}

impl Decision {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "undecided",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Allowed => "allowed",
            Self::Asked => "asked",
            Self::AskedYes => "asked-yes",
            Self::AskedNo => "asked-no",
            Self::Limited => "limited",
        }
    }

    fn is_run(self) -> bool {
        matches!(self, Self::Allowed | Self::AskedYes)
    }
}

/// A call on its way. Told of when it ends, also when nobody waits for that.
pub(crate) struct Record {
    told: Arc<Told>,
    policy: Arc<Policy>,
    tool: String,
    ctx: Ctx,
    notes: Notes,
    caller: Caller,
    args: Map<String, Value>,
    decision: Decision,
    rule: String,
    /// How many gates stand before this one.
    depth: usize,
    begun: Instant,
    is_told: bool,
}

impl Record {
    pub(crate) fn new(told: Arc<Told>, policy: Arc<Policy>, call: &GatedCall) -> Self {
        Self {
            told,
            policy,
            tool: call.tool().name.clone(),
            ctx: call.ctx().clone(),
            notes: call.notes(),
            caller: Caller::of(call.ctx()),
            args: Map::new(),
            decision: Decision::None,
            rule: String::new(),
            depth: call.depth(),
            begun: Instant::now(),
            is_told: false,
        }
    }

    /// Makes the call, if that may be.
    pub(crate) async fn make(mut self, call: GatedCall) -> Result<Output> {
        let reach = self.policy.reach(&self.tool, is_read_only(call.tool()));
        let mut done = match reach {
            Reach::Callable => self.call(call).await,
            Reach::Denied | Reach::Hidden => Err(self.refuse(&call)),
        };
        self.end(&done);
        if reach == Reach::Hidden {
            done = Err(CallError::NotFound("unknown tool".to_owned()));
        }
        // The log entry is written before the client gets the answer.
        if let Some(audit) = self.required_log()
            && let Err(error) = audit.written(&self.told.log).await
        {
            tracing::warn!("{}: {error}", audit.path.display());
        }
        done
    }

    /// Refuses a call that nobody may make, whatever its arguments are.
    fn refuse(&mut self, call: &GatedCall) -> CallError {
        self.args = call.arguments().map(|(args, _)| args).unwrap_or_default();
        let reads_only = is_read_only(call.tool());
        let verdict = self.policy.decide(&self.tool, reads_only, &self.caller, &self.args);
        self.denied(&verdict.rule, verdict.message.as_deref())
    }

    fn required_log(&self) -> Option<Arc<Audit>> {
        self.policy.audit.clone().filter(|audit| audit.is_required)
    }

    async fn call(&mut self, call: GatedCall) -> Result<Output> {
        if !self.policy.is_set() && !self.told.is_observed() {
            self.decision = Decision::Allowed;
            return call.run().await;
        }
        if let Some(audit) = self.required_log()
            && let Err(error) = audit.written(&self.told.log).await
        {
            tracing::warn!("{}: {error}", audit.path.display());
            return Err(self.denied("audit_required", Some("calls cannot be written down")));
        }
        let (args, fits) = call.arguments().inspect_err(|_| self.decision = Decision::Invalid)?;
        self.args = args;
        let reads_only = is_read_only(call.tool());
        let verdict = self.policy.decide(&self.tool, reads_only, &self.caller, &self.args);
        if verdict.action == Action::Deny {
            return Err(self.denied(&verdict.rule, verdict.message.as_deref()));
        }
        self.rule = verdict.rule.clone();
        if let Some(name) = self.policy.ambiguous(&self.args) {
            self.decision = Decision::Invalid;
            let why = format!("bad arguments: `{name}` is given in two spellings");
            return Err(CallError::Invalid(why));
        }
        fits.inspect_err(|_| self.decision = Decision::Invalid)?;
        self.judge(&call).await?;
        if verdict.action == Action::Ask {
            self.ask(&verdict, &call.tool().input_schema).await?;
        }
        let _running = self.admit(verdict.limits.as_deref()).await?;
        if self.decision != Decision::AskedYes {
            self.decision = Decision::Allowed;
        }
        call.run().await
    }

    /// Asks whoever decides beside the rules.
    async fn judge(&mut self, call: &GatedCall) -> Result<()> {
        let Some(judge) = self.policy.judge.clone() else { return Ok(()) };
        match judge.judge(call.tool(), &self.ctx).await {
            Judged::Allowed => Ok(()),
            Judged::Denied(why) => Err(self.denied(judge.name(), Some(&why))),
            Judged::Refused(error) => {
                self.denied(judge.name(), None);
                Err(CallError::Rpc(error))
            }
        }
    }

    /// Counts the call for the limits of its rule. It counts as running for as long as what this
    /// returns is held.
    async fn admit(&mut self, limits: Option<&RuleLimits>) -> Result<Option<OwnedSemaphorePermit>> {
        let Some(limits) = limits else { return Ok(None) };
        let running = match limits.running.clone().map(|running| running.try_acquire_owned()) {
            Some(Ok(permit)) => Some(permit),
            Some(Err(_)) => {
                let why = "too many calls run at the same time: try again when one has ended";
                return Err(self.limited(why));
            }
            None => None,
        };
        if let Some(rate) = &limits.rate
            && let Err(wait) = rate.admit(&self.ctx).await
        {
            let seconds = wait.as_secs().saturating_add(1);
            return Err(self.limited(&format!("called too often: try again in {seconds} s")));
        }
        Ok(running)
    }

    fn limited(&mut self, why: &str) -> CallError {
        self.decision = Decision::Limited;
        CallError::new(format!("`{}` was not run: {why}", self.tool))
    }

    /// Notes that it may not be made: what the model is told.
    fn denied(&mut self, rule: &str, why: Option<&str>) -> CallError {
        self.decision = Decision::Denied;
        self.rule = rule.to_owned();
        refusal(&self.tool, why.unwrap_or("this server's policy does not allow this call"))
    }

    /// Waits for the user's yes.
    async fn ask(&mut self, verdict: &Verdict, schema: &Value) -> Result<()> {
        if !self.ctx.client().form() {
            self.decision = Decision::AskedNo;
            let why = "it needs the user's yes, and this client cannot ask for it";
            return Err(refusal(&self.tool, why));
        }
        self.decision = Decision::Asked;
        let question = question(&self.tool, verdict.message.as_deref(), &self.args, schema);
        let form = json!({ "type": "object", "properties": {} });
        // Nobody can answer before the question: its name cannot be guessed. Each gate that a call
        // passes has a name of its own, and so has each question.
        let place = question_key(self.depth, &self.tool, &self.rule, &question);
        let key = self.ctx.once(&place, async || Ok(zcp::random_name())).await?;
        let answer = self.ctx.ask_with::<Value>(&key, &question, form).await;
        let why = match answer {
            Ok(Answer::Accept(_)) => {
                self.decision = Decision::AskedYes;
                return Ok(());
            }
            Err(CallError::Paused) => return Err(CallError::Paused),
            Ok(Answer::Decline) => "the user said no".to_owned(),
            Ok(Answer::Cancel) => "the user did not answer".to_owned(),
            Err(error) => format!("it needs the user's yes, who could not be asked: {error}"),
        };
        self.decision = Decision::AskedNo;
        Err(refusal(&self.tool, &why))
    }

    fn end(&mut self, done: &Result<Output>) {
        let is_late = self.notes.get::<Ended>().is_some_and(|ended| ended.is_late);
        let outcome = match (done, self.decision) {
            (Err(CallError::Paused), _) => Outcome::Paused,
            (_, Decision::Invalid) => Outcome::Invalid,
            (_, decision) if !decision.is_run() => Outcome::Denied,
            (Ok(output), _) if !output.is_error => Outcome::Ok,
            (Err(CallError::Invalid(_)), _) => Outcome::Invalid,
            _ if is_late => Outcome::Timeout,
            _ => Outcome::Failed,
        };
        self.tell(outcome, Some(done));
    }

    /// Tells whoever wants to know.
    fn tell(&mut self, outcome: Outcome, done: Option<&Result<Output>>) {
        self.is_told = true;
        if is_logged() {
            self.log(outcome);
        }
        let is_observed = self.told.is_observed();
        let audit = self.policy.audit.clone();
        if audit.is_none() && !is_observed {
            return;
        }
        let elapsed = self.begun.elapsed();
        let mut args = std::mem::take(&mut self.args);
        if let Some(redact) = self.notes.get::<Redact>() {
            args.values_mut().for_each(|value| redact.hide(value));
        }
        if let Some(audit) = audit {
            let was_begun =
                self.decision.is_run() || matches!(outcome, Outcome::Paused | Outcome::Cancelled);
            audit.append(
                &self.told.log,
                &Line {
                    time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
                    client: &self.caller.client,
                    principal: self.caller.principal.as_str(),
                    tool: &self.tool,
                    arguments: audit.shown(&args),
                    decision: self.decision.as_str(),
                    rule: &self.rule,
                    outcome: was_begun.then_some(outcome.as_str()),
                    exit_code: self.notes.get::<Ended>().and_then(|ended| ended.exit_code),
                    milliseconds: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                },
            );
        }
        if is_observed {
            let _ = self.told.calls.send(Arc::new(Observed {
                tool: self.tool.clone(),
                arguments: args,
                client: std::mem::take(&mut self.caller.client),
                outcome,
                result: done.map_or(Value::Null, result),
                stderr: self.notes.get::<Stderr>().map(|Stderr(text)| text).unwrap_or_default(),
                elapsed,
            }));
        }
    }
}

impl Record {
    /// Writes a log line.
    fn log(&self, outcome: Outcome) {
        let ctx = &self.ctx;
        let address = ctx.get::<PeerAddress>().map(|peer| peer.0.ip());
        let principal = Some(self.caller.principal.as_str()).filter(|name| !name.is_empty());
        tracing::info!(
            target: CALLS,
            tool = %self.tool,
            outcome = outcome.as_str(),
            milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            client = %self.caller.client.escape_debug(),
            principal = principal.map(|name| tracing::field::display(name.escape_debug())),
            address = address.map(tracing::field::display),
            session = ctx.session_label(),
            "call"
        );
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Outcome::Cancelled, None);
        }
    }
}

/// What a model is told of a call that was not made, and what it can do.
fn refusal(tool: &str, why: &str) -> CallError {
    let why = why.trim_end_matches('.');
    CallError::new(format!(
        "`{tool}` was not run: {why}. The same call will be refused again: do without it, or ask \
         the user to talk to whoever runs this server."
    ))
}

/// Where the name of a question is kept: a yes counts for one question of one gate.
fn question_key(depth: usize, tool: &str, rule: &str, question: &str) -> String {
    let digest = Sha256::digest(json!([tool, rule, question]).to_string());
    let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{QUESTION}.{depth}.{digest}")
}

/// A text in which nothing moves, hides or breaks lines.
fn visible(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown = String::new();
    for letter in text.chars() {
        match is_hidden(letter) {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

/// What the user is asked: they see what they say yes to. Arguments that the tool describes come
/// first, so that others cannot push them out of sight.
fn question(
    tool: &str,
    message: Option<&str>,
    args: &Map<String, Value>,
    schema: &Value,
) -> String {
    let message = message.map(|message| format!("{message}\n\n")).unwrap_or_default();
    let mut question = format!("{message}May `{tool}` be called?");
    let is_known = |name: &str| schema["properties"].get(name).is_some();
    let (known, other): (Vec<_>, Vec<_>) = args.iter().partition(|(name, _)| is_known(name));
    for (name, value) in known.into_iter().chain(other).take(SHOWN_ARGUMENTS) {
        let note = if is_known(name) { "" } else { " (the tool does not describe it)" };
        // As one line, whatever is in it.
        let name: String = name.escape_debug().take(SHOWN_NAME).collect();
        let text = visible(&value.to_string());
        let rest = text.chars().count().saturating_sub(SHOWN);
        let text: String = text.chars().take(SHOWN).collect();
        question.push_str(&format!("\n{name}{note}: {text}"));
        if rest > 0 {
            question.push_str(&format!("… and {rest} characters more"));
        }
    }
    match args.len().saturating_sub(SHOWN_ARGUMENTS) {
        0 => question,
        rest => format!("{question}\n… and {rest} arguments more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_sees_what_they_say_yes_to() {
        let args = json!({ "path": "/etc/passwd", "text": "é".repeat(500) });
        let Value::Object(args) = args else { panic!("an object") };
        let schema = json!({ "properties": { "path": {}, "text": {} } });
        let question = question("write", Some("This is dangerous."), &args, &schema);
        assert!(
            question.starts_with(
                "This is dangerous.\n\nMay `write` be called?\npath: \"/etc/passwd\"\n"
            )
        );
        assert!(question.ends_with("é… and 202 characters more"), "{question}");
    }

    #[test]
    fn nobody_pushes_an_argument_out_of_sight() {
        let mut args = Map::new();
        args.insert("path: \"/tmp\"\n\n".to_owned(), json!(1));
        (0..30).for_each(|number| drop(args.insert(format!("x{number}"), json!(0))));
        args.insert("path".to_owned(), json!("/home"));
        let schema = json!({ "properties": { "path": { "type": "string" } } });
        args.insert("last".to_owned(), json!("a\u{2028}path: \u{202e}b"));
        let question = question("t", None, &args, &schema);
        assert!(!question.contains(['\u{2028}', '\u{202e}']), "{question}");
        let lines: Vec<&str> = question.lines().collect();
        assert_eq!(lines[1], "path: \"/home\"", "{question}");
        assert!(lines[2].starts_with(r#"path: \"/tmp\"\n\n (the tool does not"#), "{question}");
    }
}
