//! Tags: the lines of a header such as `@param name string`.

use super::{
    AsTask, Form, Manifest, Sandbox, no_slip,
    script_header::is_for_others,
    short_params,
    values::{size_of, time_of, time_said},
};
use serde_json::{Map, Value, json};
use zcp::wire::mcp::tools::ToolAnnotations;

/// Words up to the first tag are the description; then each tag says one thing.
pub(super) fn tags<S: AsRef<str>>(lines: &[S]) -> Result<Manifest, String> {
    let mut said = Manifest::default();
    let (mut description, mut tags) = (Vec::<String>::new(), Vec::<String>::new());
    for line in lines.iter().map(AsRef::as_ref) {
        let trimmed = line.trim();
        if is_for_others(trimmed) && !trimmed.is_empty() {
            continue;
        }
        match (trimmed.strip_prefix('@'), tags.last_mut()) {
            (Some(tag), _) => tags.push(tag.to_owned()),
            // A tag goes on in the lines below it.
            (None, Some(tag)) if !trimmed.is_empty() => {
                tag.push(' ');
                tag.push_str(trimmed);
            }
            (None, Some(_)) => (),
            (None, None) => description.push(trimmed.to_owned()),
        }
    }
    let description = description.join("\n");
    said.description = Some(description.trim().to_owned()).filter(|text| !text.is_empty());
    let (mut wrong, mut slips) = (vec![], vec![]);
    for tag in &tags {
        let (name, rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        match apply(&mut said, name, rest.trim()) {
            Ok(()) => slips.extend(slip(name, rest.trim()).map(|why| {
                let instead = match name {
                    "param" | "arg" | "argument" => short_params::instead(rest),
                    _ => String::new(),
                };
                (in_tag(tag, &why), instead)
            })),
            Err(why) => wrong.push(in_tag(tag, &why)),
        }
    }
    // All of them at once: whoever mends a header need not come back for each.
    match wrong.is_empty() {
        true => {
            said.mistakes.extend(slips.into_iter().map(|(why, instead)| why + &instead));
            Ok(said)
        }
        false => Err(wrong
            .into_iter()
            .chain(said.mistakes)
            .chain(slips.into_iter().map(|(why, _)| why))
            .collect::<Vec<_>>()
            .join("; ")),
    }
}

fn in_tag(tag: &str, why: &str) -> String {
    format!("`@{tag}`: {why}")
}

fn apply(said: &mut Manifest, name: &str, rest: &str) -> Result<(), String> {
    let text = || Some(rest.to_owned());
    match name {
        "param" | "arg" | "argument" => {
            let (name, mut schema, needed) = short_params::shorthand(rest)?;
            if !needed && schema.get("default").is_none() {
                schema["required"] = json!(false);
            }
            let params = said.params.get_or_insert_with(Map::new);
            if params.contains_key(&name) {
                said.mistakes.push(format!("`@param {name}` is there twice: the last one counts"));
            }
            params.insert(name, schema);
        }
        "name" => said.name = text(),
        "title" => said.title = text(),
        "description" => said.description = text(),
        "returns" | "return" | "output" => returns(said, rest)?,
        "output-files" => said.output_files = Some(true),
        "args" => said.args = Some(Form::parse(rest)?),
        "command" | "run" => {
            said.command = Some(shell_words::split(rest).map_err(|error| error.to_string())?);
        }
        "cwd" => said.cwd = Some(rest.into()),
        "env" => match rest.split_once('=') {
            Some((name, value)) => drop(said.env.insert(name.trim().into(), value.trim().into())),
            None => said.env_allow.extend(names(rest).map(str::to_owned)),
        },
        "timeout" => said.timeout = Some(time_said(&json!(rest))?),
        "timeout-hint" => said.timeout_hint = text(),
        "progress-extends-timeout" => said.progress_extends_timeout = Some(true),
        "max-timeout" => said.max_timeout = Some(time_said(&json!(rest))?),
        "task" => {
            said.task = Some(match rest {
                "" | "allowed" => AsTask::Allowed,
                "only" | "required" => AsTask::Only,
                _ => return Err("say nothing, or `only`".to_owned()),
            });
        }
        "limit" => limit(said, rest)?,
        "sandbox" => match rest {
            "" => said.sandbox = Some(Sandbox::CLOSED),
            rule => said.sandbox.get_or_insert(Sandbox::OPEN).forbid(rule)?,
        },
        "icon" => said.icons.push(json!({ "src": rest })),
        "hidden" | "not-a-tool" => said.enabled = Some(false),
        "meta" => {
            let (key, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, "true"));
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            said.meta.get_or_insert_with(Map::new).insert(key.to_owned(), value);
        }
        "read-only" => hint(said, |hints| hints.read_only_hint = Some(true)),
        "destructive" => hint(said, |hints| hints.destructive_hint = Some(true)),
        "not-destructive" => hint(said, |hints| hints.destructive_hint = Some(false)),
        "idempotent" => hint(said, |hints| hints.idempotent_hint = Some(true)),
        "open-world" => hint(said, |hints| hints.open_world_hint = Some(true)),
        "closed-world" => hint(said, |hints| hints.open_world_hint = Some(false)),
        // `@author` and the like are for people. What a slip would have forbidden must not be allowed.
        _ => {
            return no_slip(name, TAGS).map_err(|meant| format!("did you mean `@{meant}`?"));
        }
    }
    Ok(())
}

