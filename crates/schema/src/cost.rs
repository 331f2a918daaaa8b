//! How much work a schema makes of a value.
//!
//! A schema of a few lines can ask for the same value to be checked a billion times: each
//! definition need only refer twice to the next. So the ways through a schema are counted
//! beforehand, once as far as it does not come back to itself, and once for each level a value
//! can be deep. Whether a value fits is found without going round twice, so the first number
//! bounds it; saying why not goes down every way, so that takes the second.

use std::collections::HashMap;

use serde_json::Value;

use super::{SchemaError, bounds::Extent};

/// How many ways a schema may have, not counting those that come back to it.
const MOST_WAYS: u64 = 10_000;

/// How much work it may be to find whether a value fits.
const MOST_CHECKING: u64 = 100_000_000;

/// How much work it may be to say why a value does not fit.
const MOST_EXPLAINING: u64 = 4_000_000;

/// How far down checking may go, so that no stack overflows: schemas in a row, at each level.
const DEEPEST_CHECKING: usize = 2048;

/// How many schemas in a row may look at the same value.
const LONGEST_ROW: usize = 256;

/// How many references a schema may have that cannot be followed here.
const MOST_UNFOLLOWED: usize = 16;

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The ways through a schema.
#[derive(Debug)]
pub(super) struct Cost {
    once: u64,
    by_depth: Vec<u64>,
    row: usize,
}

impl Cost {
    /// Counts, for values up to so deep. Refuses a schema that has too many.
    pub(super) fn of(schema: &Value, deepest: usize) -> Result<Self, SchemaError> {
        let Some(graph) = Graph::of(schema) else {
            return Self::unfollowed(schema);
        };
        let once = graph.ways_once();
        if once > MOST_WAYS {
            return Err(SchemaError::TooLarge("too many alternatives and references"));
        }
        let row = graph.longest_row();
        if row > LONGEST_ROW {
            return Err(SchemaError::TooLarge("more than 256 references in a row"));
        }
        Ok(Self { once, by_depth: graph.ways_by_depth(deepest), row })
    }

    // Doubling takes two references a step, so a few of them cannot do much harm.
    fn unfollowed(schema: &Value) -> Result<Self, SchemaError> {
        if references(schema) > MOST_UNFOLLOWED {
            let limit = "more than 16 references beside nested `$id`s: use `#/$defs/..` instead";
            return Err(SchemaError::TooLarge(limit));
        }
        Ok(Self { once: 1 << 8, by_depth: vec![1 << 8, 1 << 16, u64::MAX], row: 64 })
    }

    /// Whether it is affordable to find if a value fits.
    pub(super) fn affords_checking(&self, value: Extent) -> bool {
        value.size.saturating_mul(self.once) <= MOST_CHECKING
            && self.row * (value.depth + 1) <= DEEPEST_CHECKING
    }

    /// Whether it is affordable to say why a value does not fit.
    pub(super) fn affords_explaining(&self, value: Extent) -> bool {
        let ways = self.by_depth.get(value.depth).or(self.by_depth.last());
        value.size.saturating_mul(ways.copied().unwrap_or(u64::MAX)) <= MOST_EXPLAINING
    }
}

fn references(value: &Value) -> usize {
    let own = |key: &&str| value.get(*key).is_some_and(Value::is_string);
    REFERENCES.iter().filter(|key| own(key)).count()
        + children(value).map(references).sum::<usize>()
}

/// Schemas, and which others each applies; the first is the whole.
struct Graph {
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    /// Applied to the same value.
    same: Vec<usize>,
    /// Applied to the values inside. Those in a group go to different ones.
    inside: Vec<Vec<usize>>,
}

impl Graph {
    /// None if there is a reference that cannot be followed.
    fn of(schema: &Value) -> Option<Self> {
        let mut builder = Builder::new(schema)?;
        builder.index(schema);
        let mut nodes = Vec::new();
        while let Some(schema) = builder.todo.get(nodes.len()).copied() {
            nodes.push(builder.node(schema)?);
        }
        Some(Self { nodes })
    }

    /// The most ways there are from any node, leaving out the edges that close a circle.
    fn ways_once(&self) -> u64 {
        let order = self
            .order(|node| node.same.iter().chain(node.inside.iter().flatten()).copied().collect());
        let mut ways = vec![1; self.nodes.len()];
        for node in order {
            ways[node] = self.ways(node, &ways, &ways);
        }
        ways.into_iter().max().unwrap_or_default()
    }

