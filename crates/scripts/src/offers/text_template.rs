//! Texts with places to fill: `{{name}}`, parts that depend on one, other files, and who speaks.

use crate::{call_files, offers::prompts::Argument};
use serde_json::{Map, Value};
use std::path::Path;
use zcp::{Content, PromptMessage, Role};

/// Files in files in files that are read.
const DEEPEST: usize = 8;
/// How many files one text has, with those in them.
const MOST_FILES: usize = 1000;
/// Parts in parts in parts.
const DEEPEST_PARTS: usize = 32;
/// How long a text is, with the files in it and filled.
const MOST: usize = 10 * 1024 * 1024;

/// A text with places to fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Words(String),
    /// An argument's value, and how it is written, which stays when there is none.
    Value(String, String),
    /// What is there only if an argument is given, or only if it is not.
    If(String, bool, Vec<Self>),
}

impl Template {
    /// Reads a text: `{{name}}` and `${name}` are arguments, `{{#name}}…{{/name}}` is there if one is
    /// given and `{{^name}}…{{/name}}` if not, `{{> file}}` is another file of the folder.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let text = with_files(text, folder, 0, &mut 0)?;
        let mut rest = text.as_str();
        let parts = parts(&mut rest, None, 0)?;
        Ok(Self(parts))
    }

    /// What it takes: what stands in no part that may be missing must be given.
    pub(crate) fn arguments(&self) -> Vec<Argument> {
        let mut all = vec![];
        gather(&self.0, true, &mut all);
        all
    }

    /// The messages it is when it is filled. A line `[user]` or `[assistant]` says who speaks next.
    pub(crate) fn fill(
        &self,
        args: &Map<String, Value>,
        role: Role,
    ) -> Result<Vec<PromptMessage>, String> {
        let mut text = String::new();
        write(&self.0, args, &mut text);
        if text.len() > MOST {
            return Err(format!("with these arguments it has more than {MOST} bytes"));
        }
        let (mut messages, mut words, mut speaker) = (vec![], String::new(), role);
        let mut say = |speaker: Role, words: &mut String| {
            let said = std::mem::take(words);
            if !said.trim().is_empty() {
                messages.push(PromptMessage {
                    role: speaker,
                    content: Content::text(said.trim_end_matches('\n')),
                });
            }
        };
        for line in text.split_inclusive('\n') {
            match line.trim_end() {
                "[user]" => {
                    say(speaker, &mut words);
                    speaker = Role::User;
                }
                "[assistant]" => {
                    say(speaker, &mut words);
                    speaker = Role::Assistant;
                }
                _ => words.push_str(line),
            }
        }
        say(speaker, &mut words);
        Ok(messages)
    }
}

/// The longest file that a text names.
const LONGEST: u64 = 1024 * 1024;

