//! Arguments in short: `limit integer = 20`, `[level] info|warn|error`, as JSON Schema.

use serde_json::{Map, Value, json};

/// The schema of arguments that are said in short: each a schema of its own, or a few words.
pub(super) fn schema(params: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let (mut properties, mut required) = (Map::new(), vec![]);
    for (name, said) in params {
        let (name, schema, needed) = match said {
            Value::String(words) => shorthand(&format!("{name} {words}"))?,
            Value::Object(schema) => {
                let mut schema = schema.clone();
                let needed = match schema.get("required") {
                    Some(Value::Bool(needed)) => {
                        let needed = *needed;
                        schema.remove("required");
                        needed
                    }
                    _ => !schema.contains_key("default"),
                };
                (name.clone(), Value::Object(schema), needed)
            }
            other => return Err(format!("the argument `{name}` is said to be {other}")),
        };
        if needed {
            required.push(Value::String(name.clone()));
        }
        properties.insert(name, schema);
    }
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), Value::Array(required));
    }
    Ok(schema)
}

/// One argument: its name, its schema, and whether it must be given. `name`, then what it is, then
/// `= default`, then words for the model; `[name]` and `name?` may be left out, and `[name=3]` has a
/// default. What it is may also come first, as JSDoc has it: `{number} name - words`.
pub(crate) fn shorthand(words: &str) -> Result<(String, Value, bool), String> {
    let words = words.trim();
    let (before, rest) = match words.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((kind, rest)) => (Some(kind.trim()), rest.trim_start()),
        None => (None, words),
    };
    let Name { name, default: given, is_optional, rest } = Name::of(rest);
    if name.is_empty() {
        return Err(format!("`{words}` names no argument"));
    }
    let (kind, after) = split_kind(rest);
    let (mut schema, is_optional, rest) = match (before, of_kind(kind)) {
        (Some(kind), _) => {
            let optional = kind.ends_with('=') || kind.starts_with('?') || kind.ends_with('?');
            (of_jsdoc(kind), is_optional || optional, rest)
        }
        (None, Some(schema)) => (schema, is_optional || kind.ends_with('?'), after.trim_start()),
        // No type: a string, and all of it are words.
        (None, None) => (text(), is_optional, rest),
    };
    let (default, description) = match given {
        Some(given) => (Some(default(given, &schema)?), rest),
        None => default_of(rest, &schema)?,
    };
    let needed = default.is_none() && !is_optional;
    if let Some(default) = default {
        schema.insert("default".into(), default);
    }
    let description = description.trim_start_matches(['-', ':', '—', '#', ' ']);
    if !description.is_empty() {
        schema.insert("description".into(), description.into());
    }
    Ok((name.to_owned(), Value::Object(schema), needed))
}

/// A type and what follows it, which may be `=DEFAULT` without a space.
fn split_kind(rest: &str) -> (&str, &str) {
    let (kind, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match kind.split_once('=') {
        Some((before, _)) if of_kind(before).is_some() => rest.split_at(before.len()),
        _ => (kind, after),
    }
}

/// Words that are taken for more than they say: what is odd about an argument, if anything is.
pub(super) fn slip(words: &str) -> Option<String> {
    if words.trim_start().starts_with('{') {
        return None;
    }
    let rest = Name::of(words.trim()).rest;
    let (kind, after) = split_kind(rest);
    if after.trim_start().starts_with('|') && !kind.contains('|') {
        let choices = "write choices without spaces between, such as `red|green`";
        return Some(format!("it is taken for words, and the argument for a string: {choices}"));
    }
    // `numbers of …` and `Number of …` are words.
    if !kind.chars().all(|c| c.is_ascii_lowercase()) || kind.ends_with('s') {
        return None;
    }
    let meant = TYPES.iter().find(|one| strsim::damerau_levenshtein(kind, one) == 1)?;
    Some(format!("`{kind}` is no type: did you mean `{meant}`? Otherwise write `string` before it"))
}

/// What becomes of an argument in which there is such a slip.
pub(super) fn instead(words: &str) -> String {
    format!(". It is served, with `{}` as a string", Name::of(words.trim()).name)
}

/// Types whose names are long enough to tell a slip from a word.
const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];

/// An argument's name, and what follows it.
struct Name<'a> {
    name: &'a str,
    default: Option<&'a str>,
    is_optional: bool,
    rest: &'a str,
}

