//! One call of a script: whether it may be made, what comes of it, and who is told.

pub(crate) mod arguments;
mod coerce;
mod execute;
pub(crate) mod program;
mod result;
mod schemas;
pub(crate) mod script;
pub(crate) mod tool;

use crate::{
    compat::mcp_bash::policy_hook::Judged,
    host::observers::{Observed, Outcome},
    manifest::Form,
    policy::{Action, Caller, Line, Verdict},
    redact,
    run::End,
};
use serde_json::{Map, Value, json};
use std::{
    sync::OnceLock,
    time::{Instant, SystemTime},
};
use tool::ScriptTool;
use zcp::{Answer, CallError, Ctx, Input, Output, Result};

/// What the name of the question to the user is kept by.
const QUESTION: &str = "zcp.policy";
/// How much of an argument, and how many, a user is shown.
const SHOWN: usize = 300;
const SHOWN_ARGUMENTS: usize = 20;

/// Calls a script, if that may be.
async fn call(tool: &ScriptTool, input: &Input) -> Result<Output> {
    let mut record = Record::new(tool, &input.ctx);
    let done = record.call(input).await;
    record.end(&done);
    // The log entry is written before the client gets the answer.
    if let Some(audit) = tool.project.policy.audit.as_ref().filter(|audit| audit.is_required)
        && let Err(error) = audit.written(&tool.host.observers.log).await
    {
        tracing::warn!("{}: {error}", audit.path.display());
    }
    done
}

/// What is noted of a run while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    secrets: OnceLock<Vec<String>>,
    end: OnceLock<(Option<i32>, bool)>,
}

impl Noted {
    /// Which secrets the script was given.
    pub(crate) fn secrets(&self, secrets: &[String]) {
        let _ = self.secrets.set(secrets.to_vec());
    }

    /// How it ended.
    pub(crate) fn end(&self, end: &End) {
        let _ = self.end.set(match end {
            End::Exited(status) => (status.code(), false),
            End::Late(_, status) => (status.code(), true),
            End::TooMuch | End::Exceeded(_) => (None, false),
        });
    }
}

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
        }
    }

    fn is_run(self) -> bool {
        matches!(self, Self::Allowed | Self::AskedYes)
    }
}

/// A call on its way. Told of when it ends, also when nobody waits for that.
struct Record<'a> {
    tool: &'a ScriptTool,
    ctx: &'a Ctx,
    caller: Caller,
    args: Map<String, Value>,
    decision: Decision,
    rule: String,
    noted: Noted,
    begun: Instant,
    is_told: bool,
}

impl<'a> Record<'a> {
    fn new(tool: &'a ScriptTool, ctx: &'a Ctx) -> Self {
        Self {
            tool,
            ctx,
            caller: Caller::of(ctx),
            args: Map::new(),
            decision: Decision::None,
            rule: String::new(),
            noted: Noted::default(),
            begun: Instant::now(),
            is_told: false,
        }
    }

    async fn call(&mut self, input: &Input) -> Result<Output> {
        let (tool, script) = (self.tool, &self.tool.script);
        let policy = &tool.project.policy;
        if let Some(audit) = policy.audit.as_ref().filter(|audit| audit.is_required)
            && let Err(error) = audit.written(&tool.host.observers.log).await
        {
            tracing::warn!("{}: {error}", audit.path.display());
            return Err(self.denied("audit_required", Some("calls cannot be written down")));
        }
        let args = input.args().inspect_err(|_| self.decision = Decision::Invalid)?;
        // What is decided is decided about what the script would get.
        let (args, fits) = tool.schemas.check_input(script, args);
        self.args = arguments::with_defaults(args, &script.schema);
        let has_variables = matches!(script.form, Form::Both | Form::Env);
        if let Some(name) = arguments::twice(&self.args).filter(|_| has_variables) {
            self.decision = Decision::Invalid;
            let why = format!("bad arguments: `{name}` and another are one variable of the script");
            return Err(CallError::new(why));
        }
        let verdict = policy.decide(&script.name, script.reads_only(), &self.caller, &self.args);
        if verdict.action == Action::Deny {
            return Err(self.denied(&verdict.rule, verdict.message.as_deref()));
        }
        self.rule = verdict.rule.clone();
        fits.inspect_err(|_| self.decision = Decision::Invalid)?;
        let judged = match &tool.project.policy_hook {
            Some(hook) => {
                let context = script.context(tool.project.context());
                hook.judge(&context, &tool.host, self.ctx).await
            }
            None => Judged::Allowed,
        };
        match judged {
            Judged::Allowed => (),
            Judged::Denied(why) => return Err(self.denied("policy.sh", Some(&why))),
            Judged::Refused(error) => {
                self.denied("policy.sh", None);
                return Err(CallError::Rpc(error));
            }
        }
        if verdict.action == Action::Ask {
            self.ask(&verdict).await?;
        } else {
            self.decision = Decision::Allowed;
        }
        tool.run(self.args.clone(), self.ctx, &self.noted).await
    }

