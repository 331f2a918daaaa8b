//! One request and its answer on an open connection: what the server asks and reports in between,
//! and what is remembered of its results.

pub(crate) mod answering;
pub(crate) mod answers;
pub(crate) mod cache;
pub(crate) mod change;
mod form;
pub(crate) mod handlers;
pub(crate) mod known_tools;
pub(crate) mod round_trip;
