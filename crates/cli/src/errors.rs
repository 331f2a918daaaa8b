//! Errors with an exit code of their own.

use std::{error::Error, fmt};

/// What was typed is wrong, and how.
#[derive(Debug)]
pub(crate) struct Usage(String);

/// Says that what was typed is wrong.
#[expect(clippy::needless_pass_by_value, reason = "it stands where errors are mapped")]
pub(crate) fn usage(error: Box<dyn Error>) -> Box<dyn Error> {
    Box::new(Usage(error.to_string()))
}

impl Usage {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// Something that ends with an exit code of its own, and why.
#[derive(Debug)]
pub(crate) struct Exited {
    pub(crate) code: u8,
    why: String,
}

impl Exited {
    pub(crate) fn new(code: u8, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for Exited {}
