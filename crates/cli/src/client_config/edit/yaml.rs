//! YAML: lines are put in and taken out, and all others stay as they are.

use super::At;
use serde_json::{Map, Value};
use std::ops::Range;

pub(super) fn read(text: &str) -> Result<Value, String> {
    // `no` is a word to whoever reads these files.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
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
fn find(lines: &[String], table: &str) -> Option<Table> {
    let is_key = |line: &String| indent(line) == 0 && after_key(line, table).is_some();
    Some(below(lines, lines.iter().position(is_key)?))
}

/// The table below a key.
fn below(lines: &[String], key: usize) -> Table {
    let margin = indent(&lines[key]);
    let is_inside = |line: &&String| is_blank(line) || is_comment(line) || indent(line) > margin;
    let inside = lines[key + 1..].iter().take_while(is_inside).count();
    let inside = &lines[key + 1..key + 1 + inside];
    let first = inside.iter().find(|line| !is_blank(line) && !is_comment(line));
    let indent_of_first = first.map(|line| indent(line));
    let last = inside.iter().rposition(|line| {
        !is_blank(line) && indent_of_first.is_some_and(|least| indent(line) >= least)
    });
    Table { key, indent: indent_of_first, end: key + 1 + last.map_or(0, |last| last + 1) }
}

/// The lines of an entry.
fn entry_lines(lines: &[String], table: &Table, name: &str) -> Option<Range<usize>> {
    let deep = table.indent?;
    let is_key = |line: &str| indent(line) == deep && after_key(line, name).is_some();
    let start = (table.key + 1..table.end).find(|&at| is_key(&lines[at]))?;
    // Items of a list may be as far to the left as its key.
    let is_item = |line: &str| {
        let inner = line.trim();
        indent(line) == deep && (inner == "-" || inner.starts_with("- "))
    };
    let is_own = |at: &usize| {
        let line = &lines[*at];
        is_blank(line) || indent(line) > deep || is_item(line)
    };
    let mut end = (start + 1..table.end).take_while(is_own).last().map_or(start + 1, |at| at + 1);
    // What is blank belongs to what follows.
    while end > start + 1 && is_blank(&lines[end - 1]) {
        end -= 1;
    }
    Some(start..end)
}

const NO_LINES: &str = "its entry is not on lines of its own";

pub(super) fn set(
    text: &str,
    at: At<'_>,
    there: Option<&Map<String, Value>>,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(table) = find(&lines, at.table) else {
        lines.push(format!("{}:", at.table));
        lines.extend(written(at.name, entry, 2));
        return Ok(lines.join("\n") + "\n");
    };
    let place = entry_lines(&lines, &table, at.name);
    if let Some(there) = there {
        let place = place.ok_or(NO_LINES)?;
        write(&mut lines, place.start, at.name, there, entry)?;
        return Ok(lines.join("\n") + "\n");
    }
    let new = written(at.name, entry, table.indent.unwrap_or(2));
    lines.splice(place.unwrap_or(table.end..table.end), new);
    // Nothing may stand beside a key whose entries are below it.
    let (key, rest) = lines[table.key].split_once(':').unwrap_or((&lines[table.key], ""));
    if let Some(comment) =
        ["{}", "null", "~"].iter().find_map(|none| rest.trim().strip_prefix(none))
    {
        lines[table.key] = format!("{key}:{comment}");
    }
    Ok(lines.join("\n") + "\n")
}

/// Writes what differs. `key` is the line that `name` is on.
fn write(
    lines: &mut Vec<String>,
    key: usize,
    name: &str,
    there: &Map<String, Value>,
    members: &Map<String, Value>,
) -> Result<(), String> {
    let beside = after_key(&lines[key], name).unwrap_or_default();
    if !is_blank(beside) && !is_comment(beside) {
        return Err(format!("`{name}` in it is not written on lines of its own"));
    }
    for (name, value) in members.iter().filter(|(name, value)| there.get(*name) != Some(value)) {
        let table = below(lines, key);
        let deep = table.indent.ok_or(NO_LINES)?;
        match (entry_lines(lines, &table, name), there.get(name), value) {
            (Some(own), Some(Value::Object(now)), Value::Object(value)) if !now.is_empty() => {
                write(lines, own.start, name, now, value)?;
            }
            (Some(own), Some(now), value) => {
                let mut new = member(name, value, deep);
                new[0] += comment(&lines[own.start], name, now);
                lines.splice(own, new);
            }
            (None, None, value) => {
                lines.splice(table.end..table.end, member(name, value, deep));
            }
            _ => return Err(NO_LINES.to_owned()),
        }
    }
    Ok(())
}

/// The comment beside a value.
fn comment<'a>(line: &'a str, name: &str, value: &Value) -> &'a str {
    let rest = after_key(line, name).unwrap_or_default();
    let is_all = |text: &str| is_blank(text) || read(text).is_ok_and(|read| read == *value);
    let found = rest.match_indices(" #").find(|(at, _)| is_all(&rest[..*at]));
    found.map_or("", |(at, _)| &rest[at..])
}

