//! The connection to a server: opened in the revision both sides speak.

pub(crate) mod connect;
pub(crate) mod eras;
pub(crate) mod events;
pub(crate) mod listen;