impl<'a> Name<'a> {
    /// `name`, `name?`, `[name]` or `[name=default]`.
    fn of(words: &'a str) -> Self {
        if let Some((inside, rest)) = words.strip_prefix('[').and_then(closed) {
            let (name, default) = match inside.split_once('=') {
                Some((name, default)) => (name, Some(default.trim())),
                None => (inside, None),
            };
            let rest = rest.trim_start_matches(':').trim_start();
            return Self { name: name.trim(), default, is_optional: true, rest };
        }
        let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let name = name.trim_end_matches(':');
        let is_optional = name.ends_with('?');
        let name = name.trim_end_matches('?');
        Self { name, default: None, is_optional, rest: rest.trim_start() }
    }
}

/// What is before a `]`, which may be in pairs within, and what is after it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut open = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => open += 1,
            ']' if open == 0 => return Some((&text[..at], &text[at + 1..])),
            ']' => open -= 1,
            _ => (),
        }
    }
    None
}

/// A type as JSDoc writes it. One that is not known may be anything.
fn of_jsdoc(kind: &str) -> Map<String, Value> {
    let kind = kind.trim_start_matches(['?', '!']).trim_end_matches(['=', '?']).trim();
    let kind = kind.strip_prefix('(').and_then(|kind| kind.strip_suffix(')')).unwrap_or(kind);
    let item = kind.strip_prefix("Array<").or_else(|| kind.strip_prefix("Array.<"));
    if let Some(item) = item.and_then(|item| item.strip_suffix('>')) {
        return list(of_jsdoc(item));
    }
    if let Some(item) = kind.strip_suffix("[]") {
        return list(of_jsdoc(item));
    }
    let choices: Vec<&str> = kind.split('|').map(str::trim).collect();
    let quoted = |choice: &&str| {
        let inside = choice.strip_prefix(['"', '\''])?;
        inside.strip_suffix(['"', '\'']).map(str::to_owned)
    };
    if let Some(all) = choices.iter().map(quoted).collect::<Option<Vec<String>>>() {
        let mut one_of = text();
        one_of.insert("enum".into(), all.into());
        return one_of;
    }
    match choices[..] {
        [one] if !one.contains('|') => of_kind(&one.to_lowercase()).unwrap_or_default(),
        _ => Map::new(),
    }
}

fn list(item: Map<String, Value>) -> Map<String, Value> {
    let mut list = Map::new();
    list.insert("type".into(), "array".into());
    if !item.is_empty() {
        list.insert("items".into(), Value::Object(item));
    }
    list
}

fn text() -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), "string".into());
    schema
}

/// A type by its name, a list of it, or one of several words.
fn of_kind(kind: &str) -> Option<Map<String, Value>> {
    let kind = kind.trim_end_matches('?').trim_end_matches(':');
    let kind = kind.strip_prefix('(').and_then(|kind| kind.strip_suffix(')')).unwrap_or(kind);
    let kind = kind.strip_suffix(", optional").unwrap_or(kind);
    let schema = |name: &str| {
        let mut schema = Map::new();
        schema.insert("type".into(), name.into());
        schema
    };
    if let Some(item) = kind.strip_suffix("[]") {
        return Some(list(of_kind(item)?));
    }
    Some(match kind {
        "string" | "str" | "text" => schema("string"),
        "integer" | "int" => schema("integer"),
        "number" | "float" | "double" => schema("number"),
        "boolean" | "bool" => schema("boolean"),
        "array" | "list" => schema("array"),
        "object" | "dict" | "json" => schema("object"),
        choice if choice.contains('|') && !choice.starts_with('|') && !choice.ends_with('|') => {
            let mut one_of = schema("string");
            one_of.insert("enum".into(), choice.split('|').collect());
            one_of
        }
        _ => return None,
    })
}

/// `= value`, quoted if it has spaces, and what follows.
fn default_of<'a>(
    rest: &'a str,
    schema: &Map<String, Value>,
) -> Result<(Option<Value>, &'a str), String> {
    let Some(after) = rest.strip_prefix('=') else { return Ok((None, rest)) };
    let after = after.trim_start();
    let (word, rest) = match after.strip_prefix('"').and_then(|text| text.split_once('"')) {
        Some((word, rest)) => (word, rest),
        None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
    };
    Ok((Some(default(word, schema)?), rest))
}

