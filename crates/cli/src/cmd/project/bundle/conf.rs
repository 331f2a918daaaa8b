//! `mcpb.conf`: variables of a shell, read without running anything.

use super::files::text_of;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, error::Error, fs, path::Path};

/// What such a file says, and what of it is not understood.
pub(super) type Said = (Map<String, Value>, Vec<String>);

/// What a project's `mcpb.conf` says, with the names `[bundle]` has for it; and what could not be
/// understood.
pub(super) fn read(root: &Path) -> Result<Said, Box<dyn Error>> {
    let text = text_of(root, "mcpb.conf")?.unwrap_or_default();
    let (variables, mut complaints) = variables(&text);
    Ok((named(root, &variables, &mut complaints), complaints))
}

/// Variables that are set to plain words.
fn variables(text: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let mut found = BTreeMap::new();
    let mut complaints = vec![];
    let mut rest = text;
    let mut number = 0;
    while !rest.is_empty() {
        let at = number + 1;
        let (statement, after) = statement(rest);
        number += statement.matches('\n').count() + 1;
        rest = after;
        match assignment(statement.trim()) {
            Ok(Some((name, value))) => drop(found.insert(name, value)),
            Ok(None) => (),
            Err(why) => complaints.push(format!("mcpb.conf, line {at}: {why}; it is passed over")),
        }
    }
    (found, complaints)
}

/// A line, with those that follow while a quotation is open.
fn statement(text: &str) -> (&str, &str) {
    let mut quote = None;
    let mut is_escaped = false;
    let mut before = '\n';
    let mut is_comment = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None, '\n') => return (&text[..at], &text[at + 1..]),
            _ if is_comment => (),
            (None, '#') if before.is_whitespace() => is_comment = true,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => (),
        }
        before = c;
    }
    (text, "")
}

/// `NAME=value`, if that is all there is.
fn assignment(statement: &str) -> Result<Option<(String, String)>, String> {
    if statement.is_empty() || statement.starts_with('#') {
        return Ok(None);
    }
    let statement = statement.strip_prefix("export ").unwrap_or(statement).trim_start();
    let (name, value) = statement.split_once('=').ok_or("it sets no variable")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("it sets no variable".to_owned());
    }
    if is_computed(value) {
        return Err(format!("{name} is computed, and nothing is run here: write the value itself"));
    }
    let words = shell_words::split(value).map_err(|error| format!("{name}: {error}"))?;
    match words.as_slice() {
        [] => Ok(Some((name.to_owned(), String::new()))),
        [value] => Ok(Some((name.to_owned(), value.clone()))),
        _ => Err(format!("{name} is more than one word: put it into quotes")),
    }
}

/// Whether a shell would do something to get the value.
fn is_computed(value: &str) -> bool {
    let mut quote = None;
    let mut is_escaped = false;
    for c in value.chars() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None | Some('"'), '$' | '`') => return true,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => (),
        }
    }
    value.starts_with('(')
}

