//! The rules of a policy: the first that fits a call decides.

use crate::{
    audit::{Arguments, Audit},
    decision::{Action, Caller, Reach, Verdict, argument_key},
    pattern::Pattern,
    rule_limits::{Rate, RuleLimits},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap, path::PathBuf, sync::Arc};
use tokio::sync::Semaphore;

/// What a policy says, in order.
#[derive(Debug)]
pub(crate) struct Rules {
    read_only: bool,
    rules: Vec<Rule>,
    otherwise: Action,
}

impl Default for Rules {
    fn default() -> Self {
        Self { read_only: false, rules: vec![], otherwise: Action::Allow }
    }
}

/// A policy as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Said {
    read_only: bool,
    default: Otherwise,
    rules: Vec<Value>,
    audit: Option<PathBuf>,
    audit_arguments: Arguments,
    audit_required: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Otherwise {
    #[default]
    Allow,
    Deny,
    Ask,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    client: Option<Pattern>,
    principal: Option<Pattern>,
    tool: Option<Pattern>,
    #[serde(default)]
    arguments: BTreeMap<String, Pattern>,
    action: Written,
    message: Option<String>,
    rate: Option<Rate>,
    concurrency: Option<usize>,
    #[serde(skip)]
    limits: Option<Arc<RuleLimits>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Written {
    Allow,
    Deny,
    Ask,
    Hide,
}

impl From<Written> for Action {
    fn from(written: Written) -> Self {
        match written {
            Written::Allow => Self::Allow,
            Written::Ask => Self::Ask,
            // One list is shown to everybody, so what is hidden from some is denied to them.
            Written::Deny | Written::Hide => Self::Deny,
        }
    }
}

impl Rules {
    /// What is written, and the log it asks for.
    pub(crate) fn read(said: Value) -> Result<(Self, Option<Audit>), String> {
        let said: Said = serde_json::from_value(said).map_err(|error| error.to_string())?;
        let numbered = said.rules.into_iter().enumerate();
        let rules = numbered.map(|(number, rule)| {
            let wrong = |why: String| format!("rule {}: {why}", number + 1);
            let rule: Rule = serde_json::from_value(rule).map_err(|why| wrong(why.to_string()))?;
            rule.limited().map_err(|why| wrong(why.to_owned()))
        });
        let rules = Self {
            read_only: said.read_only,
            rules: rules.collect::<Result<_, String>>()?,
            otherwise: match said.default {
                Otherwise::Allow => Action::Allow,
                Otherwise::Deny => Action::Deny,
                Otherwise::Ask => Action::Ask,
            },
        };
        if said.audit.is_none() && said.audit_required {
            return Err("`audit_required` needs `audit`, the file".to_owned());
        }
        let audit = said.audit.map(|path| Audit {
            path,
            arguments: said.audit_arguments,
            is_required: said.audit_required,
        });
        Ok((rules, audit))
    }

    /// Names of tools that rules are about, with the numbers of these. Patterns may be of tools to come.
    pub(crate) fn named(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.rules.iter().enumerate();
        let all = all.filter_map(|(at, rule)| Some((at + 1, rule.tool.as_ref()?.text.as_str())));
        all.filter(|(_, name)| !name.contains(['*', '?', '[', '{', '|', '^', '/']))
    }

    /// An argument that rules are about and that was given in two spellings, of which a tool might
    /// use another one than the rules see.
    pub(crate) fn ambiguous<'a>(&self, args: &'a Map<String, Value>) -> Option<&'a str> {
        let mut named = self.rules.iter().flat_map(|rule| rule.arguments.keys());
        named.find_map(|name| {
            let key = argument_key(name);
            let mut spelled = args.keys().filter(|given| argument_key(given) == key);
            spelled.next()?;
            spelled.next().map(String::as_str)
        })
    }

    /// Whether they allow everything.
    pub(crate) fn are_open(&self) -> bool {
        !self.read_only && self.rules.is_empty() && self.otherwise == Action::Allow
    }

    /// Whether there is anybody who may call a tool with any arguments.
    pub(crate) fn reach(&self, tool: &str, reads_only: bool) -> Reach {
        let is_closed = self.read_only && !reads_only;
        for rule in self.rules.iter().filter(|rule| rule.is_of(tool)) {
            if Action::from(rule.action) != Action::Deny {
                return if is_closed { Reach::Denied } else { Reach::Callable };
            }
            if rule.is_unconditional() {
                let is_hidden = rule.action == Written::Hide;
                return if is_hidden { Reach::Hidden } else { Reach::Denied };
            }
        }
        match is_closed || self.otherwise == Action::Deny {
            true => Reach::Denied,
            false => Reach::Callable,
        }
    }

    pub(crate) fn decide(
        &self,
        tool: &str,
        reads_only: bool,
        caller: &Caller,
        args: &Map<String, Value>,
    ) -> Verdict {
        if self.read_only && !reads_only {
            let message = Some("only tools that change nothing can be called".to_owned());
            let rule = "read_only".to_owned();
            return Verdict { action: Action::Deny, rule, message, limits: None };
        }
        let mut numbered = self.rules.iter().enumerate();
        match numbered.find(|(_, rule)| rule.fits(tool, caller, args)) {
            Some((number, rule)) => Verdict {
                action: rule.action.into(),
                rule: format!("rule {}", number + 1),
                message: rule.message.clone(),
                limits: rule.limits.clone(),
            },
            None => {
                let rule = "default".to_owned();
                Verdict { action: self.otherwise, rule, message: None, limits: None }
            }
        }
    }
}

