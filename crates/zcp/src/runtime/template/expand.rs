//! From values to a URI.

use std::collections::BTreeMap;

use super::{
    parse::{Operator, Part, Variable},
    percent,
};

/// Writes the URI with these values.
pub(super) fn expand(parts: &[Part], values: &BTreeMap<String, String>) -> String {
    let mut uri = String::new();
    for part in parts {
        match part {
            Part::Text(text) => uri.push_str(text),
            Part::Expression { operator, variables } => {
                expression(&mut uri, operator, variables, values);
            }
        }
    }
    uri
}

fn expression(
    uri: &mut String,
    operator: &Operator,
    variables: &[Variable],
    values: &BTreeMap<String, String>,
) {
    let mut before = operator.first;
    for variable in variables {
        let Some(value) = values.get(&variable.name) else {
            continue;
        };
        uri.push_str(before);
        before = operator.separator;
        if operator.named {
            uri.push_str(&variable.name);
            uri.push_str(if value.is_empty() { operator.if_empty } else { "=" });
        }
        uri.push_str(&encode(operator, variable, value));
    }
}

fn encode(operator: &Operator, variable: &Variable, value: &str) -> String {
    let end = variable.prefix.and_then(|length| value.char_indices().nth(length));
    let value = end.map_or(value, |(end, _)| &value[..end]);
    if operator.reserved {
        return percent::encode_keeping_reserved(value);
    }
    if operator.symbol == "/" && variable.explode {
        return value.split('/').map(percent::encode).collect::<Vec<_>>().join("/");
    }
    percent::encode(value)
}
