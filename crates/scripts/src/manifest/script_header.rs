//! What a script says of itself: the comment or the docstring at its top.
//!
//! ```text
//! # Finds lines in the logs.
//! #
//! # @param pattern string      What to look for.
//! # @param limit integer = 20  How many lines at most.
//! # @read-only
//! ```

use super::{
    Manifest,
    docstring::{docstring, sections},
    tags::tags,
};

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

pub(super) fn is_for_others(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || FOR_OTHERS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
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