    /// The ways through the whole for a value of each depth, until they stay the same or are
    /// more than anybody can go.
    fn ways_by_depth(&self, deepest: usize) -> Vec<u64> {
        let order = self.order(|node| node.same.clone());
        let mut below = vec![0; self.nodes.len()];
        let mut by_depth = Vec::new();
        for _ in 0..=deepest {
            let mut ways = vec![1; self.nodes.len()];
            for &node in &order {
                ways[node] = self.ways(node, &ways, &below);
            }
            by_depth.push(ways[0]);
            if ways == below || ways[0] > MOST_EXPLAINING {
                break;
            }
            below = ways;
        }
        by_depth
    }

    /// The most nodes that follow one another on the same value.
    fn longest_row(&self) -> usize {
        let mut rows = vec![0; self.nodes.len()];
        for node in self.order(|node| node.same.clone()) {
            let next = self.nodes[node].same.iter().map(|&other| rows[other]).max();
            rows[node] = 1 + next.unwrap_or(0);
        }
        rows.into_iter().max().unwrap_or_default()
    }

    fn ways(&self, node: usize, same: &[u64], inside: &[u64]) -> u64 {
        let node = &self.nodes[node];
        let most = |group: &Vec<usize>| group.iter().map(|&other| inside[other]).max();
        let inside = node.inside.iter().filter_map(most);
        node.same.iter().map(|&other| same[other]).chain(inside).fold(1, u64::saturating_add)
    }

    /// The nodes, each after those its edges lead to; where they go in a circle, after most.
    fn order(&self, edges: impl Fn(&Node) -> Vec<usize>) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        for root in 0..self.nodes.len() {
            let mut todo = vec![Visit::Enter(root)];
            while let Some(visit) = todo.pop() {
                match visit {
                    Visit::Enter(node) if seen[node] => {}
                    Visit::Enter(node) => {
                        seen[node] = true;
                        todo.push(Visit::Leave(node));
                        todo.extend(edges(&self.nodes[node]).into_iter().map(Visit::Enter));
                    }
                    Visit::Leave(node) => order.push(node),
                }
            }
        }
        order
    }
}

enum Visit {
    Enter(usize),
    Leave(usize),
}

struct Builder<'a> {
    schema: &'a Value,
    /// None for a name that is given twice.
    anchors: HashMap<&'a str, Option<&'a Value>>,
    /// By address: the same place in the document is the same node.
    seen: HashMap<*const Value, usize>,
    todo: Vec<&'a Value>,
}

impl<'a> Builder<'a> {
    /// None if the schema has others with an `$id` in it, which references may be relative to.
    fn new(schema: &'a Value) -> Option<Self> {
        let dialect = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let id = if dialect.contains("draft-04") { "id" } else { "$id" };
        let mut anchors = HashMap::new();
        let mut todo: Vec<&Value> = vec![schema];
        while let Some(value) = todo.pop() {
            if !std::ptr::eq(value, schema) && value.get(id).is_some_and(Value::is_string) {
                return None;
            }
            for key in ["$anchor", "$dynamicAnchor"] {
                let Some(name) = value.get(key).and_then(Value::as_str) else {
                    continue;
                };
                anchors.entry(name).and_modify(|twice| *twice = None).or_insert(Some(value));
            }
            todo.extend(children(value));
        }
        Some(Self { schema, anchors, seen: HashMap::new(), todo: Vec::new() })
    }

    fn index(&mut self, schema: &'a Value) -> usize {
        let new = self.todo.len();
        let index = *self.seen.entry(schema).or_insert(new);
        if index == new {
            self.todo.push(schema);
        }
        index
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#').filter(|fragment| !fragment.contains('%'))?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.schema.pointer(fragment);
        }
        self.anchors.get(fragment).copied().flatten()
    }

    fn node(&mut self, schema: &'a Value) -> Option<Node> {
        let mut node = Node::default();
        for (key, value) in schema.as_object().into_iter().flatten() {
            match key.as_str() {
                "$defs" | "definitions" | "const" | "enum" | "default" | "examples" => {}
                "not" | "if" | "then" | "else" => node.same.push(self.index(value)),
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" | "dependencies" => {
                    node.same.extend(children(value).map(|schema| self.index(schema)));
                }
                "properties" | "prefixItems" => {
                    node.inside.push(children(value).map(|schema| self.index(schema)).collect());
                }
                "patternProperties" => {
                    node.inside.extend(children(value).map(|schema| vec![self.index(schema)]));
                }
                "items" if value.is_array() => {
                    node.inside.push(children(value).map(|schema| self.index(schema)).collect());
                }
                key if REFERENCES.contains(&key) => {
                    let Some(reference) = value.as_str() else {
                        continue;
                    };
                    let target = self.target(reference)?;
                    node.same.push(self.index(target));
                }
                _ if value.is_object() => node.inside.push(vec![self.index(value)]),
                _ => {}
            }
        }
        Some(node)
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}
