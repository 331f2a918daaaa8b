//! The rules of the repository itself.

mod dependencies;
mod docs;
mod tidy;
