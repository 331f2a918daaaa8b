//! The rules of a policy: the first that fits a call decides.

use super::{Action, Audit, Caller, Verdict, argument_key};
use regex::Regex;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

/// What a policy says, in order.
#[derive(Debug, Clone)]
pub(super) struct Rules {
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
    audit_arguments: super::audit::Arguments,
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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    client: Option<Pattern>,
    principal: Option<Pattern>,
    tool: Option<Pattern>,
    #[serde(default)]
    arguments: BTreeMap<String, Pattern>,
    action: Written,
    message: Option<String>,
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
    pub(super) fn read(said: Value) -> Result<(Self, Option<Audit>), String> {
        let said: Said = serde_json::from_value(said).map_err(|error| error.to_string())?;
        let numbered = said.rules.into_iter().enumerate();
        let rules = numbered.map(|(number, rule)| {
            serde_json::from_value(rule).map_err(|error| format!("rule {}: {error}", number + 1))
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
    pub(super) fn named(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.rules.iter().enumerate();
        let all = all.filter_map(|(at, rule)| Some((at + 1, rule.tool.as_ref()?.text.as_str())));
        all.filter(|(_, name)| !name.contains(['*', '?', '[', '{', '|', '^', '/']))
    }

    /// Whether they allow everything.
    pub(super) fn are_open(&self) -> bool {
        !self.read_only && self.rules.is_empty() && self.otherwise == Action::Allow
    }

    /// Whether there is anybody who may call a tool with any arguments.
    pub(super) fn allow_sometimes(&self, tool: &str, reads_only: bool) -> bool {
        if self.read_only && !reads_only {
            return false;
        }
        for rule in self.rules.iter().filter(|rule| rule.is_of(tool)) {
            if Action::from(rule.action) != Action::Deny {
                return true;
            }
            if rule.is_unconditional() {
                return false;
            }
        }
        self.otherwise != Action::Deny
    }

    pub(super) fn decide(
        &self,
        tool: &str,
        reads_only: bool,
        caller: &Caller,
        args: &Map<String, Value>,
    ) -> Verdict {
        if self.read_only && !reads_only {
            let message = Some("only tools that change nothing can be called".to_owned());
            return Verdict { action: Action::Deny, rule: "read_only".to_owned(), message };
        }
        let mut numbered = self.rules.iter().enumerate();
        match numbered.find(|(_, rule)| rule.fits(tool, caller, args)) {
            Some((number, rule)) => Verdict {
                action: rule.action.into(),
                rule: format!("rule {}", number + 1),
                message: rule.message.clone(),
            },
            None => {
                let rule = "default".to_owned();
                Verdict { action: self.otherwise, rule, message: None }
            }
        }
    }
}

impl Rule {
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
        let argument = |(name, pattern): (&String, &Pattern)| {
            // However it is written: to a script, `Path` and `path` may be one variable.
            let name = argument_key(name);
            args.iter()
                .any(|(given, value)| argument_key(given) == name && pattern.fits(&text(value)))
        };
        self.is_of(tool)
            && self.client.as_ref().is_none_or(client)
            && self.principal.as_ref().is_none_or(|pattern| pattern.fits(principal))
            && self.arguments.iter().all(argument)
    }
}

/// What a pattern is held against: strings as they are, everything else as JSON.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Words with `*`, `?`, `[…]` and `{a,b}`.
#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    fn fits(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(value)? {
            Value::String(text) => text,
            plain @ (Value::Bool(_) | Value::Number(_)) => plain.to_string(),
            other => return Err(D::Error::custom(format!("`{other}` is no pattern: give text"))),
        };
        let wrong = |why: String| D::Error::custom(format!("`{text}` is no pattern: {why}"));
        let regex = expression(&text).map_err(|why| wrong(why.to_owned()))?;
        let regex = Regex::new(&regex).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { text, regex })
    }
}

/// A pattern as a regular expression of whole texts. Characters, and not bytes, are compared.
fn expression(pattern: &str) -> Result<String, &'static str> {
    let mut all = "(?s)^".to_owned();
    let mut is_choice = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => all.push_str(".*"),
            '?' => all.push('.'),
            '[' => all.push_str(&set(&mut characters)?),
            '{' if is_choice => return Err("braces in braces"),
            '{' => {
                is_choice = true;
                all.push_str("(?:");
            }
            '}' if is_choice => {
                is_choice = false;
                all.push(')');
            }
            ',' if is_choice => all.push('|'),
            '\\' => all.push_str(&literal(characters.next().ok_or("it ends with a backslash")?)),
            other => all.push_str(&literal(other)),
        }
    }
    match is_choice {
        true => Err("a brace is not closed"),
        false => Ok(all + "$"),
    }
}

/// What follows a `[`, up to the `]`.
fn set(characters: &mut std::str::Chars<'_>) -> Result<String, &'static str> {
    let mut all = "[".to_owned();
    let mut is_first = true;
    loop {
        match characters.next().ok_or("a bracket is not closed")? {
            '!' | '^' if is_first && all == "[" => {
                all.push('^');
                continue;
            }
            ']' if !is_first => return Ok(all + "]"),
            '-' => all.push('-'),
            other => all.push_str(&literal(other)),
        }
        is_first = false;
    }
}

fn literal(character: char) -> String {
    match character {
        '&' | '~' | '-' | '^' => format!("\\{character}"),
        other => regex::escape(other.encode_utf8(&mut [0; 4])),
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
    fn patterns_are_of_characters() {
        let fits = |pattern: &str, text: &str| {
            serde_json::from_value::<Pattern>(json!(pattern)).expect("a pattern").fits(text)
        };
        for (pattern, yes, no) in [
            ("caf?", "café", "caf"),
            ("[é-ü]x", "öx", "ox"),
            ("[!a]", "b", "a"),
            ("a{b,c*}d", "acxd", "ad"),
            ("a.b", "a.b", "axb"),
            (r"\*", "*", "x"),
            ("[a-]", "-", "b"),
            ("", "", "x"),
        ] {
            assert!(fits(pattern, yes) && !fits(pattern, no), "{pattern}");
        }
        for wrong in ["[a".to_owned(), "{a".to_owned(), "{".repeat(300), "a\\".to_owned()] {
            serde_json::from_value::<Pattern>(json!(wrong)).expect_err("it is no pattern");
        }
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
        let listed = ["a", "b", "c", "d", "e"].map(|tool| rules.allow_sometimes(tool, false));
        assert_eq!(listed, [true, false, true, false, true]);
        let reads = self::rules(json!({ "read_only": true, "rules": [] }));
        assert!(reads.allow_sometimes("a", true) && !reads.allow_sometimes("a", false));
        assert!(!self::rules(json!({ "default": "deny" })).allow_sometimes("a", true));
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
            (json!("deny"), "invalid type"),
        ] {
            let told = Rules::read(said.clone()).expect_err("it is wrong");
            assert!(told.contains(why), "{said}: {told}");
        }
    }
}
