//! How large schemas and values are, and how large a schema may be.

use std::io;

use serde_json::Value;

use super::SchemaError;

const LARGEST: usize = 256 * 1024;
const DEEPEST: usize = 64;
const MOST_NODES: usize = 10_000;
const MOST_PATTERNS: usize = 256;

/// Refuses a schema that would take too long to compile.
pub(super) fn check(schema: &Value) -> Result<(), SchemaError> {
    // First, because what follows goes down the tree.
    if measure(schema, DEEPEST).is_none() {
        return Err(SchemaError::TooLarge("more than 64 levels"));
    }
    if count(schema, &|_| 1) > MOST_NODES {
        return Err(SchemaError::TooLarge("more than 10000 nodes"));
    }
    if count(schema, &patterns) > MOST_PATTERNS {
        return Err(SchemaError::TooLarge("more than 256 patterns"));
    }
    if serde_json::to_writer(Room(LARGEST), schema).is_err() {
        return Err(SchemaError::TooLarge("more than 256 KiB"));
    }
    Ok(())
}

/// How large a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its nodes, where a long text counts for several.
    pub(super) size: u64,
    /// The levels of arrays and objects.
    pub(super) depth: usize,
}

/// Measures a value; none if it has more than so many levels.
pub(super) fn measure(value: &Value, levels: usize) -> Option<Extent> {
    let items: &mut dyn Iterator<Item = &Value> = match value {
        Value::Array(items) => &mut items.iter(),
        Value::Object(members) => &mut members.values(),
        Value::String(text) => {
            return Some(Extent { size: 1 + text.len() as u64 / 32, depth: 0 });
        }
        _ => return Some(Extent { size: 1, depth: 0 }),
    };
    let levels = levels.checked_sub(1)?;
    let mut extent = Extent { size: 1, depth: 1 };
    for item in items {
        let inside = measure(item, levels)?;
        extent.size += inside.size;
        extent.depth = extent.depth.max(inside.depth + 1);
    }
    Some(extent)
}

fn count(value: &Value, of: &impl Fn(&Value) -> usize) -> usize {
    let below: usize = match value {
        Value::Array(items) => items.iter().map(|item| count(item, of)).sum(),
        Value::Object(members) => members.values().map(|member| count(member, of)).sum(),
        _ => 0,
    };
    of(value) + below
}

fn patterns(value: &Value) -> usize {
    let own = usize::from(value.get("pattern").is_some_and(Value::is_string));
    let named = value.get("patternProperties").and_then(Value::as_object);
    own + named.map_or(0, serde_json::Map::len)
}

/// A writer with room for so many bytes, which keeps none of them.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
