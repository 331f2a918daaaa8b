//! The command line of a script, made of a template and arguments.

use super::arguments::plain;
use serde_json::{Map, Value};
use std::ffi::OsString;

/// Words of a command line: `{name}` is an argument, `{names...}` each item of one, `{name=}` the word
/// `name=value`, `{--flag=name}` the word `--flag=value`, `{name?--flag}` a word that is there if the argument is true. What
/// was not given is left out, with the flag before it.
pub(super) fn fill(
    template: &[String],
    args: &Map<String, Value>,
) -> Result<Vec<OsString>, String> {
    let mut words: Vec<String> = vec![];
    // After `--` a word that begins with `-` is no option.
    let (mut options_ended, mut after_flag) = (false, false);
    for (at, word) in template.iter().enumerate() {
        let next = template.get(at + 1).and_then(|next| placeholder(next));
        match placeholder(word) {
            None if is_flag(word) && next.is_some_and(|next| next.is_left_out(args)) => (),
            None => words.push(fixed(word, args, options_ended)?),
            Some(Placeholder::Pair(label, name)) => {
                words.extend(given(name, args).map(|value| format!("{label}={}", plain(value))));
            }
            Some(Placeholder::If(name, flag)) => {
                words.extend(is_true(name, args).then(|| flag.to_owned()));
            }
            Some(Placeholder::Value(name)) => {
                let values: Vec<&Value> = given(name, args).into_iter().collect();
                words.extend(values_as_words(name, &values, after_flag, options_ended)?);
            }
            Some(Placeholder::Each(name)) => {
                let values = match given(name, args) {
                    Some(Value::Array(items)) => items.iter().collect(),
                    one => one.into_iter().collect::<Vec<_>>(),
                };
                words.extend(values_as_words(name, &values, after_flag, options_ended)?);
            }
        }
        options_ended |= word == "--";
        after_flag = is_flag(word);
    }
    match words.iter().any(|word| word.contains('\0')) {
        true => Err("an argument has a NUL character, which no command line can".to_owned()),
        false => Ok(words.into_iter().map(OsString::from).collect()),
    }
}

/// An argument that was given.
fn given<'a>(name: &str, args: &'a Map<String, Value>) -> Option<&'a Value> {
    args.get(name).filter(|value| !value.is_null())
}

fn is_true(name: &str, args: &Map<String, Value>) -> bool {
    args.get(name) == Some(&Value::Bool(true))
}

/// A word of a template that is no placeholder, but may have some in it.
fn fixed(word: &str, args: &Map<String, Value>, options_ended: bool) -> Result<String, String> {
    let filled = fill_in(word, args)?;
    match word.starts_with('{') && !options_ended && is_option(&filled) {
        true => Err(format!("`{word}` must not begin with `-`")),
        false => Ok(filled),
    }
}

/// The values of an argument as words. One that begins with `-` would be taken for an option, which is
/// the caller's to give only if offered. A flag before it may take no value, so that a text is an
/// option there as well; only a number right after a flag is its value.
fn values_as_words(
    name: &str,
    values: &[&Value],
    after_flag: bool,
    options_ended: bool,
) -> Result<Vec<String>, String> {
    let is_fine = |(at, value): (usize, &&Value)| {
        let is_value = after_flag && at == 0 && value.is_number();
        options_ended || is_value || !is_option(&plain(value))
    };
    match values.iter().enumerate().all(is_fine) {
        true => Ok(values.iter().map(|value| plain(value)).collect()),
        false => Err(format!("`{name}` must not begin with `-`")),
    }
}

fn is_option(value: &str) -> bool {
    value.starts_with('-') && value.len() > 1
}

/// Whether a word of a template is a flag whose value may follow it.
fn is_flag(word: &str) -> bool {
    is_option(word) && word != "--" && !word.contains(['=', '{'])
}

