//! The commands, one file each.

pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod health;
pub(crate) mod http;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod lint;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod login;
pub(crate) mod new;
pub(crate) mod ping;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod test;
pub(crate) mod validate;
