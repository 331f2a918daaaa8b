//! Commands that work on a folder of scripts.

pub(crate) mod bundle;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod http;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod lint;
pub(crate) mod lock;
pub(crate) mod new;
mod options;
pub(crate) mod run;
mod syntax;
pub(crate) mod test;
pub(crate) mod validate;
