//! The `zcp` command.

mod bundle;
mod cases;
mod checks;
mod commands;
mod import;
mod install;
mod install_many;
mod names;
mod serving;
mod shell;
mod shown;
mod terminal;