/// Places of a template where texts that begin with `-` are rejected although a flag is before them:
/// what to write instead.
pub(super) fn rejecting(template: &[String], schema: &Value) -> Vec<String> {
    let is_text = |name: &str| {
        let schema = &schema["properties"][name];
        let kind = schema["items"].get("type").unwrap_or(&schema["type"]);
        let is_number = matches!(kind.as_str(), Some("integer" | "number" | "boolean"));
        !is_number && schema.get("enum").is_none()
    };
    let options = template.iter().take_while(|word| *word != "--");
    let pairs = options.clone().zip(options.skip(1)).filter(|(flag, _)| is_flag(flag));
    let told = |(flag, word): (&String, &String)| match placeholder(word)? {
        Placeholder::Value(name) | Placeholder::Each(name) if is_text(name) => Some(format!(
            "`{flag} {word}` in `args`: a `{name}` that begins with `-` is rejected, because `{flag}` \
             may be a flag without a value. Write `{{--flag={name}}}` if it is an option's value, or \
             `-- {word}` if it is none"
        )),
        _ => None,
    };
    pairs.filter_map(told).collect()
}

/// Words of a template that stand for an argument which is none of these.
pub(super) fn unknown(template: &[String], params: &Map<String, Value>) -> Vec<String> {
    let told = |word: &String| {
        let named = names(word).into_iter().find(|name| !params.contains_key(*name))?;
        let far = |one: &&String| strsim::damerau_levenshtein(named, one);
        let nearest = params.keys().min_by_key(far)?;
        let hint = match far(&nearest) <= 1 + nearest.len() / 4 {
            true => format!("did you mean `{nearest}`?"),
            false => format!(
                "there are {}",
                params.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        };
        Some(format!("`{word}` in `@args` is no `@param`: {hint}"))
    };
    template.iter().filter_map(told).collect()
}

/// The arguments that a word of a template stands for, or has in it.
fn names(word: &str) -> Vec<&str> {
    match placeholder(word) {
        Some(
            Placeholder::Value(name)
            | Placeholder::Each(name)
            | Placeholder::If(name, _)
            | Placeholder::Pair(_, name),
        ) => vec![name],
        None => {
            let parts = word.split('{').skip(1);
            parts.filter_map(|part| Some(part.split_once('}')?.0)).collect()
        }
    }
}

#[derive(Clone, Copy)]
enum Placeholder<'a> {
    Value(&'a str),
    Each(&'a str),
    If(&'a str, &'a str),
    /// What comes before the `=`, and the argument after it.
    Pair(&'a str, &'a str),
}

impl Placeholder<'_> {
    /// Whether it has a value that was not given.
    fn is_left_out(self, args: &Map<String, Value>) -> bool {
        match self {
            Self::Value(name) | Self::Each(name) => given(name, args).is_none(),
            Self::If(..) | Self::Pair(..) => false,
        }
    }
}

/// A word that is a placeholder and nothing else.
fn placeholder(word: &str) -> Option<Placeholder<'_>> {
    let inside = word.strip_prefix('{')?.strip_suffix('}')?;
    if inside.contains('{') {
        return None;
    }
    if let Some((name, flag)) = inside.split_once('?') {
        return Some(Placeholder::If(name, flag));
    }
    match inside.split_once('=') {
        Some((name, "")) => return Some(Placeholder::Pair(name, name)),
        Some((flag, name)) if is_option(flag) => return Some(Placeholder::Pair(flag, name)),
        _ => (),
    }
    Some(match inside.strip_suffix("...") {
        Some(name) => Placeholder::Each(name),
        None => Placeholder::Value(inside),
    })
}