pub(super) fn remove(text: &str, at: At<'_>) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let table = find(&lines, at.table).ok_or(NO_LINES)?;
    lines.drain(entry_lines(&lines, &table, at.name).ok_or(NO_LINES)?);
    if below(&lines, table.key).indent.is_none()
        && let Some((key, rest)) = lines[table.key].split_once(':')
    {
        lines[table.key] = format!("{key}: {{}}{rest}");
    }
    Ok(lines.join("\n") + "\n")
}

/// An entry as lines.
fn written(name: &str, entry: &Map<String, Value>, deep: usize) -> Vec<String> {
    let mut all = vec![format!("{:deep$}{}:", "", key(name))];
    all.extend(entry.iter().flat_map(|(name, value)| member(name, value, deep + 2)));
    all
}

/// A member of an entry as lines. What JSON says in one line, YAML understands.
fn member(name: &str, value: &Value, deep: usize) -> Vec<String> {
    let (margin, name) = (" ".repeat(deep), key(name));
    let mut all = vec![format!("{margin}{name}:")];
    match value {
        Value::Array(values) if !values.is_empty() => {
            all.extend(values.iter().map(|value| format!("{margin}  - {value}")));
        }
        Value::Object(members) if !members.is_empty() => {
            let line =
                |(name, value): (&String, &Value)| format!("{margin}  {}: {value}", key(name));
            all.extend(members.iter().map(line));
        }
        value => all[0] += &format!(" {value}"),
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

    const ENTRY: &str = "extensions:\n  new:\n    # as Ann wants it\n    cmd: old # by hand\n    args: # all\n    \
                         - serve\n    envs:\n      FLAG: no # never\n      MODE: 0755\n      VERSION: 1.10\n    \
                         enabled: true\n\nlast: 1\n";

    #[test]
    fn only_what_differs_is_written() {
        let there = Format::Yaml.read(ENTRY).unwrap()["extensions"]["new"].clone();
        let mut wanted = there.as_object().cloned().unwrap();
        assert_eq!(wanted["envs"]["FLAG"], "no");
        assert_eq!(Format::Yaml.set(ENTRY, AT, &wanted).unwrap(), ENTRY);
        wanted["envs"]["NEW"] = json!("yes");
        wanted["args"] = json!(["serve", "/a"]);
        wanted.insert("cmd".into(), json!("zcp"));
        wanted.insert("timeout".into(), json!(300));
        let set = Format::Yaml.set(ENTRY, AT, &wanted).unwrap();
        let expected = ENTRY
            .replace("cmd: old", "cmd: \"zcp\"")
            .replace("    - serve\n", "      - \"serve\"\n      - \"/a\"\n")
            .replace("1.10\n", "1.10\n      NEW: \"yes\"\n")
            .replace("enabled: true\n", "enabled: true\n    timeout: 300\n");
        assert_eq!(set, expected);
    }

    #[test]
    fn the_last_entry_leaves_an_empty_table() {
        let removed = Format::Yaml.remove("extensions: # all\n  new:\n    cmd: x\na: 1\n", AT);
        assert_eq!(removed.unwrap(), "extensions: {} # all\na: 1\n");
    }

    #[test]
    fn an_entry_of_nothing_is_filled() {
        let set = Format::Yaml.set("extensions:\n  new: ~\n  old: {}\n", AT, &entry()).unwrap();
        assert!(set.starts_with("extensions:\n  new:\n    type: \"stdio\"\n"), "{set}");
        assert!(set.ends_with("  old: {}\n"), "{set}");
    }

    #[test]
    fn what_cannot_be_changed_safely_is_left_alone() {
        for text in [
            "extensions:\n  new: {cmd: old}\n",
            "extensions:\n  new:\n    cmd: old\n    envs: {A: no}\n",
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