impl Rule {
    /// The same, with its limits ready to be counted.
    fn limited(mut self) -> Result<Self, &'static str> {
        if self.rate.is_none() && self.concurrency.is_none() {
            return Ok(self);
        }
        if Action::from(self.action) == Action::Deny {
            return Err("`rate` and `concurrency` need the action `allow` or `ask`");
        }
        if self.concurrency.is_some_and(|most| most == 0 || most > Semaphore::MAX_PERMITS) {
            return Err("`concurrency` must be at least 1");
        }
        self.limits = Some(Arc::new(RuleLimits {
            rate: self.rate.map(Rate::limit),
            running: self.concurrency.map(|most| Arc::new(Semaphore::new(most))),
        }));
        Ok(self)
    }

    fn is_of(&self, tool: &str) -> bool {
        self.tool.as_ref().is_none_or(|pattern| pattern.fits(tool))
    }

    /// Whether it says the same of every call of its tools.
    fn is_unconditional(&self) -> bool {
        let all = |pattern: &Option<Pattern>| pattern.as_ref().is_none_or(|one| one.text == "*");
        all(&self.client) && all(&self.principal) && self.arguments.is_empty()
    }

    fn fits(&self, tool: &str, caller: &Caller, args: &Map<String, Value>) -> bool {
        let principal = caller.principal.as_str();
        let client = |pattern: &Pattern| {
            pattern.fits(&caller.client) || (!principal.is_empty() && pattern.fits(principal))
        };
        let is_allow = Action::from(self.action) == Action::Allow;
        let argument = |(name, pattern): (&String, &Pattern)| match is_allow {
            // What is allowed is what the tool itself calls by this name.
            true => args.get(name).is_some_and(|value| pattern.fits(&text(value))),
            // However it is written: to a script, `Path` and `path` may be one variable.
            false => {
                let key = argument_key(name);
                let spelled = args.iter().filter(|(given, _)| argument_key(given) == key);
                spelled.into_iter().any(|(_, value)| any_fits(pattern, value))
            }
        };
        self.is_of(tool)
            && self.client.as_ref().is_none_or(client)
            && self.principal.as_ref().is_none_or(|pattern| pattern.fits(principal))
            && self.arguments.iter().all(argument)
    }
}

/// Whether a value fits a pattern, or something in a list of them does.
fn any_fits(pattern: &Pattern, value: &Value) -> bool {
    pattern.fits(&text(value)) || item_fits(pattern, value)
}

