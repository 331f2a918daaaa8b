//! Commands that serve, and look after what servers keep; and what a shell needs.

pub(crate) mod completing;
pub(crate) mod health;
pub(crate) mod serve;
pub(crate) mod serve_limits;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod store;
pub(crate) mod tasks;