/// A word with placeholders in it. One that was not given is empty.
fn fill_in(word: &str, args: &Map<String, Value>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), word);
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            return Err(format!("`{word}` has a `{{` without its `}}`"));
        };
        out.push_str(before);
        out.push_str(&given(name, args).map_or(String::new(), plain));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(template: &str, args: Value) -> Result<Vec<String>, String> {
        let Value::Object(args) = args else { panic!("no object") };
        let template = shell_words::split(template).expect("a template");
        Ok(fill(&template, &args)?
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn a_template_is_filled() {
        let template = "search --limit {limit} {loud?--loud} --in={where} {words...}";
        let all = json!({ "limit": 3, "loud": true, "where": "a b", "words": ["x", "y z"] });
        let filled = words(template, all).expect("words");
        assert_eq!(filled, ["search", "--limit", "3", "--loud", "--in=a b", "x", "y z"]);
        let few =
            words(template, json!({ "words": "x", "loud": false, "limit": null })).expect("words");
        assert_eq!(few, ["search", "--in=", "x"]);
    }

    #[test]
    fn a_pair_is_there_if_it_was_given() {
        let pairs = |args| words("{OUT=} {N=}", args).expect("words");
        assert_eq!(pairs(json!({ "OUT": "a b", "N": 2 })), ["OUT=a b", "N=2"]);
        assert_eq!(pairs(json!({ "N": "" })), ["N="]);
        assert!(pairs(json!({})).is_empty());
        let flags = |args| words("{--message=text} {-n=count}", args).expect("words");
        assert_eq!(flags(json!({ "text": "- one", "count": -1 })), ["--message=- one", "-n=-1"]);
        assert!(flags(json!({})).is_empty());
    }

    #[test]
    fn an_argument_is_no_option() {
        assert!(words("{file}", json!({ "file": "--delete" })).is_err());
        assert!(words("{files...}", json!({ "files": ["a", "-r"] })).is_err());
        assert_eq!(words("-- {file}", json!({ "file": "-r" })), Ok(vec!["--".into(), "-r".into()]));
        assert_eq!(words("-n {count}", json!({ "count": -3 })), Ok(vec!["-n".into(), "-3".into()]));
        assert_eq!(words("{file}", json!({ "file": "-" })), Ok(vec!["-".into()]));
        assert!(words("{file}", json!({ "file": "a\0b" })).is_err());
        // A flag may take no value, so that only a number is safe after it, and only one.
        let all = json!({ "loud": true, "file": "--delete", "text": "-5", "count": -3, "files": ["a", "-r"] });
        for template in [
            "{loud?--loud} {file}",
            "--in=x {file}",
            "-n {count} {file}",
            "-f {files...}",
            "-p {file}",
            "-p {text}",
            "{file}x",
        ] {
            assert!(words(template, all.clone()).is_err(), "{template}");
        }
        let few = json!({ "loud": true });
        assert_eq!(words("{loud?--loud} {file}", few.clone()), Ok(vec!["--loud".into()]));
        assert_eq!(words("--in=x {file}", few), Ok(vec!["--in=x".into()]));
    }

    #[test]
    fn a_slip_in_a_template_is_told_of() {
        let template = "{nmae} --in={wher} {--n=name} {loud?-l} {words...} {name=} plain";
        let template = shell_words::split(template).expect("a template");
        let params = json!({ "name": {}, "where": {}, "loud": {} });
        let told = unknown(&template, params.as_object().expect("an object"));
        assert_eq!(
            told,
            [
                "`{nmae}` in `@args` is no `@param`: did you mean `name`?",
                "`--in={wher}` in `@args` is no `@param`: did you mean `where`?",
                "`{words...}` in `@args` is no `@param`: there are name, where, loud",
            ]
        );
    }

    #[test]
    fn a_text_after_a_flag_is_told_of() {
        let template =
            shell_words::split("-p {ref} --limit {limit} -k {kind} --x={ref} -v -- {ref}");
        let schema = json!({ "properties": {
            "ref": { "type": "string" }, "limit": { "type": "integer" }, "kind": { "enum": ["a"] },
        } });
        let told = rejecting(&template.expect("a template"), &schema);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("`-p {ref}` in `args`: a `ref` that begins with `-`"));
    }
}
