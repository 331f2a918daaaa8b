//! What a script says of itself: the comment or the docstring at its top.
//!
//! ```text
//! # Finds lines in the logs.
//! #
//! # @param pattern string      What to look for.
//! # @param limit integer = 20  How many lines at most.
//! # @read-only
//! ```

use super::{AsTask, Form, Manifest, Sandbox, params, size_of, time_of, time_said};
use serde_json::{Map, Value, json};
use zcp::wire::mcp::tools::ToolAnnotations;

/// Lines in which projects written for mcp-bash put their one-line header.
const INLINE_LINES: usize = 10;
/// Comments that are for other programs.
const FOR_OTHERS: [&str; 12] = [
    "shellcheck",
    "eslint",
    "pylint",
    "flake8",
    "noqa",
    "type:",
    "-*-",
    "vim:",
    "SPDX-",
    "Copyright",
    "rubocop",
    "frozen_string_literal",
];

/// What a script's text says of it.
pub(crate) fn of_text(text: &str) -> Result<Manifest, String> {
    if let Some(inline) = inline(text)? {
        return Ok(inline);
    }
    let lines: Vec<&str> = text.lines().collect();
    let start = usize::from(lines.first().is_some_and(|line| line.starts_with("#!")));
    let (comment, rest) = comment(&lines[start..]);
    let docstring = docstring(rest);
    let mut said = tags(&comment)?;
    if let Some(docstring) = docstring {
        said = tags(&sections(&docstring))?.or(said);
    }
    Ok(said)
}

/// `mcp: {…}` on one of the first lines.
fn inline(text: &str) -> Result<Option<Manifest>, String> {
    let line = text.lines().take(INLINE_LINES).find_map(|line| {
        let (before, json) = line.split_once("mcp:")?;
        let is_comment = before.trim_end().chars().all(|c| !c.is_alphanumeric());
        Some(json.trim()).filter(|json| is_comment && json.starts_with('{'))
    });
    let Some(line) = line else { return Ok(None) };
    let said = serde_json::from_str(line).map_err(|error| format!("the `mcp:` line: {error}"))?;
    Ok(Some(said))
}

/// The first comment's lines without what makes them one, and the lines after it.
fn comment<'a>(lines: &'a [&'a str]) -> (Vec<&'a str>, &'a [&'a str]) {
    const BLOCKS: [(&str, &str); 5] =
        [("/*", "*/"), ("<#", "#>"), ("=begin", "=end"), ("--[[", "]]"), ("{-", "-}")];
    let mut out: Vec<&str> = vec![];
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_start();
        if let Some((open, close)) = BLOCKS.iter().find(|(open, _)| line.starts_with(open)) {
            let (inside, length) = block(&lines[at..], open, close);
            out.extend(inside);
            return (out, &lines[at + length..]);
        }
        // A block of settings for another program, such as `# /// script`.
        if line.trim_start_matches(['#', ' ']).starts_with("/// ") {
            let end = lines[at + 1..].iter().position(|line| line.trim_end().ends_with("///"));
            at += end.map_or(1, |end| end + 2);
            continue;
        }
        match of_line(line) {
            Some(words) => out.push(words),
            None if line.is_empty() && out.iter().all(|line| is_for_others(line)) => (),
            None if line == "<?php" || line == "@echo off" => (),
            None if is_directive(line) && out.iter().all(|line| is_for_others(line)) => (),
            None => break,
        }
        at += 1;
    }
    (out, &lines[at..])
}

fn block<'a>(lines: &[&'a str], open: &str, close: &str) -> (Vec<&'a str>, usize) {
    let mut inside = vec![];
    for (at, line) in lines.iter().enumerate() {
        let mut line = *line;
        if at == 0 {
            line = line.trim_start().trim_start_matches(open).trim_start_matches('*');
        }
        if let Some(end) = line.find(close) {
            inside.push(without_star(&line[..end]));
            return (inside, at + 1);
        }
        inside.push(without_star(line));
    }
    (inside, lines.len())
}

fn without_star(line: &str) -> &str {
    let trimmed = line.trim_start();
    trimmed.strip_prefix("* ").or_else(|| trimmed.strip_prefix('*')).unwrap_or(line).trim_end()
}