/// A default as its type has it.
fn default(word: &str, schema: &Map<String, Value>) -> Result<Value, String> {
    let quoted =
        ['"', '\''].iter().find_map(|&quote| word.strip_prefix(quote)?.strip_suffix(quote));
    let wrong = |kind: &str| format!("the default `{word}` is no {kind}");
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Ok(Value::String(quoted.unwrap_or(word).to_owned())),
        Some(kind) => serde_json::from_str(word).map_err(|_| wrong(kind)),
        // It may be anything.
        None => Ok(serde_json::from_str(word)
            .unwrap_or_else(|_| Value::String(quoted.unwrap_or(word).to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_words_are_a_schema() {
        let cases = [
            (
                "name string Who to greet.",
                "name",
                json!({ "type": "string", "description": "Who to greet." }),
                true,
            ),
            (
                "limit integer = 20 How many.",
                "limit",
                json!({ "type": "integer", "default": 20, "description": "How many." }),
                false,
            ),
            (
                "[level] info|warn|error",
                "level",
                json!({ "type": "string", "enum": ["info", "warn", "error"] }),
                false,
            ),
            (
                "tags? string[]",
                "tags",
                json!({ "type": "array", "items": { "type": "string" } }),
                false,
            ),
            ("note", "note", json!({ "type": "string" }), true),
            (
                "city Where it rains.",
                "city",
                json!({ "type": "string", "description": "Where it rains." }),
                true,
            ),
            (
                "greeting: string = \"good day\" - What is said.",
                "greeting",
                json!({ "type": "string", "default": "good day", "description": "What is said." }),
                false,
            ),
            ("loud boolean = false", "loud", json!({ "type": "boolean", "default": false }), false),
            (
                "[days=3] integer - How many.",
                "days",
                json!({ "type": "integer", "default": 3, "description": "How many." }),
                false,
            ),
        ];
        for (words, name, schema, needed) in cases {
            assert_eq!(shorthand(words), Ok((name.to_owned(), schema, needed)), "{words}");
        }
        assert!(shorthand("count integer = many").is_err());
        assert!(shorthand("  ").is_err());
        let spaced = shorthand("x string=\"a b\" Words.");
        let schema = json!({ "type": "string", "default": "a b", "description": "Words." });
        assert_eq!(spaced, Ok(("x".to_owned(), schema, false)));
    }

    #[test]
    fn a_slip_in_a_type_is_told_from_a_word() {
        for (words, meant) in [
            ("name strng Who", "`string`"),
            ("name: interger", "`integer`"),
            ("[on] bolean", "`boolean`"),
            ("e red | green colour", "`red|green`"),
        ] {
            assert!(slip(words).is_some_and(|why| why.contains(meant)), "{words}");
        }
        for words in [
            "name string Who",
            "limit numbers of lines",
            "limit Number of lines",
            "id member of the club",
            "x any path",
            "x subject of it",
            "x setting to read",
            "e red|green | or so",
            "{strng} x",
            "x",
        ] {
            assert_eq!(slip(words), None, "{words}");
        }
    }

    #[test]
    fn jsdoc_says_the_type_first() {
        let cases = [
            (
                "{string} city - The city",
                json!({ "type": "string", "description": "The city" }),
                true,
            ),
            (
                "{number} [city=3] Words",
                json!({ "type": "number", "default": 3, "description": "Words" }),
                false,
            ),
            ("{boolean} [city]", json!({ "type": "boolean" }), false),
            ("{integer=} city", json!({ "type": "integer" }), false),
            ("{Object} city", json!({ "type": "object" }), true),
            (
                "{Array<number>} city",
                json!({ "type": "array", "items": { "type": "number" } }),
                true,
            ),
            (
                "{string[]} [city=[\"a\", \"b\"]] - Some",
                json!({ "type": "array", "items": { "type": "string" }, "default": ["a", "b"], "description": "Some" }),
                false,
            ),
            ("{('a'|\"b\")} city", json!({ "type": "string", "enum": ["a", "b"] }), true),
            (
                "{string} [city=\"New York\"]",
                json!({ "type": "string", "default": "New York" }),
                false,
            ),
            ("{*} city anything", json!({ "description": "anything" }), true),
            ("{string|number} city", json!({}), true),
        ];
        for (words, schema, needed) in cases {
            assert_eq!(shorthand(words), Ok(("city".to_owned(), schema, needed)), "{words}");
        }
        assert!(shorthand("{number} [city=many]").is_err());
        assert!(shorthand("{string}").is_err());
    }
}
