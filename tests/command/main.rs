//! The `zcp` command.

mod bundle;
mod cases;
mod commands;
mod import;
mod install;
mod shell;
mod terminal;