/// The words of a comment of one line.
fn of_line(line: &str) -> Option<&str> {
    let words = ["#", "//", "--", ";", "::", "%"]
        .iter()
        .find_map(|leader| line.strip_prefix(leader))
        .or_else(|| line.strip_prefix("REM ").or_else(|| line.strip_prefix("rem ")))?;
    let words = words.trim_start_matches(['#', '/', '-', ';', '!']);
    Some(words.strip_prefix(' ').unwrap_or(words).trim_end())
}

/// `"use strict";`, which comes before everything in JavaScript.
fn is_directive(line: &str) -> bool {
    let line = line.trim_end().trim_end_matches(';');
    matches!(line, "\"use strict\"" | "'use strict'")
}

fn is_for_others(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || FOR_OTHERS.iter().any(|start| line.starts_with(start))
}

/// A Python docstring, if it is the first statement that does something.
fn docstring<'a>(lines: &'a [&'a str]) -> Option<Vec<&'a str>> {
    let says_nothing = |line: &str| {
        line.is_empty() || line.starts_with('#') || line.starts_with("from __future__ import ")
    };
    let first = lines.iter().position(|line| !says_nothing(line.trim()))?;
    let line = lines[first].trim_start().trim_start_matches(['r', 'R', 'u', 'U']);
    let quotes = ["\"\"\"", "'''"].into_iter().find(|quotes| line.starts_with(quotes))?;
    let mut inside = vec![];
    let line = &line[3..];
    if let Some(end) = line.find(quotes) {
        return Some(vec![&line[..end]]);
    }
    inside.push(line);
    for line in &lines[first + 1..] {
        if let Some(end) = line.find(quotes) {
            inside.push(&line[..end]);
            return Some(inside);
        }
        inside.push(line.trim_end());
    }
    None
}

/// A docstring's list of arguments as tags: `Args:` with indented lines, or `:param name: words`.
fn sections(lines: &[&str]) -> Vec<String> {
    let (mut out, mut inside, mut skipping) = (vec![], None, false);
    for line in lines {
        let (trimmed, indent) = (line.trim(), line.len() - line.trim_start().len());
        if matches!(trimmed, "Args:" | "Arguments:" | "Parameters:") {
            (inside, skipping) = (Some(indent), false);
            continue;
        }
        let section = trimmed.strip_suffix(':').is_some_and(|name| {
            matches!(
                name,
                "Returns" | "Raises" | "Yields" | "Examples" | "Example" | "Note" | "Notes"
            )
        });
        if section {
            (inside, skipping) = (None, true);
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix(":param ") {
            out.push(format!("@param {}", sphinx(rest)));
        } else if [":return", ":raise", ":type", ":rtype"]
            .iter()
            .any(|tag| trimmed.starts_with(tag))
        {
        } else if let Some(start) = inside {
            match trimmed.is_empty() {
                true => (),
                false if indent <= start => {
                    inside = None;
                    out.push((*line).to_owned());
                }
                false => match google(trimmed) {
                    Some(tag) => out.push(tag),
                    None => out.push(format!("  {trimmed}")),
                },
            }
        } else if !skipping || trimmed.starts_with('@') {
            out.push((*line).to_owned());
        }
    }
    out
}

/// `name (type, optional): words`, or `name: words`.
fn google(line: &str) -> Option<String> {
    let (head, words) = line.split_once(':')?;
    let (name, kind) = match head.split_once('(') {
        Some((name, kind)) => (name.trim(), kind.trim_end().trim_end_matches(')')),
        None => (head.trim(), ""),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let optional = kind.contains("optional");
    let kind = kind.split(',').next().unwrap_or_default().trim();
    let kind = match kind {
        "optional" => "",
        kind => kind,
    };
    let kind = kind
        .strip_prefix("list[")
        .and_then(|kind| kind.strip_suffix(']'))
        .map_or_else(|| kind.to_owned(), |item| format!("{item}[]"));
    let name = if optional { format!("[{name}]") } else { name.to_owned() };
    Some(format!("@param {name} {kind} {}", words.trim()))
}

/// `type name: words`, or `name: words`.
fn sphinx(rest: &str) -> String {
    let (head, words) = rest.split_once(':').unwrap_or((rest, ""));
    match head.trim().rsplit_once(' ') {
        Some((kind, name)) => format!("{name} {kind} {}", words.trim()),
        None => format!("{} {}", head.trim(), words.trim()),
    }
}

/// Words up to the first tag are the description; then each tag says one thing.
fn tags<S: AsRef<str>>(lines: &[S]) -> Result<Manifest, String> {
    let mut said = Manifest::default();
    let (mut description, mut tags) = (Vec::<String>::new(), Vec::<String>::new());
    for line in lines.iter().map(AsRef::as_ref) {
        let trimmed = line.trim();
        if is_for_others(trimmed) && !trimmed.is_empty() {
            continue;
        }
        match (trimmed.strip_prefix('@'), tags.last_mut()) {
            (Some(tag), _) => tags.push(tag.to_owned()),
            // A tag goes on in the lines below it.
            (None, Some(tag)) if !trimmed.is_empty() => {
                tag.push(' ');
                tag.push_str(trimmed);
            }
            (None, Some(_)) => (),
            (None, None) => description.push(trimmed.to_owned()),
        }
    }
    let description = description.join("\n");
    said.description = Some(description.trim().to_owned()).filter(|text| !text.is_empty());
    for tag in &tags {
        let (name, rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        apply(&mut said, name, rest.trim()).map_err(|why| format!("`@{tag}`: {why}"))?;
    }
    Ok(said)
}

fn apply(said: &mut Manifest, name: &str, rest: &str) -> Result<(), String> {
    let text = || Some(rest.to_owned());
    match name {
        "param" | "arg" | "argument" => {
            let (name, mut schema, needed) = params::shorthand(rest)?;
            if !needed && schema.get("default").is_none() {
                schema["required"] = json!(false);
            }
            said.params.get_or_insert_with(Map::new).insert(name, schema);
        }
        "name" => said.name = text(),
        "title" => said.title = text(),
        "description" => said.description = text(),
        "returns" | "return" | "output" => returns(said, rest)?,
        "output-files" => said.output_files = Some(true),
        "args" => said.args = Some(Form::parse(rest)?),
        "command" | "run" => {
            said.command = Some(shell_words::split(rest).map_err(|error| error.to_string())?);
        }
        "cwd" => said.cwd = Some(rest.into()),
        "env" => match rest.split_once('=') {
            Some((name, value)) => drop(said.env.insert(name.trim().into(), value.trim().into())),
            None => said
                .env_allow
                .extend(rest.split([' ', ',']).filter(|n| !n.is_empty()).map(str::to_owned)),
        },
        "timeout" => said.timeout = Some(time_said(&json!(rest))?),
        "timeout-hint" => said.timeout_hint = text(),
        "progress-extends-timeout" => said.progress_extends_timeout = Some(true),
        "max-timeout" => said.max_timeout = Some(time_said(&json!(rest))?),
        "task" => {
            said.task = Some(match rest {
                "" | "allowed" => AsTask::Allowed,
                "only" | "required" => AsTask::Only,
                _ => return Err("say nothing, or `only`".to_owned()),
            });
        }
        "limit" => limit(said, rest)?,
        "sandbox" => match rest {
            "" => said.sandbox = Some(Sandbox::CLOSED),
            rule => said.sandbox.get_or_insert(Sandbox::OPEN).forbid(rule)?,
        },
        "icon" => said.icons.push(json!({ "src": rest })),
        "hidden" | "not-a-tool" => said.enabled = Some(false),
        "meta" => {
            let (key, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, "true"));
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            said.meta.get_or_insert_with(Map::new).insert(key.to_owned(), value);
        }
        "read-only" => hint(said, |hints| hints.read_only_hint = Some(true)),
        "destructive" => hint(said, |hints| hints.destructive_hint = Some(true)),
        "not-destructive" => hint(said, |hints| hints.destructive_hint = Some(false)),
        "idempotent" => hint(said, |hints| hints.idempotent_hint = Some(true)),
        "open-world" => hint(said, |hints| hints.open_world_hint = Some(true)),
        "closed-world" => hint(said, |hints| hints.open_world_hint = Some(false)),
        // `@author` and the like are for people. What a slip would have forbidden must not be allowed.
        _ => {
            return super::no_slip(name, TAGS).map_err(|meant| format!("did you mean `@{meant}`?"));
        }
    }
    Ok(())
}

/// The tags that mean something, but for the other names some of them have.
const TAGS: &str = "param name title description returns output-files args command cwd env timeout timeout-hint \
    progress-extends-timeout max-timeout task limit sandbox icon hidden meta read-only destructive \
    not-destructive idempotent open-world closed-world";

fn hint(said: &mut Manifest, set: impl FnOnce(&mut ToolAnnotations)) {
    set(said.annotations.get_or_insert_default());
}

/// A MIME type, or the schema of the structure it gives.
fn returns(said: &mut Manifest, rest: &str) -> Result<(), String> {
    let is_schema = |text: &str| {
        let inside = text.strip_prefix('{').map(str::trim_start);
        inside.is_some_and(|inside| inside.starts_with(['"', '}']))
    };
    match rest {
        schema if is_schema(schema) => {
            said.output_schema =
                Some(serde_json::from_str::<Value>(schema).map_err(|error| error.to_string())?);
        }
        "json" => said.returns = Some("application/json".into()),
        "text" => said.returns = Some("text/plain".into()),
        // A type of JSDoc says nothing of what is printed.
        kind if kind.starts_with('{') => (),
        mime => {
            let mime = mime.split_whitespace().next().unwrap_or_default();
            // Words for people are no type.
            said.returns = mime.contains('/').then(|| mime.to_owned());
        }
    }
    Ok(())
}

fn limit(said: &mut Manifest, rest: &str) -> Result<(), String> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let number = || value.trim().parse::<u64>().map_err(|_| format!("`{value}` is no number"));
    let limits = &mut said.limits;
    match name {
        "output" => limits.output = Some(size_of(value)?),
        "memory" => limits.memory = Some(size_of(value)?),
        "cpu" => limits.cpu = Some(time_of(value)?),
        "files" | "open-files" => limits.open_files = Some(number()?),
        "processes" => limits.processes = Some(number()? as usize),
        "concurrency" | "concurrent" => limits.concurrency = Some(number()? as usize),
        "rate" => limits.rate = Some(number()? as u32),
        _ => {
            return Err(
                "limits are output, memory, cpu, files, processes, concurrency, rate".into()
            );
        }
    }
    limits.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn schema(text: &str) -> Value {
        of_text(text).expect("a header").schema().expect("a schema")
    }

    /// One in `@sandbox` would let a script do everything.
    #[test]
    fn a_slip_in_a_tag_is_told_of_and_words_for_people_are_not() {
        for (slip, meant) in
            [("sandobx", "sandbox"), ("readonly", "read-only"), ("parm x", "param")]
        {
            let why = of_text(&format!("# Does.\n# @{slip}\n")).expect_err("a slip");
            assert!(why.contains(&format!("did you mean `@{meant}`?")), "{why}");
        }
        for fine in ["author A", "version 1", "since 2", "see x", "example y", "throws z", "type t"]
        {
            assert!(of_text(&format!("# Does.\n# @{fine}\n")).is_ok(), "{fine}");
        }
        let member = serde_json::from_str::<Manifest>(r#"{ "sandbx": true }"#);
        assert!(member.is_err_and(|why| why.to_string().contains("did you mean `sandbox`?")));
        assert!(serde_json::from_str::<Manifest>(r#"{ "namespace": "x", "tags": [] }"#).is_ok());
    }

    const LOGS: &str = "Finds lines in the logs.";

    #[test]
    fn a_comment_says_what_a_script_is_in_any_language() {
        let expected = json!({ "type": "object", "properties": {
            "pattern": { "type": "string", "description": "What to look for." },
            "limit": { "type": "integer", "default": 20, "description": "How many lines at most, newest first." },
        }, "required": ["pattern"] });
        let tags = [
            "",
            "@param pattern string  What to look for.",
            "@param limit integer = 20  How many lines at most,",
            "  newest first.",
            "@read-only",
            "@timeout 5s",
        ];
        let commented = |leader: &str| {
            tags.iter()
                .fold(format!("{leader} {LOGS}\n"), |all, tag| format!("{all}{leader} {tag}\n"))
        };
        let stars: String = tags.iter().map(|tag| format!(" * {tag}\n")).collect();
        let scripts = [
            format!("#!/usr/bin/env bash\n# shellcheck shell=bash\n\n{}set -e\n", commented("#")),
            format!("{}console.log(1)\n", commented("//")),
            format!("/**\n * {LOGS}\n{stars} */\nconsole.log(1)\n"),
            format!("{}print(1)\n", commented("--")),
            format!("@echo off\r\n{}", commented("REM").replace('\n', "\r\n")),
            format!("<#\n{LOGS}\n{}\n#>\nparam()\n", tags.join("\n")),
            format!("=begin\n{LOGS}\n{}\n=end\nputs 1\n", tags.join("\n")),
            format!("<?php\n{}echo 1;\n", commented("//")),
        ];
        for script in scripts {
            let said = of_text(&script).expect("a header");
            assert_eq!(said.description.as_deref(), Some(LOGS), "{script}");
            assert_eq!(said.schema(), Ok(expected.clone()), "{script}");
            assert_eq!(said.timeout, Some(Duration::from_secs(5)));
            assert_eq!(said.annotations.and_then(|hints| hints.read_only_hint), Some(true));
        }
    }

    #[test]
    fn a_docstring_says_it_too() {
        let google = "#!/usr/bin/env python3\n# Copyright somebody\n\"\"\"Finds lines.\n\nIn the logs.\n\nArgs:\n    pattern (str): What to look for.\n    tags (list[str], optional): Only these.\n        Or all.\n\nReturns:\n    Lines.\n\"\"\"\nimport sys\n";
        let said = of_text(google).expect("a header");
        assert_eq!(said.description.as_deref(), Some("Finds lines.\n\nIn the logs."));
        assert_eq!(
            said.schema(),
            Ok(json!({ "type": "object", "properties": {
            "pattern": { "type": "string", "description": "What to look for." },
            "tags": { "type": "array", "items": { "type": "string" }, "description": "Only these. Or all." },
        }, "required": ["pattern"] }))
        );
        let sphinx =
            "'''Adds.\n\n:param int a: The one.\n:param b: The other.\n:returns: the sum\n'''\n";
        assert_eq!(schema(sphinx)["properties"]["a"]["type"], "integer");
        assert_eq!(schema(sphinx)["properties"]["b"]["description"], "The other.");
        for before in ["from __future__ import annotations\n\n", "# -*- coding: utf-8 -*-\n"] {
            for quotes in ["\"\"\"", "r\"\"\"", "u'''", "R'''"] {
                let closing = &quotes[quotes.len() - 3..];
                let text = format!("#!/usr/bin/python3\n{before}{quotes}Adds.{closing}\n");
                let said = of_text(&text).expect("a header");
                assert_eq!(said.description.as_deref(), Some("Adds."), "{text}");
            }
        }
        let inline = "# /// script\n# dependencies = [\"x\"]\n# ///\n# Adds.\nprint(1)\n";
        assert_eq!(of_text(inline).expect("a header").description.as_deref(), Some("Adds."));
    }

    #[test]
    fn the_habits_of_javascript_are_understood() {
        let text = "#!/usr/bin/env node\n'use strict';\n\n/**\n * Tells the weather.\n *\n * @param {string} city - The city\n * @param {number} [days=3] How many days\n * @param {string[]} [tags] - Only these\n * @returns {Promise<string>} words\n */\nmain();\n";
        let said = of_text(text).expect("a header");
        assert_eq!(said.description.as_deref(), Some("Tells the weather."));
        assert_eq!((&said.returns, &said.output_schema), (&None, &None));
        assert_eq!(
            said.schema(),
            Ok(json!({ "type": "object", "properties": {
                "city": { "type": "string", "description": "The city" },
                "days": { "type": "number", "default": 3, "description": "How many days" },
                "tags": { "type": "array", "items": { "type": "string" }, "description": "Only these" },
            }, "required": ["city"] }))
        );
        let line = of_text("\"use strict\"\n// Adds.\n").expect("a header");
        assert_eq!(line.description.as_deref(), Some("Adds."));
    }

    #[test]
    fn the_one_line_header_of_mcp_bash_is_read() {
        let said = of_text(
            "#!/bin/bash\n# mcp: {\"name\":\"x\",\"arguments\":{\"type\":\"object\"},\"timeoutSecs\":3}\n",
        );
        let said = said.expect("a header");
        assert_eq!((said.name.as_deref(), said.timeout), (Some("x"), Some(Duration::from_secs(3))));
        assert!(of_text("# mcp: {broken\n").is_err());
    }

    #[test]
    fn code_is_no_comment() {
        let said = of_text("#!/bin/sh\nset -e\n# not of the tool\n").expect("a header");
        assert_eq!(said, Manifest::default());
        assert!(of_text("# Does.\n# @timeout soon\n").is_err());
    }
}
