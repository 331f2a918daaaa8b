//! Projects written for other frameworks.

pub(crate) mod mcp_bash;