/// The tags that mean something, but for the other names some of them have.
const TAGS: &str = "param name title description returns output-files args command cwd env timeout timeout-hint \
    progress-extends-timeout max-timeout task limit sandbox icon hidden meta read-only destructive \
    not-destructive idempotent open-world closed-world";

/// What is odd about a tag that means something all the same.
fn slip(name: &str, rest: &str) -> Option<String> {
    match name {
        "param" | "arg" | "argument" => short_params::slip(rest),
        "returns" | "return" | "output" if !rest.contains(['/', '{', ' ']) => {
            let meant = no_slip(rest, "json text").err()?;
            Some(format!("did you mean `{meant}`?"))
        }
        "env" => match rest.split_once('=') {
            Some((name, _)) => variable(name.trim()).err(),
            None if rest.is_empty() => Some("it names no variable".to_owned()),
            None => names(rest).find_map(|name| variable(name).err()),
        },
        _ => None,
    }
}

fn names(rest: &str) -> impl Iterator<Item = &str> {
    rest.split([' ', ',']).filter(|name| !name.is_empty())
}

/// Whether a variable can have a name, which may be the beginning of many: `AWS_*`.
pub(super) fn variable(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let plain = name.strip_suffix('*').unwrap_or(name);
    match name {
        "*" => Err("`*` is no name: say how names begin, such as `AWS_*`".to_owned()),
        _ if plain.starts_with(|c: char| c.is_ascii_digit()) || !plain.chars().all(is_plain) => {
            Err(format!("no environment variable can be called `{name}`"))
        }
        _ => Ok(()),
    }
}

fn hint(said: &mut Manifest, set: impl FnOnce(&mut ToolAnnotations)) {
    set(said.annotations.get_or_insert_default());
}

/// A MIME type, or the schema of the structure it gives.
fn returns(said: &mut Manifest, rest: &str) -> Result<(), String> {
    let is_schema = |text: &str| {
        let inside = text.strip_prefix('{').map(str::trim_start);
        inside.is_some_and(|inside| inside.starts_with(['"', '}']))
    };
    match rest {
        schema if is_schema(schema) => {
            said.output_schema =
                Some(serde_json::from_str::<Value>(schema).map_err(|error| error.to_string())?);
        }
        "json" => said.returns = Some("application/json".into()),
        "text" => said.returns = Some("text/plain".into()),
        // A type of JSDoc says nothing of what is printed.
        kind if kind.starts_with('{') => (),
        mime => {
            let mime = mime.split_whitespace().next().unwrap_or_default();
            // Words for people are no type.
            said.returns = mime.contains('/').then(|| mime.to_owned());
        }
    }
    Ok(())
}

fn limit(said: &mut Manifest, rest: &str) -> Result<(), String> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let number = || value.trim().parse::<u64>().map_err(|_| format!("`{value}` is no number"));
    let limits = &mut said.limits;
    match name {
        "output" => limits.output = Some(size_of(value)?),
        "memory" => limits.memory = Some(size_of(value)?),
        "cpu" => limits.cpu = Some(time_of(value)?),
        "files" | "open-files" => limits.open_files = Some(number()?),
        "processes" => limits.processes = Some(number()? as usize),
        "concurrency" | "concurrent" => limits.concurrency = Some(number()? as usize),
        "rate" => limits.rate = Some(number()? as u32),
        _ => {
            return Err(
                "limits are output, memory, cpu, files, processes, concurrency, rate".into()
            );
        }
    }
    limits.check()
}
