//! TOML, with its comments.

use super::At;
use serde_json::{Map, Value};
use std::ops::Range;
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike};

pub(super) fn read(text: &str) -> Result<Value, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.to_string())
}

pub(super) fn set(
    text: &str,
    at: At<'_>,
    there: Option<&Map<String, Value>>,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let mut document = parse(text)?;
    let servers = document.entry(at.table).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let is_inline = servers.is_inline_table();
    let no_table = || format!("`{}` in it is no table", at.table);
    let servers = servers.as_table_like_mut().ok_or_else(no_table)?;
    match (there, servers.get_mut(at.name).and_then(Item::as_table_like_mut)) {
        (Some(there), Some(table)) => write(table, there, entry),
        _ => drop(servers.insert(at.name, table(entry, is_inline))),
    }
    Ok(document.to_string())
}

/// Writes what differs.
fn write(table: &mut dyn TableLike, there: &Map<String, Value>, members: &Map<String, Value>) {
    for (name, value) in members {
        match (there.get(name), value) {
            (Some(now), value) if now == value => continue,
            (Some(Value::Object(now)), Value::Object(value)) => {
                if let Some(inner) = table.get_mut(name).and_then(Item::as_table_like_mut) {
                    write(inner, now, value);
                    continue;
                }
            }
            _ => (),
        }
        let mut written = item(value);
        let before = table.get(name).and_then(Item::as_value).map(|value| value.decor().clone());
        if let (Some(decor), Some(value)) = (before, written.as_value_mut()) {
            *value.decor_mut() = decor;
        }
        match table.get_mut(name) {
            Some(now) => *now = written,
            None => drop(table.insert(name, written)),
        }
    }
}

pub(super) fn remove(text: &str, at: At<'_>) -> Result<String, String> {
    let mut document = parse(text)?;
    if let Some(servers) = document.get_mut(at.table).and_then(Item::as_table_like_mut) {
        servers.remove(at.name);
    }
    let removed = document.to_string();
    let Some(header) = header(text, at) else { return Ok(removed) };
    match removed.split_at_checked(header.start) {
        Some((before, after)) if before == &text[..header.start] => {
            let after = after.strip_prefix('\n').unwrap_or(after);
            Ok(format!("{before}{}{after}", &text[header]))
        }
        _ => Ok(removed),
    }
}

/// Where comments above an entry are that an empty line parts from it: they are about more.
fn header(text: &str, at: At<'_>) -> Option<Range<usize>> {
    let document = Document::parse(text).ok()?;
    let entry = document.get(at.table)?.as_table_like()?.get(at.name)?.as_table()?;
    let above = entry.decor().prefix()?.span()?;
    let mut end = above.start;
    let mut kept = end;
    for line in text[above.clone()].split_inclusive('\n') {
        end += line.len();
        if line.trim().is_empty() {
            kept = end;
        }
    }
    text[above.start..kept].contains('#').then_some(above.start..kept)
}

fn table(members: &Map<String, Value>, is_inline: bool) -> Item {
    let members = members.iter().filter(|(_, value)| !value.is_null());
    if is_inline {
        let pairs = members.filter_map(|(name, one)| Some((name.as_str(), value(one)?)));
        return Item::Value(InlineTable::from_iter(pairs).into());
    }
    Item::Table(members.map(|(name, value)| (name.as_str(), item(value))).collect())
}

fn item(one: &Value) -> Item {
    match one {
        Value::Object(members) => table(members, false),
        other => value(other).map_or(Item::None, Item::Value),
    }
}

fn value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(is) => (*is).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(all) => Array::from_iter(all.iter().filter_map(self::value)).into(),
        Value::Object(members) => {
            let pairs = members.iter().filter_map(|(name, one)| Some((name, self::value(one)?)));
            InlineTable::from_iter(pairs).into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{At, Format};
    use serde_json::{Map, Value, json};

    const AT: At<'_> = At { table: "mcp_servers", name: "new" };

    fn entry() -> Map<String, Value> {
        let entry = json!({ "command": "zcp", "args": ["serve", "/a"], "env": { "K": "v" } });
        entry.as_object().cloned().unwrap()
    }

    const OWN: &str = "# mine\nmodel = \"x\" # a model\n\n[mcp_servers.old]\ncommand = 'y' # why\n\n\
                       [profiles.fast]\neffort = 1\n";

    #[test]
    fn comments_order_and_layout_stay() {
        let set = Format::Toml.set(OWN, AT, &entry()).unwrap();
        for line in OWN.lines() {
            assert!(set.contains(line), "{line} in {set}");
        }
        assert!(set.contains("[mcp_servers.new]\ncommand = \"zcp\"\n"), "{set}");
        assert!(set.contains("[mcp_servers.new.env]\nK = \"v\"\n"), "{set}");
        assert_eq!(Format::Toml.set(&set, AT, &entry()).unwrap(), set);
        assert_eq!(Format::Toml.remove(&set, AT).unwrap(), OWN);
    }

    #[test]
    fn comments_that_are_about_more_stay() {
        let new = "[mcp_servers.new]\ncommand = \"zcp\"\n";
        let next = "\n[profiles.fast]\neffort = 1\n";
        let text = format!("# My settings.\n\n# The tools.\n{new}{next}");
        let removed = Format::Toml.remove(&text, AT).unwrap();
        assert_eq!(removed, "# My settings.\n\n[profiles.fast]\neffort = 1\n");
        let last = format!("a = 1\n\n# Servers.\n\n{new}");
        assert_eq!(Format::Toml.remove(&last, AT).unwrap(), "a = 1\n\n# Servers.\n\n");
    }

    #[test]
    fn a_file_begins_with_what_is_set() {
        let set = Format::Toml.set("", AT, &entry()).unwrap();
        assert!(set.starts_with("[mcp_servers.new]\n"), "{set}");
    }

    #[test]
    fn only_what_differs_is_written() {
        let text = "[mcp_servers.new]\ncommand = \"old\" # by hand\nargs = [ 'serve', '/a' ]\n\
                    startup_timeout_sec = 20\n";
        let mut wanted = entry();
        wanted.insert("startup_timeout_sec".into(), json!(20));
        let set = Format::Toml.set(text, AT, &wanted).unwrap();
        assert!(set.contains("command = \"zcp\" # by hand"), "{set}");
        assert!(set.contains("args = [ 'serve', '/a' ]"), "{set}");
    }

    #[test]
    fn tables_may_be_on_one_line() {
        let text = "mcp_servers = { old = { command = \"x\" } } # one line\n";
        let set = Format::Toml.set(text, AT, &entry()).unwrap();
        assert!(set.contains("# one line") && set.lines().count() == 1, "{set}");
    }

    #[test]
    fn mistakes_have_a_line() {
        let why = Format::Toml.read("a = 1\nb = \n").unwrap_err();
        assert!(why.contains("line 2"), "{why}");
    }
}
