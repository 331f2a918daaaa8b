//! YAML: lines are put in and taken out, and all others stay as they are.

use super::At;
use serde_json::{Map, Value};
use std::ops::Range;

pub(super) fn read(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text)
        .map_err(|error| error.to_string().trim_start_matches("error: ").to_owned())
}

/// Where a table is in a text, by lines.
struct Table {
    /// The line of its key.
    key: usize,
    /// How far its entries are indented, if it has some.
    indent: Option<usize>,
    /// Behind its last line.
    end: usize,
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// What follows a key on its line, if it is this one.
fn after_key<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let line = line.trim_start();
    let plain = line.strip_prefix(name);
    let quoted = || line.strip_prefix(['"', '\''])?.strip_prefix(name)?.strip_prefix(['"', '\'']);
    let rest = plain.or_else(quoted)?.trim_start().strip_prefix(':')?;
    rest.is_empty().then_some(rest).or_else(|| rest.starts_with([' ', '\t']).then_some(rest))
}

/// Nothing can be at the margin inside of another member's value, so a key there is a key.
fn find(lines: &[&str], table: &str) -> Option<Table> {
    let key =
        lines.iter().position(|line| indent(line) == 0 && after_key(line, table).is_some())?;
    let is_inside = |line: &&&str| is_blank(line) || is_comment(line) || indent(line) > 0;
    let inside = lines[key + 1..].iter().take_while(is_inside).count();
    let inside = &lines[key + 1..key + 1 + inside];
    let first = inside.iter().find(|line| !is_blank(line) && !is_comment(line));
    let indent_of_first = first.map(|line| indent(line));
    let last = inside.iter().rposition(|line| {
        !is_blank(line) && indent_of_first.is_some_and(|least| indent(line) >= least)
    });
    Some(Table { key, indent: indent_of_first, end: key + 1 + last.map_or(0, |last| last + 1) })
}

/// The lines of an entry.
fn entry_lines(lines: &[&str], table: &Table, name: &str) -> Option<Range<usize>> {
    let deep = table.indent?;
    let is_key = |line: &str| indent(line) == deep && after_key(line, name).is_some();
    let start = (table.key + 1..table.end).find(|&at| is_key(lines[at]))?;
    let is_own = |at: &usize| is_blank(lines[*at]) || indent(lines[*at]) > deep;
    let mut end = (start + 1..table.end).take_while(is_own).last().map_or(start + 1, |at| at + 1);
    // What is blank belongs to what follows.
    while end > start + 1 && is_blank(lines[end - 1]) {
        end -= 1;
    }
    Some(start..end)
}

pub(super) fn set(
    text: &str,
    at: At<'_>,
    is_there: bool,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let Some(table) = find(&lines, at.table) else {
        let mut all = lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        all.push(format!("{}:", at.table));
        all.extend(written(at.name, entry, 2));
        return Ok(all.join("\n") + "\n");
    };
    let new = written(at.name, entry, table.indent.unwrap_or(2));
    let place = match is_there {
        true => {
            entry_lines(&lines, &table, at.name).ok_or("its entry is not on lines of its own")?
        }
        false => table.end..table.end,
    };
    let mut all: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    all.splice(place, new);
    // Nothing may stand beside a key whose entries are below it.
    let (key, rest) = lines[table.key].split_once(':').unwrap_or((lines[table.key], ""));
    if let Some(comment) =
        ["{}", "null", "~"].iter().find_map(|none| rest.trim().strip_prefix(none))
    {
        all[table.key] = format!("{key}:{comment}");
    }
    Ok(all.join("\n") + "\n")
}

pub(super) fn remove(text: &str, at: At<'_>) -> Result<String, String> {
    let mut lines: Vec<&str> = text.lines().collect();
    let table = find(&lines, at.table);
    let place = table.and_then(|table| entry_lines(&lines, &table, at.name));
    lines.drain(place.ok_or("its entry is not on lines of its own")?);
    Ok(lines.join("\n") + "\n")
}

