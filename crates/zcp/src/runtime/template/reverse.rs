//! From a URI back to values.
//!
//! A template becomes a list of steps, and matching is a search through the pairs of a step and a
//! place in the URI. No pair is tried twice, so a search takes at most steps times bytes.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

use super::{
    LONGEST,
    parse::{Operator, Part, Variable},
    percent,
};

/// What has to come next in the URI.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// This text.
    Text(String),
    /// A value: one character or more, none of them in `stops`.
    Take { variable: Variable, stops: Vec<u8> },
    /// Names with their values, or nothing.
    Pairs(Pairs),
}

/// `?a=1&b=2`, in any order, in part or not at all.
#[derive(Debug, Clone)]
pub(super) struct Pairs {
    first: u8,
    separator: u8,
    stops: &'static [u8],
    variables: Vec<Variable>,
}

/// The steps of a template.
pub(super) fn compile(parts: &[Part]) -> Vec<Step> {
    let marks = Marks::of(parts);
    let mut steps = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => steps.push(Step::Text(text.clone())),
            Part::Expression { operator, variables } if operator.named => {
                pairs(&mut steps, operator, variables);
            }
            Part::Expression { operator, variables } => {
                let mut before = operator.first;
                for variable in variables {
                    if !before.is_empty() {
                        steps.push(Step::Text(before.to_owned()));
                    }
                    before = operator.separator;
                    let stops = marks.stops(operator, variable, variables.len());
                    steps.push(Step::Take { variable: variable.clone(), stops });
                }
            }
        }
    }
    steps
}

fn pairs(steps: &mut Vec<Step>, operator: &Operator, variables: &[Variable]) {
    // `{?a}{&b}` is one query.
    if operator.symbol == "&"
        && let Some(Step::Pairs(query)) = steps.last_mut()
        && query.separator == b'&'
    {
        query.variables.extend_from_slice(variables);
        return;
    }
    let (first, separator, stops): (u8, u8, &[u8]) = match operator.symbol {
        ";" => (b';', b';', b";/?#"),
        "?" => (b'?', b'&', b"&#"),
        _ => (b'&', b'&', b"&#"),
    };
    steps.push(Step::Pairs(Pairs { first, separator, stops, variables: variables.to_vec() }));
}

/// The characters that have a meaning in a template beyond its values, and so end one.
struct Marks {
    query: bool,
    fragment: bool,
    parameters: bool,
    pairs: bool,
}

impl Marks {
    fn of(parts: &[Part]) -> Self {
        let in_text =
            |mark| parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains(mark)));
        let as_operator = |symbol| {
            parts.iter().any(|part| matches!(part, Part::Expression { operator, .. } if operator.symbol == symbol))
        };
        Self {
            query: in_text('?') || as_operator("?"),
            fragment: in_text('#') || as_operator("#"),
            parameters: as_operator(";"),
            pairs: in_text('?') || as_operator("&"),
        }
    }

    fn stops(&self, operator: &Operator, variable: &Variable, siblings: usize) -> Vec<u8> {
        let free = operator.reserved;
        let segments = operator.symbol == "/" && variable.explode;
        let separator = operator.separator.as_bytes()[0];
        [
            (b'/', !free && !segments),
            (b'?', if free { self.query && operator.symbol != "#" } else { true }),
            (b'#', if free { self.fragment } else { true }),
            (b';', !free && self.parameters),
            (b'&', !free && self.pairs),
            (separator, siblings > 1 && !segments),
        ]
        .into_iter()
        .filter_map(|(mark, stops)| stops.then_some(mark))
        .collect()
    }
}

/// The values with which the steps give the URI.
pub(super) fn matches(steps: &[Step], uri: &str) -> Option<BTreeMap<String, String>> {
    let uri = percent::encode_keeping_reserved(uri);
    if uri.len() > LONGEST {
        return None;
    }
    let starts = search(steps, &uri)?;
    let mut found = Vec::new();
    for (step, bounds) in steps.iter().zip(starts.windows(2)) {
        match step {
            Step::Text(_) => {}
            Step::Take { variable, .. } => found.push((variable, bounds[0]..bounds[1])),
            Step::Pairs(pairs) => found.extend(pairs.read(&uri, bounds[0]).0),
        }
    }
    // Whole values first, so that `{a:3}` is held against the `a` it is the beginning of.
    found.sort_by_key(|(variable, _)| Reverse(variable.prefix.unwrap_or(usize::MAX)));
    let mut values = BTreeMap::new();
    for (variable, place) in found {
        add(&mut values, variable, &percent::decode(&uri[place])?)?;
    }
    Some(values)
}

