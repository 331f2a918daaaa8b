//! A folder of scripts as a server.

mod authors;
mod first_process;
mod mcp_bash;
mod mcp_bash_differences;
mod mcp_bash_rules;
mod pages;
mod policy;
mod project_files;
mod providers;
mod sandbox_floor;
mod sandbox_writes;
mod script_bounds;
mod script_isolation;
mod scripts;