/// Lists in lists are gone through once, however deep they are.
fn item_fits(pattern: &Pattern, value: &Value) -> bool {
    value.as_array().into_iter().flatten().any(|item| match item.is_array() {
        true => item_fits(pattern, item),
        false => pattern.fits(&text(item)),
    })
}

/// What a pattern is held against: strings as they are, everything else as JSON, in which numbers
/// have one spelling each: `5.0` and `5e0` are `5`.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => {
            let mut text = String::new();
            write(&mut text, other);
            Cow::Owned(text)
        }
    }
}

fn write(out: &mut String, value: &Value) {
    let mut between = "";
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Without an exponent, and a whole one without a fraction.
            Some(float) => out.push_str(&float.to_string()),
            None => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for item in items {
                out.push_str(std::mem::replace(&mut between, ","));
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (name, value) in members {
                out.push_str(std::mem::replace(&mut between, ","));
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(out, value);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zcp::Principal;

    fn rules(said: Value) -> Rules {
        Rules::read(said).expect("it is right").0
    }

    fn decide(rules: &Rules, tool: &str, client: &str, args: Value) -> (Action, String) {
        let Value::Object(args) = args else { panic!("arguments are an object") };
        let caller = Caller { client: client.to_owned(), principal: Principal::ANONYMOUS };
        let verdict = rules.decide(tool, false, &caller, &args);
        (verdict.action, verdict.rule)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(json!({ "default": "deny", "rules": [
            { "tool": "file_*", "arguments": { "path": "/etc/*", "mode": "delete" }, "action": "deny" },
            { "client": "trusted*", "tool": "file_*", "action": "allow" },
            { "tool": "file_read", "action": "ask" },
            { "tool": "count", "arguments": { "n": 5, "all": true }, "action": "allow" },
        ]}));
        let case = |tool, client, args| decide(&rules, tool, client, args).1;
        let etc = json!({ "path": "/etc/a/b", "mode": "delete" });
        assert_eq!(case("file_write", "trusted", etc), "rule 1");
        assert_eq!(case("file_write", "trusted-2", json!({ "path": "/etc/a" })), "rule 2");
        assert_eq!(case("file_read", "", json!({})), "rule 3");
        assert_eq!(case("count", "", json!({ "n": 5, "all": true })), "rule 4");
        assert_eq!(case("count", "", json!({ "n": "5", "all": false })), "default");
        assert_eq!(case("file_write", "", json!({ "Path": "/etc/a", "MODE": "delete" })), "rule 1");
        // Over lines, too.
        let lines = json!({ "path": "/etc/\nx", "mode": "delete" });
        assert_eq!(case("file_x", "", lines), "rule 1");
    }

    #[test]
    fn other_spellings_of_an_argument_open_nothing() {
        let safe = json!({ "path": "/safe/*", "n": 5 });
        let allow = rules(
            json!({ "default": "deny", "rules": [{ "arguments": safe, "action": "allow" }] }),
        );
        let said = |args: Value| decide(&allow, "a", "", args).1;
        assert_eq!(said(json!({ "path": "/safe/x", "n": 5 })), "rule 1");
        assert_eq!(said(json!({ "path": "/safe/x", "n": 5.0 })), "rule 1");
        assert_eq!(said(json!({ "path": "/etc/x", "PATH": "/safe/x", "n": 5 })), "default");
        assert_eq!(said(json!({ "Path": "/safe/x", "n": 5 })), "default");
        let deny = rules(json!({ "rules": [
            { "arguments": { "n": 5 }, "action": "deny" },
            { "arguments": { "path": "/etc/*" }, "action": "ask" },
        ]}));
        let said =
            |text: &str| decide(&deny, "a", "", serde_json::from_str(text).expect("arguments")).1;
        for five in ["5", "5.0", "5e0", "50e-1", "\"5\"", "[1, 5]"] {
            assert_eq!(said(&format!("{{\"n\":{five}}}")), "rule 1", "{five}");
        }
        let large = rules(
            json!({ "rules": [{ "arguments": { "n": "1000000000000*" }, "action": "deny" }] }),
        );
        for number in ["1e17", "100000000000000000.0", "100000000000000000000", "1e12"] {
            let args = serde_json::from_str(&format!("{{\"n\":{number}}}")).expect("arguments");
            assert_eq!(decide(&large, "a", "", args).1, "rule 1", "{number}");
        }
        let nested = format!("{{\"n\":{}5{}}}", "[".repeat(100), "]".repeat(100));
        assert_eq!(said(&nested), "rule 1");
        for path in [r#"{"PATH":"/etc/x"}"#, r#"{"path":["/tmp/x","/etc/x"]}"#] {
            assert_eq!(said(path), "rule 2", "{path}");
        }
        let Value::Object(both) = json!({ "path": 1, "PATH": 2, "q": 1, "Q": 2 }) else {
            panic!("an object")
        };
        assert_eq!(deny.ambiguous(&both), Some("PATH").filter(|_| both.contains_key("PATH")));
    }

    #[test]
    fn what_nobody_can_ever_call_is_not_listed() {
        let rules = rules(json!({ "rules": [
            { "tool": "a", "client": "friend", "action": "allow" },
            { "tool": "b", "client": "enemy", "action": "deny" },
            { "tool": "c", "arguments": { "x": "1" }, "action": "hide" },
            { "tool": "c", "action": "ask" },
            { "tool": "[a-d]", "client": "*", "action": "hide" },
            { "tool": "d", "action": "allow" },
        ]}));
        let listed = ["a", "b", "c", "d", "e"].map(|tool| rules.reach(tool, false));
        let (callable, hidden) = (Reach::Callable, Reach::Hidden);
        assert_eq!(listed, [callable, hidden, callable, hidden, callable]);
        let reads = self::rules(json!({ "read_only": true, "rules": [] }));
        assert_eq!([true, false].map(|only| reads.reach("a", only)), [callable, Reach::Denied]);
        let none = self::rules(json!({ "default": "deny" }));
        assert_eq!(none.reach("a", true), Reach::Denied);
    }

    #[test]
    fn a_principal_is_told_from_a_name_anybody_may_give() {
        let rules = rules(json!({ "rules": [
            { "principal": "ann", "action": "ask" },
            { "client": "ann", "action": "deny" },
        ]}));
        let by = |client: &str, principal| {
            let caller = Caller { client: client.to_owned(), principal };
            rules.decide("a", false, &caller, &Map::new()).rule
        };
        assert_eq!(by("", Principal::new("ann")), "rule 1");
        assert_eq!(by("ann", Principal::ANONYMOUS), "rule 2");
        assert_eq!(by("bob", Principal::new("bob")), "default");
    }

    #[test]
    fn mistakes_are_told() {
        for (said, why) in [
            (json!({ "defualt": "deny" }), "defualt"),
            (json!({ "default": "hide" }), "hide"),
            (json!({ "rules": [{ "action": "alow" }] }), "rule 1: unknown variant `alow`"),
            (json!({ "rules": [{ "action": "deny" }, { "tool": "a" }] }), "rule 2: missing"),
            (json!({ "rules": [{ "action": "deny", "tools": "a" }] }), "tools"),
            (json!({ "rules": [{ "action": "deny", "tool": "[a" }] }), "`[a` is no pattern"),
            (json!({ "rules": [{ "action": "deny", "tool": ["a"] }] }), "is no pattern"),
            (json!({ "audit": "a", "audit_arguments": "all" }), "audit_arguments"),
            (json!({ "audit_required": true }), "needs `audit`"),
            (json!({ "rules": [{ "action": "allow", "rate": "5/fortnight" }] }), "`rate` is"),
            (json!({ "rules": [{ "action": "allow", "rate": 0 }] }), "`rate` is"),
            (json!({ "rules": [{ "action": "deny", "rate": 5 }] }), "need the action"),
            (json!({ "rules": [{ "action": "ask", "concurrency": 0 }] }), "at least 1"),
            (json!("deny"), "invalid type"),
        ] {
            let told = Rules::read(said.clone()).expect_err("it is wrong");
            assert!(told.contains(why), "{said}: {told}");
        }
    }
}