/// The text with the files it names in their places.
fn with_files(
    text: &str,
    folder: &Path,
    depth: usize,
    files: &mut usize,
) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{>") {
        let Some((name, after)) = after.split_once("}}") else { break };
        let path = folder.join(name.trim());
        let inside = path
            .canonicalize()
            .is_ok_and(|path| folder.canonicalize().is_ok_and(|folder| path.starts_with(folder)));
        *files += 1;
        if *files > MOST_FILES || out.len() > MOST {
            return Err(format!("it has more than {MOST_FILES} files or {MOST} bytes"));
        }
        if !inside || depth == DEEPEST {
            return Err(format!("`{}` is not a file of this folder", name.trim()));
        }
        let other = call_files::text_inside(&path, LONGEST, &[folder.to_path_buf()])
            .map_err(|error| format!("{}: {error}", path.display()))?;
        out.push_str(before);
        out.push_str(with_files(&other, folder, depth + 1, files)?.trim_end_matches('\n'));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

fn parts(rest: &mut &str, inside: Option<&str>, depth: usize) -> Result<Vec<Part>, String> {
    if depth > DEEPEST_PARTS {
        return Err(format!("it has more than {DEEPEST_PARTS} parts in each other"));
    }
    let (mut all, mut words) = (vec![], String::new());
    loop {
        let begins = |at: &usize| rest[*at..].starts_with("{{") || rest[*at..].starts_with("${");
        let next = rest.match_indices(['{', '$']).map(|(at, _)| at).find(begins);
        let Some(at) = next else {
            words.push_str(rest);
            *rest = "";
            break;
        };
        words.push_str(&rest[..at]);
        let close = if rest[at..].starts_with("{{") { "}}" } else { "}" };
        let Some(end) = rest[at + 2..].find(close) else {
            words.push_str(&rest[at..]);
            *rest = "";
            break;
        };
        let written = &rest[at..at + 2 + end + close.len()];
        let name = rest[at + 2..at + 2 + end].trim();
        *rest = &rest[at + written.len()..];
        let (mark, name) = match name.chars().next() {
            Some(mark @ ('#' | '^' | '/')) if close == "}}" => (mark, name[1..].trim()),
            _ => (' ', name),
        };
        if !is_name(name) {
            words.push_str(written);
            continue;
        }
        if mark != ' ' && !words.is_empty() || mark == ' ' && !words.is_empty() {
            all.push(Part::Words(std::mem::take(&mut words)));
        }
        match mark {
            '#' | '^' => {
                let within = parts(rest, Some(name), depth + 1)?;
                all.push(Part::If(name.to_owned(), mark == '#', within));
            }
            '/' if inside == Some(name) => return Ok(all),
            '/' => return Err(format!("`{{{{/{name}}}}}` ends what did not begin")),
            _ => all.push(Part::Value(name.to_owned(), written.to_owned())),
        }
    }
    if let Some(name) = inside {
        return Err(format!("`{{{{#{name}}}}}` has no `{{{{/{name}}}}}`"));
    }
    if !words.is_empty() {
        all.push(Part::Words(words));
    }
    Ok(all)
}

fn gather(parts: &[Part], required: bool, all: &mut Vec<Argument>) {
    let mut note = |name: &String, required: bool| match all
        .iter_mut()
        .find(|known| known.name == *name)
    {
        Some(known) => known.required |= required,
        None => {
            all.push(Argument { name: name.clone(), description: None, required, values: vec![] })
        }
    };
    for part in parts {
        match part {
            Part::Words(_) => (),
            // Shells write `${name}` in examples, too: it may be meant as it is.
            Part::Value(name, written) => note(name, required && written.starts_with("{{")),
            Part::If(name, _, _) => note(name, false),
        }
    }
    for part in parts {
        if let Part::If(_, _, within) = part {
            gather(within, false, all);
        }
    }
}

fn write(parts: &[Part], args: &Map<String, Value>, out: &mut String) {
    for part in parts {
        // What is too long already is not made longer.
        if out.len() > MOST {
            return;
        }
        match part {
            Part::Words(words) => out.push_str(words),
            Part::Value(name, written) => match args.get(name) {
                Some(Value::String(value)) => out.push_str(value),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => {
                    out.push_str(&value.to_string())
                }
                _ => out.push_str(written),
            },
            Part::If(name, given, within) => {
                let there = args
                    .get(name)
                    .is_some_and(|value| *value != "" && *value != "false" && !value.is_null());
                if there == *given {
                    write(within, args, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filled(text: &str, args: Value) -> Vec<(Role, String)> {
        let Value::Object(args) = args else { panic!("no object") };
        let template = Template::parse(text, Path::new(".")).expect("a template");
        let messages = template.fill(&args, Role::User).expect("messages");
        messages
            .iter()
            .map(|one| (one.role, one.content.as_text().unwrap_or_default().to_owned()))
            .collect()
    }

    #[test]
    fn places_are_filled_and_the_rest_stays() {
        let text = "Hello {{ name }}, ${name}! {{missing}} {{not a name}} ${HOME:-x}\n";
        let said = filled(text, json!({ "name": "Ann\nLee" }));
        assert_eq!(
            said,
            [(
                Role::User,
                "Hello Ann\nLee, Ann\nLee! {{missing}} {{not a name}} ${HOME:-x}".into()
            )]
        );
    }

    #[test]
    fn parts_depend_on_arguments_and_speakers_take_turns() {
        let text = "Write{{#tone}} in a {{tone}} tone{{/tone}}{{^tone}} plainly{{/tone}}.\n[assistant]\nAbout what?\n[user]\n{{topic}}\n";
        assert_eq!(
            filled(text, json!({ "topic": "rain" })),
            [
                (Role::User, "Write plainly.".into()),
                (Role::Assistant, "About what?".into()),
                (Role::User, "rain".into()),
            ]
        );
        assert_eq!(filled(text, json!({ "tone": "dry" }))[0].1, "Write in a dry tone.");
        let template = Template::parse(text, Path::new(".")).expect("a template");
        let names: Vec<_> =
            template.arguments().into_iter().map(|one| (one.name, one.required)).collect();
        assert_eq!(names, [("tone".to_owned(), false), ("topic".to_owned(), true)]);
    }

    #[test]
    fn what_does_not_close_is_a_mistake() {
        assert!(Template::parse("{{#a}}x", Path::new(".")).is_err());
        assert!(Template::parse("x{{/a}}", Path::new(".")).is_err());
        assert!(Template::parse("{{> ../secret}}", Path::new(".")).is_err());
    }
    #[test]
    fn depth_length_and_files_of_a_text_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let deep = |depth: usize| "{{#a}}".repeat(depth) + "x" + &"{{/a}}".repeat(depth);
        Template::parse(&deep(DEEPEST_PARTS), folder.path()).expect("as deep as may be");
        assert!(Template::parse(&deep(100_000), folder.path()).is_err());
        // Each of eight files has the next one a hundred times.
        for number in 0..8 {
            let text = format!("{{{{> f{}}}}}", number + 1).repeat(100);
            std::fs::write(folder.path().join(format!("f{number}")), text).unwrap();
        }
        std::fs::write(folder.path().join("f8"), "x").unwrap();
        let many = Template::parse("{{> f1}}", folder.path());
        assert!(many.is_err_and(|why| why.contains("more than 1000 files")));
        let template = Template::parse(&"{{a}}".repeat(100_000), folder.path()).unwrap();
        let args = Map::from_iter([("a".to_owned(), Value::from("x".repeat(10_000)))]);
        assert!(template.fill(&args, Role::User).is_err());
    }
}
