//! How large schemas and values are, and how large a schema may be.

use serde_json::Value;

use super::SchemaError;

const LARGEST: usize = 256 * 1024;
const DEEPEST: usize = 64;
const MOST_NODES: usize = 10_000;
const MOST_PATTERNS: usize = 256;

/// Refuses a schema that would take too long to compile; counts the patterns of others.
pub(super) fn check(schema: &Value) -> Result<usize, SchemaError> {
    // First, because what follows goes down the tree.
    if measure(schema, DEEPEST).is_none() {
        return Err(SchemaError::TooLarge("more than 64 levels"));
    }
    let mut all = Totals::default();
    all.add(schema);
    if all.nodes > MOST_NODES {
        return Err(SchemaError::TooLarge("more than 10000 nodes"));
    }
    if all.patterns > MOST_PATTERNS {
        return Err(SchemaError::TooLarge("more than 256 patterns"));
    }
    if all.text > LARGEST {
        return Err(SchemaError::TooLarge("more than 256 KiB"));
    }
    Ok(all.patterns)
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

/// What a schema is made of.
#[derive(Default)]
struct Totals {
    nodes: usize,
    patterns: usize,
    /// Bytes of its names and texts.
    text: usize,
}

impl Totals {
    fn add(&mut self, value: &Value) {
        self.nodes += 1;
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.text += name.len();
                    self.patterns += match (name.as_str(), member) {
                        ("pattern", Value::String(_)) => 1,
                        ("patternProperties", Value::Object(all)) => all.len(),
                        _ => 0,
                    };
                    self.add(member);
                }
            }
            Value::String(text) => self.text += text.len(),
            _ => (),
        }
    }
}
