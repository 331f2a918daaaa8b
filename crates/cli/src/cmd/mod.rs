//! The commands, one file each.

pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod ping;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod store;
pub(crate) mod tasks;