/// Adds a value; none if it cannot be, or is not the one the variable has elsewhere.
fn add(values: &mut BTreeMap<String, String>, variable: &Variable, value: &str) -> Option<()> {
    let too_long = variable.prefix.is_some_and(|most| value.chars().count() > most);
    if too_long || value.contains('\0') {
        return None;
    }
    let known = values.entry(variable.name.clone()).or_insert_with(|| value.to_owned());
    let same = match variable.prefix {
        Some(_) => known.starts_with(value),
        None => *known == value,
    };
    same.then_some(())
}

/// Where each step starts, and where the last one ends.
fn search(steps: &[Step], uri: &str) -> Option<Vec<usize>> {
    let mut tried = Tried::new(steps.len() + 1, uri.len() + 1);
    let mut starts = vec![0; steps.len() + 1];
    let mut places = vec![Place { step: 0, at: 0, inside: false }];
    while let Some(place) = places.pop() {
        let Place { step, at, inside } = place;
        if !tried.insert(place) {
            continue;
        }
        if !inside {
            // Right also after a dead end: all that follows an earlier start is done by then.
            starts[step] = at;
        }
        let next = |at| Place { step: step + 1, at, inside: false };
        match steps.get(step) {
            None if at == uri.len() => return Some(starts),
            Some(Step::Text(text)) if uri[at..].starts_with(text.as_str()) => {
                places.push(next(at + text.len()));
            }
            None | Some(Step::Text(_)) => {}
            Some(Step::Take { stops, .. }) => {
                if inside {
                    places.push(next(at));
                }
                if let Some(length) = character(&uri.as_bytes()[at..], stops) {
                    places.push(Place { step, at: at + length, inside: true });
                }
            }
            Some(Step::Pairs(pairs)) => places.push(next(pairs.read(uri, at).1)),
        }
    }
    None
}

fn character(rest: &[u8], stops: &[u8]) -> Option<usize> {
    let first = rest.first().filter(|byte| !stops.contains(byte))?;
    // Every `%` begins a triplet by now.
    Some(if *first == b'%' { 3 } else { 1 })
}

impl Pairs {
    /// Reads as far as the names are known and new, and says where that ends.
    fn read(&self, uri: &str, start: usize) -> (Vec<(&Variable, Range<usize>)>, usize) {
        let mut found: Vec<(&Variable, Range<usize>)> = Vec::new();
        let (mut at, mut mark) = (start, self.first);
        while uri.as_bytes().get(at) == Some(&mark) {
            let begin = at + 1;
            let length = uri[begin..].bytes().position(|byte| self.stops.contains(&byte));
            let end = length.map_or(uri.len(), |length| begin + length);
            let pair = &uri[begin..end];
            let name = pair.split_once('=').map_or(pair, |(name, _)| name);
            let known = self.variables.iter().find(|variable| variable.name == name);
            let Some(variable) = known.filter(|_| found.iter().all(|(old, _)| old.name != name))
            else {
                break;
            };
            found.push((variable, end.min(begin + name.len() + 1)..end));
            (at, mark) = (end, self.separator);
        }
        (found, at)
    }
}

/// A step and where in the URI it is tried; `inside` a value, it has taken a character.
#[derive(Clone, Copy)]
struct Place {
    step: usize,
    at: usize,
    inside: bool,
}

/// The places that have been tried, a bit each.
struct Tried {
    bits: Vec<u64>,
    width: usize,
}

impl Tried {
    fn new(steps: usize, width: usize) -> Self {
        Self { bits: vec![0; (steps * width * 2).div_ceil(64)], width }
    }

    fn insert(&mut self, place: Place) -> bool {
        let bit = (place.step * self.width + place.at) * 2 + usize::from(place.inside);
        let (word, bit) = (&mut self.bits[bit / 64], 1 << (bit % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}
