//! The configuration files of MCP clients: where they are, what they say, and how they are changed.

pub(crate) mod client_servers;
mod client_table;
pub(crate) mod clients;
pub(crate) mod consent;
pub(crate) mod edit;
pub(crate) mod user_files;
