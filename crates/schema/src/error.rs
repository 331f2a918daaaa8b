//! Why a schema was refused.

use std::fmt;

/// Why a schema was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// Its `$schema` is none of the known dialects.
    UnknownDialect(String),
    /// Its `$ref` leads out of the document.
    OutsideReference(String),
    /// Its pattern cannot be run in linear time, is too large, or is none.
    Pattern(String),
    /// It exceeds a limit, which this names.
    TooLarge(&'static str),
    /// It is not a schema of its dialect.
    Invalid(String),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDialect(uri) => write!(
                f,
                "unknown $schema `{uri}`: the dialects known are 2020-12 (the default), 2019-09, \
                 draft-07, draft-06 and draft-04"
            ),
            Self::OutsideReference(uri) => write!(
                f,
                "$ref to `{uri}` leaves the schema: network and file references are refused, \
                 inline what it means under `$defs`"
            ),
            Self::Pattern(pattern) => write!(
                f,
                "pattern {pattern} is not supported: use a regular expression of moderate size \
                 without look-around and back-references"
            ),
            Self::TooLarge(limit) => write!(f, "the schema is too large: {limit}"),
            Self::Invalid(why) => write!(f, "not a valid schema: {why}"),
        }
    }
}

impl std::error::Error for SchemaError {}
