//! How arguments reach a script: as an object, as variables, as words of its command line.

use super::command_line;
use crate::manifest::Form;
use serde_json::{Map, Value};
use std::{collections::HashSet, ffi::OsString};
use zcp_policy::argument_key;

/// The longest argument that becomes a variable; the system has its own limit.
const LONGEST: usize = 32 * 1024;
/// How much all variables together may be; the system has a limit for that, too.
const MOST_TOGETHER: usize = 512 * 1024;
/// How many there may be. Shells take long to read thousands of them.
const MOST_VARIABLES: usize = 1000;

/// Arguments as a script is given them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// Arguments in a form.
pub(crate) fn give(form: &Form, args: &Map<String, Value>) -> Result<Given, String> {
    let stdin = || serde_json::to_vec(args).ok();
    Ok(match form {
        Form::Both => Given { stdin: stdin(), env: variables(args), argv: vec![] },
        Form::Stdin => Given { stdin: stdin(), ..Given::default() },
        Form::Env => {
            // There is no other way for them.
            if let Some((name, _)) = args.iter().find(|(_, value)| !fits(&plain(value))) {
                return Err(format!(
                    "`{name}` must have at most {LONGEST} bytes, and no NUL character"
                ));
            }
            if args.len() > MOST_VARIABLES {
                return Err(format!("there must be at most {MOST_VARIABLES} arguments"));
            }
            let env = variables(args);
            if env.len() < args.len() {
                return Err(format!(
                    "all arguments together must have at most {MOST_TOGETHER} bytes"
                ));
            }
            Given { env, ..Given::default() }
        }
        Form::Argv(template) => {
            Given { argv: command_line::fill(template, args)?, ..Given::default() }
        }
        Form::McpBash => Given::default(),
    })
}

/// Arguments that were left out are as the schema says they are then.
pub(crate) fn with_defaults(mut args: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !args.contains_key(name)) {
            args.insert(name.clone(), default.clone());
        }
    }
    args
}

/// `ARG_NAME` for each: strings as they are, everything else as JSON. Of too many the first are
/// taken. If all together are too much, the longest are left out.
fn variables(args: &Map<String, Value>) -> Vec<(OsString, OsString)> {
    let variable_of = |(name, value): (&String, &Value)| {
        let value = plain(value);
        fits(&value).then(|| (variable(name), value))
    };
    let mut all: Vec<(String, String)> =
        args.iter().filter_map(variable_of).take(MOST_VARIABLES).collect();
    let length = |(name, value): &(String, String)| name.len() + value.len();
    let mut together: usize = all.iter().map(length).sum();
    if together > MOST_TOGETHER {
        // The longest first, and of those that are as long the last.
        let mut by_length: Vec<usize> = (0..all.len()).rev().collect();
        by_length.sort_by_key(|at| std::cmp::Reverse(length(&all[*at])));
        let mut left_out = HashSet::new();
        for at in by_length {
            if together <= MOST_TOGETHER {
                break;
            }
            together -= length(&all[at]);
            left_out.insert(at);
        }
        let mut at = 0..;
        all.retain(|_| at.next().is_some_and(|at| !left_out.contains(&at)));
    }
    all.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The variable an argument is.
pub(crate) fn variable(name: &str) -> String {
    format!("ARG_{}", argument_key(name))
}

/// An argument that would be the same variable as one before it.
pub(crate) fn twice(args: &Map<String, Value>) -> Option<&String> {
    let mut seen = HashSet::new();
    args.keys().find(|name| !seen.insert(variable(name)))
}

/// Whether a value can be a variable's.
fn fits(value: &str) -> bool {
    value.len() <= LONGEST && !value.contains('\0')
}

/// A string as it is, everything else as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_have_plain_names_and_values() {
        let Value::Object(args) =
            json!({ "a-b": "x y", "n": 1.5, "list": [1], "big": "x".repeat(LONGEST + 1) })
        else {
            panic!("no object")
        };
        let given = give(&Form::Both, &args).expect("variables");
        let env: Vec<_> = given
            .env
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
            .collect();
        assert_eq!(env, ["ARG_A_B=x y", "ARG_N=1.5", "ARG_LIST=[1]"]);
        // Where there is no other way it is not left out.
        assert!(give(&Form::Env, &args).is_err_and(|why| why.contains("`big`")));
    }

    #[test]
    fn of_too_many_variables_the_longest_are_left_out() {
        let long = (0..30).map(|n| (format!("long{n}"), Value::from("x".repeat(31_000))));
        let args: Map<String, Value> =
            long.chain([("short".to_owned(), Value::from("here"))]).collect();
        let given = give(&Form::Both, &args).expect("variables");
        let length = |(name, value): &(OsString, OsString)| name.len() + value.len();
        let together: usize = given.env.iter().map(length).sum();
        assert!(together <= MOST_TOGETHER && together > MOST_TOGETHER - 32_000, "{together}");
        assert!(given.env.contains(&("ARG_SHORT".into(), "here".into())));
        // All are on standard input.
        assert_eq!(given.stdin, serde_json::to_vec(&args).ok());
        let refused = give(&Form::Env, &args);
        assert!(refused.is_err_and(|why| why.contains("together")));
    }

    #[test]
    fn of_a_hundred_thousand_arguments_a_thousand_are_variables() {
        let args: Map<String, Value> =
            (0..100_000).map(|n| (format!("a{n}"), Value::from("x".repeat(20)))).collect();
        let begun = std::time::Instant::now();
        let given = give(&Form::Both, &args).expect("variables");
        assert!(begun.elapsed().as_secs() < 3, "{:?}", begun.elapsed());
        assert_eq!(given.env.len(), MOST_VARIABLES);
        assert_eq!(given.stdin, serde_json::to_vec(&args).ok());
        let refused = give(&Form::Env, &args);
        assert!(refused.is_err_and(|why| why.contains("at most 1000 arguments")));
    }
}
