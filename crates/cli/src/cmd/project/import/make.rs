//! The targets of a Makefile that are meant for people.

use super::draft::{Imported, Tool};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a line begins with that is no rule, whatever else is in it.
const WORDS: [&str; 12] = [
    "ifeq", "ifneq", "ifdef", "ifndef", "else", "endif", "vpath", "include", "-include",
    "sinclude", "export", "unexport",
];
/// What may be put into a command line that make, just and a shell read: no word of theirs.
pub(super) const HARMLESS: &str = "^[A-Za-z0-9 _./:=@+,-]*$";

/// A target and what is known of it.
#[derive(Debug, Default)]
struct Target {
    documented: Option<String>,
    above: Option<String>,
    recipe: String,
}

/// A whole Makefile.
#[derive(Debug, Default)]
struct Makefile {
    /// In the order they are written.
    order: Vec<String>,
    targets: BTreeMap<String, Target>,
    phony: BTreeSet<String>,
    /// What is as it says unless something else is.
    settings: BTreeMap<String, String>,
}

/// The tools a Makefile makes.
pub(super) fn import(text: &str, file: &str, cwd: &str) -> Imported {
    let read = Makefile::read(text);
    let mut imported = Imported::default();
    for name in &read.order {
        let Some(target) = read.targets.get(name) else { continue };
        let is_word = !name.contains(['.', '/']);
        let is_meant = is_word || read.phony.contains(name) || target.documented.is_some();
        if !is_meant || name.starts_with(['.', '_']) {
            continue;
        }
        if name.starts_with('-') || name.contains(['{', '}', '=']) {
            imported.left_out.push((name.clone(), "its name is no plain word".to_owned()));
            continue;
        }
        imported.tools.push(tool(name, target, &read.settings, file, cwd));
    }
    imported
}

fn tool(
    name: &str,
    target: &Target,
    settings: &BTreeMap<String, String>,
    file: &str,
    cwd: &str,
) -> Tool {
    let used = settings.iter().filter(|(name, _)| {
        ["(", "{"].iter().any(|open| {
            let close = if *open == "(" { ")" } else { "}" };
            target.recipe.contains(&format!("${open}{name}{close}"))
        })
    });
    let properties: Map<String, Value> =
        used.map(|(name, value)| (name.clone(), setting(value))).collect();
    let command = shell_words::join(["make", "-f", file, name, "{no-file}"]);
    let mut tags = vec![format!("command {}", bare(&command))];
    tags.push(match properties.is_empty() {
        true => "args none".to_owned(),
        false => {
            let words: Vec<_> = properties.keys().map(|name| format!("{{{name}=}}")).collect();
            format!("args {}", words.join(" "))
        }
    });
    if cwd != "." {
        tags.push(format!("cwd {cwd}"));
    }
    let words = target.documented.clone().or_else(|| target.above.clone());
    Tool {
        source: name.to_owned(),
        about: format!("make {name}"),
        name: name.to_owned(),
        ending: "sh",
        description: words.unwrap_or_else(|| format!("Makes the target `{name}` of {file}.")),
        tags,
        properties,
        ..Tool::default()
    }
}

/// A command line whose place for the file needs no quotes.
pub(super) fn bare(command: &str) -> String {
    command.replace("'{no-file}'", "{no-file}")
}

/// A variable as an argument.
fn setting(value: &str) -> Value {
    let mut schema = json!({ "type": "string", "pattern": HARMLESS });
    match value.contains('$') {
        true => schema["description"] = format!("Unless given: {value}").into(),
        false => schema["default"] = value.into(),
    }
    schema
}

impl Makefile {
    fn read(text: &str) -> Self {
        let mut read = Self::default();
        let (mut above, mut current) = (Vec::<String>::new(), Vec::<String>::new());
        let mut is_defining = false;
        for line in whole_lines(text) {
            let trimmed = line.trim();
            let bare = trimmed.trim_start_matches("override ").trim_start_matches("export ");
            if is_defining || bare.starts_with("define ") {
                is_defining = trimmed != "endef";
                continue;
            }
            if line.starts_with('\t') {
                read.recipe(&current, trimmed);
                continue;
            }
            if let Some(words) = trimmed.strip_prefix('#') {
                above.push(words.trim_start_matches('#').trim().to_owned());
                continue;
            }
            let said = above.join(" ");
            above.clear();
            if trimmed.is_empty() {
                continue;
            }
            if let Some((name, value)) = assigned(trimmed, "?=") {
                read.settings.entry(name.to_owned()).or_insert_with(|| value.to_owned());
                continue;
            }
            if let Some(targets) = read.rule(trimmed, &said) {
                current = targets;
            }
        }
        read
    }

