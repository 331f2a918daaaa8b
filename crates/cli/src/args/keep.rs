//! What is typed to look after what servers keep.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  zcp tasks ls --data ./state
  zcp tasks show bX9… --store redis://127.0.0.1/
  zcp tasks cancel bX9… --data ./state")]
pub(crate) enum TasksCommand {
    /// List them, oldest first.
    #[command(after_help = "Examples:
  zcp tasks ls --data ./state
  zcp tasks ls --store redis://127.0.0.1/ --json")]
    Ls(Kept),
    /// Show one: what it asks, what it came to.
    #[command(after_help = "Examples:
  zcp tasks show bX9… --data ./state")]
    Show(OneTask),
    /// Give one up: whichever server runs it stops.
    #[command(after_help = "Examples:
  zcp tasks cancel bX9… --data ./state")]
    Cancel(OneTask),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneTask {
    /// Its id, or the beginning of it.
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) kept: Kept,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  zcp store check --store redis://127.0.0.1/
  zcp store rotate-keys --data ./state")]
pub(crate) enum StoreCommand {
    /// Try everything a server does with a store, and say how long it takes.
    #[command(after_help = "Examples:
  zcp store check --data ./state
  zcp store check --store redis://127.0.0.1/")]
    Check(Kept),
    /// Replace the key that servers seal request states and cursors with, while they run.
    #[command(after_help = "Examples:
  zcp store rotate-keys --data ./state
  zcp store rotate-keys --store redis://127.0.0.1/ --revoke")]
    RotateKeys(RotateKeys),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RotateKeys {
    /// Remove the old keys at once, if somebody else may know them: request states and cursors that
    /// clients hold are rejected from then on.
    #[arg(long)]
    pub(crate) revoke: bool,

    #[command(flatten)]
    pub(crate) kept: Kept,
}

/// Where things are kept: in memory unless something is said.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Kept {
    /// Keep sessions and what belongs to them in a file in this folder: a restart loses none.
    #[arg(long, value_name = "FOLDER", conflicts_with = "store")]
    pub(crate) data: Option<PathBuf>,

    /// Keep them in a Redis or Valkey that other servers use too, such as redis://127.0.0.1/:
    /// any of them serves any session.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}