/// The variables, with the names `[bundle]` has for what they say.
fn named(
    root: &Path,
    variables: &BTreeMap<String, String>,
    complaints: &mut Vec<String>,
) -> Map<String, Value> {
    let get = |name: &str| variables.get(&format!("MCPB_{name}")).filter(|text| !text.is_empty());
    let mut all = Map::new();
    for (name, member) in [
        ("NAME", "name"),
        ("DISPLAY_NAME", "display_name"),
        ("VERSION", "version"),
        ("DESCRIPTION", "description"),
        ("REPOSITORY", "repository"),
        ("LICENSE", "license"),
        ("HOMEPAGE", "homepage"),
        ("DOCUMENTATION", "documentation"),
        ("SUPPORT", "support"),
        ("ICON", "icon"),
    ] {
        all.extend(get(name).map(|text| (member.to_owned(), json!(text))));
    }
    for (name, member) in [("KEYWORDS", "keywords"), ("PRIVACY_POLICIES", "privacy_policies")] {
        all.extend(get(name).map(|text| (member.to_owned(), json!(words(text)))));
    }
    if let Some(name) = get("AUTHOR_NAME") {
        let mut author = Map::from_iter([("name".to_owned(), json!(name))]);
        author.extend(get("AUTHOR_EMAIL").map(|text| ("email".to_owned(), json!(text))));
        author.extend(get("AUTHOR_URL").map(|text| ("url".to_owned(), json!(text))));
        all.insert("author".to_owned(), author.into());
    }
    let mut fits = Map::new();
    fits.extend(
        get("COMPAT_CLAUDE_DESKTOP").map(|text| ("claude_desktop".to_owned(), json!(text))),
    );
    let runtimes = [("RUNTIME_PYTHON", "python"), ("RUNTIME_NODE", "node")].into_iter();
    let runtimes: Map<_, _> =
        runtimes.filter_map(|(name, of)| Some((of.to_owned(), json!(get(name)?)))).collect();
    if !runtimes.is_empty() {
        fits.insert("runtimes".to_owned(), runtimes.into());
    }
    if !fits.is_empty() {
        all.insert("compatibility".to_owned(), fits.into());
    }
    let mut read = |name: &str| {
        let file = get(name)?;
        let text = fs::read_to_string(root.join(file));
        text.map_err(|error| complaints.push(format!("mcpb.conf, MCPB_{name}: {file}: {error}")))
            .ok()
    };
    if let Some(text) = read("LONG_DESCRIPTION_FILE") {
        all.insert("long_description".to_owned(), text.into());
    }
    if let Some(text) = read("USER_CONFIG_FILE") {
        match serde_json::from_str(&text) {
            Ok(value) => drop(all.insert("user_config".to_owned(), value)),
            Err(error) => complaints.push(format!("mcpb.conf, MCPB_USER_CONFIG_FILE: {error}")),
        }
    }
    if let Some(pairs) = get("USER_CONFIG_ENV_MAP") {
        all.insert(
            "env".to_owned(),
            mapped(words(pairs).into_iter().filter_map(|pair| pair.split_once('='))),
        );
    }
    if get("USER_CONFIG_ARGS_MAP").is_some() {
        let hint = "use MCPB_USER_CONFIG_ENV_MAP";
        complaints.push(format!("mcpb.conf: zcp takes no further arguments; {hint}"));
    }
    all
}

/// Words with spaces or commas between.
fn words(text: &str) -> Vec<&str> {
    text.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect()
}

/// What settings of the user are called in the server's environment.
pub(super) fn mapped<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let pairs =
        pairs.map(|(key, name)| (name.to_owned(), json!(format!("${{user_config.{key}}}"))));
    Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_read_and_nothing_is_run() {
        let text = "# A comment.\nMCPB_NAME=\"my server\"  # and another\nexport MCPB_LICENSE='MIT'\n\
                    MCPB_VERSION=$(cat VERSION)\nMCPB_DESCRIPTION=\"one\ntwo # three\"\n\
                    MCPB_EMPTY=\nMCPB_COST='$5'\nif true; then\nMCPB_LIST=(a b)\n\
                    MCPB_TWO=a b\nMCPB_URL=https://example.com/#top\n";
        let (found, complaints) = variables(text);
        let expected = [
            ("MCPB_COST", "$5"),
            ("MCPB_DESCRIPTION", "one\ntwo # three"),
            ("MCPB_EMPTY", ""),
            ("MCPB_LICENSE", "MIT"),
            ("MCPB_NAME", "my server"),
            ("MCPB_URL", "https://example.com/#top"),
        ];
        let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expected);
        let begin: Vec<_> = complaints.iter().filter_map(|one| one.split(':').next()).collect();
        let lines = [4, 9, 10, 11].map(|line| format!("mcpb.conf, line {line}"));
        assert_eq!(begin, lines);
        assert!(complaints[0].contains("MCPB_VERSION is computed"));
    }

    #[test]
    fn quotes_inside_of_others_are_letters() {
        assert!(is_computed("\"it's $HOME\""));
        assert!(is_computed("'a'\"'\"$(b)"));
        assert!(!is_computed("'\"$5'"));
        assert!(!is_computed("\"it's \\$5\""));
    }
}
