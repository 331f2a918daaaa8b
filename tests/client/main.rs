//! The client, with servers that behave and servers that do not.

mod client;
mod client_limits;
mod client_questions;
mod client_rules;
mod client_sessions;
mod client_sockets;
mod client_trust;
mod login;
mod processes;
