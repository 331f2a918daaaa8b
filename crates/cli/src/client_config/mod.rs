//! The configuration files of MCP clients: where they are, what they say, and how they are changed.

mod client_table;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod consent;
pub(crate) mod edit;
pub(crate) mod user_files;