/// An entry as lines. What JSON says in one line, YAML understands.
fn written(name: &str, entry: &Map<String, Value>, deep: usize) -> Vec<String> {
    let margin = " ".repeat(deep);
    let mut all = vec![format!("{margin}{}:", key(name))];
    for (name, value) in entry {
        let name = key(name);
        match value {
            Value::Array(values) if !values.is_empty() => {
                all.push(format!("{margin}  {name}:"));
                all.extend(values.iter().map(|value| format!("{margin}    - {value}")));
            }
            Value::Object(members) if !members.is_empty() => {
                all.push(format!("{margin}  {name}:"));
                let line = |(name, value): (&String, &Value)| {
                    format!("{margin}    {}: {value}", key(name))
                };
                all.extend(members.iter().map(line));
            }
            value => all.push(format!("{margin}  {name}: {value}")),
        }
    }
    all
}

/// A key, in quotes where YAML would take it for something else.
fn key(name: &str) -> String {
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let means_more = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    match is_word && !means_more.contains(&&*name.to_lowercase()) {
        true => name.to_owned(),
        false => Value::from(name).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{At, Format};
    use serde_json::{Map, Value, json};

    const AT: At<'_> = At { table: "extensions", name: "new" };

    fn entry() -> Map<String, Value> {
        let entry = json!({ "type": "stdio", "cmd": "/a b/zcp", "args": ["serve", "/x: y #z"],
            "envs": { "K": "v'\"" }, "enabled": true, "timeout": 300 });
        entry.as_object().cloned().unwrap()
    }

    const OWN: &str = "# mine\nGOOSE_MODEL: x\nextensions:\n  # built in\n  developer:\n    \
                       enabled: true\n    note: |\n      extensions:\n        new: no\n\n    args:\n    \
                       - a\n  # the end\n\n# more\nlist:\n- extensions\nlast: \"a\n  b\"\n";

    #[test]
    fn every_other_line_stays() {
        let set = Format::Yaml.set(OWN, AT, &entry()).unwrap();
        let (head, tail) = OWN.split_once("\n\n# more").unwrap();
        assert!(set.starts_with(head), "{set}");
        assert!(set.ends_with(&format!("\n\n# more{tail}")), "{set}");
        assert!(set.contains("  # the end\n  new:\n    type: \"stdio\"\n"), "{set}");
        assert_eq!(Format::Yaml.set(&set, AT, &entry()).unwrap(), set);
        assert_eq!(Format::Yaml.remove(&set, AT).unwrap(), OWN);
    }

    #[test]
    fn tables_that_are_not_there_or_empty_are_begun() {
        let whole = Format::Yaml.set("", AT, &entry()).unwrap();
        assert!(whole.starts_with("extensions:\n  new:\n"), "{whole}");
        for text in [
            "a: 1\n",
            "a: 1",
            "extensions: {} # none\na: 1\n",
            "extensions:\na: 1\n",
            "a: 1\nextensions: ~",
        ] {
            let set = Format::Yaml.set(text, AT, &entry()).unwrap();
            assert_eq!(Format::Yaml.read(&set).unwrap()["a"], 1, "{set}");
            assert_eq!(set.contains("# none"), text.contains("# none"), "{set}");
        }
    }

    #[test]
    fn an_entry_is_replaced_where_it_is() {
        let text = "extensions:\n    new:\n        cmd: old\n\n    other:\n        cmd: x\n";
        let set = Format::Yaml.set(text, AT, &entry()).unwrap();
        assert!(set.contains("\n\n    other:\n        cmd: x\n"), "{set}");
        assert!(!set.contains("old"), "{set}");
        let last = "extensions:\n  other:\n    cmd: x\n  'new':\n    cmd: old\n";
        let removed = Format::Yaml.remove(last, AT).unwrap();
        assert_eq!(removed, "extensions:\n  other:\n    cmd: x\n");
    }

    #[test]
    fn what_cannot_be_changed_safely_is_left_alone() {
        for text in [
            "extensions: {old: {cmd: x}}\n",
            "extensions:\n- a\n",
            "extensions: &all\n  a: {x: |\n  1}\n",
            "{\"extensions\": {}}\n",
        ] {
            assert!(Format::Yaml.set(text, AT, &entry()).is_err(), "{text}");
        }
        let kept = "extensions:\n  a:\n    x: |+\n      1\n\n\nb: 1\n";
        assert!(Format::Yaml.set(kept, AT, &entry()).is_err());
    }

    #[test]
    fn names_that_mean_more_are_quoted() {
        for name in ["no", "123", "-a", "null"] {
            let at = At { table: "extensions", name };
            let set = Format::Yaml.set("a: 1\n", at, &entry()).unwrap();
            assert!(set.contains(&format!("\"{name}\":")), "{set}");
        }
    }
}
