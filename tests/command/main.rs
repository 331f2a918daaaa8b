//! The `zcp` command.

mod advice;
mod bundle;
mod bundle_contents;
mod cases;
mod checks;
mod commands;
mod import;
mod import_more;
mod install;
mod install_many;
mod locked;
mod names;
mod serving;
mod shell;
mod shown;
mod terminal;
