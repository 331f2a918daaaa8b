//! The recipes of a justfile.

use super::{
    draft::{Imported, Tool},
    make::{HARMLESS, bare},
};
use serde_json::{Map, Value, json};

/// A parameter of a recipe.
#[derive(Debug, PartialEq, Eq)]
struct Parameter {
    name: String,
    count: Count,
    default: Default,
}

/// How many words a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    One,
    Some,
    Any,
}

/// What a parameter is unless it is given.
#[derive(Debug, PartialEq, Eq)]
enum Default {
    None,
    Text(String),
    /// Only just can tell.
    Unknown,
}

/// The tools a justfile makes.
pub(super) fn import(text: &str, file: &str, cwd: &str) -> Imported {
    let mut imported = Imported::default();
    let (mut said, mut attributes) = (String::new(), Vec::<String>::new());
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            continue;
        }
        let trimmed = line.trim_end();
        if let Some(words) = trimmed.strip_prefix('#') {
            said = words.trim().to_owned();
            continue;
        }
        if trimmed.starts_with('[') && trimmed.ends_with(']') {
            attributes.push(trimmed[1..trimmed.len() - 1].to_owned());
            continue;
        }
        let (words, about) = (std::mem::take(&mut said), std::mem::take(&mut attributes));
        let Some((name, parameters)) = recipe(trimmed) else { continue };
        let is = |what: &str| about.iter().any(|one| listed(one).any(|one| one == what));
        if name.starts_with('_') || is("private") {
            continue;
        }
        if about.iter().any(|one| one.trim_start().starts_with("arg(")) {
            imported.left_out.push((name, "its arguments are options".to_owned()));
            continue;
        }
        let words = about.iter().find_map(|one| documented(one)).unwrap_or(words);
        imported.tools.push(tool(&name, &words, &parameters, file, cwd));
    }
    imported
}

/// The attributes of one line, without what is in their parentheses.
fn listed(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|one| one.split(['(', ':']).next().unwrap_or_default().trim())
}

/// `doc('words')`.
fn documented(attribute: &str) -> Option<String> {
    let rest = attribute.trim().strip_prefix("doc")?.trim_start();
    let rest = rest.strip_prefix(['(', ':']).unwrap_or(rest).trim_start();
    match literal(rest) {
        Some((words, _)) => Some(words),
        None => rest.is_empty().then(String::new),
    }
}

/// The name and the parameters of a line that begins a recipe.
fn recipe(line: &str) -> Option<(String, Vec<Parameter>)> {
    let (name, mut rest) = word(line.strip_prefix('@').unwrap_or(line))?;
    let mut parameters = vec![];
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(':') {
            return (!after.starts_with('=')).then(|| (name.to_owned(), parameters));
        }
        let (count, after) = match rest.chars().next()? {
            '+' => (Count::Some, &rest[1..]),
            '*' => (Count::Any, &rest[1..]),
            _ => (Count::One, rest),
        };
        let (name, after) = word(after.strip_prefix('$').unwrap_or(after))?;
        let (default, after) = match after.trim_start().strip_prefix('=') {
            Some(value) => value_of(value.trim_start())?,
            None => (Default::None, after),
        };
        parameters.push(Parameter { name: name.to_owned(), count, default });
        rest = after;
    }
}

fn word(text: &str) -> Option<(&str, &str)> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let end = text.find(|c: char| !inside(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_name.then_some((word, rest))
}

/// A default, and what comes after it.
fn value_of(text: &str) -> Option<(Default, &str)> {
    if let Some((text, rest)) = literal(text) {
        return Some((Default::Text(text), rest));
    }
    let rest = match text.chars().next()? {
        '`' => text[1..].split_once('`')?.1,
        '(' => after_parentheses(text)?,
        _ => {
            let (_, rest) = word(text)?;
            match rest.chars().next() {
                Some('(') => after_parentheses(rest)?,
                Some('\'' | '"') => literal(rest)?.1,
                _ => rest,
            }
        }
    };
    Some((Default::Unknown, rest))
}

/// A string, and what comes after it.
fn literal(text: &str) -> Option<(String, &str)> {
    let quote = ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| text.starts_with(quote))?;
    let (mut rest, mut out) = (&text[quote.len()..], String::new());
    loop {
        if let Some(after) = rest.strip_prefix(quote) {
            return Some((out, after));
        }
        let mut letters = rest.chars();
        let letter = match letters.next()? {
            '\\' if quote.starts_with('"') => match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            },
            other => other,
        };
        out.push(letter);
        rest = letters.as_str();
    }
}

