//! Changes to one entry of a table in somebody's file: everything else in it stays as it is
//! written.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Value};

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// With comments, where somebody wrote some.
    Json,
    Toml,
    Yaml,
}

/// One entry of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    /// The member of the file that holds the table.
    pub(crate) table: &'a str,
    pub(crate) name: &'a str,
}

impl Format {
    /// What a text says, or what is wrong with it and where. A text of nothing says nothing.
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        let text = text.trim_start_matches('\u{feff}');
        let value = match self {
            _ if text.trim().is_empty() => Value::Null,
            Self::Json => json::read(text)?,
            Self::Toml => toml::read(text)?,
            Self::Yaml => yaml::read(text)?,
        };
        match value {
            Value::Null => Ok(Value::Object(Map::new())),
            Value::Object(_) => Ok(value),
            _ => Err("it is no table of settings".to_owned()),
        }
    }

    /// The text with an entry in it. Of one that is there already, only what differs is written.
    pub(crate) fn set(
        self,
        text: &str,
        at: At<'_>,
        entry: &Map<String, Value>,
    ) -> Result<String, String> {
        let before = self.read(text)?;
        let there = before[at.table][at.name].as_object();
        if there == Some(entry) {
            return Ok(text.to_owned());
        }
        let mut wanted = before.clone();
        match &mut wanted[at.table] {
            Value::Object(table) => drop(table.insert(at.name.to_owned(), entry.clone().into())),
            Value::Null => {
                wanted[at.table] = Value::Object(Map::from_iter([(
                    at.name.to_owned(),
                    Value::Object(entry.clone()),
                )]));
            }
            _ => return Err(format!("`{}` in it is no table", at.table)),
        }
        self.changed(text, &wanted, |text| match self {
            Self::Json => json::set(text, at, there, entry),
            Self::Toml => toml::set(text, at, there, entry),
            Self::Yaml => yaml::set(text, at, there, entry),
        })
    }

    /// The text without an entry.
    pub(crate) fn remove(self, text: &str, at: At<'_>) -> Result<String, String> {
        let mut wanted = self.read(text)?;
        if let Some(table) = wanted[at.table].as_object_mut() {
            table.shift_remove(at.name);
        }
        self.changed(text, &wanted, |text| match self {
            Self::Json => json::remove(text, at),
            Self::Toml => toml::remove(text, at),
            Self::Yaml => yaml::remove(text, at),
        })
    }

    /// Makes a change, and looks whether it did what is wanted and nothing else.
    fn changed(
        self,
        text: &str,
        wanted: &Value,
        change: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<String, String> {
        let (mark, text) = match text.strip_prefix('\u{feff}') {
            Some(text) => ("\u{feff}", text),
            None => ("", text),
        };
        let mut changed = change(&text.replace("\r\n", "\n"))?;
        if text.contains("\r\n") {
            changed = changed.replace('\n', "\r\n");
        }
        if !changed.ends_with('\n') && (text.is_empty() || text.ends_with('\n')) {
            changed.push('\n');
        }
        match self.read(&changed) {
            Ok(now) if same(&now, wanted) => Ok(mark.to_owned() + &changed),
            _ => Err("it is written in a way that cannot be changed safely".to_owned()),
        }
    }
}

/// The same settings, where an empty table is as good as none.
fn same(one: &Value, other: &Value) -> bool {
    let full = |value: &Value| -> Map<String, Value> {
        let is_empty = |value: &Value| {
            value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
        };
        let members = value.as_object().cloned().unwrap_or_default();
        members.into_iter().filter(|(_, value)| !is_empty(value)).collect()
    };
    full(one) == full(other)
}
