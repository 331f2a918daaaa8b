//! A validation error, in words.

use std::fmt::{self, Write};

use jsonschema::{
    ValidationError,
    error::ValidationErrorKind,
    paths::{Location, LocationSegment},
};
use serde_json::Value;

/// How many characters of a value are shown.
const LONGEST_VALUE: usize = 80;

/// How many characters an error may have.
const LONGEST_ERROR: usize = 400;

/// How many alternatives of a choice are gone into.
const MOST_ALTERNATIVES: usize = 3;

/// Says where a value does not fit, and why.
pub(super) fn error(error: &ValidationError<'_>) -> String {
    let reason = reason(error);
    match path(error.instance_path()) {
        whole if whole.is_empty() => Short::of(LONGEST_ERROR, format_args!("{reason}")),
        path => Short::of(LONGEST_ERROR, format_args!("`{path}`: {reason}")),
    }
}

/// A value as JSON, shortened.
pub(super) fn value(value: &Value) -> String {
    Short::of(LONGEST_VALUE, format_args!("{value}"))
}

/// A text, shortened.
pub(super) fn shorten(text: &str) -> String {
    Short::of(LONGEST_VALUE, format_args!("{text}"))
}

fn path(location: &Location) -> String {
    let mut path = String::new();
    for segment in location.segments() {
        match segment {
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
            LocationSegment::Property(name) if path.is_empty() => path.push_str(&name),
            LocationSegment::Property(name) => path.push_str(&format!(".{name}")),
        }
    }
    shorten(&path)
}

fn reason(error: &ValidationError<'_>) -> String {
    let found = value(error.instance());
    match error.kind() {
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let options: Vec<String> = options.iter().map(value).collect();
            format!("{found} is not one of {}", options.join(", "))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let reasons: Vec<String> = context
                .iter()
                .filter_map(|errors| errors.first())
                .take(MOST_ALTERNATIVES)
                .map(|first| first.masked_with(value(first.instance())).to_string())
                .collect();
            format!("{found} fits none of the alternatives ({})", reasons.join(", or "))
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), shorten);
            format!("`{name}` is missing")
        }
        ValidationErrorKind::FalseSchema => format!("{found} is not allowed here"),
        _ => error.masked_with(found).to_string(),
    }
}

/// A text that takes no more than so many characters, and refuses to be made any longer.
struct Short {
    text: String,
    left: usize,
}

impl Short {
    fn of(most: usize, text: fmt::Arguments<'_>) -> String {
        let mut short = Self { text: String::new(), left: most };
        // The error is that of a full text.
        if short.write_fmt(text).is_err() {
            short.text.pop();
            short.text.push('…');
        }
        short.text
    }
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}