fn after_parentheses(text: &str) -> Option<&str> {
    let (mut depth, mut rest) = (0, text);
    loop {
        if let Some((_, after)) = literal(rest) {
            rest = after;
            continue;
        }
        let letter = rest.chars().next()?;
        rest = &rest[letter.len_utf8()..];
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(rest),
            ')' => depth -= 1,
            _ => (),
        }
    }
}

fn tool(name: &str, words: &str, parameters: &[Parameter], file: &str, cwd: &str) -> Tool {
    let (mut properties, mut required) = (Map::new(), vec![]);
    let mut template = vec!["--".to_owned(), name.to_owned()];
    for (at, one) in parameters.iter().enumerate() {
        let text = json!({ "type": "string", "pattern": HARMLESS });
        let mut schema = match one.count {
            Count::One => text,
            Count::Some => json!({ "type": "array", "items": text, "minItems": 1 }),
            Count::Any => json!({ "type": "array", "items": text }),
        };
        template.push(match one.count {
            Count::One => format!("{{{}}}", one.name),
            _ => format!("{{{}...}}", one.name),
        });
        let is_last = at + 1 == parameters.len();
        let is_needed = match (&one.default, one.count) {
            (_, Count::Any) => false,
            (Default::None, _) => true,
            (Default::Text(text), Count::One) => {
                schema["default"] = Value::from(text.as_str());
                false
            }
            // Only the last can be left to just: others would take its place.
            (Default::Text(_) | Default::Unknown, _) => !is_last,
        };
        if is_needed {
            required.push(one.name.clone());
        }
        properties.insert(one.name.clone(), schema);
    }
    let mut words_of = vec!["just", "--justfile", file];
    let mut tags = vec![];
    match parameters.is_empty() {
        true => {
            words_of.extend(["--", name, "{no-file}"]);
            tags.push(format!("command {}", bare(&shell_words::join(words_of))));
            tags.push("args none".to_owned());
        }
        false => {
            words_of.push("{no-file}");
            tags.push(format!("command {}", bare(&shell_words::join(words_of))));
            tags.push(format!("args {}", template.join(" ")));
        }
    }
    if cwd != "." {
        tags.push(format!("cwd {cwd}"));
    }
    let description = match words.is_empty() {
        true => format!("Runs the recipe `{name}` of {file}."),
        false => words.to_owned(),
    };
    Tool {
        source: name.to_owned(),
        about: format!("just {name}"),
        name: name.to_owned(),
        ending: "sh",
        description,
        tags,
        properties,
        required,
        ..Tool::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
set shell := ["bash", "-c"]
version := "1:2"
alias b := build

# Builds a target.
@build target mode='debug: it' $out="a\"b": (clean "x") test
    echo {{target}}

[private]
secret:
    true
_hidden:
    true
[group('x'), private]
also:
    true

[doc('Says: hello')]
[no-cd]
hello who=`whoami`:
    echo hi

# Not this one's words.

test +files:
    true
any first=(env("A") + ")") *rest:
    true
[arg("x", long)]
options x:
    true
"#;

    #[test]
    fn recipes_for_people_are_tools() {
        let imported = import(TEXT, "justfile", ".");
        let names: Vec<_> = imported.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["build", "hello", "test", "any"]);
        assert_eq!(imported.left_out[0].0, "options");
        let [build, hello, test, any] = &imported.tools[..] else { panic!("four") };
        assert_eq!(build.description, "Builds a target.");
        assert_eq!(build.required, ["target"]);
        assert_eq!(build.properties["mode"]["default"], "debug: it");
        assert_eq!(build.properties["out"]["default"], "a\"b");
        assert_eq!(
            build.tags,
            ["command just --justfile justfile {no-file}", "args -- build {target} {mode} {out}"]
        );
        assert_eq!(hello.description, "Says: hello");
        assert!(hello.required.is_empty() && hello.properties["who"].get("default").is_none());
        assert_eq!(test.description, "Runs the recipe `test` of justfile.");
        assert_eq!(test.tags[1], "args -- test {files...}");
        assert_eq!(test.properties["files"]["minItems"], 1);
        assert_eq!(any.required, ["first"]);
    }
}
