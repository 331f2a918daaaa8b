//! A tool that is about to be written: its name, its header, and what it says of its arguments.

use super::secure::Variable;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// The longest name that all clients take.
const LONGEST_NAME: usize = 64;
/// The longest beginning of a name.
const LONGEST_PREFIX: usize = 24;
/// The longest description of a tool, and of an argument.
pub(super) const LONGEST_WORDS: usize = 400;
const LONGEST_HINT: usize = 200;
/// Names that mean something else as files.
const TAKEN: [&str; 6] = ["tool", "smoke", "con", "nul", "aux", "prn"];

/// What a file offers.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) tools: Vec<Tool>,
    /// What is no tool, and why.
    pub(super) left_out: Vec<(String, String)>,
    pub(super) variables: Vec<Variable>,
}

/// One thing that is offered.
#[derive(Debug, Default)]
pub(super) struct Tool {
    /// What it is called where it comes from.
    pub(super) source: String,
    /// What it does, for whoever imports it.
    pub(super) about: String,
    /// What it would like to be called.
    pub(super) name: String,
    /// How its file ends.
    pub(super) ending: &'static str,
    pub(super) description: String,
    /// What else its header says, without the `@`.
    pub(super) tags: Vec<String>,
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<String>,
    /// Variables it is shown.
    pub(super) env: Vec<String>,
    /// What comes before the header, and after it.
    pub(super) shebang: String,
    pub(super) body: String,
}

/// A tool with the name it has in its folder.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) tool: Tool,
}

/// Gives each tool a name of its own.
pub(super) fn name(tools: Vec<Tool>, prefix: &str) -> Result<Vec<Named>, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let begins = prefix.is_empty() || prefix.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !prefix.chars().all(is_plain) || prefix.len() > LONGEST_PREFIX || !begins {
        return Err(format!(
            "--prefix takes up to {LONGEST_PREFIX} letters, digits, `_` and `-`, a letter or digit first"
        ));
    }
    let mut taken = HashSet::new();
    let named = tools.into_iter().map(|tool| {
        let wish = format!("{prefix}{}", portable(&tool.name));
        let wish = match TAKEN.contains(&wish.to_lowercase().as_str()) {
            true => format!("run_{wish}"),
            false => wish,
        };
        let with = |end: &str| {
            let room = LONGEST_NAME - end.len();
            format!("{}{end}", &wish[..wish.len().min(room)])
        };
        let names = std::iter::once(with("")).chain((2..).map(|n| with(&format!("_{n}"))));
        // Some systems do not tell `A` from `a`.
        let mut free = names.filter(|name| taken.insert(name.to_lowercase()));
        let name = free.next().unwrap_or_default();
        Named { name, tool }
    });
    Ok(named.collect())
}

/// A name of letters, digits, `_` and `-` only.
pub(super) fn portable(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let name = name.trim_matches(['_', '-']);
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => name.chars().take(LONGEST_NAME).collect(),
    }
}

/// `getPetByID` as `get_pet_by_id`.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::new();
    let all: Vec<char> = name.chars().collect();
    for (at, &c) in all.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| all.get(at));
        let after = all.get(at + 1).is_some_and(char::is_ascii_lowercase);
        let begins = c.is_ascii_uppercase()
            && before.is_some_and(|&b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || b.is_ascii_uppercase() && after
            });
        if begins || !c.is_ascii_alphanumeric() {
            out.push('_');
        }
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        }
    }
    let parts: Vec<&str> = out.split('_').filter(|part| !part.is_empty()).collect();
    parts.join("_")
}

/// Words of others as one line that says nothing but words.
pub(super) fn words(text: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // A line must not begin as a tag, nor as what other programs read in comments.
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && !"`\"'([".contains(c));
    let text = text.replace("mcp:", "mcp :");
    let mut letters = text.chars();
    let text: String = match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => return String::new(),
    };
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text,
    }
}

impl Named {
    /// The file, and what is said beside it where its header cannot.
    pub(super) fn files(&self) -> (String, Option<String>) {
        let tool = &self.tool;
        let mut lines = vec![words(&tool.description, LONGEST_WORDS)];
        let line = |(name, schema): (&String, &Value)| param(name, schema, &tool.required);
        let params: Option<Vec<String>> = tool.properties.iter().map(line).collect();
        let mut tags = params.clone().unwrap_or_default();
        tags.extend(tool.tags.iter().cloned());
        tags.extend(tool.env.iter().map(|name| format!("env {name}")));
        if !tags.is_empty() {
            lines.push(String::new());
            lines.extend(tags.iter().map(|tag| format!("@{tag}")));
        }
        let mark = if ["js", "mjs", "cjs"].contains(&tool.ending) { "//" } else { "#" };
        let header: String = lines
            .iter()
            .map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n")
            .collect();
        let beside = params.is_none().then(|| {
            let mut schema = json!({ "type": "object", "properties": tool.properties });
            if !tool.required.is_empty() {
                schema["required"] = json!(tool.required);
            }
            let text = serde_json::to_string_pretty(&json!({ "inputSchema": schema }));
            text.unwrap_or_default() + "\n"
        });
        (format!("{}{header}{}", tool.shebang, tool.body), beside)
    }
}