    /// Notes that it may not be made: what the model is told.
    fn denied(&mut self, rule: &str, why: Option<&str>) -> CallError {
        self.decision = Decision::Denied;
        self.rule = rule.to_owned();
        refusal(
            &self.tool.script.name,
            why.unwrap_or("this server's policy does not allow this call"),
        )
    }

    /// Waits for the user's yes.
    async fn ask(&mut self, verdict: &Verdict) -> Result<()> {
        let name = &self.tool.script.name;
        if !self.ctx.client().form() {
            self.decision = Decision::AskedNo;
            let why = "it needs the user's yes, and this client cannot ask for it";
            return Err(refusal(name, why));
        }
        self.decision = Decision::Asked;
        let question = question(name, verdict.message.as_deref(), &self.args);
        let schema = json!({ "type": "object", "properties": {} });
        // Nobody can answer before the question: its name cannot be guessed.
        let key = self.ctx.once(QUESTION, async || Ok(zcp::random_name())).await?;
        let answer = self.ctx.ask_with::<Value>(&key, &question, schema).await;
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
        Err(refusal(name, &why))
    }

    fn end(&mut self, done: &Result<Output>) {
        let is_late = self.noted.end.get().is_some_and(|(_, is_late)| *is_late);
        let outcome = match (done, self.decision) {
            (Err(CallError::Paused), _) => Outcome::Paused,
            (_, Decision::Invalid) => Outcome::Invalid,
            (_, decision) if !decision.is_run() => Outcome::Denied,
            (Ok(output), _) if !output.is_error => Outcome::Ok,
            _ if is_late => Outcome::Timeout,
            _ => Outcome::Failed,
        };
        self.tell(outcome, Some(done));
    }

    /// Tells whoever wants to know.
    fn tell(&mut self, outcome: Outcome, done: Option<&Result<Output>>) {
        self.is_told = true;
        let observers = &self.tool.host.observers;
        let audit = self.tool.project.policy.audit.as_deref();
        let is_observed = observers.are_there();
        if audit.is_none() && !is_observed {
            return;
        }
        let elapsed = self.begun.elapsed();
        let mut args = std::mem::take(&mut self.args);
        let secrets = self.noted.secrets.get().map(Vec::as_slice).unwrap_or_default();
        args.values_mut().for_each(|value| redact::hide_value(value, secrets));
        if let Some(audit) = audit {
            let was_begun =
                self.decision.is_run() || matches!(outcome, Outcome::Paused | Outcome::Cancelled);
            audit.append(
                &observers.log,
                &Line {
                    time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
                    client: &self.caller.client,
                    principal: self.caller.principal.as_str(),
                    tool: &self.tool.script.name,
                    arguments: audit.shown(&args),
                    decision: self.decision.as_str(),
                    rule: &self.rule,
                    outcome: was_begun.then_some(outcome.as_str()),
                    exit_code: self.noted.end.get().and_then(|(code, _)| *code),
                    milliseconds: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                },
            );
        }
        if is_observed {
            observers.tell(Observed {
                tool: self.tool.script.name.clone(),
                arguments: args,
                client: std::mem::take(&mut self.caller.client),
                outcome,
                result: done.map_or(Value::Null, result),
                elapsed,
            });
        }
    }
}

impl Drop for Record<'_> {
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

/// What the user is asked: they see what they say yes to.
fn question(tool: &str, message: Option<&str>, args: &Map<String, Value>) -> String {
    let message = message.map(|message| format!("{message}\n\n")).unwrap_or_default();
    let mut question = format!("{message}May `{tool}` be called?");
    for (name, value) in args.iter().take(SHOWN_ARGUMENTS) {
        let text = value.to_string();
        let rest = text.chars().count().saturating_sub(SHOWN);
        let text: String = text.chars().take(SHOWN).collect();
        question.push_str(&format!("\n{name}: {text}"));
        if rest > 0 {
            question.push_str(&format!("… and {rest} characters more"));
        }
    }
    match args.len().saturating_sub(SHOWN_ARGUMENTS) {
        0 => question,
        rest => format!("{question}\n… and {rest} arguments more"),
    }
}

/// What came of a call, as its client is told.
fn result(done: &Result<Output>) -> Value {
    let failed;
    let output = match done {
        Ok(output) => output,
        Err(error) => {
            failed = Output::failed(error.to_string());
            &failed
        }
    };
    let mut result = json!({ "content": output.content, "isError": output.is_error });
    if let Some(structured) = &output.structured {
        result["structuredContent"] = structured.clone();
    }
    if !output.meta.is_empty() {
        result["_meta"] = Value::Object(output.meta.clone());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_sees_what_they_say_yes_to() {
        let args = json!({ "path": "/etc/passwd", "text": "é".repeat(500) });
        let Value::Object(args) = args else { panic!("an object") };
        let question = question("write", Some("This is dangerous."), &args);
        assert!(
            question.starts_with(
                "This is dangerous.\n\nMay `write` be called?\npath: \"/etc/passwd\"\n"
            )
        );
        assert!(question.ends_with("é… and 202 characters more"), "{question}");
    }
}
