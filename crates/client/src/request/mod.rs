//! One request and its answer on an open connection, and what the server asks in between.

pub(crate) mod answering;
pub(crate) mod answers;
pub(crate) mod cache;
mod form;
pub(crate) mod round_trip;