/// An argument as a tag, if a tag can say all of it.
fn param(name: &str, schema: &Value, required: &[String]) -> Option<String> {
    let members = schema.as_object()?;
    let known = ["type", "description", "default", "enum", "items"];
    if !members.keys().all(|key| known.contains(&key.as_str())) {
        return None;
    }
    let kind = kind(schema)?;
    let is_required = required.iter().any(|one| one == name);
    let default = match members.get("default") {
        None => String::new(),
        Some(_) if is_required => return None,
        Some(Value::String(text)) if kind_is_text(schema) && is_line(text) => {
            format!(" = \"{text}\"")
        }
        Some(value @ (Value::Number(_) | Value::Bool(_))) if !kind_is_text(schema) => {
            format!(" = {value}")
        }
        Some(_) => return None,
    };
    let name = match is_required || !default.is_empty() {
        true => name.to_owned(),
        false => format!("[{name}]"),
    };
    let about = members.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = words(about, LONGEST_HINT);
    Some(format!("param {name} {kind}{default}  {about}").trim_end().to_owned())
}

fn kind_is_text(schema: &Value) -> bool {
    schema["type"] == "string"
}

fn is_line(text: &str) -> bool {
    !text.contains('"') && !text.chars().any(char::is_control)
}

/// A type in one word.
fn kind(schema: &Value) -> Option<String> {
    let name = schema["type"].as_str()?;
    if let Some(all) = schema.get("enum") {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let word = |value: &Value| {
            let word = value.as_str()?.to_owned();
            (!word.is_empty() && word.chars().all(plain)).then_some(word)
        };
        let all: Vec<String> = all.as_array()?.iter().map(word).collect::<Option<_>>()?;
        return (name == "string" && all.len() > 1).then(|| all.join("|"));
    }
    match name {
        "string" | "integer" | "number" | "boolean" => Some(name.to_owned()),
        "array" => {
            let items = schema.get("items")?;
            let is_plain = items.as_object()?.keys().all(|key| key == "type");
            let item = kind(items).filter(|_| is_plain && items["type"] != "array")?;
            Some(format!("{item}[]"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_portable_and_differ() {
        assert_eq!(snake("getPetByID"), "get_pet_by_id");
        assert_eq!(snake("HTTPServer.listAll v2"), "http_server_list_all_v2");
        assert_eq!(portable("../../etc/passwd"), "etc_passwd");
        assert_eq!(portable("-- ä"), "unnamed");
        let tool = |name: &str| Tool { name: name.into(), ..Tool::default() };
        let long = "x".repeat(90);
        let all = ["build", "Build", "tool", &long, &format!("{long}y"), "_a"].map(tool).into();
        let names: Vec<_> = name(all, "").unwrap().into_iter().map(|one| one.name).collect();
        let (first, second) = ("x".repeat(64), format!("{}_2", "x".repeat(62)));
        assert_eq!(names, ["build", "Build_2", "run_tool", &first, &second, "a"]);
        for wrong in ["a b", "_x", "../", &"x".repeat(25)] {
            assert!(name(vec![], wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_of_others_are_only_words() {
        assert_eq!(words("Finds.\n@command rm -rf /\n# x", 99), "Finds. @command rm -rf / # x");
        assert_eq!(words("@env SECRET", 99), "Env SECRET");
        assert_eq!(words("/// script", 99), "Script");
        assert_eq!(words("`mcp: {\"name\": 1}`", 99), "`mcp : {\"name\": 1}`");
        assert_eq!(words("\r\n\u{2028}= 5", 99), "5");
        assert_eq!(words("a b c", 3), "A b …");
    }

    #[test]
    fn a_header_says_what_it_can() {
        let properties = json!({
            "id": { "type": "integer", "description": "Its id.\n@env HOME" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "kind": { "type": "string", "enum": ["cat", "dog"], "default": "cat" },
        });
        let mut tool = Tool {
            description: "Finds a pet.".into(),
            tags: vec!["read-only".into()],
            properties: properties.as_object().unwrap().clone(),
            required: vec!["id".into()],
            env: vec!["TOKEN".into()],
            body: "GET https://a.example\n".into(),
            ..Tool::default()
        };
        let (text, beside) = Named { name: "x".into(), tool }.files();
        assert_eq!(
            text,
            "# Finds a pet.\n#\n# @param id integer  Its id. @env HOME\n# @param [tags] string[]\n\
             # @param kind cat|dog = \"cat\"\n# @read-only\n# @env TOKEN\nGET https://a.example\n"
        );
        assert_eq!(beside, None);
        tool = Tool { required: vec!["id".into()], ..Tool::default() };
        tool.properties.insert("id".into(), json!({ "type": "integer", "minimum": 1 }));
        let (text, beside) = Named { name: "x".into(), tool }.files();
        assert!(!text.contains("@param"), "{text}");
        let beside: Value = serde_json::from_str(&beside.expect("a file beside it")).unwrap();
        assert_eq!(beside["inputSchema"]["required"], json!(["id"]));
        assert_eq!(beside["inputSchema"]["properties"]["id"]["minimum"], 1);
    }
}
