//! Answers against expectations that say only what matters.

use serde_json::Value;

/// What differs, if anything: every member that is expected must be there and be equal.
///
/// `"~text"` is any string with that text in it, `{"$any": true}` is anything, and
/// `{"$list": […]}` is a list that has these among others. What is expected to be false may be
/// missing.
pub fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    let mut all = vec![];
    compare(expected, actual, "", &mut all);
    all
}

fn compare(expected: &Value, actual: &Value, path: &str, all: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(members), _) if members.get("$any") == Some(&Value::Bool(true)) => (),
        (Value::Object(members), _) if members.contains_key("$list") => {
            let found = |wanted: &&Value| {
                let items = actual.as_array().into_iter().flatten();
                items.map(|item| differences(wanted, item)).any(|differ| differ.is_empty())
            };
            let wanted = members["$list"].as_array().into_iter().flatten();
            let missing = wanted.filter(|wanted| !found(wanted));
            all.extend(missing.map(|missing| format!("{path}: {missing} is not in {actual}")));
        }
        (Value::Object(members), Value::Object(there)) => {
            for (name, wanted) in members {
                match there.get(name) {
                    Some(value) => compare(wanted, value, &format!("{path}.{name}"), all),
                    None if *wanted == Value::Bool(false) => (),
                    None => all.push(format!("{path}.{name}: missing in {actual}")),
                }
            }
        }
        (Value::Array(wanted), Value::Array(there)) if wanted.len() == there.len() => {
            for (at, (wanted, value)) in wanted.iter().zip(there).enumerate() {
                compare(wanted, value, &format!("{path}[{at}]"), all);
            }
        }
        (Value::String(wanted), Value::String(there)) if wanted.starts_with('~') => {
            if !there.contains(&wanted[1..]) {
                all.push(format!("{path}: `{}` is not in `{there}`", &wanted[1..]));
            }
        }
        (Value::Number(wanted), Value::Number(there)) if wanted.as_f64() == there.as_f64() => (),
        (wanted, there) if wanted == there => (),
        (wanted, there) => all.push(format!("{path}: expected {wanted}, got {there}")),
    }
}