    fn recipe(&mut self, current: &[String], line: &str) {
        for name in current {
            if let Some(target) = self.targets.get_mut(name) {
                target.recipe.push_str(line);
                target.recipe.push('\n');
            }
        }
    }

    /// Takes in a line that may begin a rule, and says for which targets.
    fn rule(&mut self, line: &str, above: &str) -> Option<Vec<String>> {
        let (code, documented) = match line.split_once("##") {
            Some((code, words)) => (code, Some(words.trim().to_owned())),
            None => (line.split(" #").next().unwrap_or_default(), None),
        };
        let (names, rest) = code.split_once(':')?;
        let is_cut = names.matches('(').count() != names.matches(')').count();
        if is_cut || code.split_whitespace().next().is_some_and(|word| WORDS.contains(&word)) {
            return None;
        }
        let rest = rest.trim_start_matches(':');
        let (needs, recipe) = rest.split_once(';').unwrap_or((rest, ""));
        // `a := b`, and `target: NAME = value`, are no rules.
        if names.contains('=') || needs.contains('=') {
            return None;
        }
        if names.trim() == ".PHONY" {
            self.phony.extend(needs.split_whitespace().map(str::to_owned));
            return Some(vec![]);
        }
        let is_plain = |name: &&str| !name.contains(['%', '$', '(', ')', '*', '\\', '&']);
        let names: Vec<String> =
            names.split_whitespace().filter(is_plain).map(str::to_owned).collect();
        for name in &names {
            if !self.targets.contains_key(name) {
                self.order.push(name.clone());
            }
            let target = self.targets.entry(name.clone()).or_default();
            target.documented = target.documented.take().or_else(|| documented.clone());
            let above = Some(above.to_owned()).filter(|words| !words.is_empty());
            target.above = target.above.take().or(above);
        }
        self.recipe(&names, recipe);
        Some(names)
    }
}

/// Lines, those that go on put together.
fn whole_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    let mut goes_on = false;
    for line in text.lines() {
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => {
                last.push(' ');
                last.push_str(part.trim_start());
            }
            None => lines.push(part.to_owned()),
        }
        goes_on = more;
    }
    lines
}

/// `NAME ?= value`, perhaps exported.
fn assigned<'a>(line: &'a str, sign: &str) -> Option<(&'a str, &'a str)> {
    let (name, value) = line.split_once(sign)?;
    let name = name.trim().trim_start_matches("export ").trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_one = !name.is_empty() && name.chars().all(is_name);
    is_one.then(|| (name, value.split(" #").next().unwrap_or_default().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
OUT ?= dist
HOST ?= $(shell hostname)
UNUSED ?= x
CFLAGS := -O2
.PHONY: build \\
  test clean .internal
.DEFAULT_GOAL := build

build: main.o ## Builds all of it: @command rm
\t@echo building into $(OUT) on ${HOST}

# Runs the tests.
test: build; echo $(OUT)
test: CFLAGS = -g

%.o: %.c
\tcc -c $<
main.o: main.c
_hidden:
\ttrue
clean::
\trm -rf $(CFLAGS)
define HELP
usage: nothing
endef
release/all:
\ttrue
$(OUT):
\tmkdir $@
-x:
\ttrue
a b:
\ttrue
";

    #[test]
    fn targets_for_people_are_tools() {
        let imported = import(TEXT, "Makefile", "..");
        let names: Vec<_> = imported.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["build", "test", "clean", "a", "b"]);
        assert_eq!(imported.left_out.len(), 1);
        let build = &imported.tools[0];
        assert_eq!(build.description, "Builds all of it: @command rm");
        assert_eq!(
            build.tags,
            ["command make -f Makefile build {no-file}", "args {HOST=} {OUT=}", "cwd .."]
        );
        assert_eq!(build.properties["OUT"]["default"], "dist");
        assert_eq!(build.properties["OUT"]["pattern"], HARMLESS);
        assert_eq!(build.properties["HOST"].get("default"), None);
        let test = &imported.tools[1];
        assert_eq!(test.description, "Runs the tests.");
        assert!(test.properties.contains_key("OUT"));
        assert_eq!(imported.tools[2].tags[1], "args none");
    }
}
