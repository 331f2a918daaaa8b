//! Docstrings of Python: the text of one, and its list of arguments as tags.

/// A Python docstring, if it is the first statement that does something.
pub(super) fn docstring<'a>(lines: &'a [&'a str]) -> Option<Vec<&'a str>> {
    let says_nothing = |line: &str| {
        line.is_empty() || line.starts_with('#') || line.starts_with("from __future__ import ")
    };
    let first = lines.iter().position(|line| !says_nothing(line.trim()))?;
    let line = lines[first].trim_start().trim_start_matches(['r', 'R', 'u', 'U']);
    let quotes = ["\"\"\"", "'''"].into_iter().find(|quotes| line.starts_with(quotes))?;
    let mut inside = vec![];
    let line = &line[3..];
    if let Some(end) = line.find(quotes) {
        return Some(vec![&line[..end]]);
    }
    inside.push(line);
    for line in &lines[first + 1..] {
        if let Some(end) = line.find(quotes) {
            inside.push(&line[..end]);
            return Some(inside);
        }
        inside.push(line.trim_end());
    }
    None
}

/// A docstring's list of arguments as tags: `Args:` with indented lines, or `:param name: words`.
pub(super) fn sections(lines: &[&str]) -> Vec<String> {
    let (mut tags, mut section) = (vec![], Section::Words);
    // Sphinx may say a type on a line of its own.
    let types: Vec<(&str, &str)> = lines.iter().filter_map(|line| kind_of(line.trim())).collect();
    for line in lines {
        let (trimmed, indent) = (line.trim(), line.len() - line.trim_start().len());
        if let Some(begun) = Section::begins(trimmed, indent) {
            section = begun;
            continue;
        }
        // Sphinx writes each argument on a line of its own, in any section.
        if let Some(rest) = trimmed.strip_prefix(":param ") {
            tags.push(format!("@param {}", sphinx(rest, &types)));
            continue;
        }
        if SPHINX_OTHERS.iter().any(|tag| trimmed.starts_with(tag)) {
            continue;
        }
        match section {
            Section::Arguments(_) if trimmed.is_empty() => (),
            // A line that is not indented ends the list.
            Section::Arguments(start) if indent <= start => {
                section = Section::Words;
                tags.push((*line).to_owned());
            }
            // What is no argument goes on with the one before.
            Section::Arguments(_) => {
                tags.push(google(trimmed).unwrap_or_else(|| format!("  {trimmed}")));
            }
            Section::Words => tags.push((*line).to_owned()),
            Section::Skipped if trimmed.starts_with('@') => tags.push((*line).to_owned()),
            Section::Skipped => (),
        }
    }
    tags
}

/// Tags of Sphinx that say nothing of arguments.
const SPHINX_OTHERS: [&str; 4] = [":return", ":raise", ":type", ":rtype"];

/// The part of a docstring a line is in.
#[derive(Clone, Copy)]
enum Section {
    /// The description.
    Words,
    /// `Args:`, which is indented so far.
    Arguments(usize),
    /// A section that says nothing of arguments, such as `Returns:`.
    Skipped,
}

impl Section {
    /// The section that a line begins, if it is a heading.
    fn begins(line: &str, indent: usize) -> Option<Self> {
        match line.strip_suffix(':')? {
            "Args" | "Arguments" | "Parameters" => Some(Self::Arguments(indent)),
            "Returns" | "Raises" | "Yields" | "Examples" | "Example" | "Note" | "Notes" => {
                Some(Self::Skipped)
            }
            _ => None,
        }
    }
}

/// `name (type, optional): words`, or `name: words`.
fn google(line: &str) -> Option<String> {
    let (head, words) = line.split_once(':')?;
    let (name, kind) = match head.split_once('(') {
        Some((name, kind)) => (name.trim(), kind.trim_end().trim_end_matches(')')),
        None => (head.trim(), ""),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let optional = kind.contains("optional");
    let kind = kind.split(',').next().unwrap_or_default().trim();
    let kind = match kind {
        "optional" => "",
        kind => kind,
    };
    let kind = listed(kind);
    let name = if optional { format!("[{name}]") } else { name.to_owned() };
    Some(format!("@param {name} {kind} {}", words.trim()))
}

/// `type name: words`, or `name: words` with a type among `types`.
fn sphinx(rest: &str, types: &[(&str, &str)]) -> String {
    let (head, words) = rest.split_once(':').unwrap_or((rest, ""));
    let (kind, name) = head.trim().rsplit_once(' ').unwrap_or(("", head.trim()));
    let elsewhere = || types.iter().find(|(of, _)| *of == name).map_or("", |(_, kind)| kind);
    let kind = if kind.is_empty() { elsewhere() } else { kind };
    let optional = kind.strip_suffix("optional").map(|kind| kind.trim_end_matches([',', ' ']));
    let name = if optional.is_some() { format!("[{name}]") } else { name.to_owned() };
    format!("{name} {} {}", listed(optional.unwrap_or(kind)), words.trim())
}

/// The name and the type of `:type name: type`.
fn kind_of(line: &str) -> Option<(&str, &str)> {
    let (name, kind) = line.strip_prefix(":type ")?.split_once(':')?;
    Some((name.trim(), kind.trim()))
}

/// A type, a list of Python as it is written here.
fn listed(kind: &str) -> String {
    let item = kind.strip_prefix("list[").or_else(|| kind.strip_prefix("List["));
    let item = item.and_then(|kind| kind.strip_suffix(']'));
    item.map_or_else(|| kind.to_owned(), |item| format!("{item}[]"))
}
