//! A template's text, taken apart.

use super::{LONGEST, TemplateError, percent};

/// How many variables a template may have.
const MOST_VARIABLES: usize = 64;

/// A piece of a template.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Fixed text, as it stands in a URI.
    Text(String),
    /// What stands between braces.
    Expression { operator: &'static Operator, variables: Vec<Variable> },
}

/// A variable and its modifiers.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    /// `*`: several values, rather than one.
    pub(super) explode: bool,
    /// `:3`: only so many characters of the value.
    pub(super) prefix: Option<usize>,
}

/// How an expression is written out: a row of the table in the RFC's appendix.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) symbol: &'static str,
    pub(super) first: &'static str,
    pub(super) separator: &'static str,
    /// Each value comes with its name.
    pub(super) named: bool,
    /// What follows the name of an empty value.
    pub(super) if_empty: &'static str,
    /// Reserved characters stay as they are.
    pub(super) reserved: bool,
}

#[rustfmt::skip]
static OPERATORS: [Operator; 8] = [
    Operator { symbol: "+", first: "",  separator: ",", named: false, if_empty: "",  reserved: true },
    Operator { symbol: "#", first: "#", separator: ",", named: false, if_empty: "",  reserved: true },
    Operator { symbol: ".", first: ".", separator: ".", named: false, if_empty: "",  reserved: false },
    Operator { symbol: "/", first: "/", separator: "/", named: false, if_empty: "",  reserved: false },
    Operator { symbol: ";", first: ";", separator: ";", named: true,  if_empty: "",  reserved: false },
    Operator { symbol: "?", first: "?", separator: "&", named: true,  if_empty: "=", reserved: false },
    Operator { symbol: "&", first: "&", separator: "&", named: true,  if_empty: "=", reserved: false },
    // Last, because every expression begins with it.
    Operator { symbol: "",  first: "",  separator: ",", named: false, if_empty: "",  reserved: false },
];

impl Part {
    pub(super) fn variables(&self) -> &[Variable] {
        match self {
            Self::Text(_) => &[],
            Self::Expression { variables, .. } => variables,
        }
    }

    pub(super) fn text_length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Expression { .. } => 0,
        }
    }
}

/// Takes a template apart.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, TemplateError> {
    if text.len() > LONGEST {
        return Err(TemplateError { position: LONGEST, reason: "longer than 8 KiB" });
    }
    let mut parts = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = match rest.find(['{', '}']) {
            Some(0) => {
                let inside = between_braces(rest, at)?;
                parts.push(expression(inside, at + 1)?);
                inside.len() + 2
            }
            end => {
                let fixed = &rest[..end.unwrap_or(rest.len())];
                parts.push(Part::Text(literal(fixed, at)?));
                fixed.len()
            }
        };
        at += length;
        if parts.iter().map(|part| part.variables().len()).sum::<usize>() > MOST_VARIABLES {
            return Err(TemplateError { position: at, reason: "more than 64 variables" });
        }
    }
    Ok(parts)
}

fn between_braces(rest: &str, position: usize) -> Result<&str, TemplateError> {
    let Some(rest) = rest.strip_prefix('{') else {
        return Err(TemplateError { position, reason: "`}` has no `{`" });
    };
    let Some((inside, _)) = rest.split_once('}') else {
        return Err(TemplateError { position, reason: "`{` has no `}`" });
    };
    Ok(inside)
}

fn literal(text: &str, at: usize) -> Result<String, TemplateError> {
    let bad = |(i, c): &(usize, char)| match c {
        '%' => !percent::is_triplet(&text.as_bytes()[*i..]),
        '"' | '<' | '>' | '\\' | '^' | '`' | '|' | ' ' => true,
        _ => c.is_control(),
    };
    if let Some((i, _)) = text.char_indices().find(bad) {
        let reason = "this character has to be percent-encoded";
        return Err(TemplateError { position: at + i, reason });
    }
    Ok(percent::encode_keeping_reserved(text))
}

fn expression(text: &str, position: usize) -> Result<Part, TemplateError> {
    if text.starts_with(['=', ',', '!', '@', '|']) {
        return Err(TemplateError { position, reason: "an operator with no meaning yet" });
    }
    let (operator, names) = OPERATORS
        .iter()
        .find_map(|operator| Some((operator, text.strip_prefix(operator.symbol)?)))
        .expect("every text starts with the empty symbol");
    let variables =
        names.split(',').map(|text| variable(text, position)).collect::<Result<_, _>>()?;
    Ok(Part::Expression { operator, variables })
}

fn variable(text: &str, position: usize) -> Result<Variable, TemplateError> {
    let (name, explode, prefix) = match (text.strip_suffix('*'), text.split_once(':')) {
        (Some(name), _) => (name, true, None),
        (None, Some((name, length))) => (name, false, Some(prefix_length(length, position)?)),
        (None, None) => (text, false, None),
    };
    if !name.split('.').all(is_name) {
        let reason = "a variable's name is letters, digits, `_` and `.`";
        return Err(TemplateError { position, reason });
    }
    Ok(Variable { name: name.to_owned(), explode, prefix })
}

fn prefix_length(text: &str, position: usize) -> Result<usize, TemplateError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(length @ 1..=9999) if digits => Ok(length),
        _ => Err(TemplateError { position, reason: "a prefix is 1 to 9999 characters" }),
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |(i, byte): (usize, u8)| match byte {
        b'%' => percent::is_triplet(&text.as_bytes()[i..]),
        _ => byte.is_ascii_alphanumeric() || byte == b'_',
    };
    !text.is_empty() && text.bytes().enumerate().all(is_part)
}
